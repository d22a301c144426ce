//! JSON as signed things and configuration must be: no duplicate keys, no integers that another reader rounds.
//!
//! `serde_json` alone takes the last of duplicate keys inside maps, and readers in other languages round
//! integers beyond 2^53: two documents, one signature. Here both are errors.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// The largest integer that every JSON reader keeps exactly: 2^53 - 1 (RFC 8259, 6).
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 64;

/// Why a text was refused, for a person.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StrictError(String);

/// Parses `bytes` into `T`, which refuses unknown fields by its own `deny_unknown_fields`.
///
/// # Errors
/// [`StrictError`] for anything that is not one JSON text of that shape, with the rules above.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StrictError> {
    check(bytes)?;
    serde_json::from_slice(bytes).map_err(|error| StrictError(error.to_string()))
}

/// Checks the rules above, whatever the shape.
///
/// # Errors
/// [`StrictError`].
pub fn check(bytes: &[u8]) -> Result<(), StrictError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    Strict { depth: 0 }
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end())
        .map_err(|error| StrictError(error.to_string()))
}

#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format_args!("nested deeper than {MAX_DEPTH}")));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        if value > MAX_SAFE_INTEGER { Err(E::custom("an integer beyond 2^53 - 1")) } else { Ok(()) }
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.visit_u64(value.unsigned_abs())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        // Integers too large for 64 bits arrive here.
        #[expect(clippy::cast_precision_loss, reason = "2^53 - 1 is exact in a double")]
        let limit = MAX_SAFE_INTEGER as f64;
        if value.fract() == 0.0 && value.abs() > limit {
            Err(E::custom("a number beyond 2^53 - 1"))
        } else {
            Ok(())
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let deeper = self.deeper()?;
        while items.next_element_seed(deeper)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let deeper = self.deeper()?;
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            entries.next_value_seed(deeper)?;
            if let Some(key) = seen.replace(key) {
                return Err(A::Error::custom(format_args!("the key {key:?} is there twice")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_json_passes() {
        for text in
            ["null", r#"{"a":[1,-2,0.5,"x",true,{}],"b":{"a":1}}"#, "9007199254740991", "-9007199254740991"]
        {
            assert!(check(text.as_bytes()).is_ok(), "{text}");
        }
    }

    #[test]
    fn ambiguous_json_is_refused() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"[{"b":{"a":1,"c":2,"a":3}}]"#,
            r#"{"a":1,"\u0061":2}"#,
            "9007199254740992",
            "-9007199254740992",
            "18446744073709551616",
            "1e300",
            "1 2",
            "",
            "{",
            "NaN",
        ] {
            assert!(check(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn nesting_has_a_bound() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(check(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert!(check(nested(MAX_DEPTH + 1).as_bytes()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>) {
            let _ = check(&bytes);
        }
    }
}
