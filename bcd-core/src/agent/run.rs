//! The runtime's loop: one session after the other, commands in between.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::clock::TrustedClock;
use super::config::AgentConfig;
use super::executor::{Executor, result_frame};
use super::handle::{AgentHandle, CommandContext, Message, SecretAsk};
use super::identity::Identity;
use super::journal::Journal;
use super::session::{AgentSession, SessionEvent};
use super::spec::SpecStore;
use super::transport::{self, Link};
use super::verify::VerifiedCommand;
use crate::error::{Error, Result};
use crate::id::EntryId;
use crate::reason;
use crate::time::{Clock, Monotonic};
use crate::wire::command::Outcome;
use crate::wire::session::{AgentFrame, GatewayFrame, Hello, MAX_SECRET_REQUESTS, VERSION};
use crate::wire::spec::{BootLease, NodeSpec};

/// The first and the longest wait before connecting again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// What an agent does with commands.
#[async_trait]
pub trait CommandHandler: Send + Sync + 'static {
    /// The kinds it runs.
    fn kinds(&self) -> Vec<&'static str>;

    /// Runs a command. It is verified and journalled; it runs once. When it is cancelled it is to stop and to
    /// say so with reason `cancelled`.
    async fn run(&self, command: Arc<VerifiedCommand>, context: CommandContext) -> Outcome;
}

/// What an agent is told besides commands. None of these may block.
pub trait Hooks: Send + Sync + 'static {
    /// A new spec.
    fn spec(&self, _spec: NodeSpec) {}
    /// The site's boot lease.
    fn boot_lease(&self, _lease: BootLease) {}
    /// The gateway answered the heartbeat that was sent at `sent`.
    fn heard(&self, _sent: Monotonic) {}
    /// A machine joined with this boot entry.
    fn boot_entry_consumed(&self, _entry: &EntryId) {}
    /// A session stands.
    fn connected(&self) {}
}

/// Hooks for an agent that is told nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoHooks;

impl Hooks for NoHooks {}

/// An agent that is ready to run.
pub struct Agent {
    config: AgentConfig,
    identity: Arc<Identity>,
    boot_id: String,
    journal: Journal,
    clock: Arc<dyn Clock>,
    labels: BTreeMap<String, String>,
    handle: AgentHandle,
    messages: mpsc::Receiver<Message>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("node", &self.identity.node_id).finish_non_exhaustive()
    }
}

impl Agent {
    /// Puts an agent together.
    #[must_use]
    pub fn new(
        config: AgentConfig,
        identity: Identity,
        boot_id: String,
        journal: Journal,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (handle, messages) = AgentHandle::channel();
        Self {
            config,
            identity: Arc::new(identity),
            boot_id,
            journal,
            clock,
            labels: BTreeMap::new(),
            handle,
            messages,
        }
    }

    /// Labels it gives itself in `hello`.
    #[must_use]
    pub fn with_labels(mut self, labels: BTreeMap<String, String>) -> Self {
        self.labels = labels;
        self
    }

    /// A handle for the agent's other parts.
    #[must_use]
    pub fn handle(&self) -> AgentHandle {
        self.handle.clone()
    }

    /// Who it is.
    #[must_use]
    pub fn identity(&self) -> Arc<Identity> {
        self.identity.clone()
    }

    /// Runs until its identity is revoked or the journal breaks. Dropping the future stops it; what runs then is
    /// found by the journal at the next start.
    ///
    /// # Errors
    /// `FORBIDDEN` with reason `revoked`; `INTERNAL` when the journal can't be written.
    pub async fn run(self, handler: Arc<dyn CommandHandler>, hooks: Arc<dyn Hooks>) -> Result<()> {
        let kinds = handler.kinds().into_iter().map(str::to_owned).collect();
        let floor = self.identity.signed_time;
        let executor = Executor::new(
            self.identity.clone(),
            self.boot_id.clone(),
            self.journal,
            handler,
            self.handle,
            self.clock.clone(),
        );
        let mut runtime = Runtime {
            executor,
            hooks,
            clock: self.clock,
            trusted: TrustedClock::new(floor),
            specs: SpecStore::default(),
            status: Map::new(),
            inventory: BTreeMap::new(),
            asked: VecDeque::new(),
            secrets: HashMap::new(),
        };
        let hello = Hello {
            version: VERSION,
            software: concat!("bcd/", env!("CARGO_PKG_VERSION")).to_owned(),
            boot_id: self.boot_id,
            kinds,
            drivers: Vec::new(),
            labels: self.labels,
            spec_generation: 0,
        };
        let mut messages = self.messages;
        let mut backoff = BACKOFF.0;
        loop {
            let hello = Hello { spec_generation: runtime.specs.generation(), ..hello.clone() };
            let mut session = AgentSession::new(hello, runtime.clock.monotonic());
            let ended = match runtime.connect(&self.config, &self.identity, &mut messages).await? {
                Ok(link) => runtime.converse(&mut session, link, &mut messages).await,
                Err(error) => Err(error),
            };
            runtime.disconnected();
            match ended {
                Err(error) if error.reason() == Some(reason::REVOKED.as_str()) => return Err(error),
                Err(error) if error.code() == crate::Code::Internal => return Err(error),
                Err(error) => tracing::warn!("no session with the control plane: {}", error.chain()),
                Ok(()) => backoff = BACKOFF.0,
            }
            let pause = tokio::time::sleep(jitter(backoff));
            backoff = (backoff * 2).min(BACKOFF.1);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    Some(message) = messages.recv() => { runtime.message(message, None).await?; }
                }
            }
        }
    }
}

/// Between half of `backoff` and all of it.
fn jitter(backoff: Duration) -> Duration {
    let [random] = crate::random::bytes::<1>();
    backoff / 2 + backoff.mul_f64(f64::from(random) / 512.0)
}

struct Runtime {
    executor: Executor,
    hooks: Arc<dyn Hooks>,
    clock: Arc<dyn Clock>,
    trusted: TrustedClock,
    specs: SpecStore,
    status: Map<String, Value>,
    inventory: BTreeMap<String, Value>,
    /// Secret requests that wait for a session.
    asked: VecDeque<SecretAsk>,
    /// Those that wait for an answer.
    secrets: HashMap<u64, SecretAsk>,
}

impl Runtime {
    /// Connects, while results and requests of running commands are taken in.
    async fn connect(
        &mut self,
        config: &AgentConfig,
        identity: &Identity,
        messages: &mut mpsc::Receiver<Message>,
    ) -> Result<Result<Link>> {
        let connecting = transport::session(config, identity);
        tokio::pin!(connecting);
        loop {
            tokio::select! {
                link = &mut connecting => return Ok(link),
                Some(message) = messages.recv() => self.message(message, None).await?,
            }
        }
    }

    /// One session, until it ends; an error says why it ended before its time.
    async fn converse(
        &mut self,
        session: &mut AgentSession,
        mut link: Link,
        messages: &mut mpsc::Receiver<Message>,
    ) -> Result<()> {
        loop {
            while let Some(event) = session.poll_event() {
                if let SessionEvent::Goodbye(why) = event {
                    return goodbye(&why);
                }
                self.event(event, session).await?;
            }
            while link.sender.has_room() {
                let Some(frame) = session.poll_frame() else { break };
                link.sender.send(&frame)?;
            }
            let now = self.clock.monotonic();
            let wait = session.poll_timeout().map_or(Duration::from_secs(1), |at| at.since(now));
            tokio::select! {
                frame = link.receiver.next::<GatewayFrame>() => match frame? {
                    Some(frame) => session.handle_frame(frame, self.clock.monotonic())?,
                    None => return Err(Error::unavailable("the control plane closed the connection")),
                },
                () = tokio::time::sleep(wait) => session.handle_timeout(self.clock.monotonic())?,
                () = link.sender.room(), if !link.sender.has_room() => {}
                Some(message) = messages.recv() => self.message(message, Some(session)).await?,
            }
        }
    }

    async fn event(&mut self, event: SessionEvent, session: &mut AgentSession) -> Result<()> {
        let now = self.clock.monotonic();
        match event {
            SessionEvent::Welcome { session_id, server_time } => {
                self.trusted.hear(server_time, now);
                tracing::info!(session = %session_id, "session open");
                self.opened(session).await?;
                self.hooks.connected();
            }
            SessionEvent::Heard { sent, server_time } => {
                self.trusted.hear(server_time, now);
                self.hooks.heard(sent);
            }
            SessionEvent::Command(command) => {
                let frame = self.executor.command(&command, self.trusted.at(now)).await?;
                session.send(frame)?;
            }
            SessionEvent::Cancel(id) => self.executor.cancel(&id),
            SessionEvent::ResultStored(id) => self.executor.journal.acknowledge(&id).await?,
            SessionEvent::Secret { request_id, secret } => {
                if let Some(ask) = self.secrets.remove(&request_id) {
                    // Whoever asked may have given up.
                    let _ = ask.answer.send(secret);
                }
                self.ask(session)?;
            }
            SessionEvent::Spec(spec) => {
                let me = self.executor.identity.recipient(&self.executor.boot_id);
                match self.specs.take(&spec, &self.executor.identity.trust, &me, self.trusted.at(now)) {
                    Ok(Some(spec)) => self.hooks.spec(spec),
                    Ok(None) => {}
                    Err(error) => tracing::warn!(reason = error.reason(), "refused a node spec: {error}"),
                }
            }
            SessionEvent::BootLease(lease) => self.hooks.boot_lease(lease),
            SessionEvent::BootEntryConsumed(entry) => self.hooks.boot_entry_consumed(&entry),
            SessionEvent::Goodbye(_) => {}
        }
        Ok(())
    }

    /// Says again what the control plane may have missed.
    async fn opened(&mut self, session: &mut AgentSession) -> Result<()> {
        for finished in self.executor.journal.unacknowledged().await? {
            session.send(result_frame(finished))?;
        }
        if !self.status.is_empty() {
            session.send_status(self.specs.generation(), self.status.clone())?;
        }
        if !self.inventory.is_empty() {
            session.send(AgentFrame::Inventory { sections: self.inventory.clone() })?;
        }
        self.ask(session)
    }

    fn ask(&mut self, session: &mut AgentSession) -> Result<()> {
        while self.secrets.len() < MAX_SECRET_REQUESTS {
            let Some(ask) = self.asked.pop_front() else { break };
            if !ask.answer.is_closed() {
                let request = session.request_secret(&ask.secret_ref, ask.grant.clone())?;
                self.secrets.insert(request, ask);
            }
        }
        Ok(())
    }

    fn disconnected(&mut self) {
        self.asked.extend(self.secrets.drain().map(|(_, ask)| ask));
    }

    async fn message(&mut self, message: Message, session: Option<&mut AgentSession>) -> Result<()> {
        let session = session.filter(|session| session.is_open());
        match message {
            Message::Progress(id, progress) => {
                if let Some(session) = session {
                    session.send_progress(id, progress);
                }
            }
            Message::Finished(finished) => {
                let frame = self.executor.finished(*finished).await?;
                if let Some(session) = session {
                    session.send(frame)?;
                }
            }
            Message::Secret(ask) => {
                if self.asked.len() < super::handle::QUEUE {
                    self.asked.push_back(ask);
                }
                if let Some(session) = session {
                    self.ask(session)?;
                }
            }
            Message::Status(section, value) => {
                let old = self.status.insert(section.to_owned(), value);
                if let Some(session) = session.filter(|_| old.as_ref() != self.status.get(section)) {
                    session.send_status(self.specs.generation(), self.status.clone())?;
                }
            }
            Message::Inventory(section, value) => {
                let old = self.inventory.insert(section.to_owned(), value.clone());
                if let Some(session) = session.filter(|_| old.as_ref() != Some(&value)) {
                    session.send(AgentFrame::Inventory {
                        sections: BTreeMap::from([(section.to_owned(), value)]),
                    })?;
                }
            }
        }
        Ok(())
    }
}

fn goodbye(why: &str) -> Result<()> {
    if why == reason::REVOKED.as_str() {
        return Err(Error::forbidden(
            reason::REVOKED,
            "the control plane has revoked this identity: join again",
        ));
    }
    tracing::info!(reason = why, "the control plane ended the session");
    Ok(())
}
