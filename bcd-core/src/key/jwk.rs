//! A P-256 public key as a JWK (RFC 7517, RFC 7518 6.2.1), with exactly the members `crv`, `kty`, `x`, `y`.

use data_encoding::BASE64URL_NOPAD;
use p256::elliptic_curve::sec1::{FromSec1Point as _, ToSec1Point as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256Digest;

/// The JWK is not a P-256 public key on the curve, or has other members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a P-256 public JWK with exactly crv, kty, x and y")]
pub struct InvalidJwk;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Members {
    // In the order of RFC 7638: the thumbprint is over this text.
    crv: String,
    kty: String,
    x: String,
    y: String,
}

/// A P-256 public key to seal to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Members", into = "Members")]
pub struct P256Jwk(p256::PublicKey);

impl P256Jwk {
    /// The longest text we look at, in bytes.
    pub const MAX_LEN: usize = 256;

    /// Of a public key.
    #[must_use]
    pub const fn new(key: p256::PublicKey) -> Self {
        Self(key)
    }

    /// From its JSON text.
    ///
    /// # Errors
    /// [`InvalidJwk`].
    pub fn from_json(text: &str) -> Result<Self, InvalidJwk> {
        if text.len() > Self::MAX_LEN {
            return Err(InvalidJwk);
        }
        serde_json::from_str(text).map_err(|_| InvalidJwk)
    }

    /// `{"crv":"P-256","kty":"EC","x":...,"y":...}` without spaces: what RFC 7638 hashes.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Members { crv, kty, x, y } = self.clone().into();
        format!(r#"{{"crv":"{crv}","kty":"{kty}","x":"{x}","y":"{y}"}}"#)
    }

    /// The RFC 7638 thumbprint, base64url of SHA-256.
    #[must_use]
    pub fn thumbprint(&self) -> String {
        BASE64URL_NOPAD.encode(Sha256Digest::of(self.to_json().as_bytes()).as_bytes())
    }

    /// The key itself.
    #[must_use]
    pub const fn key(&self) -> &p256::PublicKey {
        &self.0
    }

    /// The key as a DER SubjectPublicKeyInfo, which a pin is over.
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "a point on the curve always has an encoding; no input reaches this"
    )]
    pub fn spki_der(&self) -> Vec<u8> {
        use p256::pkcs8::EncodePublicKey as _;
        self.0.to_public_key_der().expect("a P-256 key encodes").into_vec()
    }
}

impl TryFrom<Members> for P256Jwk {
    type Error = InvalidJwk;

    fn try_from(members: Members) -> Result<Self, InvalidJwk> {
        if members.crv != "P-256" || members.kty != "EC" {
            return Err(InvalidJwk);
        }
        let mut point = vec![4];
        for coordinate in [&members.x, &members.y] {
            let bytes = BASE64URL_NOPAD.decode(coordinate.as_bytes()).map_err(|_| InvalidJwk)?;
            if bytes.len() != 32 {
                return Err(InvalidJwk);
            }
            point.extend(bytes);
        }
        let point = p256::Sec1Point::from_bytes(&point).map_err(|_| InvalidJwk)?;
        Option::from(p256::PublicKey::from_sec1_point(&point)).map(Self).ok_or(InvalidJwk)
    }
}

impl From<P256Jwk> for Members {
    fn from(jwk: P256Jwk) -> Self {
        let point = jwk.0.to_sec1_point(false);
        let text = |bytes: Option<&p256::FieldBytes>| {
            BASE64URL_NOPAD.encode(bytes.map_or(&[][..], |bytes| bytes.as_slice()))
        };
        Self { crv: "P-256".to_owned(), kty: "EC".to_owned(), x: text(point.x()), y: text(point.y()) }
    }
}

impl JsonSchema for P256Jwk {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "P256Jwk".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let coordinate = schemars::json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{43}$" });
        schemars::json_schema!({
            "type": "object",
            "properties": { "crv": { "const": "P-256" }, "kty": { "const": "EC" }, "x": coordinate, "y": coordinate },
            "required": ["crv", "kty", "x", "y"],
            "additionalProperties": false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The P-256 key of RFC 7515, appendix A.3.
    const RFC7515: &str = r#"{"crv":"P-256","kty":"EC","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;

    #[test]
    fn a_jwk_prints_as_it_parses() {
        let jwk = P256Jwk::from_json(RFC7515).unwrap();
        assert_eq!(jwk.to_json(), RFC7515);
        assert_eq!(jwk.thumbprint(), BASE64URL_NOPAD.encode(Sha256Digest::of(RFC7515.as_bytes()).as_bytes()));
        assert_eq!(serde_json::to_string(&jwk).unwrap(), RFC7515);
    }

    #[test]
    fn other_members_curves_and_points_off_the_curve_are_refused() {
        for bad in [
            RFC7515.replace("P-256", "P-384"),
            RFC7515.replace("EC", "RSA"),
            RFC7515.replace(r#""kty""#, r#""kid":"a","kty""#),
            RFC7515.replace(r#""kty""#, r#""crv":"P-256","kty""#),
            RFC7515.replace("f83O", "f83P"),
            RFC7515.replace("f83O", "83O"),
            String::new(),
            format!("{RFC7515}{}", " ".repeat(P256Jwk::MAX_LEN)),
        ] {
            assert_eq!(P256Jwk::from_json(&bad), Err(InvalidJwk), "{bad}");
        }
    }
}
