//! Pins: `sha256/` and the base64 of SHA-256 over a key's DER SubjectPublicKeyInfo.
//!
//! They come from configuration or boot parameters, never from what a peer says of itself.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::Sha256Digest;
use crate::key::PublicKey;

/// The digest of a key that must be met again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pin(Sha256Digest);

/// The text is not a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a pin: sha256/ and 44 characters of base64")]
pub struct InvalidPin;

impl Pin {
    /// The length of its text.
    pub const LEN: usize = 51;

    /// Of a key.
    #[must_use]
    pub fn of(key: &PublicKey) -> Self {
        Self::of_spki_der(key.spki_der())
    }

    /// Of the DER SubjectPublicKeyInfo of any key, also one that we can't verify with.
    #[must_use]
    pub fn of_spki_der(der: &[u8]) -> Self {
        Self(Sha256Digest::of(der))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256/{}", BASE64.encode(self.0.as_bytes()))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Pin {
    type Err = InvalidPin;

    fn from_str(text: &str) -> Result<Self, InvalidPin> {
        let body = text.strip_prefix("sha256/").filter(|_| text.len() == Self::LEN).ok_or(InvalidPin)?;
        let bytes = BASE64.decode(body.as_bytes()).map_err(|_| InvalidPin)?;
        bytes.try_into().map(|bytes| Self(Sha256Digest::from_bytes(bytes))).map_err(|_| InvalidPin)
    }
}

impl Serialize for Pin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Pin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Pin {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Pin".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^sha256/[A-Za-z0-9+/]{43}=$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_prints_as_it_parses() {
        let pin = Pin::of_spki_der(b"key");
        assert_eq!(pin.to_string().len(), Pin::LEN);
        assert_eq!(pin.to_string().parse(), Ok(pin));
    }

    #[test]
    fn other_digests_lengths_and_alphabets_are_refused() {
        let good = Pin::of_spki_der(b"key").to_string();
        for bad in [
            "",
            "sha256/",
            &good[..50],
            &format!("{good}="),
            &good.replace("sha256", "sha384"),
            &good.replace('=', "A"),
            &good.replace('/', "_"),
        ] {
            assert_eq!(bad.parse::<Pin>(), Err(InvalidPin), "{bad}");
        }
    }
}
