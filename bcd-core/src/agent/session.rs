//! The agent's end of a session, as a pure machine.
//!
//! Frames from the gateway go into [`AgentSession::handle_frame`], the passing of time into
//! [`AgentSession::handle_timeout`]; what is to be sent comes out of [`AgentSession::poll_frame`], what the
//! agent is to do out of [`AgentSession::poll_event`]. Call the polls until they have nothing, then wait until
//! [`AgentSession::poll_timeout`] at the latest.

use std::collections::VecDeque;
use std::time::Duration;

use crate::error::{Code, Error, Result};
use crate::id::{CommandId, EntryId, SessionId};
use crate::reason;
use crate::secret::Secret;
use crate::time::{Monotonic, Timestamp};
use crate::wire::command::{Progress, SignedCommand};
use crate::wire::session::{
    AgentFrame, GatewayFrame, Hello, MAX_QUEUED_FRAMES, MAX_SECRET_REQUESTS, SecretGrant,
};
use crate::wire::spec::{BootLease, SignedSpec};

/// How long a gateway may take to say `welcome`.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// Heartbeats that may stay without an answer before the session is given up.
const MAX_UNANSWERED: usize = 3;
/// The heartbeat intervals a gateway may ask for.
const HEARTBEAT_RANGE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// What the agent is to do.
#[derive(Debug)]
pub enum SessionEvent {
    /// The session stands.
    Welcome {
        /// Its id.
        session_id: SessionId,
        /// The control plane's time.
        server_time: Timestamp,
    },
    /// The gateway answered the heartbeat that was sent at `sent`: what silence is counted from.
    Heard {
        /// When the heartbeat was sent.
        sent: Monotonic,
        /// The control plane's time.
        server_time: Timestamp,
    },
    /// A command, not verified yet.
    Command(Box<SignedCommand>),
    /// Stop this command.
    Cancel(CommandId),
    /// This result is stored.
    ResultStored(CommandId),
    /// The answer to a secret request; none when it is forbidden.
    Secret {
        /// What [`AgentSession::request_secret`] returned.
        request_id: u64,
        /// The secret.
        secret: Option<Secret>,
    },
    /// A spec, not verified yet.
    Spec(Box<SignedSpec>),
    /// The site's boot lease.
    BootLease(BootLease),
    /// A machine joined with this entry.
    BootEntryConsumed(EntryId),
    /// The gateway ended the session.
    Goodbye(String),
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// `hello` was sent at this time.
    Greeting {
        since: Monotonic,
    },
    Open {
        every: Duration,
        next: Monotonic,
    },
    Closed,
}

/// The agent's end of one connection.
#[derive(Debug)]
pub struct AgentSession {
    state: State,
    seq: u64,
    unanswered: VecDeque<(u64, Monotonic)>,
    next_request: u64,
    open_requests: Vec<u64>,
    status_seq: u64,
    frames: VecDeque<AgentFrame>,
    events: VecDeque<SessionEvent>,
}

impl AgentSession {
    /// Begins with `hello`.
    #[must_use]
    pub fn new(hello: Hello, now: Monotonic) -> Self {
        Self {
            state: State::Greeting { since: now },
            seq: 0,
            unanswered: VecDeque::new(),
            next_request: 0,
            open_requests: Vec::new(),
            status_seq: 0,
            frames: VecDeque::from([AgentFrame::Hello(hello)]),
            events: VecDeque::new(),
        }
    }

    /// Whether the gateway has said `welcome`, and not `goodbye` since.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Takes in a frame.
    ///
    /// # Errors
    /// `INVALID_INPUT` when the gateway breaks the protocol; the session is of no use then.
    pub fn handle_frame(&mut self, frame: GatewayFrame, now: Monotonic) -> Result<()> {
        let broken = |message: &str| {
            Err(Error::new(Code::InvalidInput, format!("the gateway {message}")).because(reason::MALFORMED))
        };
        match (&self.state, frame) {
            (State::Closed, _) => return broken("sent a frame after goodbye"),
            (State::Greeting { .. }, GatewayFrame::Welcome { session_id, heartbeat_ms, server_time }) => {
                let every = Duration::from_millis(heartbeat_ms).clamp(HEARTBEAT_RANGE.0, HEARTBEAT_RANGE.1);
                self.state = State::Open { every, next: now };
                self.events.push_back(SessionEvent::Welcome { session_id, server_time });
            }
            (_, GatewayFrame::Goodbye { reason }) => {
                self.state = State::Closed;
                self.events.push_back(SessionEvent::Goodbye(reason.chars().take(64).collect()));
            }
            (State::Greeting { .. }, _) => return broken("sent a frame before welcome"),
            (State::Open { .. }, frame) => return self.handle_open(frame),
        }
        Ok(())
    }

    fn handle_open(&mut self, frame: GatewayFrame) -> Result<()> {
        let broken = |message: &str| {
            Err(Error::new(Code::InvalidInput, format!("the gateway {message}")).because(reason::MALFORMED))
        };
        let event = match frame {
            GatewayFrame::Welcome { .. } => return broken("said welcome twice"),
            GatewayFrame::HeartbeatAck { seq, server_time } => {
                // An answer to a later heartbeat answers those before it.
                let answered = self.unanswered.iter().position(|(sent, _)| *sent == seq);
                match answered.and_then(|at| self.unanswered.drain(..=at).next_back()) {
                    Some((_, sent)) => SessionEvent::Heard { sent, server_time },
                    None => return broken("answered a heartbeat that was not sent"),
                }
            }
            GatewayFrame::SecretResponse { request_id, secret } => {
                let Some(at) = self.open_requests.iter().position(|open| *open == request_id) else {
                    return broken("sent a secret nobody asked for");
                };
                self.open_requests.swap_remove(at);
                let secret = secret.and_then(crate::wire::session::SecretText::into_secret);
                SessionEvent::Secret { request_id, secret }
            }
            GatewayFrame::ResultAck { command_id } => SessionEvent::ResultStored(command_id),
            GatewayFrame::Command(command) => SessionEvent::Command(command),
            GatewayFrame::CommandCancel { command_id } => SessionEvent::Cancel(command_id),
            GatewayFrame::Spec(spec) => SessionEvent::Spec(spec),
            GatewayFrame::BootLease(lease) => SessionEvent::BootLease(lease),
            GatewayFrame::BootEntryConsumed { entry_id } => SessionEvent::BootEntryConsumed(entry_id),
            GatewayFrame::StatusAck { .. }
            | GatewayFrame::InventoryAck { .. }
            | GatewayFrame::Certificate { .. }
            | GatewayFrame::Goodbye { .. } => return Ok(()),
        };
        self.events.push_back(event);
        Ok(())
    }

    /// Sends the heartbeat that is due; gives a dead session up.
    ///
    /// # Errors
    /// `TIMEOUT` when the gateway did not say `welcome`, or left three heartbeats unanswered.
    pub fn handle_timeout(&mut self, now: Monotonic) -> Result<()> {
        match self.state {
            State::Greeting { since } if now >= since.saturating_add(WELCOME_TIMEOUT) => {
                Err(Error::new(Code::Timeout, "the gateway did not answer hello"))
            }
            State::Open { every, next } if now >= next => {
                if self.unanswered.len() >= MAX_UNANSWERED {
                    return Err(Error::new(Code::Timeout, "the gateway answers no heartbeats"));
                }
                self.seq += 1;
                self.unanswered.push_back((self.seq, now));
                self.state = State::Open { every, next: now.saturating_add(every) };
                self.frames.push_back(AgentFrame::Heartbeat { seq: self.seq });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// When [`AgentSession::handle_timeout`] is to be called at the latest.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Monotonic> {
        match self.state {
            State::Greeting { since } => Some(since.saturating_add(WELCOME_TIMEOUT)),
            State::Open { next, .. } => Some(next),
            State::Closed => None,
        }
    }

    /// The next frame to send.
    pub fn poll_frame(&mut self) -> Option<AgentFrame> {
        self.frames.pop_front()
    }

    /// The next thing to do.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        self.events.pop_front()
    }

    /// Queues a frame that must arrive.
    ///
    /// # Errors
    /// `UNAVAILABLE` when the session is not open, or the gateway takes frames too slowly.
    pub fn send(&mut self, frame: AgentFrame) -> Result<()> {
        if !self.is_open() {
            return Err(Error::unavailable("there is no session with the control plane"));
        }
        if self.frames.len() >= MAX_QUEUED_FRAMES {
            return Err(Error::unavailable("the control plane takes frames too slowly"));
        }
        self.frames.push_back(frame);
        Ok(())
    }

    /// Queues progress: the newest of a command replaces the one that waits, and none waits when the queue is half full.
    pub fn send_progress(&mut self, command_id: CommandId, progress: Progress) {
        let has_room = self.is_open() && self.frames.len() < MAX_QUEUED_FRAMES / 2;
        let waiting = self.frames.iter_mut().find_map(|frame| match frame {
            AgentFrame::CommandProgress { command_id: id, progress } if *id == command_id => Some(progress),
            _ => None,
        });
        if let Some(waiting) = waiting {
            *waiting = progress;
        } else if has_room {
            self.frames.push_back(AgentFrame::CommandProgress { command_id, progress });
        }
    }

    /// Asks for a secret; the answer is a [`SessionEvent::Secret`] with the number returned.
    ///
    /// # Errors
    /// `UNAVAILABLE` when there is no session, or 16 requests are open.
    pub fn request_secret(&mut self, secret_ref: &str, grant: SecretGrant) -> Result<u64> {
        if self.open_requests.len() >= MAX_SECRET_REQUESTS {
            return Err(Error::unavailable("too many secret requests are open"));
        }
        let request_id = self.next_request;
        self.send(AgentFrame::SecretRequest { request_id, secret_ref: secret_ref.to_owned(), grant })?;
        self.next_request += 1;
        self.open_requests.push(request_id);
        Ok(request_id)
    }

    /// Tells the control plane what the agent sees of its desired state.
    ///
    /// # Errors
    /// As [`AgentSession::send`].
    pub fn send_status(
        &mut self,
        observed_generation: u64,
        sections: serde_json::Map<String, serde_json::Value>,
    ) -> Result<()> {
        self.status_seq += 1;
        self.send(AgentFrame::Status { seq: self.status_seq, observed_generation, sections })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Monotonic {
        Monotonic::new(Duration::from_millis(ms))
    }

    fn hello() -> Hello {
        Hello {
            version: 1,
            software: "test".to_owned(),
            boot_id: "b".to_owned(),
            kinds: vec![],
            drivers: vec![],
            labels: std::collections::BTreeMap::new(),
            spec_generation: 0,
        }
    }

    fn welcome() -> GatewayFrame {
        let session_id = SessionId::from_parts(Timestamp::EPOCH, [0; 10]);
        GatewayFrame::Welcome { session_id, heartbeat_ms: 1000, server_time: Timestamp::EPOCH }
    }

    fn open() -> AgentSession {
        let mut session = AgentSession::new(hello(), at(0));
        assert!(matches!(session.poll_frame(), Some(AgentFrame::Hello(_))));
        session.handle_frame(welcome(), at(10)).unwrap();
        assert!(matches!(session.poll_event(), Some(SessionEvent::Welcome { .. })));
        session
    }

    #[test]
    fn silence_is_counted_from_when_the_answered_heartbeat_was_sent() {
        let mut session = open();
        session.handle_timeout(at(1000)).unwrap();
        session.handle_timeout(at(2000)).unwrap();
        session
            .handle_frame(GatewayFrame::HeartbeatAck { seq: 2, server_time: Timestamp::EPOCH }, at(2900))
            .unwrap();
        let Some(SessionEvent::Heard { sent, .. }) = session.poll_event() else { panic!("not heard") };
        assert_eq!(sent, at(2000));
        // The first was answered with the second; an answer again is out of order.
        assert!(
            session
                .handle_frame(GatewayFrame::HeartbeatAck { seq: 1, server_time: Timestamp::EPOCH }, at(3000))
                .is_err()
        );
    }

    #[test]
    fn three_unanswered_heartbeats_end_it() {
        let mut session = open();
        for n in 0..3 {
            let due = session.poll_timeout().unwrap();
            session.handle_timeout(due).unwrap();
            assert_eq!(session.poll_frame(), Some(AgentFrame::Heartbeat { seq: n + 1 }));
        }
        let due = session.poll_timeout().unwrap();
        assert_eq!(session.handle_timeout(due).unwrap_err().code(), Code::Timeout);
    }

    #[test]
    fn a_gateway_that_does_not_greet_is_given_up() {
        let mut session = AgentSession::new(hello(), at(0));
        assert!(session.handle_timeout(at(9_999)).is_ok());
        assert_eq!(session.handle_timeout(at(10_000)).unwrap_err().code(), Code::Timeout);
    }

    #[test]
    fn frames_out_of_order_are_errors() {
        let command_id = CommandId::from_parts(Timestamp::EPOCH, [0; 10]);
        let mut early = AgentSession::new(hello(), at(0));
        assert!(
            early
                .handle_frame(GatewayFrame::CommandCancel { command_id: command_id.clone() }, at(0))
                .is_err()
        );
        let mut session = open();
        assert!(session.handle_frame(welcome(), at(20)).is_err());
        assert!(
            session
                .handle_frame(GatewayFrame::SecretResponse { request_id: 9, secret: None }, at(20))
                .is_err()
        );
        session.handle_frame(GatewayFrame::Goodbye { reason: "superseded".to_owned() }, at(20)).unwrap();
        assert!(!session.is_open() && session.poll_timeout().is_none());
        assert!(session.handle_frame(GatewayFrame::ResultAck { command_id }, at(20)).is_err());
    }

    #[test]
    fn queues_have_bounds() {
        let mut session = open();
        let grant = || SecretGrant::Command(CommandId::from_parts(Timestamp::EPOCH, [0; 10]));
        for _ in 0..MAX_SECRET_REQUESTS {
            session.request_secret("ref", grant()).unwrap();
        }
        assert_eq!(session.request_secret("ref", grant()).unwrap_err().code(), Code::Unavailable);
        session.handle_frame(GatewayFrame::SecretResponse { request_id: 0, secret: None }, at(20)).unwrap();
        assert_eq!(session.request_secret("ref", grant()).unwrap(), 16);

        let id = |n: u8| CommandId::from_parts(Timestamp::EPOCH, [n; 10]);
        for n in 0..=255 {
            session.send_progress(id(n), Progress::default());
            session.send_progress(id(n), Progress { message: "newer".to_owned(), ..Progress::default() });
        }
        assert!(session.frames.len() <= MAX_QUEUED_FRAMES / 2);
        while session.frames.len() < MAX_QUEUED_FRAMES {
            session.send(AgentFrame::CommandAck { command_id: id(0) }).unwrap();
        }
        assert_eq!(
            session.send(AgentFrame::CommandAck { command_id: id(0) }).unwrap_err().code(),
            Code::Unavailable
        );
    }
}
