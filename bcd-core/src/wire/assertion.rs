//! The site agent's word that a machine asked it for its boot entry: what a ramdisk joins with.
//!
//! It travels on a kernel command line, so its fields are short and the whole has a bound of bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::V1;
use crate::digest::Sha256Digest;
use crate::envelope::Purpose;
use crate::id::{EntryId, NodeId, SiteId};
use crate::key::P256Jwk;
use crate::machine::MacAddr;

/// How long an assertion holds after it was signed, at most.
pub const LIFETIME: std::time::Duration = std::time::Duration::from_secs(15 * 60);

/// Whom a discovery assertion is for: the start of the join encryption key's RFC 7638 thumbprint, 128 bits.
#[must_use]
pub fn audience(jwk: &P256Jwk) -> String {
    jwk.thumbprint().chars().take(AUDIENCE_LEN).collect()
}

/// The length of [`audience`].
pub const AUDIENCE_LEN: usize = 22;

/// A machine with this MAC asked the lease holder of this site for this boot entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiscoveryAssertion {
    /// The version.
    pub v: V1,
    /// The site.
    pub site: SiteId,
    /// The site agent; its node key signed.
    pub agent: NodeId,
    /// The boot lease's epoch the agent held.
    pub epoch: u64,
    /// The boot entry.
    pub entry: EntryId,
    /// The machine's MAC, as the entry has it.
    pub mac: MacAddr,
    /// The product UUID the machine told or the entry names; a hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<uuid::Uuid>,
    /// The address the machine told; a hint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<std::net::IpAddr>,
    /// The address it asked from.
    pub peer: std::net::IpAddr,
    /// SHA-256 of the join token's text, base64url.
    pub tok: String,
    /// When it was signed, in seconds since 1970.
    pub iat: u64,
    /// When it lapses, in seconds since 1970.
    pub exp: u64,
    /// A random number used once: 16 bytes, base64url.
    pub jti: String,
    /// Whom it is for: [`audience`].
    pub aud: String,
}

impl Purpose for DiscoveryAssertion {
    const PAYLOAD_TYPE: &'static str = "application/vnd.better-compute.discovery-assertion+json";
    const MAX_LEN: usize = 474;
}

/// What [`DiscoveryAssertion::tok`] says of a token.
#[must_use]
pub fn token_digest(token: &[u8]) -> String {
    data_encoding::BASE64URL_NOPAD.encode(Sha256Digest::of(token).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Signed;
    use crate::key::SigningKey;
    use crate::strict_json::MAX_SAFE_INTEGER;
    use crate::time::Timestamp;

    #[test]
    fn the_largest_assertion_fits_its_bound_and_the_command_line() {
        let longest = std::net::IpAddr::from([0xffff_u16; 8]);
        let assertion = DiscoveryAssertion {
            v: V1,
            site: SiteId::from_parts(Timestamp::EPOCH, [0xff; 10]),
            agent: NodeId::from_parts(Timestamp::EPOCH, [0xff; 10]),
            epoch: MAX_SAFE_INTEGER,
            entry: EntryId::from_parts(Timestamp::EPOCH, [0xff; 10]),
            mac: "52:54:00:12:34:56".parse().unwrap(),
            uuid: Some(uuid::Uuid::max()),
            ip: Some(longest),
            peer: longest,
            tok: token_digest(b"token"),
            iat: 9_999_999_999,
            exp: 9_999_999_999,
            jti: "x".repeat(22),
            aud: "x".repeat(AUDIENCE_LEN),
        };
        assert!(serde_json::to_vec(&assertion).unwrap().len() <= DiscoveryAssertion::MAX_LEN);
        let key = SigningKey::p256_from_scalar(&[1; 32]).unwrap();
        assert!(
            Signed::sign(&assertion, &key).unwrap().to_compact().unwrap().len()
                <= crate::boot_params::MAX_ASSERTION
        );
    }
}
