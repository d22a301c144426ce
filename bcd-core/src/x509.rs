//! The few X.509 things the contract needs: requests, certificates of a small CA, and reading both.
//!
//! Certificates are of P-256 keys. They are made with `rcgen` and read with `x509-cert`; whether a chain holds
//! is for the TLS stack alone to say.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose,
    PublicKeyData, SanType,
};
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::error::{Code, Error, Result};
use crate::key::{Algorithm, PublicKey, SigningKey};
use crate::reason;
use crate::time::Timestamp;

/// The largest certificate or request that is looked at, in bytes.
const MAX_DER: usize = 8 * 1024;

/// The uncompressed point at the end of a P-256 key's SPKI.
const POINT: usize = 65;

struct Signer<'a>(&'a SigningKey);
struct Subject<'a>(&'a PublicKey);

impl PublicKeyData for Subject<'_> {
    fn der_bytes(&self) -> &[u8] {
        let spki = self.0.spki_der();
        spki.get(spki.len().saturating_sub(POINT)..).unwrap_or_default()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

impl PublicKeyData for Signer<'_> {
    fn der_bytes(&self) -> &[u8] {
        let spki = self.0.public_key().spki_der();
        spki.get(spki.len().saturating_sub(POINT)..).unwrap_or_default()
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

impl rcgen::SigningKey for Signer<'_> {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        p256::ecdsa::Signature::from_slice(&self.0.sign(message))
            .map(|signature| signature.to_der().as_bytes().to_vec())
            .map_err(|_| rcgen::Error::RingUnspecified)
    }
}

fn wrong_key(key: &PublicKey) -> Result<()> {
    if key.algorithm() == Algorithm::EcdsaP256 {
        Ok(())
    } else {
        Err(Error::new(Code::InvalidInput, "certificates are of P-256 keys"))
    }
}

fn cannot_make(error: rcgen::Error) -> Error {
    Error::internal("the certificate can't be made").caused_by(error)
}

fn malformed(what: &str) -> Error {
    Error::new(Code::InvalidInput, format!("{what} does not parse")).because(reason::MALFORMED)
}

/// A PKCS#10 request (RFC 2986) for `key`, DER. Its names are empty: the CA decides who the key is.
///
/// # Errors
/// `INVALID_INPUT` for a key that is not P-256.
pub fn certificate_request(key: &SigningKey) -> Result<Vec<u8>> {
    wrong_key(key.public_key())?;
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    Ok(params.serialize_request(&Signer(key)).map_err(cannot_make)?.der().to_vec())
}

/// Checks a PKCS#10 request's signature by its own key, and returns that key.
///
/// # Errors
/// `INVALID_INPUT` with reason `malformed`, or `bad-signature`.
pub fn check_request(der: &[u8]) -> Result<PublicKey> {
    let request = x509_cert::request::CertReq::from_der(der)
        .ok()
        .filter(|_| der.len() <= MAX_DER)
        .ok_or_else(|| malformed("the certificate request"))?;
    let spki = request.info.public_key.to_der().map_err(|_| malformed("the certificate request"))?;
    let key = PublicKey::from_spki_der(&spki)
        .map_err(|error| malformed("the certificate request's key").caused_by(error))?;
    wrong_key(&key)?;
    let signed = request.info.to_der().map_err(|_| malformed("the certificate request"))?;
    key.verify(&signed, request.signature.raw_bytes()).map_err(|error| {
        Error::new(Code::InvalidInput, "the certificate request is not signed by its own key")
            .because(reason::BAD_SIGNATURE)
            .caused_by(error)
    })?;
    Ok(key)
}

/// The DER SubjectPublicKeyInfo of a certificate.
///
/// # Errors
/// `INVALID_INPUT` with reason `malformed`.
pub fn certificate_spki(der: &[u8]) -> Result<Vec<u8>> {
    let certificate = x509_cert::Certificate::from_der(der).map_err(|_| malformed("the certificate"))?;
    certificate.tbs_certificate().subject_public_key_info().to_der().map_err(|_| malformed("the certificate"))
}

/// The only URI among a certificate's alternative names, when there is exactly one name and it is a URI.
///
/// # Errors
/// `INVALID_INPUT` with reason `malformed`.
pub fn certificate_uri(der: &[u8]) -> Result<Option<String>> {
    let certificate = x509_cert::Certificate::from_der(der).map_err(|_| malformed("the certificate"))?;
    let names = certificate
        .tbs_certificate()
        .get_extension::<SubjectAltName>()
        .map_err(|_| malformed("the certificate's alternative names"))?;
    Ok(match names.as_ref().map(|(_, names)| names.0.as_slice()) {
        Some([GeneralName::UniformResourceIdentifier(uri)]) => Some(uri.to_string()),
        _ => None,
    })
}

/// From when until when a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From.
    pub not_before: Timestamp,
    /// Until.
    pub not_after: Timestamp,
}

impl Validity {
    fn apply(self, params: &mut CertificateParams) {
        let date = |time: Timestamp| {
            rcgen::date_time_ymd(1970, 1, 1)
                + std::time::Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(0))
        };
        params.not_before = date(self.not_before);
        params.not_after = date(self.not_after);
    }
}

/// A CA: its key and its self-signed certificate.
#[derive(Debug)]
pub struct Authority {
    key: SigningKey,
    name: String,
    certificate: Vec<u8>,
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

impl Authority {
    /// Makes the certificate of a CA named `name`.
    ///
    /// # Errors
    /// `INVALID_INPUT` for a key that is not P-256.
    pub fn create(name: &str, key: SigningKey, validity: Validity) -> Result<Self> {
        wrong_key(key.public_key())?;
        let mut params = authority_params(name);
        validity.apply(&mut params);
        let certificate = params.self_signed(&Signer(&key)).map_err(cannot_make)?.der().to_vec();
        Ok(Self { key, name: name.to_owned(), certificate })
    }

    /// A CA whose certificate was made before.
    ///
    /// # Errors
    /// `INVALID_CONFIG` when the certificate is of another key.
    pub fn load(name: &str, key: SigningKey, certificate: Vec<u8>) -> Result<Self> {
        if certificate_spki(&certificate)? != key.public_key().spki_der() {
            return Err(Error::new(
                Code::InvalidConfig,
                format!("the certificate of the CA {name:?} is not of its key"),
            ));
        }
        Ok(Self { key, name: name.to_owned(), certificate })
    }

    /// Its own certificate, DER.
    #[must_use]
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// Its public key.
    #[must_use]
    pub const fn public_key(&self) -> &PublicKey {
        self.key.public_key()
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        subject: &PublicKey,
        validity: Validity,
    ) -> Result<Vec<u8>> {
        wrong_key(subject)?;
        validity.apply(&mut params);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let issuer_params = authority_params(&self.name);
        let issuer = Issuer::from_params(&issuer_params, Signer(&self.key));
        Ok(params.signed_by(&Subject(subject), &issuer).map_err(cannot_make)?.der().to_vec())
    }

    /// A certificate for server authentication, for names and addresses.
    ///
    /// # Errors
    /// `INVALID_CONFIG` for a name that is not one.
    pub fn issue_server(&self, subject: &PublicKey, names: &[String], validity: Validity) -> Result<Vec<u8>> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in names {
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.as_str().try_into().map_err(|error| {
                    Error::new(Code::InvalidConfig, format!("{name:?} is no name for a certificate"))
                        .caused_by(error)
                })?),
            });
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params, subject, validity)
    }

    /// A certificate for client authentication whose only name is a URI.
    ///
    /// # Errors
    /// `INVALID_CONFIG` for a URI that is not ASCII.
    pub fn issue_client(&self, subject: &PublicKey, uri: &str, validity: Validity) -> Result<Vec<u8>> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let name = uri
            .try_into()
            .map_err(|error| Error::new(Code::InvalidConfig, "the URI is not ASCII").caused_by(error))?;
        params.subject_alt_names = vec![SanType::URI(name)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params, subject, validity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validity() -> Validity {
        Validity {
            not_before: Timestamp::from_millis(1_700_000_000_000),
            not_after: Timestamp::from_millis(2_000_000_000_000),
        }
    }

    #[test]
    fn a_request_proves_its_own_key_only() {
        let key = SigningKey::generate_p256();
        let der = certificate_request(&key).unwrap();
        assert_eq!(&check_request(&der).unwrap(), key.public_key());
        let mut forged = der.clone();
        let at = forged.len() - 1;
        forged[at] ^= 1;
        assert!(check_request(&forged).is_err());
        assert!(check_request(&der[..at]).is_err());
        assert!(certificate_request(&SigningKey::generate_ed25519()).is_err());
    }

    #[test]
    fn certificates_carry_their_key_and_one_uri() {
        let key = SigningKey::generate_p256();
        let authority = Authority::create("test CA", SigningKey::generate_p256(), validity()).unwrap();
        let client =
            authority.issue_client(key.public_key(), "bc://example/site/role/node", validity()).unwrap();
        assert_eq!(certificate_uri(&client).unwrap().as_deref(), Some("bc://example/site/role/node"));
        assert_eq!(certificate_spki(&client).unwrap(), key.public_key().spki_der());
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let server = authority.issue_server(key.public_key(), &names, validity()).unwrap();
        assert_eq!(certificate_uri(&server).unwrap(), None);
        let reloaded =
            Authority::load("test CA", SigningKey::generate_p256(), authority.certificate().to_vec());
        assert_eq!(reloaded.unwrap_err().code(), Code::InvalidConfig);
    }

    proptest::proptest! {
        #[test]
        fn reading_never_panics(bytes: Vec<u8>) {
            let _ = check_request(&bytes);
            let _ = certificate_spki(&bytes);
            let _ = certificate_uri(&bytes);
        }
    }
}
