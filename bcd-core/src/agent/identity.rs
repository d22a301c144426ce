//! Who the agent is: its key, its certificate and what it trusts, in `data_dir/identity.json`.
//!
//! One file, so that there is never a key without its certificate. The key is made here and never leaves.

use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::clock::Now;
use super::trust::TrustStore;
use super::verify::Recipient;
use crate::envelope::Signed;
use crate::error::{Error, Result};
use crate::files;
use crate::id::{NodeId, SiteId};
use crate::key::SigningKey;
use crate::pin::Pin;
use crate::time::Timestamp;
use crate::wire::AgentRole;
use crate::wire::join::JoinResponse;
use crate::wire::trust::TrustBundle;

/// The largest identity file.
const MAX_FILE: u64 = 2 * 1024 * 1024;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Stored {
    node_id: NodeId,
    role: AgentRole,
    site: SiteId,
    boot_id: String,
    key_pem: Zeroizing<String>,
    certificates: Vec<String>,
    trust_bundle: Signed<TrustBundle>,
    session_url: String,
    /// The newest signed time that was seen: the clock's floor after a restart.
    signed_time: Timestamp,
}

/// What a join made.
#[derive(Debug)]
pub struct Identity {
    /// The node.
    pub node_id: NodeId,
    /// Its role.
    pub role: AgentRole,
    /// Its site.
    pub site: SiteId,
    /// The boot it joined in.
    pub boot_id: String,
    /// The node key.
    pub key: SigningKey,
    /// Its certificate and issuers, DER, leaf first.
    pub certificates: Vec<Vec<u8>>,
    /// What it trusts for commands.
    pub trust: TrustStore,
    /// The newest signed time that was seen.
    pub signed_time: Timestamp,
    trust_bundle: Signed<TrustBundle>,
    session_url: String,
}

/// Where an agent's identity is.
#[must_use]
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("identity.json")
}

fn broken(path: &Path) -> Error {
    Error::internal(format!("{} does not hold an identity: remove it and join again", path.display()))
}

impl Identity {
    /// From a join answer that has been checked.
    ///
    /// # Errors
    /// `FORBIDDEN` for a bundle that may not be taken; `malformed` certificates.
    pub(super) fn from_response(
        response: JoinResponse,
        key: SigningKey,
        boot_id: String,
        now: Now,
    ) -> Result<Self> {
        let (bundle, _) = response.trust_bundle.read_vouched()?;
        Ok(Self {
            node_id: response.node_id,
            role: response.role,
            site: response.site,
            boot_id,
            key,
            certificates: decode(&response.certificates)?,
            trust: TrustStore::take(bundle, None, now)?,
            signed_time: response.server_time,
            trust_bundle: response.trust_bundle,
            session_url: response.session_url,
        })
    }

    /// Reads the identity, when there is one.
    ///
    /// # Errors
    /// `INTERNAL` when the file is there and can't be used.
    pub fn load(data_dir: &Path) -> Result<Option<Self>> {
        let path = path(data_dir);
        let Some(bytes) = files::read(&path, MAX_FILE)?.map(Zeroizing::new) else { return Ok(None) };
        let stored: Stored =
            crate::strict_json::from_slice(&bytes).map_err(|error| broken(&path).caused_by(error))?;
        let (bundle, _) = stored.trust_bundle.read_vouched()?;
        Ok(Some(Self {
            node_id: stored.node_id,
            role: stored.role,
            site: stored.site,
            boot_id: stored.boot_id,
            key: SigningKey::from_pkcs8_pem(&stored.key_pem)
                .map_err(|error| broken(&path).caused_by(error))?,
            certificates: decode(&stored.certificates)?,
            trust: TrustStore::take(bundle, None, Now { time: stored.signed_time, known: false })?,
            signed_time: stored.signed_time,
            trust_bundle: stored.trust_bundle,
            session_url: stored.session_url,
        }))
    }

    /// Writes the identity (mode 0600, by rename).
    ///
    /// # Errors
    /// `INTERNAL`.
    pub fn save(&self, data_dir: &Path) -> Result<()> {
        let key_pem = self
            .key
            .to_pkcs8_pem()
            .map_err(|error| Error::internal("the node key can't be written").caused_by(error))?;
        let stored = Stored {
            node_id: self.node_id.clone(),
            role: self.role,
            site: self.site.clone(),
            boot_id: self.boot_id.clone(),
            key_pem,
            certificates: self.certificates.iter().map(|der| BASE64.encode(der)).collect(),
            trust_bundle: self.trust_bundle.clone(),
            session_url: self.session_url.clone(),
            signed_time: self.signed_time,
        };
        let bytes = serde_json::to_vec_pretty(&stored)
            .map(Zeroizing::new)
            .map_err(|error| Error::internal("the identity has no JSON form").caused_by(error))?;
        files::replace(&path(data_dir), &bytes)
    }

    /// The pin of the node key.
    #[must_use]
    pub fn pin(&self) -> Pin {
        Pin::of(self.key.public_key())
    }

    /// Whom commands are for, in the boot `boot_id`.
    #[must_use]
    pub fn recipient(&self, boot_id: &str) -> Recipient {
        Recipient {
            node_id: self.node_id.clone(),
            node_key: self.pin(),
            role: self.role,
            site: self.site.clone(),
            boot_id: boot_id.to_owned(),
        }
    }
}

fn decode(certificates: &[String]) -> Result<Vec<Vec<u8>>> {
    certificates
        .iter()
        .map(|text| {
            BASE64.decode(text.as_bytes()).map_err(|_| Error::internal("a certificate is not base64"))
        })
        .collect()
}
