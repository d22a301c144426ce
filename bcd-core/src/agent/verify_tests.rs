//! What an agent runs and what it refuses, for [`super::verify`] and [`super::trust`].

use std::time::Duration;

use serde_json::{Map, json};

use super::clock::Now;
use super::trust::TrustStore;
use super::verify::{Recipient, VerifiedCommand, verify};
use crate::envelope::Signed;
use crate::error::Result;
use crate::id::{BatchId, CommandId, NodeId, SiteId, WorkflowId};
use crate::key::SigningKey;
use crate::pin::Pin;
use crate::time::Timestamp;
use crate::wire::batch::{self, BatchManifest, BatchProof, Leaf};
use crate::wire::command::{Command, SignedCommand};
use crate::wire::trust::{Approver, Quorum, TrustBundle, WorkerCertificate};
use crate::wire::{AgentRole, V1};

const HOUR: Duration = Duration::from_secs(3600);

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + seconds * 1000)
}

fn key(seed: u8) -> SigningKey {
    SigningKey::ed25519_from_seed(&[seed; 32])
}

const ROOT: u8 = 1;
const WORKER: u8 = 2;
const ALICE: u8 = 3;
const BOB: u8 = 4;

fn me() -> Recipient {
    Recipient {
        node_id: NodeId::from_parts(time(0), [1; 10]),
        node_key: Pin::of(key(9).public_key()),
        role: AgentRole::Ramdisk,
        site: SiteId::from_parts(time(0), [2; 10]),
        boot_id: "boot-1".to_owned(),
    }
}

fn bundle() -> TrustBundle {
    let approver =
        |subject: &str, seed| Approver { subject: subject.to_owned(), spki: key(seed).public_key().clone() };
    TrustBundle {
        version: 2,
        issued_at: time(0),
        expires: time(0).saturating_add(24 * HOUR),
        command_roots: vec![key(ROOT).public_key().clone()],
        approvers: vec![approver("alice", ALICE), approver("bob", BOB), approver("alice", 5)],
        quorum: Quorum { above: 1, required: 2 },
        revoked_keys: vec![],
    }
}

fn certificate() -> WorkerCertificate {
    WorkerCertificate {
        v: V1,
        worker: key(WORKER).public_key().clone(),
        issued_at: time(0),
        not_after: time(0).saturating_add(24 * HOUR),
        site: None,
        kinds: None,
    }
}

fn command() -> Command {
    Command {
        v: V1,
        id: CommandId::from_parts(time(0), [3; 10]),
        node_id: me().node_id,
        node_key: me().node_key,
        role: AgentRole::Ramdisk,
        site: me().site,
        boot_id: Some("boot-1".to_owned()),
        kind: "disk.wipe".to_owned(),
        payload: Map::from_iter([("mode".to_owned(), json!("quick"))]),
        workflow_id: WorkflowId::from_parts(time(0), [4; 10]),
        step_id: "main.1".to_owned(),
        attempt: 1,
        issued_at: time(0),
        not_after: time(0).saturating_add(HOUR),
        attest_nonce: None,
        batch: None,
    }
}

/// The command in a batch of `size`, approved by `approvers`.
fn in_batch(mut command: Command, size: u32, approvers: &[u8]) -> Command {
    let intent = command.intent();
    let leaf = Leaf {
        node_id: command.node_id.as_str(),
        kind: &command.kind,
        operation: command.operation(),
        intent: &intent,
        workflow_id: command.workflow_id.as_str(),
        step_id: &command.step_id,
    };
    let mut leaves = vec![leaf.hash()];
    leaves.extend((1..size).map(|n| crate::digest::Sha256Digest::of(&n.to_be_bytes())));
    let manifest = BatchManifest {
        batch_id: BatchId::from_parts(time(0), [5; 10]),
        root: batch::root(&leaves).unwrap(),
        size,
        purpose: "test".to_owned(),
        policy_version: 2,
        not_before: time(0),
        not_after: time(0).saturating_add(HOUR),
    };
    let mut manifest = Signed::sign(&manifest, &key(WORKER)).unwrap();
    for seed in approvers {
        manifest = manifest.also_sign(&key(*seed)).unwrap();
    }
    command.batch =
        Some(BatchProof { manifest, index: 0, proof: batch::inclusion_proof(&leaves, 0).unwrap() });
    command
}

fn signed(command: &Command) -> SignedCommand {
    SignedCommand {
        command_id: command.id.clone(),
        worker: Signed::sign(&certificate(), &key(ROOT)).unwrap(),
        command: Signed::sign(command, &key(WORKER)).unwrap(),
    }
}

fn store(bundle: TrustBundle) -> TrustStore {
    TrustStore::take(bundle, None, Now::known(time(10))).unwrap()
}

/// A verified `disk.wipe` (or another kind that takes no operation) with this id, for other tests.
pub(super) fn verified(id: u8, kind: &str, attempt: u32) -> VerifiedCommand {
    let id = CommandId::from_parts(time(0), [id; 10]);
    run(&signed(&in_batch(Command { id, kind: kind.to_owned(), attempt, ..command() }, 1, &[]))).unwrap()
}

fn run(signed: &SignedCommand) -> Result<VerifiedCommand> {
    verify(signed, &store(bundle()), &me(), Now::known(time(10)))
}

#[track_caller]
fn refused(signed: &SignedCommand, reason: &str) {
    assert_eq!(run(signed).unwrap_err().reason(), Some(reason));
}

#[test]
fn a_destructive_command_in_a_batch_of_one_runs() {
    let verified = run(&signed(&in_batch(command(), 1, &[]))).unwrap();
    assert_eq!(verified.kind().name, "disk.wipe");
    assert_eq!(verified.command().id, command().id);
}

#[test]
fn every_forgery_is_refused_with_its_reason() {
    let good = || in_batch(command(), 1, &[]);
    let by_another_worker =
        SignedCommand { command: Signed::sign(&good(), &key(7)).unwrap(), ..signed(&good()) };
    refused(&by_another_worker, "bad-signature");
    let under_another_root =
        SignedCommand { worker: Signed::sign(&certificate(), &key(7)).unwrap(), ..signed(&good()) };
    refused(&under_another_root, "bad-signature");
    // A root or an approver that signs commands itself has two roles.
    let root_as_worker = WorkerCertificate { worker: key(ROOT).public_key().clone(), ..certificate() };
    let by_the_root = SignedCommand {
        worker: Signed::sign(&root_as_worker, &key(ROOT)).unwrap(),
        command: Signed::sign(&good(), &key(ROOT)).unwrap(),
        command_id: command().id,
    };
    refused(&by_the_root, "bad-signature");

    let other = NodeId::from_parts(time(0), [8; 10]);
    refused(&signed(&in_batch(Command { node_id: other, ..command() }, 1, &[])), "wrong-recipient");
    refused(
        &signed(&in_batch(Command { node_key: Pin::of_spki_der(b"old"), ..command() }, 1, &[])),
        "wrong-recipient",
    );
    refused(&signed(&in_batch(Command { role: AgentRole::Node, ..command() }, 1, &[])), "wrong-recipient");
    refused(
        &signed(&in_batch(Command { site: SiteId::from_parts(time(0), [8; 10]), ..command() }, 1, &[])),
        "wrong-recipient",
    );
    refused(
        &SignedCommand { command_id: CommandId::from_parts(time(0), [8; 10]), ..signed(&good()) },
        "wrong-recipient",
    );
    refused(
        &signed(&in_batch(Command { boot_id: Some("boot-0".to_owned()), ..command() }, 1, &[])),
        "boot-changed",
    );
    refused(&signed(&in_batch(Command { boot_id: None, ..command() }, 1, &[])), "boot-changed");
    refused(
        &signed(&in_batch(Command { kind: "bmc.power".to_owned(), ..command() }, 1, &[])),
        "unknown-kind",
    );
    refused(&signed(&in_batch(Command { kind: "disk.eat".to_owned(), ..command() }, 1, &[])), "unknown-kind");
}

#[test]
fn time_has_bounds_with_a_minute_of_skew() {
    let verify_at = |seconds| {
        verify(&signed(&in_batch(command(), 1, &[])), &store(bundle()), &me(), Now::known(time(seconds)))
    };
    assert!(verify_at(3600 + 60).is_ok());
    assert_eq!(verify_at(3600 + 61).unwrap_err().reason(), Some("expired"));
    assert!(verify_at(-60).is_ok());
    assert_eq!(verify_at(-61).unwrap_err().reason(), Some("not-yet-valid"));
    let too_long = Command { not_after: time(1).saturating_add(24 * HOUR), ..command() };
    refused(&signed(&in_batch(too_long, 1, &[])), "malformed");
}

#[test]
fn a_destructive_command_needs_a_batch_that_says_the_same() {
    refused(&signed(&command()), "batch-required");
    let approved = in_batch(command(), 1, &[]);
    for changed in [
        Command { payload: Map::from_iter([("mode".to_owned(), json!("crypto-erase"))]), ..approved.clone() },
        Command { step_id: "main.2".to_owned(), ..approved.clone() },
        Command { workflow_id: WorkflowId::from_parts(time(0), [8; 10]), ..approved.clone() },
    ] {
        refused(&signed(&changed), "batch-required");
    }
    // Another attempt of the same step is what was approved.
    let again = Command { attempt: 2, id: CommandId::from_parts(time(0), [8; 10]), ..approved };
    assert!(run(&signed(&again)).is_ok());
}

#[test]
fn a_batch_above_the_quorum_needs_distinct_approvers() {
    for (approvers, passes) in [
        (&[][..], false),
        (&[ALICE], false),
        (&[ALICE, 5], false),
        (&[ALICE, BOB], true),
        (&[ALICE, 6], false),
    ] {
        let result = run(&signed(&in_batch(command(), 2, approvers)));
        if passes {
            assert!(result.is_ok(), "{approvers:?}");
        } else {
            assert_eq!(result.unwrap_err().reason(), Some("quorum-missing"), "{approvers:?}");
        }
    }
}

#[test]
fn without_roots_only_harmless_reads_run() {
    let store = store(TrustBundle { command_roots: vec![], ..bundle() });
    let run = |command: &Command| verify(&signed(command), &store, &me(), Now::known(time(10)));
    let read = Command { kind: "inventory.refresh".to_owned(), payload: Map::new(), ..command() };
    assert!(run(&read).is_ok());
    assert_eq!(run(&in_batch(command(), 1, &[])).unwrap_err().reason(), Some("no-roots"));
}

#[test]
fn a_worker_is_held_to_its_site_kinds_and_life() {
    let check = |certificate: &WorkerCertificate, expect: Option<&str>| {
        let signed = SignedCommand {
            worker: Signed::sign(certificate, &key(ROOT)).unwrap(),
            ..signed(&in_batch(command(), 1, &[]))
        };
        assert_eq!(run(&signed).err().as_ref().and_then(crate::Error::reason), expect);
    };
    let kinds = |kinds: &[&str]| Some(kinds.iter().map(|&kind| kind.to_owned()).collect());
    check(&WorkerCertificate { kinds: kinds(&["disk.wipe"]), site: Some(me().site), ..certificate() }, None);
    check(&WorkerCertificate { kinds: kinds(&["bmc.power"]), ..certificate() }, Some("bad-signature"));
    check(
        &WorkerCertificate { site: Some(SiteId::from_parts(time(0), [8; 10])), ..certificate() },
        Some("bad-signature"),
    );
    check(&WorkerCertificate { not_after: time(-61), ..certificate() }, Some("expired"));
    check(&WorkerCertificate { issued_at: time(71), ..certificate() }, Some("not-yet-valid"));
    check(
        &WorkerCertificate { not_after: time(1).saturating_add(7 * 24 * HOUR), ..certificate() },
        Some("malformed"),
    );
}

#[test]
fn a_bundle_never_goes_back() {
    let now = Now::known(time(10));
    let held = store(bundle());
    let take = |bundle| {
        TrustStore::take(bundle, Some(&held), now).err().and_then(|error| error.reason().map(str::to_owned))
    };
    assert_eq!(take(bundle()), None);
    assert_eq!(take(TrustBundle { version: 1, ..bundle() }).as_deref(), Some("bundle-rollback"));
    assert_eq!(
        take(TrustBundle { version: 3, command_roots: vec![], ..bundle() }).as_deref(),
        Some("bundle-rollback")
    );
    assert_eq!(take(TrustBundle { expires: time(-51), ..bundle() }).as_deref(), Some("expired"));
    let revoked = store(TrustBundle { revoked_keys: vec![Pin::of(key(WORKER).public_key())], ..bundle() });
    let result = verify(&signed(&in_batch(command(), 1, &[])), &revoked, &me(), now);
    assert_eq!(result.unwrap_err().reason(), Some("revoked"));
}
