//! What an agent trusts for commands: its bundle, and workers certified under the bundle's roots.

use super::clock::Now;
use crate::envelope::{Signed, Verified};
use crate::error::{Error, Result};
use crate::id::SiteId;
use crate::key::PublicKey;
use crate::pin::Pin;
use crate::reason;
use crate::wire::batch::BatchManifest;
use crate::wire::trust::{
    MAX_BUNDLE_LIFETIME, MAX_KEYS, MAX_WORKER_LIFETIME, Quorum, TrustBundle, WorkerCertificate,
};

/// A bundle that may be used. Only [`TrustStore::take`] makes one.
#[derive(Clone, Debug)]
pub struct TrustStore {
    bundle: TrustBundle,
}

impl TrustStore {
    /// Takes a bundle that a signed answer vouches for, after the one held before.
    ///
    /// # Errors
    /// `FORBIDDEN` with reason `bundle-rollback` (a lower version; roots before and none now), `expired`,
    /// `not-yet-valid` or `malformed` (too many keys, too long a life).
    pub fn take(bundle: TrustBundle, held: Option<&Self>, now: Now) -> Result<Self> {
        let refuse =
            |reason, message: &str| Err(Error::forbidden(reason, format!("the trust bundle {message}")));
        if bundle.command_roots.len() > MAX_KEYS
            || bundle.approvers.len() > MAX_KEYS
            || bundle.revoked_keys.len() > 1024
        {
            return refuse(reason::MALFORMED, "names more keys than it may");
        }
        if bundle.expires > bundle.issued_at.saturating_add(MAX_BUNDLE_LIFETIME) {
            return refuse(reason::MALFORMED, "holds longer than 90 days");
        }
        if now.is_past(bundle.expires) {
            return refuse(reason::EXPIRED, "has lapsed");
        }
        if now.is_before(bundle.issued_at) {
            return refuse(reason::NOT_YET_VALID, "is from the future");
        }
        if let Some(Self { bundle: held }) = held {
            if bundle.version < held.version {
                return refuse(reason::BUNDLE_ROLLBACK, "is older than the one held");
            }
            if !held.command_roots.is_empty() && bundle.command_roots.is_empty() {
                return refuse(reason::BUNDLE_ROLLBACK, "has lost its roots");
            }
        }
        Ok(Self { bundle })
    }

    /// The bundle.
    #[must_use]
    pub const fn bundle(&self) -> &TrustBundle {
        &self.bundle
    }

    /// Whether it has command roots: without, only harmless reads are run.
    #[must_use]
    pub fn has_roots(&self) -> bool {
        !self.bundle.command_roots.is_empty()
    }

    /// When approvals are needed.
    #[must_use]
    pub const fn quorum(&self) -> Quorum {
        self.bundle.quorum
    }

    fn is_revoked(&self, key: &PublicKey) -> bool {
        self.bundle.revoked_keys.contains(&Pin::of(key))
    }

    /// Checks a worker's certificate for a site and a kind (none for a spec).
    ///
    /// # Errors
    /// `FORBIDDEN` with reason `no-roots`, `bad-signature`, `expired`, `not-yet-valid`, `revoked`, `malformed`.
    pub fn worker(
        &self,
        certificate: &Signed<WorkerCertificate>,
        site: &SiteId,
        kind: Option<&str>,
        now: Now,
    ) -> Result<Verified<WorkerCertificate>> {
        if !self.has_roots() || now.is_past(self.bundle.expires) {
            return Err(Error::forbidden(reason::NO_ROOTS, "the trust bundle has no roots, or has lapsed"));
        }
        let refuse = |reason, message: &str| {
            Err(Error::forbidden(reason, format!("the worker's certificate {message}")))
        };
        let roots = self.bundle.command_roots.iter().filter(|root| !self.is_revoked(root));
        let certificate = certificate.verify(roots)?;
        if certificate.not_after > certificate.issued_at.saturating_add(MAX_WORKER_LIFETIME) {
            return refuse(reason::MALFORMED, "holds longer than 7 days");
        }
        if now.is_past(certificate.not_after) {
            return refuse(reason::EXPIRED, "has lapsed");
        }
        if now.is_before(certificate.issued_at) {
            return refuse(reason::NOT_YET_VALID, "is from the future");
        }
        if self.is_revoked(&certificate.worker) {
            return refuse(reason::REVOKED, "is of a revoked key");
        }
        if self.bundle.command_roots.contains(&certificate.worker)
            || self.bundle.approvers.iter().any(|a| a.spki == certificate.worker)
        {
            return refuse(reason::BAD_SIGNATURE, "is of a key with another role");
        }
        if certificate.site.as_ref().is_some_and(|allowed| allowed != site) {
            return refuse(reason::BAD_SIGNATURE, "is for another site");
        }
        let kind_fits = match (&certificate.kinds, kind) {
            (Some(kinds), Some(kind)) => kinds.iter().any(|allowed| allowed == kind),
            _ => true,
        };
        if !kind_fits {
            return refuse(reason::BAD_SIGNATURE, "is not for this kind of command");
        }
        Ok(certificate)
    }

    /// Checks a batch's manifest: signed by the worker, and above the quorum's bound by enough approvers,
    /// distinct by key and by subject.
    ///
    /// # Errors
    /// `FORBIDDEN` with reason `bad-signature`, `malformed`, `expired`, `not-yet-valid` or `quorum-missing`.
    pub fn manifest(
        &self,
        manifest: &Signed<BatchManifest>,
        worker: &PublicKey,
        now: Now,
    ) -> Result<Verified<BatchManifest>> {
        let approvers = self.bundle.approvers.iter().filter(|approver| !self.is_revoked(&approver.spki));
        let keys = std::iter::once(worker).chain(approvers.clone().map(|approver| &approver.spki));
        let manifest = manifest.verify(keys)?;
        let refuse = |reason, message: &str| Err(Error::forbidden(reason, format!("the batch {message}")));
        if !manifest.signers().contains(worker) {
            return refuse(reason::BAD_SIGNATURE, "is not signed by the command's worker");
        }
        if manifest.not_after > manifest.not_before.saturating_add(crate::wire::batch::MAX_LIFETIME)
            || manifest.size == 0
            || manifest.size > crate::wire::batch::MAX_SIZE
        {
            return refuse(reason::MALFORMED, "holds too long or has a wrong size");
        }
        if now.is_past(manifest.not_after) {
            return refuse(reason::EXPIRED, "has lapsed");
        }
        if now.is_before(manifest.not_before) {
            return refuse(reason::NOT_YET_VALID, "is from the future");
        }
        if manifest.size > self.quorum().above {
            let subjects: std::collections::BTreeSet<&str> = approvers
                .filter(|approver| manifest.signers().contains(&approver.spki) && approver.spki != *worker)
                .map(|approver| approver.subject.as_str())
                .collect();
            if subjects.len() < usize::try_from(self.quorum().required).unwrap_or(usize::MAX) {
                return refuse(
                    reason::QUORUM_MISSING,
                    &format!(
                        "of {} machines has {} of {} approvals",
                        manifest.size,
                        subjects.len(),
                        self.quorum().required
                    ),
                );
            }
        }
        Ok(manifest)
    }
}
