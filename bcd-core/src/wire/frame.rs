//! Frames of the session: a 4-byte big-endian length, then so many bytes of JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Code, Error, Result};
use crate::{reason, strict_json};

/// The largest frame, in bytes of JSON.
pub const MAX_FRAME: usize = 4 * 1024 * 1024;
/// The bytes of the length.
const HEADER: usize = 4;

/// Cuts a stream of bytes, in whatever pieces it comes, into frames.
///
/// It holds at most one frame and the piece that was pushed last.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    at: usize,
}

impl Decoder {
    /// With nothing pushed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the next bytes of the stream. Call [`Decoder::next_frame`] until it has nothing, between pushes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame's JSON, when it has arrived.
    ///
    /// # Errors
    /// `INVALID_INPUT` with reason `malformed` for a frame of no or too many bytes. The stream is of no use then.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>> {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        let Some((header, body)) = rest.split_first_chunk::<HEADER>() else { return Ok(None) };
        let len = usize::try_from(u32::from_be_bytes(*header)).unwrap_or(usize::MAX);
        if len == 0 || len > MAX_FRAME {
            return Err(Error::new(
                Code::InvalidInput,
                format!("a frame has 1 to {MAX_FRAME} bytes, this one {len}"),
            )
            .because(reason::MALFORMED));
        }
        let Some(frame) = body.get(..len) else { return Ok(None) };
        self.at += HEADER + len;
        Ok(Some(frame))
    }

    /// The next whole frame, parsed.
    ///
    /// # Errors
    /// As [`Decoder::next_frame`]; also when it is not a message of this kind.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let Some(frame) = self.next_frame()? else { return Ok(None) };
        strict_json::from_slice(frame).map(Some).map_err(|error| {
            Error::new(Code::InvalidInput, "a message does not parse")
                .because(reason::MALFORMED)
                .caused_by(error)
        })
    }
}

/// A message as a frame.
///
/// # Errors
/// `INVALID_INPUT` when it is too large or has no JSON form.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>> {
    let mut frame = vec![0; HEADER];
    serde_json::to_writer(&mut frame, message)
        .map_err(|error| Error::new(Code::InvalidInput, "the message has no JSON form").caused_by(error))?;
    let len = frame.len() - HEADER;
    match u32::try_from(len) {
        Ok(prefix) if len <= MAX_FRAME => {
            if let Some(header) = frame.first_chunk_mut() {
                *header = prefix.to_be_bytes();
            }
            Ok(frame)
        }
        _ => Err(Error::new(
            Code::InvalidInput,
            format!("a message of {len} bytes is too large: at most {MAX_FRAME}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn frames_have_bounds() {
        for bad in [0, u32::try_from(MAX_FRAME).unwrap() + 1, u32::MAX] {
            let mut decoder = Decoder::new();
            decoder.push(&bad.to_be_bytes());
            assert_eq!(decoder.next_frame().unwrap_err().reason(), Some("malformed"));
        }
        let fits = "x".repeat(MAX_FRAME - 2);
        let mut decoder = Decoder::new();
        decoder.push(&encode(&fits).unwrap());
        assert_eq!(decoder.next_message::<String>().unwrap(), Some(fits.clone()));
        assert!(encode(&(fits + "x")).is_err());
    }

    #[test]
    fn a_message_of_another_shape_is_an_error() {
        let mut decoder = Decoder::new();
        decoder.push(&encode(&json!({"a": 1})).unwrap());
        assert_eq!(decoder.next_message::<String>().unwrap_err().reason(), Some("malformed"));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_messages(texts in prop::collection::vec(".{0,40}", 0..8), cuts in prop::collection::vec(1_usize..16, 1..40)) {
            let stream: Vec<u8> = texts.iter().flat_map(|text| encode(text).unwrap()).collect();
            let (mut decoder, mut seen, mut at) = (Decoder::new(), Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                if at >= stream.len() { break }
                let end = (at + cut).min(stream.len());
                decoder.push(&stream[at..end]);
                at = end;
                while let Some(Value::String(text)) = decoder.next_message().unwrap() { seen.push(text); }
            }
            prop_assert_eq!(seen, texts);
        }

        #[test]
        fn decoding_never_panics(bytes: Vec<u8>) {
            let mut decoder = Decoder::new();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next_message::<Value>() {}
        }
    }
}
