//! Running commands: verified, journalled before they act, each in a task of its own.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::clock::Now;
use super::handle::{AgentHandle, CommandContext, Message};
use super::identity::Identity;
use super::journal::{Finished, Journal, Receipt};
use super::run::CommandHandler;
use super::verify::{VerifiedCommand, verify};
use crate::envelope::Signed;
use crate::error::Result;
use crate::id::CommandId;
use crate::reason;
use crate::time::{Clock, Timestamp};
use crate::wire::V1;
use crate::wire::command::{AttestedResult, Outcome, SignedCommand, SignedOutcome};
use crate::wire::session::{AgentFrame, MAX_COMMANDS};

/// Commands that run, and what they run with.
pub(super) struct Executor {
    pub(super) identity: Arc<Identity>,
    pub(super) boot_id: String,
    pub(super) journal: Journal,
    pub(super) handler: Arc<dyn CommandHandler>,
    pub(super) handle: AgentHandle,
    pub(super) clock: Arc<dyn Clock>,
    running: HashMap<CommandId, watch::Sender<bool>>,
}

/// The frame that tells a result.
pub(super) fn result_frame(finished: Finished) -> AgentFrame {
    AgentFrame::CommandResult {
        command_id: finished.id,
        outcome: finished.outcome,
        attested: finished.attested,
    }
}

impl Executor {
    pub(super) fn new(
        identity: Arc<Identity>,
        boot_id: String,
        journal: Journal,
        handler: Arc<dyn CommandHandler>,
        handle: AgentHandle,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { identity, boot_id, journal, handler, handle, clock, running: HashMap::new() }
    }

    /// Takes a command in, and returns what is to be said about it at once.
    pub(super) async fn command(&mut self, signed: &SignedCommand, now: Now) -> Result<AgentFrame> {
        let command_id = signed.command_id.clone();
        let refused = |error: &crate::Error| {
            let outcome = Outcome {
                ok: false,
                reason: Some(error.reason().unwrap_or(reason::MALFORMED.as_str()).to_owned()),
                message: Some(error.message().to_owned()),
                result: serde_json::Map::new(),
            };
            AgentFrame::CommandResult { command_id: signed.command_id.clone(), outcome, attested: None }
        };
        let me = self.identity.recipient(&self.boot_id);
        let command = match verify(signed, &self.identity.trust, &me, now) {
            Ok(command) => command,
            Err(error) => {
                tracing::warn!(command = %command_id, reason = error.reason(), "refused a command: {error}");
                return Ok(refused(&error));
            }
        };
        if self.running.len() >= MAX_COMMANDS && !self.running.contains_key(&command_id) {
            let outcome = Outcome::failed(reason::BUSY, "the agent runs as many commands as it may");
            return Ok(AgentFrame::CommandResult { command_id, outcome, attested: None });
        }
        match self.journal.receive(&command, &self.boot_id).await {
            Ok(Receipt::Run) => {
                if self.journal.begin(&command_id).await? {
                    self.start(command, now);
                }
                Ok(AgentFrame::CommandAck { command_id })
            }
            Ok(Receipt::Running) => Ok(AgentFrame::CommandAck { command_id }),
            Ok(Receipt::Done(finished)) => Ok(result_frame(*finished)),
            Err(error) if error.reason().is_some() => Ok(refused(&error)),
            Err(error) => Err(error),
        }
    }

    fn start(&mut self, command: VerifiedCommand, now: Now) {
        let id = command.command().id.clone();
        let (cancel, cancelled) = watch::channel(false);
        self.running.insert(id.clone(), cancel);
        let context = CommandContext { id: id.clone(), handle: self.handle.clone(), cancelled };
        let (identity, handler, handle) = (self.identity.clone(), self.handler.clone(), self.handle.clone());
        let (boot_id, clock) = (self.boot_id.clone(), self.clock.clone());
        tracing::info!(command = %id, kind = command.kind().name, operation = command.command().operation(), "command started");
        tokio::spawn(async move {
            let begun = clock.monotonic();
            let command = Arc::new(command);
            let outcome = handler.run(command.clone(), context).await;
            let ended = now.time.saturating_add(clock.monotonic().since(begun));
            let attested = attest(&identity, &command, &boot_id, &outcome, now.time, ended);
            tracing::info!(command = %id, ok = outcome.ok, reason = outcome.reason, "command ended");
            // The runtime is gone only when the process ends.
            let _ = handle.send(Message::Finished(Box::new(Finished { id, outcome, attested }))).await;
        });
    }

    /// Notes a result durably; returns the frame that tells it.
    pub(super) async fn finished(&mut self, finished: Finished) -> Result<AgentFrame> {
        self.running.remove(&finished.id);
        self.journal.finish(&finished).await?;
        Ok(result_frame(finished))
    }

    /// Asks a running command to stop.
    pub(super) fn cancel(&self, id: &CommandId) {
        if let Some(cancel) = self.running.get(id) {
            cancel.send_replace(true);
        }
    }
}

fn attest(
    identity: &Identity,
    command: &VerifiedCommand,
    boot_id: &str,
    outcome: &Outcome,
    started_at: Timestamp,
    finished_at: Timestamp,
) -> Option<Signed<AttestedResult>> {
    let result = AttestedResult {
        v: V1,
        command_id: command.command().id.clone(),
        command_digest: command.digest(),
        attest_nonce: command.command().attest_nonce.clone()?,
        node_id: identity.node_id.clone(),
        node_key: identity.pin(),
        role: identity.role,
        boot_id: boot_id.to_owned(),
        kind: command.command().kind.clone(),
        started_at,
        finished_at,
        outcome: SignedOutcome {
            ok: outcome.ok,
            reason: outcome.reason.clone(),
            result: outcome.result.clone(),
        },
    };
    // A result too large to sign goes unattested, which the control plane counts as not vouched for.
    Signed::sign(&result, &identity.key).ok()
}
