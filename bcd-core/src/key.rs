//! Keys that sign: Ed25519 (RFC 8032, verified strictly) and ECDSA P-256 over SHA-256 (FIPS 186-5).

mod jwk;

use std::fmt;

use ed25519_dalek::Signer as _;
use p256::pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _, LineEnding,
};
use zeroize::Zeroizing;

pub use jwk::{InvalidJwk, P256Jwk};

/// The signature does not verify: malformed, by another key, or over other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not verify")]
pub struct BadSignature;

/// The bytes are not a key of a kind we take: Ed25519 or P-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an Ed25519 or P-256 key")]
pub struct InvalidKey;

/// What kind of key it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// RFC 8032.
    Ed25519,
    /// ECDSA over NIST P-256 with SHA-256.
    EcdsaP256,
}

#[derive(Clone, PartialEq, Eq)]
enum PublicKind {
    Ed25519(ed25519_dalek::VerifyingKey),
    P256(p256::ecdsa::VerifyingKey),
}

/// A key that verifies signatures, with its DER SubjectPublicKeyInfo (RFC 5280, 4.1.2.7).
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: PublicKind,
    spki: Vec<u8>,
}

/// The longest SPKI we look at, in bytes; a P-256 one has 91.
const MAX_SPKI: usize = 1024;
/// The longest PEM text we look at, in bytes.
const MAX_PEM: usize = 4096;

impl PublicKey {
    /// From a DER SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`InvalidKey`] for other algorithms and curves, weak Ed25519 points, trailing bytes and other encodings.
    pub fn from_spki_der(der: &[u8]) -> Result<Self, InvalidKey> {
        if der.len() > MAX_SPKI {
            return Err(InvalidKey);
        }
        let key = if let Ok(key) = ed25519_dalek::VerifyingKey::from_public_key_der(der) {
            if key.is_weak() {
                return Err(InvalidKey);
            }
            Self::from_kind(PublicKind::Ed25519(key))?
        } else {
            let key = p256::ecdsa::VerifyingKey::from_public_key_der(der).map_err(|_| InvalidKey)?;
            Self::from_kind(PublicKind::P256(key))?
        };
        // One key has one encoding, so that counting signers by SPKI counts keys.
        if key.spki == der { Ok(key) } else { Err(InvalidKey) }
    }

    /// From a PEM text with exactly one `PUBLIC KEY` block.
    ///
    /// # Errors
    /// As [`PublicKey::from_spki_der`]; also for several blocks.
    pub fn from_spki_pem(pem: &str) -> Result<Self, InvalidKey> {
        if pem.len() > MAX_PEM || pem.matches("-----BEGIN").count() != 1 {
            return Err(InvalidKey);
        }
        let (label, der) = p256::pkcs8::der::Document::from_pem(pem.trim()).map_err(|_| InvalidKey)?;
        if label != "PUBLIC KEY" {
            return Err(InvalidKey);
        }
        Self::from_spki_der(der.as_bytes())
    }

    fn from_kind(kind: PublicKind) -> Result<Self, InvalidKey> {
        let document = match &kind {
            PublicKind::Ed25519(key) => key.to_public_key_der(),
            PublicKind::P256(key) => key.to_public_key_der(),
        };
        Ok(Self { spki: document.map_err(|_| InvalidKey)?.into_vec(), kind })
    }

    /// The DER SubjectPublicKeyInfo.
    #[must_use]
    pub fn spki_der(&self) -> &[u8] {
        &self.spki
    }

    /// The same as a PEM text.
    #[must_use]
    pub fn to_spki_pem(&self) -> String {
        let body = data_encoding::BASE64.encode(&self.spki);
        let mut pem = String::from("-----BEGIN PUBLIC KEY-----\n");
        for line in body.as_bytes().chunks(64) {
            pem.extend(line.iter().map(|byte| char::from(*byte)));
            pem.push('\n');
        }
        pem.push_str("-----END PUBLIC KEY-----\n");
        pem
    }

    /// What kind of key it is.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        match self.kind {
            PublicKind::Ed25519(_) => Algorithm::Ed25519,
            PublicKind::P256(_) => Algorithm::EcdsaP256,
        }
    }

    /// Checks a signature: 64 bytes for Ed25519; for P-256 either IEEE P1363 (64 bytes) or DER.
    ///
    /// # Errors
    /// [`BadSignature`].
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), BadSignature> {
        match &self.kind {
            PublicKind::Ed25519(key) => {
                let signature = ed25519_dalek::Signature::from_slice(signature).map_err(|_| BadSignature)?;
                key.verify_strict(message, &signature).map_err(|_| BadSignature)
            }
            PublicKind::P256(key) => verify_p256(key, message, signature),
        }
    }
}

/// The longest DER signature over P-256, in bytes.
const MAX_P256_DER: usize = 72;

fn verify_p256(
    key: &p256::ecdsa::VerifyingKey,
    message: &[u8],
    signature: &[u8],
) -> Result<(), BadSignature> {
    use p256::ecdsa::signature::Verifier as _;
    if signature.len() > MAX_P256_DER {
        return Err(BadSignature);
    }
    // A DER signature can have 64 bytes too, about once in 2^40: then both readings are tried.
    let readings =
        [p256::ecdsa::Signature::from_slice(signature), p256::ecdsa::Signature::from_der(signature)];
    let verified = readings.iter().flatten().any(|signature| key.verify(message, signature).is_ok());
    if verified { Ok(()) } else { Err(BadSignature) }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:?}, {})", self.algorithm(), crate::pin::Pin::of(self))
    }
}

/// In JSON a public key is the base64 of its DER SubjectPublicKeyInfo.
impl serde::Serialize for PublicKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&data_encoding::BASE64.encode(&self.spki))
    }
}

impl<'de> serde::Deserialize<'de> for PublicKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let der = data_encoding::BASE64
            .decode(text.as_bytes())
            .map_err(|_| serde::de::Error::custom(InvalidKey))?;
        Self::from_spki_der(&der).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for PublicKey {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PublicKey".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "contentEncoding": "base64", "maxLength": 1368 })
    }
}

enum SecretKind {
    Ed25519(ed25519_dalek::SigningKey),
    P256(p256::ecdsa::SigningKey),
}

/// A key that signs; wiped from memory when dropped.
pub struct SigningKey {
    kind: SecretKind,
    public: PublicKey,
}

impl SigningKey {
    /// A new Ed25519 key from the operating system's randomness.
    #[must_use]
    pub fn generate_ed25519() -> Self {
        Self::ed25519_from_seed(&crate::random::bytes())
    }

    /// The Ed25519 key of a 32-byte seed (RFC 8032, 5.1.5): for test vectors and key stores.
    #[must_use]
    #[expect(clippy::expect_used, reason = "an Ed25519 point always has an encoding; no input reaches this")]
    pub fn ed25519_from_seed(seed: &[u8; 32]) -> Self {
        let key = ed25519_dalek::SigningKey::from_bytes(seed);
        let public =
            PublicKey::from_kind(PublicKind::Ed25519(key.verifying_key())).expect("an Ed25519 key encodes");
        Self { kind: SecretKind::Ed25519(key), public }
    }

    /// A new P-256 key from the operating system's randomness.
    #[must_use]
    pub fn generate_p256() -> Self {
        loop {
            // A scalar is out of range less than once in 2^32 tries.
            if let Ok(key) = Self::p256_from_scalar(&crate::random::bytes()) {
                return key;
            }
        }
    }

    /// The P-256 key of a 32-byte scalar: for test vectors and key stores.
    ///
    /// # Errors
    /// [`InvalidKey`] for zero and for scalars beyond the group's order.
    pub fn p256_from_scalar(scalar: &[u8; 32]) -> Result<Self, InvalidKey> {
        Self::from_p256(p256::ecdsa::SigningKey::from_slice(scalar).map_err(|_| InvalidKey)?)
    }

    fn from_p256(key: p256::ecdsa::SigningKey) -> Result<Self, InvalidKey> {
        let public = PublicKey::from_kind(PublicKind::P256(*key.verifying_key()))?;
        Ok(Self { kind: SecretKind::P256(key), public })
    }

    /// From PKCS#8 DER (RFC 5958).
    ///
    /// # Errors
    /// [`InvalidKey`].
    pub fn from_pkcs8_der(der: &[u8]) -> Result<Self, InvalidKey> {
        if let Ok(key) = ed25519_dalek::SigningKey::from_pkcs8_der(der) {
            return Ok(Self::ed25519_from_seed(key.as_bytes()));
        }
        Self::from_p256(p256::ecdsa::SigningKey::from_pkcs8_der(der).map_err(|_| InvalidKey)?)
    }

    /// From a PEM text with one `PRIVATE KEY` block.
    ///
    /// # Errors
    /// [`InvalidKey`].
    pub fn from_pkcs8_pem(pem: &str) -> Result<Self, InvalidKey> {
        if pem.len() > MAX_PEM {
            return Err(InvalidKey);
        }
        let (label, der) = p256::pkcs8::der::SecretDocument::from_pem(pem.trim()).map_err(|_| InvalidKey)?;
        if label == "PRIVATE KEY" { Self::from_pkcs8_der(der.as_bytes()) } else { Err(InvalidKey) }
    }

    /// PKCS#8 DER.
    ///
    /// # Errors
    /// [`InvalidKey`] when it can't be encoded, which no key made here can't.
    pub fn to_pkcs8_der(&self) -> Result<Zeroizing<Vec<u8>>, InvalidKey> {
        let document = match &self.kind {
            SecretKind::Ed25519(key) => key.to_pkcs8_der(),
            SecretKind::P256(key) => key.to_pkcs8_der(),
        };
        document.map(|document| document.to_bytes()).map_err(|_| InvalidKey)
    }

    /// A PEM text with one `PRIVATE KEY` block.
    ///
    /// # Errors
    /// As [`SigningKey::to_pkcs8_der`].
    pub fn to_pkcs8_pem(&self) -> Result<Zeroizing<String>, InvalidKey> {
        match &self.kind {
            SecretKind::Ed25519(key) => key.to_pkcs8_pem(LineEnding::LF),
            SecretKind::P256(key) => key.to_pkcs8_pem(LineEnding::LF),
        }
        .map_err(|_| InvalidKey)
    }

    /// Its public half.
    #[must_use]
    pub const fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// A signature of 64 bytes: Ed25519, or ECDSA P-256 (deterministic, RFC 6979) as IEEE P1363.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.kind {
            SecretKind::Ed25519(key) => key.sign(message).to_bytes().to_vec(),
            SecretKind::P256(key) => {
                let signature: p256::ecdsa::Signature = key.sign(message);
                signature.to_bytes().to_vec()
            }
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({:?})", self.public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> [SigningKey; 2] {
        [SigningKey::ed25519_from_seed(&[1; 32]), SigningKey::p256_from_scalar(&[2; 32]).unwrap()]
    }

    #[test]
    fn keys_survive_der_and_pem() {
        for key in both() {
            let public = PublicKey::from_spki_pem(&key.public_key().to_spki_pem()).unwrap();
            assert_eq!(&public, key.public_key());
            for back in [
                SigningKey::from_pkcs8_der(&key.to_pkcs8_der().unwrap()).unwrap(),
                SigningKey::from_pkcs8_pem(&key.to_pkcs8_pem().unwrap()).unwrap(),
            ] {
                assert_eq!(back.public_key(), key.public_key());
                assert_eq!(back.sign(b"x"), key.sign(b"x"));
            }
        }
    }

    #[test]
    fn a_signature_holds_for_its_message_and_key_only() {
        let [a, b] = both();
        for (key, other) in [(&a, &b), (&b, &a)] {
            let signature = key.sign(b"message");
            assert_eq!(signature.len(), 64);
            assert_eq!(key.public_key().verify(b"message", &signature), Ok(()));
            assert_eq!(key.public_key().verify(b"massage", &signature), Err(BadSignature));
            assert_eq!(other.public_key().verify(b"message", &signature), Err(BadSignature));
            for bit in 0..512 {
                let mut flipped = signature.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(key.public_key().verify(b"message", &flipped), Err(BadSignature), "bit {bit}");
            }
            for bad in
                [&[][..], &signature[1..], &[signature.clone(), vec![0]].concat(), &[0; 64], &[0x30; 4096]]
            {
                assert_eq!(key.public_key().verify(b"message", bad), Err(BadSignature));
            }
        }
    }

    #[test]
    fn p256_signatures_are_taken_as_der_too() {
        let key = SigningKey::p256_from_scalar(&[3; 32]).unwrap();
        let der = p256::ecdsa::Signature::from_slice(&key.sign(b"m")).unwrap().to_der();
        assert_eq!(key.public_key().verify(b"m", der.as_bytes()), Ok(()));
    }

    #[test]
    fn other_keys_and_several_blocks_are_refused() {
        let pem = SigningKey::generate_p256().public_key().to_spki_pem();
        for bad in
            [String::new(), format!("{pem}{pem}"), pem.replace("PUBLIC", "PRIVATE"), "x".repeat(MAX_PEM + 1)]
        {
            assert_eq!(PublicKey::from_spki_pem(&bad), Err(InvalidKey));
        }
        // The identity point: it would verify signatures nobody made.
        let mut weak = SigningKey::generate_ed25519().public_key().spki_der().to_vec();
        let at = weak.len() - 32;
        weak[at..].fill(0);
        weak[at] = 1;
        assert_eq!(PublicKey::from_spki_der(&weak), Err(InvalidKey));
    }

    proptest::proptest! {
        #[test]
        fn parsers_never_panic(bytes: Vec<u8>, text: String) {
            let _ = PublicKey::from_spki_der(&bytes);
            let _ = PublicKey::from_spki_pem(&text);
            let _ = SigningKey::from_pkcs8_pem(&text);
        }
    }
}
