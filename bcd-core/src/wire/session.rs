//! The frames of a session: one HTTP/2 stream, both directions at once.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::command::{AttestedResult, Outcome, Progress, SignedCommand};
use super::spec::{BootLease, SignedSpec};
use crate::digest::Sha256Digest;
use crate::envelope::Signed;
use crate::id::{CommandId, EntryId, SessionId};
use crate::time::Timestamp;

/// Where the session is.
pub const SESSION_PATH: &str = "/bcd/v1/session";
/// The protocol's version in `hello`.
pub const VERSION: u32 = 1;
/// Commands an agent has at once, received and not yet acknowledged.
pub const MAX_COMMANDS: usize = 64;
/// Secret requests an agent has open at once.
pub const MAX_SECRET_REQUESTS: usize = 16;
/// Frames that may wait to be sent to a peer; a further one drops the session.
pub const MAX_QUEUED_FRAMES: usize = 256;

/// From an agent to its gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum AgentFrame {
    /// The first frame.
    Hello(Hello),
    /// Still here.
    Heartbeat {
        /// Counts up within a session.
        seq: u64,
    },
    /// The command is in the journal.
    CommandAck {
        /// The command.
        command_id: CommandId,
    },
    /// How far a command is.
    CommandProgress {
        /// The command.
        command_id: CommandId,
        /// How far.
        progress: Progress,
    },
    /// How a command ended; sent again until acknowledged.
    CommandResult {
        /// The command.
        command_id: CommandId,
        /// How it ended.
        outcome: Outcome,
        /// The same, vouched for, when the command had a nonce.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attested: Option<Signed<AttestedResult>>,
    },
    /// Asks for a secret that a command or boot entry grants.
    SecretRequest {
        /// Counts up within a session.
        request_id: u64,
        /// The secret.
        secret_ref: String,
        /// What grants it.
        grant: SecretGrant,
    },
    /// What the agent sees of its desired state.
    Status {
        /// Counts up within a session.
        seq: u64,
        /// The spec's generation this is about.
        observed_generation: u64,
        /// By section, such as `site`.
        sections: Map<String, Value>,
    },
    /// What the machine looks like: only sections that changed.
    Inventory {
        /// By section, such as `disks`.
        sections: BTreeMap<String, Value>,
    },
    /// Asks for a new certificate.
    Renew {
        /// A PKCS#10 request with a new key, DER in base64.
        csr: String,
    },
}

/// What an agent says of itself first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// [`VERSION`].
    pub version: u32,
    /// The program's version, for people.
    pub software: String,
    /// The machine's boot.
    pub boot_id: String,
    /// The kinds it runs.
    pub kinds: Vec<String>,
    /// Manifests of the BMC drivers it hosts, with their digests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<HostedDriver>,
    /// Labels it gives itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The newest spec it has.
    pub spec_generation: u64,
}

/// A BMC driver that a site agent hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostedDriver {
    /// The driver's id.
    pub id: String,
    /// Its version.
    pub version: String,
    /// What it can do.
    pub concerns: Vec<String>,
    /// SHA-256 over its manifest.
    pub digest: Sha256Digest,
}

/// What grants a secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SecretGrant {
    /// A running command.
    Command(CommandId),
    /// A boot entry, for the lease holder.
    BootEntry(EntryId),
}

/// From a gateway to its agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum GatewayFrame {
    /// The answer to `hello`.
    Welcome {
        /// This session.
        session_id: SessionId,
        /// How often to send heartbeats, in milliseconds.
        heartbeat_ms: u64,
        /// The control plane's time.
        server_time: Timestamp,
    },
    /// The heartbeat was seen, and the lease extended before this was sent.
    HeartbeatAck {
        /// The heartbeat's.
        seq: u64,
        /// The control plane's time.
        server_time: Timestamp,
    },
    /// The result is stored.
    ResultAck {
        /// The command.
        command_id: CommandId,
    },
    /// The status is stored.
    StatusAck {
        /// The status's.
        seq: u64,
    },
    /// The inventory is stored.
    InventoryAck {
        /// Of each section.
        digests: BTreeMap<String, Sha256Digest>,
    },
    /// A machine joined with this entry: do not render it again.
    BootEntryConsumed {
        /// The entry.
        entry_id: EntryId,
    },
    /// Run this.
    Command(Box<SignedCommand>),
    /// Stop this.
    CommandCancel {
        /// The command.
        command_id: CommandId,
    },
    /// The answer to a secret request.
    SecretResponse {
        /// The request's.
        request_id: u64,
        /// The secret, base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<SecretText>,
    },
    /// Be this.
    Spec(Box<SignedSpec>),
    /// The site's boot lease.
    BootLease(BootLease),
    /// The answer to `renew`.
    Certificate {
        /// DER in base64, leaf first.
        certificates: Vec<String>,
    },
    /// The session ends.
    Goodbye {
        /// Why: a reason of `fixtures/reasons.json`, or `superseded`.
        reason: String,
    },
}

/// A secret's base64 in a frame: it goes over the wire and nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    /// Of a secret.
    #[must_use]
    pub fn new(secret: &crate::secret::Secret) -> Self {
        Self(data_encoding::BASE64.encode(secret.expose()))
    }

    /// The secret, when it is base64.
    #[must_use]
    pub fn into_secret(self) -> Option<crate::secret::Secret> {
        let text = zeroize::Zeroizing::new(self.0);
        data_encoding::BASE64.decode(text.as_bytes()).ok().map(crate::secret::Secret::new)
    }
}

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretText(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_tagged_and_ignore_what_is_newer() {
        let frame: AgentFrame = serde_json::from_str(r#"{"type":"heartbeat","seq":7,"new":true}"#).unwrap();
        assert_eq!(frame, AgentFrame::Heartbeat { seq: 7 });
        let frame = GatewayFrame::BootLease(BootLease { active: true, epoch: 3, ttl_ms: 15_000 });
        assert_eq!(
            serde_json::to_string(&frame).unwrap(),
            r#"{"type":"bootLease","active":true,"epoch":3,"ttlMs":15000}"#
        );
        assert!(serde_json::from_str::<AgentFrame>(r#"{"type":"dance"}"#).is_err());
    }

    #[test]
    fn a_secret_in_a_frame_is_not_shown() {
        let secret = crate::secret::Secret::new(b"hunter2".to_vec());
        let frame = GatewayFrame::SecretResponse { request_id: 1, secret: Some(SecretText::new(&secret)) };
        assert!(!format!("{frame:?}").contains("aHVudGVyMg"));
        let text = serde_json::to_string(&frame).unwrap();
        let GatewayFrame::SecretResponse { secret: Some(back), .. } = serde_json::from_str(&text).unwrap()
        else {
            panic!()
        };
        assert_eq!(back.into_secret(), Some(secret));
    }
}
