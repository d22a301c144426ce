//! Which commands an agent runs: a signed one becomes a [`VerifiedCommand`], or is refused with its reason.
//!
//! The order is that of `3-wire`: worker chain, signature, recipient, boot, time, kind, batch. The journal
//! comes after.

use super::clock::Now;
use super::trust::TrustStore;
use crate::digest::Sha256Digest;
use crate::error::{Error, Result};
use crate::id::{NodeId, SiteId};
use crate::key::PublicKey;
use crate::pin::Pin;
use crate::reason;
use crate::wire::AgentRole;
use crate::wire::batch::{self, Leaf};
use crate::wire::command::{Command, MAX_BOOT_ID, MAX_LIFETIME, MAX_STEP_ID, SignedCommand};
use crate::wire::kinds::Kind;

/// Who the agent is.
#[derive(Clone, Debug)]
pub struct Recipient {
    /// Its node.
    pub node_id: NodeId,
    /// The key of this join.
    pub node_key: Pin,
    /// Its role.
    pub role: AgentRole,
    /// Its site.
    pub site: SiteId,
    /// This boot.
    pub boot_id: String,
}

/// A command that this agent, in this boot, at this time, may run. Only [`verify`] makes one.
#[derive(Clone, Debug)]
pub struct VerifiedCommand {
    command: Command,
    digest: Sha256Digest,
    kind: &'static Kind,
}

impl VerifiedCommand {
    /// The command.
    #[must_use]
    pub const fn command(&self) -> &Command {
        &self.command
    }

    /// SHA-256 over its signed bytes.
    #[must_use]
    pub const fn digest(&self) -> Sha256Digest {
        self.digest
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static Kind {
        self.kind
    }
}

/// Checks a command.
///
/// # Errors
/// `FORBIDDEN` with the reason: `no-roots`, `bad-signature`, `malformed`, `wrong-recipient`, `boot-changed`,
/// `expired`, `not-yet-valid`, `revoked`, `unknown-kind`, `invalid-payload`, `batch-required`, `quorum-missing`.
pub fn verify(
    signed: &SignedCommand,
    trust: &TrustStore,
    me: &Recipient,
    now: Now,
) -> Result<VerifiedCommand> {
    let (command, digest, worker) = if trust.has_roots() {
        // The certificate is checked twice: for its signature before anything it signed is parsed, and for
        // the kind once that is known.
        let certificate = trust.worker(&signed.worker, &me.site, None, now)?;
        let verified = signed.command.verify([&certificate.worker])?;
        trust.worker(&signed.worker, &me.site, Some(&verified.kind), now)?;
        let digest = verified.digest();
        (verified.into_inner(), digest, Some(certificate.worker.clone()))
    } else {
        let (command, digest) = signed.command.read_vouched()?;
        (command, digest, None)
    };
    check_recipient(&command, signed, me)?;
    check_time(&command, now)?;
    let kind = check_kind(&command, me.role)?;
    let Some(worker) = worker else {
        if kind.is_harmless(command.operation()) {
            return Ok(VerifiedCommand { command, digest, kind });
        }
        return Err(Error::forbidden(
            reason::NO_ROOTS,
            format!("without command roots no {} is run", command.kind),
        ));
    };
    if kind.is_destructive(command.operation()) {
        if command.boot_id.is_none() {
            return Err(Error::forbidden(
                reason::BOOT_CHANGED,
                "a destructive command names the boot it is for",
            ));
        }
        check_batch(&command, trust, &worker, now)?;
    }
    Ok(VerifiedCommand { command, digest, kind })
}

fn check_recipient(command: &Command, signed: &SignedCommand, me: &Recipient) -> Result<()> {
    let for_me = command.node_id == me.node_id
        && command.node_key == me.node_key
        && command.role == me.role
        && command.site == me.site
        && command.id == signed.command_id;
    if !for_me {
        return Err(Error::forbidden(
            reason::WRONG_RECIPIENT,
            "the command is for another node, key, role or site",
        ));
    }
    if command.step_id.len() > MAX_STEP_ID
        || command.boot_id.as_ref().is_some_and(|id| id.len() > MAX_BOOT_ID)
    {
        return Err(Error::forbidden(reason::MALFORMED, "the command's step or boot id is too long"));
    }
    if command.boot_id.as_ref().is_some_and(|boot_id| *boot_id != me.boot_id) {
        return Err(Error::forbidden(
            reason::BOOT_CHANGED,
            "the command is for another boot of this machine",
        ));
    }
    Ok(())
}

fn check_time(command: &Command, now: Now) -> Result<()> {
    if command.not_after > command.issued_at.saturating_add(MAX_LIFETIME) {
        return Err(Error::forbidden(reason::MALFORMED, "the command holds longer than 24 hours"));
    }
    if now.is_past(command.not_after) {
        return Err(Error::forbidden(reason::EXPIRED, "the command has lapsed"));
    }
    if now.is_before(command.issued_at) {
        return Err(Error::forbidden(reason::NOT_YET_VALID, "the command is from the future"));
    }
    Ok(())
}

fn check_kind(command: &Command, role: AgentRole) -> Result<&'static Kind> {
    let shown: String = command.kind.chars().take(64).collect();
    let kind = Kind::find(&command.kind)
        .filter(|kind| kind.roles.contains(&role))
        .ok_or_else(|| Error::forbidden(reason::UNKNOWN_KIND, format!("a {role} agent runs no {shown:?}")))?;
    if !kind.operations.is_empty() && kind.operation(command.operation()).is_none() {
        return Err(Error::forbidden(reason::INVALID_PAYLOAD, format!("{shown} has no such operation")));
    }
    Ok(kind)
}

fn check_batch(command: &Command, trust: &TrustStore, worker: &PublicKey, now: Now) -> Result<()> {
    let refuse = |message: &str| Err(Error::forbidden(reason::BATCH_REQUIRED, message));
    let Some(proof) = &command.batch else { return refuse("a destructive command carries a batch") };
    let manifest = trust.manifest(&proof.manifest, worker, now)?;
    let leaf = Leaf {
        node_id: command.node_id.as_str(),
        kind: &command.kind,
        operation: command.operation(),
        intent: &command.intent(),
        workflow_id: command.workflow_id.as_str(),
        step_id: &command.step_id,
    };
    if batch::includes(&manifest.root, manifest.size, &leaf.hash(), proof.index, &proof.proof) {
        Ok(())
    } else {
        refuse("the command is not in its batch")
    }
}
