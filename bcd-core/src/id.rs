//! Identifiers: a prefix, `_`, and 26 characters of base32 of a UUIDv7, a type a kind.
//!
//! They sort by the time they were made, and are safe in a host name once `_` is `-`.

use std::fmt;

use crate::time::Timestamp;

/// The 26 characters hold 130 bits; a UUID has 128, so the first character is at most `7`.
const BODY_LEN: usize = 26;
/// Crockford's base32 in lower case.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The text is not an identifier of this kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id: expected {prefix}_ and 26 characters of base32")]
pub struct InvalidId {
    prefix: &'static str,
}

fn encode(prefix: &str, mut bits: u128) -> String {
    let mut body = [0_u8; BODY_LEN];
    for slot in body.iter_mut().rev() {
        *slot = ALPHABET[(bits & 31) as usize];
        bits >>= 5;
    }
    let mut text = String::with_capacity(prefix.len() + 1 + BODY_LEN);
    text.push_str(prefix);
    text.push('_');
    text.extend(body.iter().map(|byte| char::from(*byte)));
    text
}

fn check(prefix: &'static str, text: &str) -> Result<(), InvalidId> {
    let body = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')).map(str::as_bytes);
    match body {
        Some([b'0'..=b'7', rest @ ..])
            if rest.len() == BODY_LEN - 1 && rest.iter().all(|b| ALPHABET.contains(b)) =>
        {
            Ok(())
        }
        _ => Err(InvalidId { prefix }),
    }
}

/// The UUIDv7 (RFC 9562, 5.7) of a time and ten random bytes.
fn uuid_v7(now: Timestamp, random: [u8; 10]) -> u128 {
    let ms = u64::try_from(now.as_millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid().as_u128()
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// What every identifier of this kind starts with.
            pub const PREFIX: &'static str = $prefix;

            /// The identifier of a time and ten random bytes.
            #[must_use]
            pub fn from_parts(now: Timestamp, random: [u8; 10]) -> Self {
                Self(encode($prefix, uuid_v7(now, random)))
            }

            /// A new identifier from the operating system's random numbers.
            #[must_use]
            pub fn generate(now: Timestamp) -> Self {
                Self::from_parts(now, crate::random::bytes())
            }

            /// The whole text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The text with `_` turned into `-`, as it may stand in a host name.
            #[must_use]
            pub fn as_hostname(&self) -> String {
                self.0.replace('_', "-")
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                check($prefix, text).map(|()| Self(text.to_owned()))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                check($prefix, &text).map_err(serde::de::Error::custom)?;
                Ok(Self(text))
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "pattern": concat!("^", $prefix, "_[0-7][0-9a-hjkmnp-tv-z]{25}$"),
                })
            }
        }
    )*};
}

ids! {
    /// A place with a site agent.
    SiteId = "site";
    /// A set of machines under one policy.
    PoolId = "pool";
    /// A machine, or a site agent (a node too).
    NodeId = "node";
    /// A row of the image catalog.
    ImageId = "img";
    /// One run of a profile.
    WorkflowId = "wf";
    /// A signed command; the same one for every attempt to deliver it.
    CommandId = "cmd";
    /// A batch of destructive commands.
    BatchId = "batch";
    /// A join token's row (never the token itself).
    TokenId = "tok";
    /// A boot entry.
    EntryId = "entry";
    /// One connection of an agent.
    SessionId = "sess";
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_has_its_prefix_and_26_characters() {
        let id = NodeId::from_parts(Timestamp::from_millis(1_764_500_000_000), [7; 10]);
        assert!(id.as_str().starts_with("node_01"), "{id}");
        assert_eq!(id.as_str().len(), 31);
        assert!(!id.as_hostname().contains('_'));
    }

    #[test]
    fn another_kind_or_alphabet_or_length_is_refused() {
        let good = SiteId::from_parts(Timestamp::EPOCH, [0; 10]).to_string();
        assert!(good.parse::<SiteId>().is_ok());
        assert!(good.parse::<NodeId>().is_err());
        for bad in [
            "",
            "site_",
            "site",
            "site_01",
            &good.to_uppercase(),
            &format!("{good}0"),
            &good.replace("_0", "_8"),
        ] {
            assert!(bad.parse::<SiteId>().is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<SiteId>("\"site_x\"").is_err());
    }

    proptest! {
        #[test]
        fn ids_sort_by_time(a in 0..1_i64 << 47, b in 0..1_i64 << 47, ra: [u8; 10], rb: [u8; 10]) {
            let (x, y) = (EntryId::from_parts(Timestamp::from_millis(a), ra), EntryId::from_parts(Timestamp::from_millis(b), rb));
            if a < b { prop_assert!(x < y) }
            prop_assert_eq!(x.as_str().parse::<EntryId>().unwrap(), x);
        }

        #[test]
        fn parsing_never_panics(text: String) {
            let _ = text.parse::<NodeId>();
        }
    }
}
