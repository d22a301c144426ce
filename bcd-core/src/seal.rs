//! Sealing to a key: HPKE base mode (RFC 9180), DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-128-GCM.
//!
//! `info` says what it is sealed for and to whom, `aad` is bound without being hidden.

use std::fmt;

use hpke::aead::AesGcm128;
use hpke::kdf::HkdfSha256;
use hpke::kem::DhP256HkdfSha256;
use hpke::{Deserializable as _, Kem, OpModeR, OpModeS, Serializable as _};
use zeroize::Zeroizing;

use crate::key::P256Jwk;

/// The suite's name on the wire: the three identifiers of RFC 9180, section 7.
pub const SUITE: &str = "0x0010/0x0001/0x0001";

/// The bytes were not sealed to this key with this info and these associated data, or were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sealed message does not open")]
pub struct CannotOpen;

/// A sealed message: the encapsulated key and the ciphertext with its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The uncompressed point of the sender's one-time key, 65 bytes.
    pub enc: Vec<u8>,
    /// The ciphertext, 16 bytes longer than what is in it.
    pub ciphertext: Vec<u8>,
}

fn info(purpose: &str, recipient: &P256Jwk) -> Vec<u8> {
    let mut info = purpose.as_bytes().to_vec();
    info.push(0);
    info.extend_from_slice(recipient.thumbprint().as_bytes());
    info
}

/// Seals `plaintext` to `recipient`, for `purpose` (such as `better-compute/join/v1`).
///
/// # Errors
/// [`CannotOpen`] when the recipient's key can't be used, which no key that parsed can't.
pub fn seal(recipient: &P256Jwk, purpose: &str, aad: &[u8], plaintext: &[u8]) -> Result<Sealed, CannotOpen> {
    seal_with_rng(recipient, purpose, aad, plaintext, &mut rand_core::UnwrapErr(getrandom::SysRng))
}

/// As [`seal`], with the randomness given: for test vectors.
///
/// # Errors
/// As [`seal`].
pub fn seal_with_rng(
    recipient: &P256Jwk,
    purpose: &str,
    aad: &[u8],
    plaintext: &[u8],
    rng: &mut impl rand_core::CryptoRng,
) -> Result<Sealed, CannotOpen> {
    use p256::elliptic_curve::sec1::ToSec1Point as _;
    let point = recipient.key().to_sec1_point(false);
    let key = <DhP256HkdfSha256 as Kem>::PublicKey::from_bytes(point.as_bytes()).map_err(|_| CannotOpen)?;
    let (enc, ciphertext) = hpke::single_shot_seal_with_rng::<AesGcm128, HkdfSha256, DhP256HkdfSha256>(
        &OpModeS::Base,
        &key,
        &info(purpose, recipient),
        plaintext,
        aad,
        rng,
    )
    .map_err(|_| CannotOpen)?;
    Ok(Sealed { enc: enc.to_bytes().to_vec(), ciphertext })
}

/// The key that opens what was sealed to its [`P256Jwk`].
#[derive(Clone)]
pub struct OpeningKey {
    key: p256::SecretKey,
    jwk: P256Jwk,
}

impl OpeningKey {
    /// A new key from the operating system's randomness.
    #[must_use]
    pub fn generate() -> Self {
        loop {
            if let Some(key) = Self::from_scalar(&crate::random::bytes()) {
                return key;
            }
        }
    }

    /// The key of a 32-byte scalar, when it is in range.
    #[must_use]
    pub fn from_scalar(scalar: &[u8; 32]) -> Option<Self> {
        let key = p256::SecretKey::from_slice(scalar).ok()?;
        let jwk = P256Jwk::new(key.public_key());
        Some(Self { key, jwk })
    }

    /// The 32-byte scalar, to be stored.
    #[must_use]
    pub fn to_scalar(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.key.to_bytes().to_vec())
    }

    /// The public half.
    #[must_use]
    pub const fn jwk(&self) -> &P256Jwk {
        &self.jwk
    }

    /// Opens what was sealed for `purpose` with these `aad`.
    ///
    /// # Errors
    /// [`CannotOpen`].
    pub fn open(&self, purpose: &str, aad: &[u8], sealed: &Sealed) -> Result<Zeroizing<Vec<u8>>, CannotOpen> {
        let key =
            <DhP256HkdfSha256 as Kem>::PrivateKey::from_bytes(&self.to_scalar()).map_err(|_| CannotOpen)?;
        let enc = <DhP256HkdfSha256 as Kem>::EncappedKey::from_bytes(&sealed.enc).map_err(|_| CannotOpen)?;
        hpke::single_shot_open::<AesGcm128, HkdfSha256, DhP256HkdfSha256>(
            &OpModeR::Base,
            &key,
            &enc,
            &info(purpose, &self.jwk),
            &sealed.ciphertext,
            aad,
        )
        .map(Zeroizing::new)
        .map_err(|_| CannotOpen)
    }
}

impl fmt::Debug for OpeningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpeningKey({})", self.jwk.thumbprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_the_same_key_purpose_and_aad_only() {
        let key = OpeningKey::from_scalar(&[7; 32]).unwrap();
        let sealed = seal(key.jwk(), "p", b"aad", b"secret").unwrap();
        assert_eq!((sealed.enc.len(), sealed.ciphertext.len()), (65, 6 + 16));
        assert_eq!(key.open("p", b"aad", &sealed).unwrap().as_slice(), b"secret");
        assert_eq!(key.open("q", b"aad", &sealed), Err(CannotOpen));
        assert_eq!(key.open("p", b"bad", &sealed), Err(CannotOpen));
        assert_eq!(OpeningKey::generate().open("p", b"aad", &sealed), Err(CannotOpen));
        let mut changed = sealed.clone();
        changed.ciphertext[0] ^= 1;
        assert_eq!(key.open("p", b"aad", &changed), Err(CannotOpen));
        for enc in [vec![], vec![4; 65], sealed.enc[1..].to_vec()] {
            assert_eq!(key.open("p", b"aad", &Sealed { enc, ..sealed.clone() }), Err(CannotOpen));
        }
    }

    #[test]
    fn sealing_twice_gives_other_bytes() {
        let key = OpeningKey::generate();
        assert_ne!(seal(key.jwk(), "p", b"", b"x").unwrap(), seal(key.jwk(), "p", b"", b"x").unwrap());
    }
}
