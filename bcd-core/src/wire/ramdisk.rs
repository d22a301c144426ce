//! The ramdisk's kinds: `deploy.image`, `disk.wipe`, `boot.kexec`, and `inventory.refresh`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256Digest;

/// The disk image's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskFormat {
    /// The disk's bytes.
    Raw,
    /// QEMU's copy-on-write format.
    Qcow2,
}

/// How the artifact is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// Zstandard (RFC 8878).
    Zstd,
    /// gzip (RFC 1952).
    Gzip,
}

/// Which disk is the root disk: the first field given decides; without one, the smallest that fits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RootDiskHint {
    /// World wide name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// Serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Device path, such as `/dev/nvme0n1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The least size, in bytes, when a disk is chosen by size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_size_bytes: Option<u64>,
}

/// `deploy.image`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DeployImage {
    /// Where the artifact is: `https://` or `oci://`.
    pub source: String,
    /// SHA-256 over the stored bytes.
    pub sha256: Sha256Digest,
    /// The size of the stored bytes, when the catalog knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The format.
    pub format: DiskFormat,
    /// The compression.
    #[serde(default)]
    pub compression: Compression,
    /// Which disk.
    #[serde(default)]
    pub root_disk: RootDiskHint,
    /// The secret that holds the user data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data_ref: Option<String>,
    /// What kind of user data it is: `cloud-init` or `ignition`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data_kind: Option<String>,
}

/// What `deploy.image` wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Deployed {
    /// The disk.
    pub device: String,
    /// SHA-256 over the stored bytes that were read.
    pub sha256: Sha256Digest,
    /// Bytes written to the disk.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// How `disk.wipe` wipes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WipeMode {
    /// Not at all.
    None,
    /// The first and last MiB.
    #[default]
    Quick,
    /// The drive's own secure erase.
    SecureErase,
    /// The drive forgets its encryption key.
    CryptoErase,
}

/// `disk.wipe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WipeDisks {
    /// How.
    #[serde(default)]
    pub mode: WipeMode,
}

/// What `disk.wipe` did to each disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Wiped {
    /// Every disk of the machine.
    pub disks: Vec<WipedDisk>,
}

/// What `disk.wipe` did to one disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WipedDisk {
    /// The device path.
    pub device: String,
    /// Serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// World wide name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// The size, in bytes.
    pub size_bytes: u64,
    /// What was done, such as `nvme-format-ses1` or `zero-ends`.
    pub method: String,
    /// Whether a marker written before was read back as gone.
    pub verified: bool,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `boot.kexec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Kexec {
    /// The kernel's path in the written system; found there when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The initrd's path in the written system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initrd: Option<String>,
    /// More kernel arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
}

/// `inventory.refresh`: which sections; all when empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RefreshInventory {
    /// Section names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<String>,
}
