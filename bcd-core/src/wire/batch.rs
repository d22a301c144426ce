//! Batches: what approvers sign when one decision touches many machines.
//!
//! A batch is a Merkle tree (RFC 9162, 2.1) over what each machine is to suffer. Its manifest is signed
//! once; each command carries its own leaf's inclusion proof, so an agent knows how many machines the
//! decision was about without learning which.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::{Sha256, Sha256Digest};
use crate::envelope::{Purpose, Signed};
use crate::id::BatchId;
use crate::time::Timestamp;

/// Hashes an inclusion proof may have: a tree of a million machines.
pub const MAX_PROOF: usize = 20;
/// Machines a batch may have.
pub const MAX_SIZE: u32 = 1 << 20;
/// How long a manifest may hold.
pub const MAX_LIFETIME: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// What approvers sign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BatchManifest {
    /// The batch.
    pub batch_id: BatchId,
    /// The tree's root.
    pub root: Sha256Digest,
    /// How many leaves the tree has.
    pub size: u32,
    /// What it is for, in words an approver reads.
    pub purpose: String,
    /// The trust bundle's version whose quorum was asked.
    pub policy_version: u64,
    /// From when.
    pub not_before: Timestamp,
    /// Until when: at most 24 hours later.
    pub not_after: Timestamp,
}

impl Purpose for BatchManifest {
    const PAYLOAD_TYPE: &'static str = "application/vnd.better-compute.batch+json";
}

/// A command's place in its batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BatchProof {
    /// The manifest, signed by the command's worker and by approvers where the quorum asks for them.
    pub manifest: Signed<BatchManifest>,
    /// Which leaf, from 0.
    pub index: u32,
    /// The hashes beside its way to the root, from the leaf up; at most [`MAX_PROOF`].
    pub proof: Vec<Sha256Digest>,
}

/// What one machine is to suffer: no id, attempt or time, so that it can be approved ahead.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    /// The machine.
    pub node_id: &'a str,
    /// The command's kind.
    pub kind: &'a str,
    /// The operation within it; empty when the kind has but one.
    pub operation: &'a str,
    /// The wipe's mode; the image's digest and root-disk hint; `kexec`; the firmware's digest; the credential's name.
    pub intent: &'a str,
    /// The workflow.
    pub workflow_id: &'a str,
    /// The step.
    pub step_id: &'a str,
}

impl Leaf<'_> {
    /// SHA-256 over `0x00` (RFC 9162's leaf prefix) and each field with its length in 4 bytes, big-endian, before it.
    #[must_use]
    pub fn hash(&self) -> Sha256Digest {
        let mut hash = Sha256::new();
        hash.update(&[0]);
        for field in [self.node_id, self.kind, self.operation, self.intent, self.workflow_id, self.step_id] {
            hash.update(&u32::try_from(field.len()).unwrap_or(u32::MAX).to_be_bytes());
            hash.update(field.as_bytes());
        }
        hash.finish()
    }
}

fn node(left: &Sha256Digest, right: &Sha256Digest) -> Sha256Digest {
    let mut hash = Sha256::new();
    hash.update(&[1]);
    hash.update(left.as_bytes());
    hash.update(right.as_bytes());
    hash.finish()
}

/// Splits as RFC 9162, 2.1.1 does: the largest power of two smaller than `len`, which is at least 2.
const fn split(len: usize) -> usize {
    len.next_power_of_two() / 2
}

/// The root over `leaves`; nothing for none.
#[must_use]
pub fn root(leaves: &[Sha256Digest]) -> Option<Sha256Digest> {
    match leaves {
        [] => None,
        [leaf] => Some(*leaf),
        _ => {
            let (left, right) = leaves.split_at(split(leaves.len()));
            Some(node(&root(left)?, &root(right)?))
        }
    }
}

/// The inclusion proof of leaf `index` (RFC 9162, 2.1.3.1); nothing when there is no such leaf.
#[must_use]
pub fn inclusion_proof(leaves: &[Sha256Digest], index: usize) -> Option<Vec<Sha256Digest>> {
    if index >= leaves.len() {
        return None;
    }
    if leaves.len() == 1 {
        return Some(Vec::new());
    }
    let at = split(leaves.len());
    let (left, right) = leaves.split_at(at);
    let (mut proof, sibling) = if index < at {
        (inclusion_proof(left, index)?, root(right)?)
    } else {
        (inclusion_proof(right, index - at)?, root(left)?)
    };
    proof.push(sibling);
    Some(proof)
}

/// Whether `leaf` is number `index` of a tree of `size` leaves with this `root` (RFC 9162, 2.1.3.2).
#[must_use]
pub fn includes(
    root: &Sha256Digest,
    size: u32,
    leaf: &Sha256Digest,
    index: u32,
    proof: &[Sha256Digest],
) -> bool {
    if index >= size || proof.len() > MAX_PROOF {
        return false;
    }
    let (mut at, mut last, mut hash) = (index, size - 1, *leaf);
    for sibling in proof {
        if last == 0 {
            return false;
        }
        if at & 1 == 1 || at == last {
            hash = node(sibling, &hash);
            while at & 1 == 0 && at != 0 {
                at >>= 1;
                last >>= 1;
            }
        } else {
            hash = node(&hash, sibling);
        }
        at >>= 1;
        last >>= 1;
    }
    last == 0 && hash == *root
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leaves(count: u32) -> Vec<Sha256Digest> {
        (0..count).map(|index| Sha256Digest::of(&index.to_be_bytes())).collect()
    }

    #[test]
    fn every_leaf_of_every_small_tree_is_proven_at_its_place_only() {
        for size in 1..=17_u32 {
            let leaves = leaves(size);
            let root = root(&leaves).unwrap();
            for index in 0..size {
                let proof = inclusion_proof(&leaves, index as usize).unwrap();
                let leaf = &leaves[index as usize];
                assert!(includes(&root, size, leaf, index, &proof), "{index} of {size}");
                assert!(!includes(&root, size, &Sha256Digest::of(b"other"), index, &proof));
                assert!(!includes(&root, size, leaf, size, &proof));
                let mut longer = proof.clone();
                longer.push(*leaf);
                assert!(!includes(&root, size, leaf, index, &longer));
                if let Some((_, shorter)) = proof.split_last() {
                    assert!(!includes(&root, size, leaf, index, shorter));
                }
                for other in (0..size).filter(|other| *other != index) {
                    assert!(
                        !includes(&root, size, leaf, other, &proof),
                        "{index} passed as {other} of {size}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_batch_of_many_can_not_pass_as_one_of_few() {
        let leaves = leaves(8);
        let root = root(&leaves).unwrap();
        let proof = inclusion_proof(&leaves, 0).unwrap();
        for size in (1..=32).filter(|size| !(5..=8).contains(size)) {
            assert!(!includes(&root, size, &leaves[0], 0, &proof), "passed as one of {size}");
        }
    }

    #[test]
    fn fields_of_a_leaf_do_not_run_into_each_other() {
        let leaf =
            Leaf { node_id: "a", kind: "bc", operation: "", intent: "d", workflow_id: "w", step_id: "s" };
        let shifted = Leaf { node_id: "ab", kind: "c", ..leaf };
        assert_ne!(leaf.hash(), shifted.hash());
    }

    proptest! {
        #[test]
        fn large_trees_prove_too(size in 1_u32..2000, pick: u32) {
            let leaves = leaves(size);
            let index = pick % size;
            let proof = inclusion_proof(&leaves, index as usize).unwrap();
            prop_assert!(proof.len() <= MAX_PROOF);
            prop_assert!(includes(&root(&leaves).unwrap(), size, &leaves[index as usize], index, &proof));
        }
    }
}
