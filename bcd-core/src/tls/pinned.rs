//! Verifiers that hold a server against a pin.
//!
//! Neither replaces what rustls does with the handshake's signature: a peer must prove that it has the key
//! whose certificate it shows.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::pin::Pin;
use crate::x509;

/// Certificates of a chain that are looked at.
const MAX_CHAIN: usize = 8;

#[derive(Debug, thiserror::Error)]
#[error("no key in the server's chain is the pinned one")]
struct PinMismatch;

fn mismatch() -> rustls::Error {
    rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(PinMismatch))))
}

pub(super) fn is_mismatch(reason: &CertificateError) -> bool {
    matches!(reason, CertificateError::Other(OtherError(inner)) if inner.is::<PinMismatch>())
}

fn pin_of(certificate: &CertificateDer<'_>) -> Option<Pin> {
    x509::certificate_spki(certificate).ok().map(|spki| Pin::of_spki_der(&spki))
}

/// A server under a CA with the pinned key, which it sends along.
#[derive(Debug)]
pub(super) struct CaPin {
    pin: Pin,
    provider: Arc<CryptoProvider>,
}

impl CaPin {
    pub(super) const fn new(pin: Pin, provider: Arc<CryptoProvider>) -> Self {
        Self { pin, provider }
    }
}

impl ServerCertVerifier for CaPin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let anchor =
            intermediates.iter().take(MAX_CHAIN).find(|certificate| pin_of(certificate) == Some(self.pin));
        let mut roots = RootCertStore::empty();
        roots.add(anchor.ok_or_else(mismatch)?.clone().into_owned())?;
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone())
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Where the key of a server that is trusted on first use is noted; clones share the note.
#[derive(Clone, Debug, Default)]
pub struct LearnedPin(Arc<Mutex<Option<Pin>>>);

impl LearnedPin {
    /// The pin of the server of the last handshake.
    #[must_use]
    pub fn get(&self) -> Option<Pin> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, pin: Pin) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(pin);
    }
}

/// A server whose own key is pinned, or learned.
#[derive(Debug)]
pub(super) struct LeafPin {
    pin: Option<Pin>,
    learned: LearnedPin,
    provider: Arc<CryptoProvider>,
}

impl LeafPin {
    pub(super) const fn new(pin: Option<Pin>, learned: LearnedPin, provider: Arc<CryptoProvider>) -> Self {
        Self { pin, learned, provider }
    }
}

impl ServerCertVerifier for LeafPin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let met =
            pin_of(end_entity).ok_or(rustls::Error::InvalidCertificate(CertificateError::BadEncoding))?;
        self.learned.set(met);
        if self.pin.is_none_or(|pin| pin == met) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(mismatch())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
