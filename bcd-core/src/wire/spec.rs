//! What a node is to be: its NodeSpec, signed, and the boot lease.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::trust::WorkerCertificate;
use crate::digest::Sha256Digest;
use crate::envelope::{Purpose, Signed};
use crate::id::NodeId;
use crate::pin::Pin;
use crate::time::Timestamp;

/// How long a spec may hold.
pub const MAX_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Proxy targets' addresses a spec may list in all.
pub const MAX_PROXY_ADDRESSES: usize = 10_000;
/// Images a spec may list.
pub const MAX_CACHE_IMAGES: usize = 1_000;

/// A NodeSpec for one key of one node, of one generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeSpecDocument {
    /// The node.
    pub node_id: NodeId,
    /// The key of its join.
    pub node_key: Pin,
    /// Counts up: the highest is kept, a lower one refused.
    pub generation: u64,
    /// When it was signed.
    pub issued_at: Timestamp,
    /// Until when it holds: at most 7 days later.
    pub not_after: Timestamp,
    /// The spec.
    pub spec: NodeSpec,
}

impl Purpose for NodeSpecDocument {
    const PAYLOAD_TYPE: &'static str = "application/vnd.better-compute.nodespec+json";
    const MAX_LEN: usize = 2 * 1024 * 1024;
}

/// A signed spec with its worker's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignedSpec {
    /// A command root's word that the worker may sign.
    pub worker: Signed<WorkerCertificate>,
    /// The document, signed by the worker.
    pub document: Signed<NodeSpecDocument>,
}

/// What a node is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeSpec {
    /// A site agent's part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteSpec>,
    /// An installed system's part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSpec>,
    /// The node's driver bindings, by concern.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drivers: BTreeMap<String, DriverBinding>,
}

/// Which driver does a concern's work, and with what configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DriverBinding {
    /// The driver's id, such as `redfish`.
    pub driver: String,
    /// Its configuration: address, pin, credential reference, options.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
}

/// What a site agent keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SiteSpec {
    /// Images to have in the cache.
    pub cache_images: Vec<CacheImage>,
    /// Machines that `site.httpProxy` may talk to.
    pub proxy_targets: Vec<ProxyTarget>,
}

/// An image to have in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CacheImage {
    /// SHA-256 over the stored bytes.
    pub digest: Sha256Digest,
    /// Where to pull it from: `http://` or `https://`.
    pub source: String,
    /// The size, when the catalog knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// A machine that `site.httpProxy` may talk to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ProxyTarget {
    /// The machine.
    pub node_id: NodeId,
    /// Its addresses and names.
    pub addresses: Vec<String>,
}

/// What an installed system converges to: units in the order they are applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// The units; every `when` has been evaluated.
    pub units: Vec<HostUnit>,
}

/// One unit of a [`HostSpec`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostUnit {
    /// The unit's name, such as `sysctl`.
    pub name: String,
    /// Its settings.
    pub settings: Map<String, Value>,
}

/// The site's boot lease as its agent is told. At worst a forged one is a denial of service, so it is not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootLease {
    /// Whether this agent holds it.
    pub active: bool,
    /// Which holding it is; never falls, never 0 while active.
    pub epoch: u64,
    /// How long after the last acknowledged heartbeat was sent it holds, in milliseconds.
    pub ttl_ms: u64,
}
