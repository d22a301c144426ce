//! Joining: a key made here, a token or an assertion, and an identity in return.
//!
//! [`Ask::prepare`] and [`Pending::accept`] decide; [`join`] only carries what they say over the network. All
//! three pins are held before anything secret is sent, and every part of the answer is checked before it is
//! kept.

use data_encoding::BASE64;

use super::clock::Now;
use super::config::{AgentConfig, Pins};
use super::identity::Identity;
use super::transport;
use crate::envelope::Signed;
use crate::error::{Code, Error, ErrorBody, Result};
use crate::id::NodeId;
use crate::key::{P256Jwk, PublicKey, SigningKey};
use crate::pin::Pin;
use crate::secret::Secret;
use crate::time::Timestamp;
use crate::wire::join::{
    Attestor, HardwareClaims, JoinBody, JoinHeader, JoinRequest, JoinResponse, MAX_RESPONSE, MAX_WELL_KNOWN,
    TIMEOUT, WELL_KNOWN_PATH, WellKnown,
};
use crate::wire::{AgentRole, V1};
use crate::{reason, seal, x509};

/// What an agent joins with.
#[derive(Debug)]
pub struct Ask {
    /// What it wants to be.
    pub role: AgentRole,
    /// How it shows that it may.
    pub attestor: Attestor,
    /// The token.
    pub token: Secret,
    /// The site agent's assertion in its compact form, for `discovery`.
    pub attestation: Option<String>,
    /// This boot.
    pub boot_id: String,
    /// What the machine looks like, when it could tell.
    pub hardware: Option<HardwareClaims>,
    /// The join encryption key, where it is known already; else the well-known document's, held against the pin.
    pub encryption_key: Option<P256Jwk>,
    /// The node this must be, where that is known: another answer is refused.
    pub expect_node: Option<NodeId>,
}

/// A request that was sent, and what its answer is held against.
#[derive(Debug)]
pub struct Pending {
    key: SigningKey,
    request: JoinRequest,
    nonce: String,
    signing_key: PublicKey,
    role: AgentRole,
    site: crate::id::SiteId,
    boot_id: String,
    expect_node: Option<NodeId>,
}

impl Ask {
    /// Holds the gateway's document against the pins and seals the request.
    ///
    /// # Errors
    /// `FORBIDDEN` with reason `pin-mismatch`; `INVALID_CONFIG` for a token that is not text.
    pub fn prepare(self, config: &AgentConfig, well_known: &WellKnown) -> Result<Pending> {
        let Pins { join_signing, join_encryption, .. } = config.pins;
        well_known.check(&join_signing, &join_encryption)?;
        let recipient = self.encryption_key.unwrap_or_else(|| well_known.join_encryption_key.clone());
        if Pin::of_spki_der(&recipient.spki_der()) != join_encryption {
            return Err(Error::forbidden(
                reason::PIN_MISMATCH,
                "the given join encryption key is not the pinned one",
            ));
        }
        let key = SigningKey::generate_p256();
        let header = JoinHeader {
            v: V1,
            kid: recipient.thumbprint(),
            suite: seal::SUITE.to_owned(),
            role: self.role,
            attestor: self.attestor,
            aud: config.gateway.origin(),
        };
        let token = self
            .token
            .expose_str()
            .ok_or_else(|| Error::invalid_config("token", "the join token is not text"))?;
        let nonce = BASE64.encode(&crate::random::bytes::<16>());
        let body = JoinBody {
            header: String::new(),
            token: token.trim().to_owned(),
            attestation: self.attestation,
            csr: BASE64.encode(&x509::certificate_request(&key)?),
            boot_id: self.boot_id.clone(),
            nonce: nonce.clone(),
            hardware: self.hardware,
        };
        Ok(Pending {
            request: JoinRequest::seal(&header, body, &recipient)?,
            key,
            nonce,
            signing_key: well_known.join_signing_key.clone(),
            role: self.role,
            site: config.site.clone(),
            boot_id: self.boot_id,
            expect_node: self.expect_node,
        })
    }
}

impl Pending {
    /// What is to be posted.
    #[must_use]
    pub const fn request(&self) -> &JoinRequest {
        &self.request
    }

    /// Checks every part of the answer.
    ///
    /// `now` is what the agent knows of the time before it joined: the answer's own `serverTime` is what it
    /// trusts after.
    ///
    /// # Errors
    /// `FORBIDDEN` with the reason: `bad-signature`, `malformed`, `replayed`, `key-mismatch`,
    /// `identity-mismatch`, `expired`, or one of the trust bundle's.
    pub fn accept(self, answer: &Signed<JoinResponse>, now: Now) -> Result<Identity> {
        let refuse =
            |reason, message: &str| Err(Error::forbidden(reason, format!("the join answer {message}")));
        let response = answer.verify([&self.signing_key])?;
        if response.request_digest != self.request.digest() || response.nonce != self.nonce {
            return refuse(reason::REPLAYED, "belongs to another request");
        }
        if response.node_key != Pin::of(self.key.public_key()) {
            return refuse(reason::KEY_MISMATCH, "is for another key");
        }
        if response.role != self.role || response.site != self.site {
            return refuse(reason::IDENTITY_MISMATCH, "is for another role or site");
        }
        if self.expect_node.as_ref().is_some_and(|expected| *expected != response.node_id) {
            return refuse(
                reason::IDENTITY_MISMATCH,
                "is for another node than this system was installed for",
            );
        }
        let lapses_late =
            response.expires > response.server_time.saturating_add(crate::wire::join::RESPONSE_LIFETIME);
        if now.is_past(response.expires) || response.expires < response.server_time || lapses_late {
            return refuse(reason::EXPIRED, "has lapsed");
        }
        let leaf = response
            .certificates
            .first()
            .and_then(|text| BASE64.decode(text.as_bytes()).ok())
            .unwrap_or_default();
        if x509::certificate_spki(&leaf)? != self.key.public_key().spki_der() {
            return refuse(reason::KEY_MISMATCH, "carries a certificate of another key");
        }
        let now = Now::known(response.server_time.max(now.time));
        Identity::from_response(response.into_inner(), self.key, self.boot_id, now)
    }
}

/// Joins: fetches the well-known document, posts the request, checks the answer.
///
/// # Errors
/// `UNAVAILABLE` when the gateway can't be reached or is busy; `FORBIDDEN` with its reason when either end
/// refuses the other; `TIMEOUT` after 10 seconds.
pub async fn join(config: &AgentConfig, ask: Ask, floor: Timestamp) -> Result<Identity> {
    let exchange = async {
        let document = transport::request(config, "GET", WELL_KNOWN_PATH, None, MAX_WELL_KNOWN).await?;
        let well_known: WellKnown = parse(&document, "the well-known document")?;
        let path = same_origin(&config.gateway.origin(), &well_known.join_url)?;
        let pending = ask.prepare(config, &well_known)?;
        let body = serde_json::to_vec(pending.request())
            .map_err(|error| Error::internal("a join request has JSON").caused_by(error))?;
        let answer = transport::request(config, "POST", &path, Some(body), MAX_RESPONSE).await?;
        let answer: Signed<JoinResponse> = parse(&answer, "the join answer")?;
        // Before the first join nothing but the floor is known of the time.
        pending.accept(&answer, Now { time: floor, known: false })
    };
    tokio::time::timeout(TIMEOUT, exchange)
        .await
        .unwrap_or_else(|_| Err(Error::new(Code::Timeout, "the join took longer than 10 s")))
}

/// The path of a join URL that is on the gateway itself: whoever writes the document sends no agent elsewhere.
fn same_origin(origin: &str, url: &str) -> Result<String> {
    match url.strip_prefix(origin) {
        Some(path) if path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic()) => {
            Ok(path.to_owned())
        }
        _ => Err(Error::forbidden(reason::MALFORMED, format!("the gateway's join URL is not on {origin}"))),
    }
}

fn parse<T: serde::de::DeserializeOwned>(answer: &transport::Answer, what: &str) -> Result<T> {
    if answer.status == 200 {
        return crate::strict_json::from_slice(&answer.body).map_err(|error| {
            Error::new(Code::InvalidInput, format!("{what} does not parse"))
                .because(reason::MALFORMED)
                .caused_by(error)
        });
    }
    match serde_json::from_slice::<ErrorBody>(&answer.body) {
        Ok(body) => Err(body.into()),
        Err(_) => {
            Err(Error::unavailable(format!("the gateway answered {} instead of {what}", answer.status)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::agent::config::Gateway;
    use crate::id::SiteId;
    use crate::seal::OpeningKey;
    use crate::wire::trust::{Quorum, TrustBundle};
    use crate::x509::{Authority, Validity};

    fn time(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + seconds * 1000)
    }

    fn signing() -> SigningKey {
        SigningKey::ed25519_from_seed(&[1; 32])
    }

    fn sealing() -> OpeningKey {
        OpeningKey::from_scalar(&[2; 32]).unwrap()
    }

    fn config() -> AgentConfig {
        AgentConfig {
            gateway: Gateway::parse("https://gw:1", None).unwrap(),
            site: SiteId::from_parts(time(0), [1; 10]),
            pins: Pins {
                serving_ca: Pin::of_spki_der(b"ca"),
                join_signing: Pin::of(signing().public_key()),
                join_encryption: Pin::of_spki_der(&sealing().jwk().spki_der()),
            },
            data_dir: PathBuf::new(),
        }
    }

    fn well_known() -> WellKnown {
        WellKnown {
            join_url: "https://gw:1/bcd/v1/join".to_owned(),
            join_encryption_key: sealing().jwk().clone(),
            join_signing_key: signing().public_key().clone(),
        }
    }

    fn node(n: u8) -> NodeId {
        NodeId::from_parts(time(0), [n; 10])
    }

    fn ask() -> Ask {
        Ask {
            role: AgentRole::Node,
            attestor: Attestor::Provisioned,
            token: Secret::from("token".to_owned()),
            attestation: None,
            boot_id: "b".to_owned(),
            hardware: None,
            encryption_key: None,
            expect_node: Some(node(1)),
        }
    }

    /// What an honest gateway answers.
    fn honest(request: &JoinRequest) -> JoinResponse {
        let (header, body) = request.open(&sealing()).unwrap();
        let key = x509::check_request(&BASE64.decode(body.csr.as_bytes()).unwrap()).unwrap();
        let validity = Validity { not_before: time(0), not_after: time(3600) };
        let ca = Authority::create("id", SigningKey::generate_p256(), validity).unwrap();
        let bundle = TrustBundle {
            version: 1,
            issued_at: time(0),
            expires: time(3600),
            command_roots: vec![],
            approvers: vec![],
            quorum: Quorum { above: 1, required: 1 },
            revoked_keys: vec![],
        };
        JoinResponse {
            v: V1,
            request_digest: request.digest(),
            nonce: body.nonce,
            node_id: node(1),
            node_key: Pin::of(&key),
            role: header.role,
            site: config().site,
            server_time: time(0),
            expires: time(300),
            certificates: vec![BASE64.encode(&ca.issue_client(&key, "bc://d/s/node/n", validity).unwrap())],
            trust_bundle: Signed::sign(&bundle, &signing()).unwrap(),
            session_url: "https://gw:1/bcd/v1/session".to_owned(),
        }
    }

    fn answer(change: impl FnOnce(&mut JoinResponse), key: &SigningKey) -> Result<Identity> {
        let pending = ask().prepare(&config(), &well_known()).unwrap();
        let mut response = honest(pending.request());
        change(&mut response);
        pending.accept(&Signed::sign(&response, key).unwrap(), Now { time: time(0), known: false })
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut JoinResponse), reason: &str) {
        assert_eq!(answer(change, &signing()).unwrap_err().reason(), Some(reason));
    }

    #[test]
    fn an_honest_answer_is_an_identity_that_survives_its_file() {
        let identity = answer(|_| {}, &signing()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        assert!(Identity::load(dir.path()).unwrap().is_none());
        identity.save(dir.path()).unwrap();
        let loaded = Identity::load(dir.path()).unwrap().unwrap();
        assert_eq!((loaded.node_id.clone(), loaded.pin()), (node(1), identity.pin()));
        std::fs::write(super::super::identity::path(dir.path()), b"{}").unwrap();
        assert_eq!(Identity::load(dir.path()).unwrap_err().code(), Code::Internal);
    }

    #[test]
    fn every_forged_part_of_an_answer_is_refused() {
        assert_eq!(
            answer(|_| {}, &SigningKey::ed25519_from_seed(&[9; 32])).unwrap_err().reason(),
            Some("bad-signature")
        );
        refused(|r| r.nonce = "other".to_owned(), "replayed");
        refused(|r| r.request_digest = crate::digest::Sha256Digest::of(b"other"), "replayed");
        refused(|r| r.node_key = Pin::of_spki_der(b"other"), "key-mismatch");
        refused(|r| r.role = AgentRole::Site, "identity-mismatch");
        refused(|r| r.site = SiteId::from_parts(time(0), [9; 10]), "identity-mismatch");
        refused(|r| r.node_id = node(2), "identity-mismatch");
        refused(|r| r.expires = time(301), "expired");
        refused(|r| r.expires = time(-1), "expired");
        refused(|r| r.certificates.clear(), "malformed");
        let other = honest(ask().prepare(&config(), &well_known()).unwrap().request()).certificates;
        refused(|r| r.certificates = other, "key-mismatch");
    }

    #[test]
    fn nothing_is_sealed_to_a_key_that_is_not_pinned() {
        let other = OpeningKey::from_scalar(&[7; 32]).unwrap().jwk().clone();
        let forged = WellKnown { join_encryption_key: other.clone(), ..well_known() };
        assert_eq!(ask().prepare(&config(), &forged).unwrap_err().reason(), Some("pin-mismatch"));
        let given = Ask { encryption_key: Some(other), ..ask() };
        assert_eq!(given.prepare(&config(), &well_known()).unwrap_err().reason(), Some("pin-mismatch"));
    }

    #[test]
    fn a_join_url_elsewhere_is_refused() {
        assert_eq!(same_origin("https://gw:1", "https://gw:1/bcd/v1/join").unwrap(), "/bcd/v1/join");
        for url in [
            "https://gw:12/x",
            "https://gw:1",
            "http://gw:1/x",
            "https://gw:1@evil/x",
            "/x",
            "https://gw:1/a b",
        ] {
            assert!(same_origin("https://gw:1", url).is_err(), "{url}");
        }
    }
}
