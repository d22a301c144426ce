//! Real handshakes over a pipe: who is let in, and what a refusal says.

use std::sync::Arc;

use rustls_pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::time::{Clock as _, SystemClock, Timestamp};
use crate::x509::{Authority, Validity};

const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

fn now() -> Timestamp {
    SystemClock::new().now()
}

fn valid() -> Validity {
    Validity { not_before: now().saturating_sub(DAY), not_after: now().saturating_add(DAY) }
}

struct Server {
    ca: Authority,
    key: SigningKey,
    chain: Vec<Vec<u8>>,
}

fn server_for(name: &str, validity: Validity) -> Server {
    let ca = Authority::create("serving", SigningKey::generate_p256(), valid()).unwrap();
    let key = SigningKey::generate_p256();
    let leaf = ca.issue_server(key.public_key(), &[name.to_owned()], validity).unwrap();
    let chain = vec![leaf, ca.certificate().to_vec()];
    Server { ca, key, chain }
}

/// The client's error, and whether the server saw a client certificate.
async fn shake(
    server: &Server,
    client_ca: Option<&[u8]>,
    trust: Trust,
    credential: Option<Credential<'_>>,
) -> (Option<Error>, bool) {
    let config =
        super::server(Credential { chain: &server.chain, key: &server.key }, client_ca, &[b"h2"]).unwrap();
    let client = client(&trust, credential, &[b"h2"]).unwrap();
    let (a, b) = tokio::io::duplex(16 * 1024);
    let accept = TlsAcceptor::from(config).accept(a);
    let connect = async {
        use tokio::io::AsyncReadExt as _;
        let mut stream =
            TlsConnector::from(client).connect(ServerName::try_from("gw.example").unwrap(), b).await?;
        // In TLS 1.3 a server's verdict on the client's certificate arrives after the handshake.
        stream.read(&mut [0]).await.map(drop)
    };
    let accepted = async {
        let mut stream = accept.await.ok()?;
        let shown = stream.get_ref().1.peer_certificates().is_some();
        tokio::io::AsyncWriteExt::shutdown(&mut stream).await.ok()?;
        Some(shown)
    };
    let (accepted, connected) = tokio::join!(accepted, connect);
    (connected.err().map(|error| handshake_error(error, "gw")), accepted.unwrap_or(false))
}

fn ca_pin(server: &Server) -> Trust {
    Trust::CaPin(Pin::of(server.ca.public_key()))
}

#[tokio::test]
async fn the_pinned_ca_lets_its_server_in() {
    let server = server_for("gw.example", valid());
    assert!(shake(&server, None, ca_pin(&server), None).await.0.is_none());
}

#[tokio::test]
async fn another_key_name_or_time_is_refused() {
    let server = server_for("gw.example", valid());
    let leaf_as_ca = Trust::CaPin(Pin::of(server.key.public_key()));
    for trust in [Trust::CaPin(Pin::of_spki_der(b"other")), leaf_as_ca] {
        assert_eq!(shake(&server, None, trust, None).await.0.unwrap().reason(), Some("pin-mismatch"));
    }
    let lapsed = Validity { not_before: now().saturating_sub(2 * DAY), not_after: now().saturating_sub(DAY) };
    for server in [server_for("other.example", valid()), server_for("gw.example", lapsed)] {
        assert_eq!(shake(&server, None, ca_pin(&server), None).await.0.unwrap().reason(), Some("tls"));
    }
    // A server that shows the pinned CA's certificate without being under it.
    let (real, mut impostor) = (server_for("gw.example", valid()), server_for("gw.example", valid()));
    impostor.chain[1] = real.ca.certificate().to_vec();
    assert_eq!(shake(&impostor, None, ca_pin(&real), None).await.0.unwrap().reason(), Some("tls"));
}

#[tokio::test]
async fn a_leaf_pin_holds_the_server_s_own_key() {
    let server = server_for("bmc", valid());
    let good = Trust::LeafPin(Pin::of(server.key.public_key()));
    assert!(shake(&server, None, good, None).await.0.is_none());
    let bad = Trust::LeafPin(Pin::of(server.ca.public_key()));
    assert_eq!(shake(&server, None, bad, None).await.0.unwrap().reason(), Some("pin-mismatch"));
    let learned = LearnedPin::default();
    assert!(shake(&server, None, Trust::Learn(learned.clone()), None).await.0.is_none());
    assert_eq!(learned.get(), Some(Pin::of(server.key.public_key())));
}

#[tokio::test]
async fn a_client_certificate_is_optional_and_must_be_of_the_ca() {
    let server = server_for("gw.example", valid());
    let identity = Authority::create("identity", SigningKey::generate_p256(), valid()).unwrap();
    let key = SigningKey::generate_p256();
    let chain = |ca: &Authority| vec![ca.issue_client(key.public_key(), "bc://d/s/node/n", valid()).unwrap()];
    let good = chain(&identity);
    let credential = Some(Credential { chain: &good, key: &key });
    let (error, shown) = shake(&server, Some(identity.certificate()), ca_pin(&server), credential).await;
    assert!(error.is_none() && shown);
    let (error, shown) = shake(&server, Some(identity.certificate()), ca_pin(&server), None).await;
    assert!(error.is_none() && !shown);
    let other = Authority::create("identity", SigningKey::generate_p256(), valid()).unwrap();
    let forged = chain(&other);
    let credential = Some(Credential { chain: &forged, key: &key });
    assert!(shake(&server, Some(identity.certificate()), ca_pin(&server), credential).await.0.is_some());
}

#[test]
fn system_roots_make_a_configuration() {
    assert!(Arc::strong_count(&client(&Trust::SystemRoots, None, &[]).unwrap()) == 1);
}
