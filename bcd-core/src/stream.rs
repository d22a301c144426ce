//! A body that is sent as it comes: one direction of a session over HTTP/2.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::error::{Error, Result};
use crate::wire::frame::{Decoder, encode};

/// Encoded frames that wait in the body; HTTP/2's own flow control holds back the rest.
const QUEUE: usize = 16;

/// The sending end: drop it to end the body.
#[derive(Debug)]
pub struct FrameSender(mpsc::Sender<Bytes>);

/// The body that an HTTP connection sends.
#[derive(Debug)]
pub struct FrameBody(mpsc::Receiver<Bytes>);

/// A body and the end that feeds it.
#[must_use]
pub fn frame_body() -> (FrameSender, FrameBody) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (FrameSender(sender), FrameBody(receiver))
}

impl FrameSender {
    /// Whether [`FrameSender::send`] has room for a frame.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.0.capacity() > 0
    }

    /// Returns once there is room.
    pub async fn room(&self) {
        let _ = self.0.reserve().await;
    }

    /// Queues one frame.
    ///
    /// # Errors
    /// `UNAVAILABLE` when the connection has ended or there is no room; `INVALID_INPUT` for a frame too large.
    pub fn send<T: Serialize>(&self, message: &T) -> Result<()> {
        self.0.try_send(Bytes::from(encode(message)?)).map_err(|error| {
            Error::unavailable(match error {
                mpsc::error::TrySendError::Full(_) => "the peer takes frames too slowly",
                mpsc::error::TrySendError::Closed(_) => "the connection has ended",
            })
        })
    }
}

impl Body for FrameBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// The receiving end of a session: messages out of a body.
#[derive(Debug)]
pub struct FrameReceiver<B> {
    body: B,
    decoder: Decoder,
}

impl<B: Body<Data = Bytes> + Unpin> FrameReceiver<B>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Reads messages out of `body`.
    pub fn new(body: B) -> Self {
        Self { body, decoder: Decoder::new() }
    }

    /// The next message; nothing at the end of the body. May be dropped and called again without losing any.
    ///
    /// # Errors
    /// `INVALID_INPUT` with reason `malformed`; `UNAVAILABLE` when the connection breaks.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        use http_body_util::BodyExt as _;
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(Some(message));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(Error::unavailable("the connection broke").caused_by(error)),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.decoder.push(&bytes);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_pass_in_order_and_the_queue_has_a_bound() {
        let (sender, body) = frame_body();
        for n in 0..QUEUE {
            assert!(sender.has_room());
            sender.send(&n).unwrap();
        }
        assert!(!sender.has_room() && sender.send(&0).is_err());
        let mut receiver = FrameReceiver::new(body);
        for n in 0..QUEUE {
            assert_eq!(receiver.next::<usize>().await.unwrap(), Some(n));
        }
        drop(sender);
        assert_eq!(receiver.next::<usize>().await.unwrap(), None);
    }
}
