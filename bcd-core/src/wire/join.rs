//! Joining: how an agent gets an identity.

use std::time::Duration;

use data_encoding::BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::trust::TrustBundle;
use super::{AgentRole, V1};
use crate::digest::Sha256Digest;
use crate::envelope::{Purpose, Signed};
use crate::error::{Code, Error, Result};
use crate::id::{NodeId, SiteId};
use crate::key::{P256Jwk, PublicKey};
use crate::pin::Pin;
use crate::seal::{self, OpeningKey, Sealed};
use crate::time::Timestamp;
use crate::{reason, strict_json};

/// Where the well-known document is.
pub const WELL_KNOWN_PATH: &str = "/.well-known/better-compute";
/// Where join requests go.
pub const JOIN_PATH: &str = "/bcd/v1/join";
/// What join requests are sealed for.
pub const SEAL_PURPOSE: &str = "better-compute/join/v1";
/// The largest well-known document, in bytes.
pub const MAX_WELL_KNOWN: usize = 16 * 1024;
/// The largest join request, in bytes.
pub const MAX_REQUEST: usize = 64 * 1024;
/// The largest join answer, in bytes.
pub const MAX_RESPONSE: usize = 1024 * 1024;
/// How long a join may take.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a join answer holds.
pub const RESPONSE_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// What the gateway says of itself; every part is held against the agent's pins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WellKnown {
    /// Where to join: same origin.
    pub join_url: String,
    /// What to seal the request to.
    pub join_encryption_key: P256Jwk,
    /// Who signs the answer.
    pub join_signing_key: PublicKey,
}

impl WellKnown {
    /// Holds the document against what the agent was configured with.
    ///
    /// # Errors
    /// `FORBIDDEN` with reason `pin-mismatch`.
    pub fn check(&self, join_signing: &Pin, join_encryption: &Pin) -> Result<()> {
        let mismatch = |what| {
            Error::forbidden(
                reason::PIN_MISMATCH,
                format!("the gateway's {what} is not the pinned one: nothing was sent to it"),
            )
        };
        if Pin::of(&self.join_signing_key) != *join_signing {
            return Err(mismatch("join signing key"));
        }
        if Pin::of_spki_der(&self.join_encryption_key.spki_der()) != *join_encryption {
            return Err(mismatch("join encryption key"));
        }
        Ok(())
    }
}

/// How an agent shows that it may join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Attestor {
    /// A site token.
    Token,
    /// The token in a deployed system's user data.
    Provisioned,
    /// A site agent's assertion, for a ramdisk.
    Discovery,
}

/// The clear part of a join request, bound to the sealed part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinHeader {
    /// The version.
    pub v: V1,
    /// The RFC 7638 thumbprint of the key it is sealed to.
    pub kid: String,
    /// [`seal::SUITE`].
    pub suite: String,
    /// What the agent wants to be.
    pub role: AgentRole,
    /// How it shows that it may.
    pub attestor: Attestor,
    /// The gateway's URL it was sent to.
    pub aud: String,
}

/// The sealed part of a join request.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct JoinBody {
    /// The header's exact bytes again, base64.
    pub header: String,
    /// The token.
    pub token: String,
    /// The site agent's assertion in its compact form, for `discovery`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestation: Option<String>,
    /// A PKCS#10 request, DER in base64: its key is the node key.
    pub csr: String,
    /// The machine's boot.
    pub boot_id: String,
    /// 16 random bytes, base64, that the answer repeats.
    pub nonce: String,
    /// What the machine looks like, when it could tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareClaims>,
}

impl std::fmt::Debug for JoinBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinBody").field("boot_id", &self.boot_id).finish_non_exhaustive()
    }
}

/// What a ramdisk saw of its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HardwareClaims {
    /// SMBIOS's product UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_uuid: Option<String>,
    /// Every NIC's MAC.
    pub macs: Vec<String>,
}

/// A join request as it is posted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// [`JoinHeader`] as JSON, base64.
    pub header: String,
    /// HPKE's encapsulated key, base64.
    pub enc: String,
    /// The sealed [`JoinBody`], base64.
    pub ciphertext: String,
}

fn malformed(message: &str) -> Error {
    Error::new(Code::InvalidInput, message).because(reason::MALFORMED)
}

fn decode(text: &str) -> Result<Vec<u8>> {
    BASE64.decode(text.as_bytes()).map_err(|_| malformed("a field of the join request is not base64"))
}

impl JoinRequest {
    /// Seals `body` to the gateway's join key; `body.header` is filled in here.
    ///
    /// # Errors
    /// `INVALID_INPUT` when the request is too large or can't be sealed.
    pub fn seal(header: &JoinHeader, mut body: JoinBody, recipient: &P256Jwk) -> Result<Self> {
        let header = serde_json::to_vec(header).map_err(|_| malformed("the join header has no JSON form"))?;
        body.header = BASE64.encode(&header);
        let plaintext = zeroize::Zeroizing::new(
            serde_json::to_vec(&body).map_err(|_| malformed("the join body has no JSON form"))?,
        );
        let sealed = seal::seal(recipient, SEAL_PURPOSE, &header, &plaintext)
            .map_err(|_| malformed("the join request can't be sealed to the gateway's key"))?;
        let request = Self {
            header: body.header,
            enc: BASE64.encode(&sealed.enc),
            ciphertext: BASE64.encode(&sealed.ciphertext),
        };
        if request.digest_input().len() > MAX_REQUEST {
            return Err(malformed("the join request is larger than 64 KiB"));
        }
        Ok(request)
    }

    /// The clear header: what the request claims to be, before anything of it is proven.
    ///
    /// # Errors
    /// `INVALID_INPUT` with reason `malformed`.
    pub fn header(&self) -> Result<JoinHeader> {
        strict_json::from_slice(&decode(&self.header)?)
            .map_err(|error| malformed("the join header does not parse").caused_by(error))
    }

    /// Opens the sealed part and checks that it repeats the header.
    ///
    /// # Errors
    /// `INVALID_INPUT` with reason `malformed`; one message for all that can go wrong inside.
    pub fn open(&self, key: &OpeningKey) -> Result<(JoinHeader, JoinBody)> {
        let header = self.header()?;
        if header.kid != key.jwk().thumbprint() || header.suite != seal::SUITE {
            return Err(malformed("the join request is sealed to another key or with another suite"));
        }
        let sealed = Sealed { enc: decode(&self.enc)?, ciphertext: decode(&self.ciphertext)? };
        let plaintext = key
            .open(SEAL_PURPOSE, &decode(&self.header)?, &sealed)
            .map_err(|_| malformed("the join request does not open"))?;
        let body: JoinBody =
            strict_json::from_slice(&plaintext).map_err(|_| malformed("the join request does not open"))?;
        if body.header != self.header {
            return Err(malformed("the join request does not open"));
        }
        Ok((header, body))
    }

    fn digest_input(&self) -> Vec<u8> {
        [self.header.as_bytes(), self.enc.as_bytes(), self.ciphertext.as_bytes()].join(&b'.')
    }

    /// What the answer's `requestDigest` is over: the three texts with `.` between them.
    #[must_use]
    pub fn digest(&self) -> Sha256Digest {
        Sha256Digest::of(&self.digest_input())
    }
}

/// The gateway's signed answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct JoinResponse {
    /// The version.
    pub v: V1,
    /// [`JoinRequest::digest`] of what it answers.
    pub request_digest: Sha256Digest,
    /// The request's nonce.
    pub nonce: String,
    /// Who the agent is.
    pub node_id: NodeId,
    /// The pin of the key that was certified.
    pub node_key: Pin,
    /// What it is.
    pub role: AgentRole,
    /// Where it is.
    pub site: SiteId,
    /// The control plane's time: an agent has no clock of its own to trust.
    pub server_time: Timestamp,
    /// Until when this answer may be used.
    pub expires: Timestamp,
    /// The node's certificate and its issuers, DER in base64, leaf first.
    pub certificates: Vec<String>,
    /// What to trust for commands.
    pub trust_bundle: Signed<TrustBundle>,
    /// Where the session is.
    pub session_url: String,
}

impl Purpose for JoinResponse {
    const PAYLOAD_TYPE: &'static str = "application/vnd.better-compute.join-response+json";
    const MAX_LEN: usize = 768 * 1024;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(key: &OpeningKey) -> JoinHeader {
        JoinHeader {
            v: V1,
            kid: key.jwk().thumbprint(),
            suite: seal::SUITE.to_owned(),
            role: AgentRole::Site,
            attestor: Attestor::Token,
            aud: "https://gw.example.com".to_owned(),
        }
    }

    fn body() -> JoinBody {
        JoinBody {
            header: String::new(),
            token: "secret".to_owned(),
            attestation: None,
            csr: "AA==".to_owned(),
            boot_id: "b".to_owned(),
            nonce: "n".to_owned(),
            hardware: None,
        }
    }

    #[test]
    fn a_request_opens_to_what_was_sealed() {
        let key = OpeningKey::from_scalar(&[1; 32]).unwrap();
        let request = JoinRequest::seal(&header(&key), body(), key.jwk()).unwrap();
        let (clear, opened) = request.open(&key).unwrap();
        assert_eq!((clear, opened.token.as_str()), (header(&key), "secret"));
        assert!(!serde_json::to_string(&request).unwrap().contains("secret"));
        assert!(!format!("{opened:?}").contains("secret"));
    }

    #[test]
    fn a_changed_header_or_another_key_does_not_open() {
        let key = OpeningKey::from_scalar(&[1; 32]).unwrap();
        let request = JoinRequest::seal(&header(&key), body(), key.jwk()).unwrap();
        let other_role = JoinHeader { role: AgentRole::Ramdisk, ..header(&key) };
        let swapped = JoinRequest {
            header: BASE64.encode(&serde_json::to_vec(&other_role).unwrap()),
            ..request.clone()
        };
        for (request, key) in [
            (swapped, &key),
            (request.clone(), &OpeningKey::from_scalar(&[2; 32]).unwrap()),
            (JoinRequest { enc: "AA".to_owned(), ..request.clone() }, &key),
            (JoinRequest { ciphertext: String::new(), ..request.clone() }, &key),
        ] {
            assert_eq!(request.open(key).unwrap_err().reason(), Some("malformed"));
        }
        assert_ne!(request.digest(), JoinRequest::seal(&header(&key), body(), key.jwk()).unwrap().digest());
    }

    #[test]
    fn a_well_known_document_is_held_against_the_pins() {
        let signing = crate::key::SigningKey::ed25519_from_seed(&[1; 32]);
        let key = OpeningKey::from_scalar(&[1; 32]).unwrap();
        let document = WellKnown {
            join_url: "https://gw/bcd/v1/join".to_owned(),
            join_encryption_key: key.jwk().clone(),
            join_signing_key: signing.public_key().clone(),
        };
        let (a, b) = (Pin::of(signing.public_key()), Pin::of_spki_der(&key.jwk().spki_der()));
        assert!(document.check(&a, &b).is_ok());
        for (a, b) in [(b, b), (a, a), (b, a)] {
            assert_eq!(document.check(&a, &b).unwrap_err().reason(), Some("pin-mismatch"));
        }
    }
}
