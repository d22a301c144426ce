//! `boot.prepareRamdisk` and `boot.cleanUp`: a site agent's boot entries.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256Digest;
use crate::id::{EntryId, NodeId, WorkflowId};
use crate::machine::MacAddr;
use crate::time::Timestamp;

/// How long an entry holds when it says nothing.
pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(6 * 3600);

/// One boot entry: which machine may boot the ramdisk (or a cached image), for which workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PrepareRamdisk {
    /// The entry.
    pub entry_id: EntryId,
    /// The workflow.
    pub workflow_id: WorkflowId,
    /// The step.
    pub step_id: String,
    /// The machine.
    pub node_id: NodeId,
    /// Its MAC.
    pub mac: MacAddr,
    /// Its product UUID, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_uuid: Option<String>,
    /// The secret that holds its join token; absent for a sanboot entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<String>,
    /// Until when it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    /// The cached image to boot instead of the ramdisk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sanboot_sha256: Option<Sha256Digest>,
}

/// Which entries to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CleanUp {
    /// All of this machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// This one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_id: Option<EntryId>,
}
