//! The one door to rustls: every TLS configuration of the project is made here.
//!
//! The crypto provider is passed explicitly and nothing process-wide is installed. Three ways to trust a
//! server: [`Trust::CaPin`] (a gateway: the chain's element with the pinned key becomes the only anchor),
//! [`Trust::LeafPin`] (a BMC: the server's own key is pinned), [`Trust::SystemRoots`] (an image server).

mod pinned;

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

pub use pinned::LearnedPin;

use crate::error::{Error, Result};
use crate::key::SigningKey;
use crate::pin::Pin;
use crate::reason;

/// A certificate chain, leaf first, with the leaf's key.
#[derive(Clone, Copy, Debug)]
pub struct Credential<'a> {
    /// DER certificates.
    pub chain: &'a [Vec<u8>],
    /// The leaf's key.
    pub key: &'a SigningKey,
}

/// What makes a server the right one.
#[derive(Clone, Debug)]
pub enum Trust {
    /// A CA in the chain that the server sends has this key; TLS 1.3 only.
    CaPin(Pin),
    /// The server's own key; TLS 1.2 or later. Names and dates of its certificate do not count.
    LeafPin(Pin),
    /// Any key: it is learned, and nothing secret may be sent before it was looked at; TLS 1.2 or later.
    Learn(LearnedPin),
    /// The system's roots (`SSL_CERT_FILE` is honoured); TLS 1.2 or later.
    SystemRoots,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn unusable(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::internal(format!("{what} can't be used for TLS")).caused_by(error)
}

fn chain(certificates: &[Vec<u8>]) -> Vec<CertificateDer<'static>> {
    certificates.iter().map(|der| CertificateDer::from(der.clone())).collect()
}

fn private_key(key: &SigningKey) -> Result<PrivateKeyDer<'static>> {
    let der = key.to_pkcs8_der().map_err(|error| unusable("the key", error))?;
    Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der.to_vec())))
}

/// A client's configuration.
///
/// # Errors
/// `INTERNAL` when the credential or the system's roots can't be used.
pub fn client(
    trust: &Trust,
    credential: Option<Credential<'_>>,
    alpn: &[&[u8]],
) -> Result<Arc<ClientConfig>> {
    const ONLY_13: &[&SupportedProtocolVersion] = &[&TLS13];
    const FROM_12: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
    let provider = provider();
    let versions = if matches!(trust, Trust::CaPin(_)) { ONLY_13 } else { FROM_12 };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(|error| unusable("the crypto provider", error))?;
    let builder = match trust {
        Trust::CaPin(pin) => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(pinned::CaPin::new(*pin, provider)))
        }
        Trust::LeafPin(pin) => builder.dangerous().with_custom_certificate_verifier(Arc::new(
            pinned::LeafPin::new(Some(*pin), LearnedPin::default(), provider),
        )),
        Trust::Learn(learned) => builder.dangerous().with_custom_certificate_verifier(Arc::new(
            pinned::LeafPin::new(None, learned.clone(), provider),
        )),
        Trust::SystemRoots => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| unusable("the system's root certificates", error))?;
            builder.with_webpki_verifier(verifier)
        }
    };
    let mut config = match credential {
        Some(Credential { chain: certificates, key }) => builder
            .with_client_auth_cert(chain(certificates), private_key(key)?)
            .map_err(|error| unusable("the certificate", error))?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// A server's configuration, TLS 1.3 only. With `client_ca` clients may show a certificate under it, and need not.
///
/// # Errors
/// `INTERNAL` when the credential or the CA can't be used.
pub fn server(
    credential: Credential<'_>,
    client_ca: Option<&[u8]>,
    alpn: &[&[u8]],
) -> Result<Arc<ServerConfig>> {
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| unusable("the crypto provider", error))?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from(ca.to_vec())).map_err(|error| unusable("the client CA", error))?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| unusable("the client CA", error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain(credential.chain), private_key(credential.key)?)
        .map_err(|error| unusable("the certificate", error))?;
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    config.max_early_data_size = 0;
    Ok(Arc::new(config))
}

/// What a failed handshake means: `FORBIDDEN` with reason `pin-mismatch` when the pinned key was not met,
/// `UNAVAILABLE` with reason `tls` otherwise.
#[must_use]
pub fn handshake_error(error: std::io::Error, peer: &str) -> Error {
    let mismatch = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some_and(
        |error| matches!(error, rustls::Error::InvalidCertificate(reason) if pinned::is_mismatch(reason)),
    );
    if mismatch {
        return Error::forbidden(reason::PIN_MISMATCH, format!("the key of {peer} is not the pinned one"))
            .caused_by(error);
    }
    Error::unavailable(format!("the TLS handshake with {peer} failed")).because(reason::TLS).caused_by(error)
}

#[cfg(test)]
mod tests;
