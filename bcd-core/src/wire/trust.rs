//! Who may sign what: the trust bundle, and the workers certified under it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::V1;
use crate::envelope::Purpose;
use crate::id::SiteId;
use crate::key::PublicKey;
use crate::pin::Pin;
use crate::time::Timestamp;

/// Command roots and approvers a bundle may name, each.
pub const MAX_KEYS: usize = 64;
/// How long a bundle may hold.
pub const MAX_BUNDLE_LIFETIME: std::time::Duration = std::time::Duration::from_secs(90 * 24 * 3600);
/// How long a worker may be certified for.
pub const MAX_WORKER_LIFETIME: std::time::Duration = std::time::Duration::from_secs(7 * 24 * 3600);

/// What an agent trusts for commands: a signed document of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TrustBundle {
    /// Counts up; an agent never takes a lower one.
    pub version: u64,
    /// When it was made.
    pub issued_at: Timestamp,
    /// When it lapses, at most 90 days after it was made.
    pub expires: Timestamp,
    /// Keys that certify workers. Without one, only harmless reads are run.
    pub command_roots: Vec<PublicKey>,
    /// People who approve batches.
    pub approvers: Vec<Approver>,
    /// When approvals are needed, and how many.
    pub quorum: Quorum,
    /// Workers, roots and approvers that are trusted no more.
    pub revoked_keys: Vec<Pin>,
}

impl Purpose for TrustBundle {
    const PAYLOAD_TYPE: &'static str = "application/vnd.better-compute.trust-bundle+json";
}

/// A person who approves batches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Approver {
    /// Who it is; approvals count once a subject.
    pub subject: String,
    /// The person's key.
    pub spki: PublicKey,
}

/// A batch of more than `above` machines needs `required` approvers; `above: 0` asks even for one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quorum {
    /// The largest batch that needs no approval.
    pub above: u32,
    /// How many approvers a larger one needs, distinct by key and by subject.
    pub required: u32,
}

/// A root's word that a key signs commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkerCertificate {
    /// The version.
    pub v: V1,
    /// The worker's key.
    pub worker: PublicKey,
    /// From when.
    pub issued_at: Timestamp,
    /// Until when: at most 7 days later.
    pub not_after: Timestamp,
    /// Only commands for this site, when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
    /// Only these kinds, when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<String>>,
}

impl Purpose for WorkerCertificate {
    const PAYLOAD_TYPE: &'static str = "application/vnd.better-compute.worker+json";
    const MAX_LEN: usize = 16 * 1024;
}
