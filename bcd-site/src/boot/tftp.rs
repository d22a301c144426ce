//! One TFTP read transfer, as a machine without sockets, files or clocks.
//!
//! The shell feeds it packets ([`Transfer::handle_packet`]), file contents ([`Transfer::handle_block`]) and the
//! passing of time ([`Transfer::handle_timeout`]), and asks it what to read, what to send and when to come
//! back. A packet that was sent is kept until it is acknowledged, so that what is sent again is the same to
//! the byte, whatever became of the file meanwhile.
//!
//! Sources: RFC 1350, RFC 2347 (options), 2348 (`blksize`), 2349 (`timeout`, `tsize`), 7440 (`windowsize`).

use std::collections::VecDeque;
use std::time::Duration;

use bcd_core::time::Monotonic;

/// The longest request, in bytes (RFC 2347 section 3).
pub const MAX_REQUEST: usize = 512;

/// The longest file name, in bytes.
pub const MAX_NAME: usize = 255;

/// The most options that are read of a request; the rest are ignored, as unknown ones are.
pub const MAX_OPTIONS: usize = 16;

/// The largest block: with its headers it fills an Ethernet frame.
pub const MAX_BLOCK: u16 = 1468;

/// The smallest block that may be asked for (RFC 2348).
const MIN_BLOCK: u16 = 8;

/// The block size without the option.
const DEFAULT_BLOCK: u16 = 512;

/// The largest window, in blocks; a larger wish is cut to it.
pub const MAX_WINDOW: u16 = 16;

/// How often a packet is sent again before the transfer is given up.
pub const MAX_RESENDS: u32 = 5;

/// How long an acknowledgement is waited for, unless the client asks for another time.
pub const RESEND_AFTER: Duration = Duration::from_secs(2);

/// The longest `timeout` that is agreed to, in seconds; a longer wish is left out of the answer.
pub const MAX_TIMEOUT_SECONDS: u8 = 10;

/// TFTP's error codes, as far as they are sent or understood here (RFC 1350 appendix, RFC 2347).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// 0: see the message.
    Undefined,
    /// 1: no such file, or none that may be had.
    NotFound,
    /// 4: not a read in octet mode.
    Illegal,
    /// 5: from a port that has no transfer.
    UnknownId,
}

impl ErrorCode {
    const fn number(self) -> u8 {
        match self {
            Self::Undefined => 0,
            Self::NotFound => 1,
            Self::Illegal => 4,
            Self::UnknownId => 5,
        }
    }

    /// The error packet.
    #[must_use]
    pub fn packet(self, message: &str) -> Vec<u8> {
        let mut packet = vec![0, OP_ERROR, 0, self.number()];
        packet.extend(message.bytes().filter(|&byte| byte != 0));
        packet.push(0);
        packet
    }
}

const OP_READ: u8 = 1;
const OP_WRITE: u8 = 2;
const OP_DATA: u8 = 3;
const OP_ACK: u8 = 4;
const OP_ERROR: u8 = 5;
const OP_OACK: u8 = 6;

/// A read request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// The file's path below the root.
    pub name: FileName,
    options: Options,
}

/// A relative path without `..`, empty parts or control characters: what a client may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName(String);

impl FileName {
    /// From what a client sent: `\` counts as `/`, and slashes at the start don't count.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let path = text.replace('\\', "/");
        let path = path.trim_start_matches('/');
        let is_plain = |part: &str| {
            !part.is_empty() && part != "." && part != ".." && !part.chars().any(char::is_control)
        };
        let fits = path.len() <= MAX_NAME && path.split('/').all(is_plain);
        fits.then(|| Self(path.to_owned()))
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The wishes of a request, each held to what is agreed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options {
    block: Option<u16>,
    size: bool,
    timeout: Option<u8>,
    window: Option<u16>,
}

impl Options {
    /// Takes in one option; an unknown or malformed one is as good as not sent (RFC 2347 section 2).
    fn take(&mut self, name: &str, value: &str) {
        let Ok(number) = value.parse::<u64>() else { return };
        let at_most = |max: u16| u16::try_from(number).unwrap_or(u16::MAX).min(max);
        match name.to_ascii_lowercase().as_str() {
            "blksize" if number >= u64::from(MIN_BLOCK) => self.block = Some(at_most(MAX_BLOCK)),
            "windowsize" if number >= 1 => self.window = Some(at_most(MAX_WINDOW)),
            "timeout" if (1..=u64::from(MAX_TIMEOUT_SECONDS)).contains(&number) => {
                self.timeout = u8::try_from(number).ok();
            }
            "tsize" => self.size = true,
            _ => {}
        }
    }

    /// The option acknowledgement; `None` when no option was agreed to.
    fn acknowledge(self, size: u64) -> Option<Vec<u8>> {
        let mut packet = vec![0, OP_OACK];
        let mut add = |name: &str, value: u64| {
            packet.extend_from_slice(name.as_bytes());
            packet.push(0);
            packet.extend_from_slice(value.to_string().as_bytes());
            packet.push(0);
        };
        if let Some(block) = self.block {
            add("blksize", u64::from(block));
        }
        if self.size {
            add("tsize", size);
        }
        if let Some(timeout) = self.timeout {
            add("timeout", u64::from(timeout));
        }
        if let Some(window) = self.window {
            add("windowsize", u64::from(window));
        }
        (packet.len() > 2).then_some(packet)
    }
}

/// What the first packet of a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A file.
    Read(ReadRequest),
    /// Something that is answered with this error.
    Refuse(ErrorCode, &'static str),
    /// Nothing that deserves an answer.
    Ignore,
}

/// Reads the first packet of a client.
#[must_use]
pub fn read_opening(packet: &[u8]) -> Opening {
    if packet.len() > MAX_REQUEST {
        return Opening::Ignore;
    }
    let body = match packet {
        [0, OP_READ, body @ ..] => body,
        [0, OP_WRITE, ..] => return Opening::Refuse(ErrorCode::Illegal, "this server is read-only"),
        [0, OP_DATA | OP_ACK | OP_OACK, ..] => {
            return Opening::Refuse(ErrorCode::UnknownId, "no such transfer");
        }
        _ => return Opening::Ignore,
    };
    let mut texts = body.split_inclusive(|&byte| byte == 0).map(|text| {
        let text = text.strip_suffix(&[0])?;
        std::str::from_utf8(text).ok()
    });
    let (Some(Some(name)), Some(Some(mode))) = (texts.next(), texts.next()) else {
        return Opening::Refuse(ErrorCode::Illegal, "malformed request");
    };
    if !mode.eq_ignore_ascii_case("octet") {
        return Opening::Refuse(ErrorCode::Illegal, "only octet mode is served");
    }
    let Some(name) = FileName::parse(name) else {
        return Opening::Refuse(ErrorCode::NotFound, "file not found");
    };
    let mut options = Options::default();
    for _ in 0..MAX_OPTIONS {
        let (Some(Some(name)), Some(Some(value))) = (texts.next(), texts.next()) else { break };
        options.take(name, value);
    }
    Opening::Read(ReadRequest { name, options })
}

/// How a transfer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every byte was acknowledged.
    Done,
    /// The client only wanted to know the size: firmware asks with `tsize`, breaks off, and asks anew.
    Probed,
    /// The client broke off with this error code.
    Aborted(u16),
    /// Nothing was acknowledged for [`MAX_RESENDS`] repetitions.
    TimedOut,
}

/// A part of the file to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAt {
    /// From this byte on.
    pub offset: u64,
    /// Exactly this many bytes; none for the empty block that ends a file of whole blocks.
    pub len: usize,
}

/// A transfer of one file to one client.
#[derive(Debug)]
pub struct Transfer {
    size: u64,
    block: u64,
    window: u64,
    resend_after: Duration,
    /// Blocks up to this one are acknowledged; the option acknowledgement counts as block 0.
    acked: u64,
    /// The packets after it that were made already, in order.
    unacked: VecDeque<Vec<u8>>,
    /// How many of those need no sending at the moment.
    sent: usize,
    negotiating: bool,
    resends: u32,
    deadline: Monotonic,
    outcome: Option<Outcome>,
}

impl Transfer {
    /// Begins to send a file of `size` bytes.
    #[must_use]
    pub fn new(request: &ReadRequest, size: u64, now: Monotonic) -> Self {
        let options = request.options;
        let resend_after = options.timeout.map_or(RESEND_AFTER, |s| Duration::from_secs(u64::from(s)));
        let oack = options.acknowledge(size);
        Self {
            size,
            block: u64::from(options.block.unwrap_or(DEFAULT_BLOCK)),
            window: u64::from(options.window.unwrap_or(1)),
            resend_after,
            acked: 0,
            negotiating: oack.is_some(),
            unacked: oack.into_iter().collect(),
            sent: 0,
            resends: 0,
            deadline: now.saturating_add(resend_after),
            outcome: None,
        }
    }

    /// How it ended, once it has.
    #[must_use]
    pub const fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub const fn poll_timeout(&self) -> Monotonic {
        self.deadline
    }

    /// The next part of the file it needs, to be given to [`Self::handle_block`].
    #[must_use]
    pub fn poll_read(&self) -> Option<ReadAt> {
        let made = u64::try_from(self.unacked.len()).unwrap_or(u64::MAX);
        let next = self.acked.saturating_add(made).saturating_add(1);
        if self.outcome.is_some() || self.negotiating || made >= self.window || next > self.last_block() {
            return None;
        }
        let offset = (next - 1).saturating_mul(self.block);
        let len = self.block.min(self.size.saturating_sub(offset));
        Some(ReadAt { offset, len: usize::try_from(len).unwrap_or(0) })
    }

    /// Takes in the part that [`Self::poll_read`] asked for.
    pub fn handle_block(&mut self, data: &[u8]) {
        let made = u64::try_from(self.unacked.len()).unwrap_or(u64::MAX);
        let number = wire_number(self.acked.saturating_add(made).saturating_add(1));
        let mut packet = vec![0, OP_DATA];
        packet.extend_from_slice(&number.to_be_bytes());
        packet.extend_from_slice(data);
        self.unacked.push_back(packet);
    }

    /// The next packet to send.
    pub fn poll_transmit(&mut self) -> Option<&[u8]> {
        if self.outcome.is_some() {
            return None;
        }
        let packet = self.unacked.get(self.sent)?;
        self.sent += 1;
        Some(packet)
    }

    /// Takes in a packet of the client.
    pub fn handle_packet(&mut self, packet: &[u8], now: Monotonic) {
        if self.outcome.is_some() {
            return;
        }
        match *packet {
            [0, OP_ACK, high, low, ..] => self.handle_ack(u16::from_be_bytes([high, low]), now),
            [0, OP_ERROR, high, low, ..] => {
                let code = u16::from_be_bytes([high, low]);
                let probed = self.negotiating && matches!(code, 0 | 8);
                self.outcome = Some(if probed { Outcome::Probed } else { Outcome::Aborted(code) });
            }
            _ => {}
        }
    }

    /// Takes in that it is `now`: sends again what is not acknowledged in time, and gives up in the end.
    pub fn handle_timeout(&mut self, now: Monotonic) {
        if self.outcome.is_some() || now < self.deadline {
            return;
        }
        if self.resends == MAX_RESENDS {
            self.outcome = Some(Outcome::TimedOut);
            return;
        }
        self.resends += 1;
        self.sent = 0;
        self.deadline = now.saturating_add(self.resend_after);
    }

    /// The number of the block that ends the file: the first that isn't full.
    const fn last_block(&self) -> u64 {
        (self.size / self.block).saturating_add(1)
    }

    fn handle_ack(&mut self, number: u16, now: Monotonic) {
        if self.negotiating {
            if number == 0 {
                self.negotiating = false;
                self.unacked.clear();
                self.progress(now);
            }
            return;
        }
        // Block numbers wrap at 16 bits, and a window is far shorter than that: one packet at most has it.
        // An acknowledgement of what is acknowledged already is a duplicate and asks for nothing, or else
        // every packet would be doubled from then on.
        let ahead = usize::from(number.wrapping_sub(wire_number(self.acked)));
        if ahead == 0 || ahead > self.unacked.len() {
            return;
        }
        self.unacked.drain(..ahead);
        self.acked = self.acked.saturating_add(u64::try_from(ahead).unwrap_or(0));
        if self.acked == self.last_block() {
            self.outcome = Some(Outcome::Done);
        }
        self.progress(now);
    }

    /// Something was acknowledged: the window goes on behind it, with what it already holds sent again
    /// (RFC 7440 section 4).
    fn progress(&mut self, now: Monotonic) {
        self.sent = 0;
        self.resends = 0;
        self.deadline = now.saturating_add(self.resend_after);
    }
}

/// A block's number on the wire: it wraps to 0 after 65,535.
const fn wire_number(block: u64) -> u16 {
    let [.., high, low] = block.to_be_bytes();
    u16::from_be_bytes([high, low])
}

#[cfg(test)]
#[path = "tftp_tests.rs"]
mod tests;
