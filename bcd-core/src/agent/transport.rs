//! The agent's connections to its gateway: TLS 1.3 to the pinned serving CA, and HTTP/2.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::config::AgentConfig;
use super::identity::Identity;
use crate::error::{Error, Result};
use crate::stream::{FrameBody, FrameReceiver, FrameSender, frame_body};
use crate::tls;
use crate::wire::session::SESSION_PATH;

type Body = Either<Full<Bytes>, FrameBody>;

/// A whole answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

async fn connect(config: &AgentConfig, identity: Option<&Identity>) -> Result<SendRequest<Body>> {
    let gateway = &config.gateway;
    let stream = TcpStream::connect((gateway.host(), gateway.port())).await.map_err(|error| {
        Error::unavailable(format!("can't reach the gateway at {}", gateway.authority())).caused_by(error)
    })?;
    stream.set_nodelay(true).map_err(|error| Error::unavailable("the connection broke").caused_by(error))?;
    let credential =
        identity.map(|identity| tls::Credential { chain: &identity.certificates, key: &identity.key });
    let client = tls::client(&tls::Trust::CaPin(config.pins.serving_ca), credential, &[b"h2"])?;
    let name = ServerName::try_from(gateway.server_name().to_owned()).map_err(|error| {
        Error::invalid_config("gateway_server_name", "not a name or an address").caused_by(error)
    })?;
    let stream = TlsConnector::from(client)
        .connect(name, stream)
        .await
        .map_err(|error| tls::handshake_error(error, &format!("the gateway at {}", gateway.authority())))?;
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .map_err(|error| Error::unavailable("the gateway does not speak HTTP/2").caused_by(error))?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("connection ended: {error}");
        }
    });
    Ok(sender)
}

fn broken(error: hyper::Error) -> Error {
    Error::unavailable("the connection to the gateway broke").caused_by(error)
}

fn build(config: &AgentConfig, method: &str, path: &str, body: Body) -> Result<hyper::Request<Body>> {
    hyper::Request::builder()
        .method(method)
        .uri(format!("{}{path}", config.gateway.origin()))
        .header("content-type", "application/json")
        .body(body)
        .map_err(|error| Error::internal("the request can't be built").caused_by(error))
}

/// One request without a client certificate, with an answer of at most `max` bytes. Redirects are answers.
pub(super) async fn request(
    config: &AgentConfig,
    method: &str,
    path: &str,
    body: Option<Vec<u8>>,
    max: usize,
) -> Result<Answer> {
    let mut sender = connect(config, None).await?;
    let body = Full::new(Bytes::from(body.unwrap_or_default()));
    let response =
        sender.send_request(build(config, method, path, Either::Left(body))?).await.map_err(broken)?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), max).collect().await.map_err(|error| {
        Error::unavailable(format!("the gateway's answer broke off or has more than {max} bytes"))
            .caused_by(error)
    })?;
    Ok(Answer { status, body: body.to_bytes().to_vec() })
}

/// A session's two directions.
pub(super) struct Link {
    pub(super) sender: FrameSender,
    pub(super) receiver: FrameReceiver<Incoming>,
    // The connection ends when its last handle is dropped.
    _connection: SendRequest<Body>,
}

/// Opens a session's stream with the node's certificate.
pub(super) async fn session(config: &AgentConfig, identity: &Identity) -> Result<Link> {
    let mut connection = connect(config, Some(identity)).await?;
    let (sender, body) = frame_body();
    let response = connection
        .send_request(build(config, "POST", SESSION_PATH, Either::Right(body))?)
        .await
        .map_err(broken)?;
    let status = response.status();
    if status != hyper::StatusCode::OK {
        let body = Limited::new(response.into_body(), 16 * 1024)
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        return Err(match serde_json::from_slice::<crate::error::ErrorBody>(&body) {
            Ok(body) => body.into(),
            Err(_) => Error::unavailable(format!("the gateway answered {status} to a session")),
        });
    }
    Ok(Link { sender, receiver: FrameReceiver::new(response.into_body()), _connection: connection })
}
