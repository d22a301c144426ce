//! What machines are known by: MAC addresses and SMBIOS product UUIDs.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A unicast Ethernet address, written `52:54:00:12:34:56` in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr([u8; 6]);

/// The text is not a unicast Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a unicast MAC address such as 52:54:00:12:34:56")]
pub struct InvalidMac;

impl MacAddr {
    /// Six bytes that are neither zero nor a group address (IEEE 802: the first byte's lowest bit).
    ///
    /// # Errors
    /// [`InvalidMac`] for zero, multicast and broadcast.
    pub fn new(bytes: [u8; 6]) -> Result<Self, InvalidMac> {
        if bytes == [0; 6] || bytes[0] & 1 == 1 { Err(InvalidMac) } else { Ok(Self(bytes)) }
    }

    /// The six bytes.
    #[must_use]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddr {
    type Err = InvalidMac;

    /// Takes `:` or `-` between the bytes (iPXE's `mac:hexhyp`), and either case.
    fn from_str(text: &str) -> Result<Self, InvalidMac> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut bytes = [0; 6];
        let mut parts = text.split(separator);
        for byte in &mut bytes {
            let part =
                parts.next().filter(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = u8::from_str_radix(part.ok_or(InvalidMac)?, 16).map_err(|_| InvalidMac)?;
        }
        if parts.next().is_some() { Err(InvalidMac) } else { Self::new(bytes) }
    }
}

impl Serialize for MacAddr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MacAddr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for MacAddr {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MacAddr".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9a-f]{2}(:[0-9a-f]{2}){5}$" })
    }
}

/// Sixteen bytes of a product UUID in any spelling: either case, with or without dashes or braces.
fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    uuid::Uuid::try_parse(text.trim()).ok().map(uuid::Uuid::into_bytes)
}

/// Whether two product UUIDs name the same machine.
///
/// Case and dashes do not count, and neither does SMBIOS's byte order: before SMBIOS 2.6 the first
/// three fields were written big-endian by some firmware and little-endian by other, so that the same
/// machine shows two spellings. Texts that are no UUIDs name no machine.
#[must_use]
pub fn same_machine(a: &str, b: &str) -> bool {
    let (Some(a), Some(b)) = (uuid_bytes(a), uuid_bytes(b)) else { return false };
    a == b || uuid::Uuid::from_bytes(a).to_bytes_le() == b
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mac_is_read_with_colons_or_hyphens_and_written_with_colons() {
        for text in ["52:54:00:AB:cd:01", "52-54-00-ab-CD-01"] {
            assert_eq!(text.parse::<MacAddr>().unwrap().to_string(), "52:54:00:ab:cd:01");
        }
    }

    #[test]
    fn zero_group_and_malformed_macs_are_refused() {
        for text in [
            "00:00:00:00:00:00",
            "ff:ff:ff:ff:ff:ff",
            "01:00:5e:00:00:01",
            "52:54:00:12:34",
            "52:54:00:12:34:56:78",
            "5254.0012.3456",
            "+2:54:00:12:34:56",
            "52:54:00:12:34:5",
            "",
            "52:54-00:12:34:56",
        ] {
            assert_eq!(text.parse::<MacAddr>(), Err(InvalidMac), "{text}");
        }
    }

    #[test]
    fn spellings_of_one_uuid_are_one_machine() {
        let a = "00112233-4455-6677-8899-aabbccddeeff";
        for b in [
            "00112233-4455-6677-8899-AABBCCDDEEFF",
            "00112233445566778899aabbccddeeff",
            "33221100-5544-7766-8899-aabbccddeeff",
        ] {
            assert!(same_machine(a, b), "{b}");
            assert!(same_machine(b, a), "{b}");
        }
        for b in ["00112233-4455-6677-8899-aabbccddee00", "", "none", "00112233-4455-6677-8899-aabbccddeef"] {
            assert!(!same_machine(a, b), "{b}");
        }
        assert!(!same_machine("", ""));
    }

    proptest! {
        #[test]
        fn mac_print_then_parse_is_identity(bytes: [u8; 6]) {
            if let Ok(mac) = MacAddr::new(bytes) {
                prop_assert_eq!(mac.to_string().parse(), Ok(mac));
            }
        }

        #[test]
        fn parsers_never_panic(a: String, b: String) {
            let _ = a.parse::<MacAddr>();
            let _ = same_machine(&a, &b);
        }
    }
}
