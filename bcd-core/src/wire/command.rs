//! Signed commands and their results.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::batch::BatchProof;
use super::trust::WorkerCertificate;
use super::{AgentRole, V1};
use crate::digest::Sha256Digest;
use crate::envelope::{Purpose, Signed};
use crate::id::{CommandId, NodeId, SiteId, WorkflowId};
use crate::pin::Pin;
use crate::time::Timestamp;

/// How long a command may hold.
pub const MAX_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// The longest step id, in bytes.
pub const MAX_STEP_ID: usize = 64;
/// The longest boot id, in bytes.
pub const MAX_BOOT_ID: usize = 64;

/// What an agent is told to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Command {
    /// The version.
    pub v: V1,
    /// The command; the same one for every attempt to deliver it.
    pub id: CommandId,
    /// The node it is for.
    pub node_id: NodeId,
    /// The node key it is for: an older or newer boot of the same machine has another.
    pub node_key: Pin,
    /// The role it is for.
    pub role: AgentRole,
    /// The site it is for.
    pub site: SiteId,
    /// The boot it is for; required for destructive operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// What to do: a name of [`super::kinds::KINDS`].
    pub kind: String,
    /// What to do it with.
    pub payload: Map<String, Value>,
    /// The workflow it belongs to.
    pub workflow_id: WorkflowId,
    /// The step it belongs to.
    pub step_id: String,
    /// The step's attempt, from 1.
    pub attempt: u32,
    /// When it was signed.
    pub issued_at: Timestamp,
    /// Until when it may begin: at most 24 hours later.
    pub not_after: Timestamp,
    /// When given, the result is to be signed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attest_nonce: Option<String>,
    /// The batch it belongs to; required for destructive operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchProof>,
}

impl Purpose for Command {
    const PAYLOAD_TYPE: &'static str = "application/vnd.better-compute.command+json";
}

impl Command {
    /// The operation its payload names; empty when it names none.
    #[must_use]
    pub fn operation(&self) -> &str {
        self.payload.get("operation").and_then(Value::as_str).unwrap_or_default()
    }

    /// What its batch leaf says it does to the machine (see [`super::batch::Leaf::intent`]).
    ///
    /// Everything of the payload that decides what is destroyed goes in; nothing that changes between attempts.
    #[must_use]
    pub fn intent(&self) -> String {
        let text = |key: &str| self.payload.get(key).and_then(Value::as_str).unwrap_or_default();
        match self.kind.as_str() {
            "disk.wipe" => text("mode").to_owned(),
            "deploy.image" => {
                // `Map` is sorted by key, so equal hints print alike.
                let hint = self.payload.get("rootDisk").map(Value::to_string).unwrap_or_default();
                format!("{} {hint}", text("sha256"))
            }
            "boot.kexec" => "kexec".to_owned(),
            "bmc.firmware" => self
                .payload
                .get("input")
                .and_then(|input| input.get("sha256"))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            "bmc.management" => text("newCredentialRef").to_owned(),
            _ => String::new(),
        }
    }
}

/// A command with its worker's certificate, as it goes over the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedCommand {
    /// The command's id, for routing only: the signed one counts.
    pub command_id: CommandId,
    /// A command root's word that the worker may sign.
    pub worker: Signed<WorkerCertificate>,
    /// The command, signed by the worker.
    pub command: Signed<Command>,
}

/// How far a command is; lost ones do not matter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// What it does at the moment, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Bytes done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_done: Option<u64>,
    /// Bytes in all, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<u64>,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Whether it was carried out.
    pub ok: bool,
    /// Why not: a reason of `fixtures/reasons.json`, or a hosted driver's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why not, for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What came of it, also of some failures.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub result: Map<String, Value>,
}

impl Outcome {
    /// It was carried out, with this result.
    #[must_use]
    pub const fn ok(result: Map<String, Value>) -> Self {
        Self { ok: true, reason: None, message: None, result }
    }

    /// It was not, for this reason.
    #[must_use]
    pub fn failed(reason: crate::reason::Reason, message: impl Into<String>) -> Self {
        Self {
            ok: false,
            reason: Some(reason.as_str().to_owned()),
            message: Some(message.into()),
            result: Map::new(),
        }
    }
}

/// A result that the agent's key of this join vouches for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AttestedResult {
    /// The version.
    pub v: V1,
    /// The command.
    pub command_id: CommandId,
    /// SHA-256 over the command's signed bytes.
    pub command_digest: Sha256Digest,
    /// The command's nonce.
    pub attest_nonce: String,
    /// The node that ran it.
    pub node_id: NodeId,
    /// The key of that join.
    pub node_key: Pin,
    /// The role it ran in.
    pub role: AgentRole,
    /// The boot it ran in.
    pub boot_id: String,
    /// The command's kind.
    pub kind: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How it ended.
    pub outcome: SignedOutcome,
}

impl Purpose for AttestedResult {
    const PAYLOAD_TYPE: &'static str = "application/vnd.better-compute.result+json";
    const MAX_LEN: usize = 2 * 1024 * 1024;
}

/// An [`Outcome`] inside something signed: it refuses unknown fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SignedOutcome {
    /// Whether it was carried out.
    pub ok: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What came of it.
    pub result: Map<String, Value>,
}
