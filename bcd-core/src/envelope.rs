//! Everything signed is a DSSE envelope (Dead Simple Signing Envelope, v1.0.2) over the exact bytes.
//!
//! The payload type is the purpose, on the wire and in Rust: a [`Signed<T>`] of one purpose never verifies
//! as another. Nothing inside the payload is looked at before a signature over it has verified; what has
//! verified is another type, [`Verified<T>`], which only [`Signed::verify`] makes.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::digest::Sha256Digest;
use crate::error::{Code, Error, Result};
use crate::key::{PublicKey, SigningKey};
use crate::{reason, strict_json};

/// What a document is signed for.
pub trait Purpose: Serialize + DeserializeOwned {
    /// The DSSE payload type.
    const PAYLOAD_TYPE: &'static str;
    /// The largest payload, in bytes.
    const MAX_LEN: usize = 512 * 1024;
}

/// Signatures that are looked at; more refuse the envelope.
pub const MAX_SIGNATURES: usize = 8;
/// The longest signature, in characters of base64.
const MAX_SIGNATURE_TEXT: usize = 96;
/// The longest key hint, in characters. It is never trusted and never looked at.
const MAX_KEYID: usize = 128;

/// One signature of an envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Signature {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keyid: Option<String>,
    sig: String,
}

/// An envelope as it came off a wire: nothing in it has been checked.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", bound = "")]
pub struct Signed<T> {
    payload_type: String,
    payload: String,
    signatures: Vec<Signature>,
    #[serde(skip)]
    purpose: PhantomData<fn() -> T>,
}

impl<T> Clone for Signed<T> {
    fn clone(&self) -> Self {
        Self {
            payload_type: self.payload_type.clone(),
            payload: self.payload.clone(),
            signatures: self.signatures.clone(),
            purpose: PhantomData,
        }
    }
}

impl<T> PartialEq for Signed<T> {
    fn eq(&self, other: &Self) -> bool {
        (&self.payload_type, &self.payload, &self.signatures)
            == (&other.payload_type, &other.payload, &other.signatures)
    }
}

impl<T> Eq for Signed<T> {}

impl<T> fmt::Debug for Signed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signed({})", self.payload_type)
    }
}

/// DSSE's pre-authentication encoding: what is really signed.
fn pre_authentication(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

fn refused(reason: reason::Reason, message: impl Into<String>) -> Error {
    Error::new(Code::Forbidden, message).because(reason)
}

impl<T: Purpose> Signed<T> {
    /// Signs `payload` with `key`.
    ///
    /// # Errors
    /// `INVALID_INPUT` when the payload is larger than its purpose allows or is not JSON.
    pub fn sign(payload: &T, key: &SigningKey) -> Result<Self> {
        let bytes = serde_json::to_vec(payload).map_err(|error| {
            Error::new(Code::InvalidInput, "the document has no JSON form").caused_by(error)
        })?;
        if bytes.len() > T::MAX_LEN {
            return Err(Error::new(
                Code::InvalidInput,
                format!("a document of {} bytes is too large to sign: at most {}", bytes.len(), T::MAX_LEN),
            ));
        }
        let unsigned = Self {
            payload_type: T::PAYLOAD_TYPE.to_owned(),
            payload: BASE64.encode(&bytes),
            signatures: Vec::new(),
            purpose: PhantomData,
        };
        unsigned.also_sign(key)
    }

    /// The same envelope with one more signature, as an approver adds.
    ///
    /// # Errors
    /// `INVALID_INPUT` when it has as many as it may, or is malformed.
    pub fn also_sign(mut self, key: &SigningKey) -> Result<Self> {
        if self.signatures.len() >= MAX_SIGNATURES {
            return Err(Error::new(
                Code::InvalidInput,
                format!("an envelope has at most {MAX_SIGNATURES} signatures"),
            ));
        }
        let bytes = self.payload_bytes()?;
        let sig = BASE64.encode(&key.sign(&pre_authentication(&self.payload_type, &bytes)));
        self.signatures.push(Signature { keyid: None, sig });
        Ok(self)
    }

    /// The exact bytes that are signed; nothing is known of them yet.
    fn payload_bytes(&self) -> Result<Vec<u8>> {
        if self.payload_type != T::PAYLOAD_TYPE {
            return Err(refused(
                reason::BAD_SIGNATURE,
                format!(
                    "signed as {:?}, not as {}",
                    self.payload_type.chars().take(80).collect::<String>(),
                    T::PAYLOAD_TYPE
                ),
            ));
        }
        if self.payload.len() > T::MAX_LEN.div_ceil(3) * 4 {
            return Err(refused(
                reason::MALFORMED,
                format!("the document is larger than {} bytes", T::MAX_LEN),
            ));
        }
        let bytes = BASE64
            .decode(self.payload.as_bytes())
            .map_err(|_| refused(reason::MALFORMED, "the document's payload is not strict base64"))?;
        if bytes.len() > T::MAX_LEN {
            return Err(refused(
                reason::MALFORMED,
                format!("the document is larger than {} bytes", T::MAX_LEN),
            ));
        }
        Ok(bytes)
    }

    /// Checks the envelope against the `keys` that may sign for this purpose, then parses the payload.
    ///
    /// At least one of `keys` must have signed; all that did are in [`Verified::signers`]. A signature by
    /// another key neither helps nor hurts.
    ///
    /// # Errors
    /// `FORBIDDEN` with reason `bad-signature` (another purpose, no signature by one of `keys`) or
    /// `malformed` (too large, not strict base64 or JSON, unknown or duplicate fields).
    pub fn verify<'k>(&self, keys: impl IntoIterator<Item = &'k PublicKey>) -> Result<Verified<T>> {
        let bytes = self.payload_bytes()?;
        let fits = |signature: &Signature| {
            signature.sig.len() <= MAX_SIGNATURE_TEXT
                && signature.keyid.as_ref().is_none_or(|id| id.len() <= MAX_KEYID)
        };
        if self.signatures.len() > MAX_SIGNATURES || !self.signatures.iter().all(fits) {
            return Err(refused(reason::MALFORMED, "the document's signatures are too many or too long"));
        }
        let mut signatures = Vec::with_capacity(self.signatures.len());
        for signature in &self.signatures {
            let decoded = BASE64.decode(signature.sig.as_bytes());
            signatures
                .push(decoded.map_err(|_| refused(reason::MALFORMED, "a signature is not strict base64"))?);
        }
        let signed = pre_authentication(T::PAYLOAD_TYPE, &bytes);
        let mut signers: Vec<PublicKey> = Vec::new();
        for key in keys {
            let by_this_key = signatures.iter().any(|signature| key.verify(&signed, signature).is_ok());
            if by_this_key && !signers.contains(key) {
                signers.push(key.clone());
            }
        }
        if signers.is_empty() {
            return Err(refused(reason::BAD_SIGNATURE, "no trusted key signed this document"));
        }
        let payload = strict_json::from_slice(&bytes).map_err(|error| {
            refused(reason::MALFORMED, "the signed document is malformed").caused_by(error)
        })?;
        Ok(Verified { payload, digest: Sha256Digest::of(&bytes), signers })
    }

    /// Reads the document without looking at its signatures, with the SHA-256 over its bytes.
    ///
    /// Only for a document that something verified vouches for (a bundle inside a signed join answer), or
    /// whose reader does nothing that needs trust.
    ///
    /// # Errors
    /// `FORBIDDEN` with reason `bad-signature` for another purpose, `malformed` otherwise.
    pub fn read_vouched(&self) -> Result<(T, Sha256Digest)> {
        let bytes = self.payload_bytes()?;
        let payload = strict_json::from_slice(&bytes)
            .map_err(|error| refused(reason::MALFORMED, "the document is malformed").caused_by(error))?;
        Ok((payload, Sha256Digest::of(&bytes)))
    }

    /// `base64url(payload) "." base64url(signature)`: the form that fits a kernel command line.
    ///
    /// # Errors
    /// `INVALID_INPUT` unless there is exactly one signature.
    pub fn to_compact(&self) -> Result<String> {
        let [signature] = self.signatures.as_slice() else {
            return Err(Error::new(Code::InvalidInput, "the compact form has exactly one signature"));
        };
        let signature = BASE64
            .decode(signature.sig.as_bytes())
            .map_err(|_| refused(reason::MALFORMED, "a signature is not strict base64"))?;
        Ok(format!(
            "{}.{}",
            BASE64URL_NOPAD.encode(&self.payload_bytes()?),
            BASE64URL_NOPAD.encode(&signature)
        ))
    }

    /// Reads the compact form.
    ///
    /// # Errors
    /// `FORBIDDEN` with reason `malformed`.
    pub fn from_compact(text: &str) -> Result<Self> {
        let malformed = || refused(reason::MALFORMED, "not base64url(payload).base64url(signature)");
        if text.len() > T::MAX_LEN.div_ceil(3) * 4 + 1 + MAX_SIGNATURE_TEXT {
            return Err(malformed());
        }
        let (payload, signature) = text.split_once('.').ok_or_else(malformed)?;
        let payload = BASE64URL_NOPAD.decode(payload.as_bytes()).map_err(|_| malformed())?;
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).map_err(|_| malformed())?;
        if signature.len() != 64 {
            return Err(malformed());
        }
        Ok(Self {
            payload_type: T::PAYLOAD_TYPE.to_owned(),
            payload: BASE64.encode(&payload),
            signatures: vec![Signature { keyid: None, sig: BASE64.encode(&signature) }],
            purpose: PhantomData,
        })
    }
}

/// A document with at least one signature by a key that may sign it. Only [`Signed::verify`] makes one.
#[derive(Clone, Debug)]
pub struct Verified<T> {
    payload: T,
    digest: Sha256Digest,
    signers: Vec<PublicKey>,
}

impl<T> Verified<T> {
    /// SHA-256 over the signed bytes.
    #[must_use]
    pub const fn digest(&self) -> Sha256Digest {
        self.digest
    }

    /// Which of the trusted keys signed, each once.
    #[must_use]
    pub fn signers(&self) -> &[PublicKey] {
        &self.signers
    }

    /// The document itself.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.payload
    }
}

impl<T> Deref for Verified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Note {
        text: String,
    }

    impl Purpose for Note {
        const PAYLOAD_TYPE: &'static str = "application/vnd.example.note+json";
        const MAX_LEN: usize = 64;
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Other {
        text: String,
    }

    impl Purpose for Other {
        const PAYLOAD_TYPE: &'static str = "application/vnd.example.other+json";
    }

    fn key(seed: u8) -> SigningKey {
        SigningKey::ed25519_from_seed(&[seed; 32])
    }

    fn note() -> Note {
        Note { text: "hello".to_owned() }
    }

    #[track_caller]
    fn check(json: &str, expect: reason::Reason) {
        let signed: Signed<Note> = serde_json::from_str(json).unwrap();
        let error = signed.verify([key(1).public_key()]).unwrap_err();
        assert_eq!((error.code(), error.reason()), (Code::Forbidden, Some(expect.as_str())), "{json}");
    }

    #[test]
    fn the_encoding_is_that_of_the_dsse_protocol() {
        // The example of the DSSE specification, protocol.md.
        let bytes = pre_authentication("http://example.com/HelloWorld", b"hello world");
        assert_eq!(bytes, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }

    #[test]
    fn a_signed_document_verifies_and_says_who_signed() {
        let signed =
            Signed::sign(&note(), &key(1)).unwrap().also_sign(&key(2)).unwrap().also_sign(&key(2)).unwrap();
        let keys = [key(1), key(2), key(3)];
        let verified = signed.verify(keys.iter().map(SigningKey::public_key)).unwrap();
        assert_eq!(*verified, note());
        assert_eq!(verified.signers(), [key(1).public_key().clone(), key(2).public_key().clone()]);
        assert_eq!(verified.digest(), Sha256Digest::of(br#"{"text":"hello"}"#));
    }

    #[test]
    fn a_signature_for_one_purpose_does_not_verify_for_another() {
        let signed = Signed::sign(&note(), &key(1)).unwrap();
        let relabelled = serde_json::to_string(&signed).unwrap().replace("note+json", "other+json");
        let other: Signed<Other> = serde_json::from_str(&relabelled).unwrap();
        assert_eq!(other.verify([key(1).public_key()]).unwrap_err().reason(), Some("bad-signature"));
        let unchanged: Signed<Other> =
            serde_json::from_str(&serde_json::to_string(&signed).unwrap()).unwrap();
        assert_eq!(unchanged.verify([key(1).public_key()]).unwrap_err().reason(), Some("bad-signature"));
    }

    #[test]
    fn forged_documents_are_refused_before_they_are_parsed() {
        let good = serde_json::to_string(&Signed::sign(&note(), &key(1)).unwrap()).unwrap();
        check(
            &serde_json::to_string(&Signed::sign(&note(), &key(9)).unwrap()).unwrap(),
            reason::BAD_SIGNATURE,
        );
        check(&good.replace("eyJ0ZXh0", "eyJ0ZXh1"), reason::BAD_SIGNATURE);
        check(&good.replace("\"sig\":\"", "\"sig\":\" "), reason::MALFORMED);
        check(&good.replace("\"payload\":\"", "\"payload\":\"\\n"), reason::MALFORMED);
        check(
            r#"{"payloadType":"application/vnd.example.note+json","payload":"e30=","signatures":[]}"#,
            reason::BAD_SIGNATURE,
        );
    }

    #[test]
    fn a_signed_but_ambiguous_document_is_refused() {
        for payload in
            [r#"{"text":"a","text":"b"}"#, r#"{"text":"a","more":1}"#, r#"{"text":1}"#, r#"{"text":"a"} "x""#]
        {
            let envelope = Signed::<Note> {
                payload_type: Note::PAYLOAD_TYPE.to_owned(),
                payload: BASE64.encode(payload.as_bytes()),
                signatures: Vec::new(),
                purpose: PhantomData,
            };
            check(&serde_json::to_string(&envelope.also_sign(&key(1)).unwrap()).unwrap(), reason::MALFORMED);
        }
    }

    #[test]
    fn sizes_and_counts_have_bounds() {
        let fits = Note { text: "x".repeat(Note::MAX_LEN - r#"{"text":""}"#.len()) };
        let mut signed = Signed::sign(&fits, &key(1)).unwrap();
        assert!(signed.verify([key(1).public_key()]).is_ok());
        assert_eq!(
            Signed::sign(&Note { text: fits.text + "x" }, &key(1)).unwrap_err().code(),
            Code::InvalidInput
        );
        for _ in 1..MAX_SIGNATURES {
            signed = signed.also_sign(&key(2)).unwrap();
        }
        assert!(signed.verify([key(1).public_key()]).is_ok());
        assert!(signed.clone().also_sign(&key(3)).is_err());
        signed.signatures.push(signed.signatures[0].clone());
        assert_eq!(signed.verify([key(1).public_key()]).unwrap_err().reason(), Some("malformed"));
        assert!(
            serde_json::from_str::<Signed<Note>>(r#"{"payloadType":"a","payload":"","signatures":[],"x":1}"#)
                .is_err()
        );
    }

    #[test]
    fn the_compact_form_is_the_same_signature() {
        for key in [key(1), SigningKey::p256_from_scalar(&[5; 32]).unwrap()] {
            let compact = Signed::sign(&note(), &key).unwrap().to_compact().unwrap();
            let verified =
                Signed::<Note>::from_compact(&compact).unwrap().verify([key.public_key()]).unwrap();
            assert_eq!(*verified, note());
            for bad in [
                "",
                ".",
                &compact[1..],
                &format!("{compact}A"),
                &compact.replace('.', ":"),
                &format!("{compact}.x"),
            ] {
                let refused =
                    Signed::<Note>::from_compact(bad).and_then(|signed| signed.verify([key.public_key()]));
                assert!(refused.is_err(), "{bad}");
            }
        }
    }
}
