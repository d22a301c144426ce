//! What the parts of an agent hold of its runtime: secrets, status and inventory go through here.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use super::journal::Finished;
use crate::error::{Code, Error, Result};
use crate::id::CommandId;
use crate::reason;
use crate::secret::Secret;
use crate::wire::command::Progress;
use crate::wire::session::SecretGrant;

/// How long a secret may take, with waiting for a session.
const SECRET_TIMEOUT: Duration = Duration::from_secs(30);
/// Messages that may wait for the runtime.
pub(super) const QUEUE: usize = 256;

/// To the runtime's loop.
#[derive(Debug)]
pub(super) enum Message {
    Progress(CommandId, Progress),
    Finished(Box<Finished>),
    Secret(SecretAsk),
    Status(&'static str, Value),
    Inventory(&'static str, Value),
}

#[derive(Debug)]
pub(super) struct SecretAsk {
    pub(super) secret_ref: String,
    pub(super) grant: SecretGrant,
    pub(super) answer: oneshot::Sender<Option<Secret>>,
}

/// A handle to the agent's runtime; clones share it.
#[derive(Clone, Debug)]
pub struct AgentHandle(mpsc::Sender<Message>);

impl AgentHandle {
    /// A handle and the messages the runtime takes from it.
    pub(super) fn channel() -> (Self, mpsc::Receiver<Message>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        (Self(sender), receiver)
    }

    pub(super) async fn send(&self, message: Message) -> Result<()> {
        self.0.send(message).await.map_err(|_| Error::unavailable("the agent is stopping"))
    }

    /// Fetches a secret that `grant` grants.
    ///
    /// # Errors
    /// `FORBIDDEN` when the control plane does not grant it; `TIMEOUT` after 30 s without an answer.
    pub async fn secret(&self, secret_ref: &str, grant: SecretGrant) -> Result<Secret> {
        let (answer, received) = oneshot::channel();
        let ask = async {
            self.send(Message::Secret(SecretAsk { secret_ref: secret_ref.to_owned(), grant, answer }))
                .await?;
            received.await.map_err(|_| Error::unavailable("the agent is stopping"))
        };
        tokio::time::timeout(SECRET_TIMEOUT, ask)
            .await
            .unwrap_or_else(|_| {
                Err(Error::new(Code::Timeout, "the control plane did not answer a secret request"))
            })?
            .ok_or_else(|| {
                Error::forbidden(reason::FORBIDDEN, "the control plane does not grant this secret")
            })
    }

    /// Sets a section of the agent's status; told to the control plane now, and at the start of each session.
    ///
    /// # Errors
    /// `UNAVAILABLE` when the agent is stopping.
    pub async fn status(&self, section: &'static str, value: Value) -> Result<()> {
        self.send(Message::Status(section, value)).await
    }

    /// Sets a section of the machine's inventory, as [`AgentHandle::status`] does.
    ///
    /// # Errors
    /// As [`AgentHandle::status`].
    pub async fn inventory(&self, section: &'static str, value: Value) -> Result<()> {
        self.send(Message::Inventory(section, value)).await
    }
}

/// What a running command holds of the runtime.
#[derive(Clone, Debug)]
pub struct CommandContext {
    pub(super) id: CommandId,
    pub(super) handle: AgentHandle,
    pub(super) cancelled: watch::Receiver<bool>,
}

impl CommandContext {
    /// Fetches a secret that this command grants.
    ///
    /// # Errors
    /// As [`AgentHandle::secret`].
    pub async fn secret(&self, secret_ref: &str) -> Result<Secret> {
        self.handle.secret(secret_ref, SecretGrant::Command(self.id.clone())).await
    }

    /// Tells how far the command is; dropped when the runtime is busy.
    pub fn progress(&self, progress: Progress) {
        let _ = self.handle.0.try_send(Message::Progress(self.id.clone(), progress));
    }

    /// The runtime itself.
    #[must_use]
    pub const fn agent(&self) -> &AgentHandle {
        &self.handle
    }

    /// Whether the control plane has taken the command back.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Returns once the control plane takes the command back.
    pub async fn cancelled(&mut self) {
        if self.cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
