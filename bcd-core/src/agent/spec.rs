//! Which NodeSpec an agent converges to: signed, for this key, and never an older one.

use super::clock::Now;
use super::trust::TrustStore;
use super::verify::Recipient;
use crate::digest::Sha256Digest;
use crate::error::{Error, Result};
use crate::reason;
use crate::wire::spec::{MAX_CACHE_IMAGES, MAX_LIFETIME, MAX_PROXY_ADDRESSES, NodeSpec, SignedSpec};

/// The newest spec that was taken.
#[derive(Clone, Debug, Default)]
pub struct SpecStore {
    held: Option<(u64, Sha256Digest)>,
}

impl SpecStore {
    /// The generation held; 0 before the first.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.held.map_or(0, |(generation, _)| generation)
    }

    /// Checks a spec; nothing when it is the one held already.
    ///
    /// # Errors
    /// `FORBIDDEN` with reason `spec-rollback`, `wrong-recipient`, `expired`, `not-yet-valid`, `malformed`, or
    /// one of the worker's certificate.
    pub fn take(
        &mut self,
        signed: &SignedSpec,
        trust: &TrustStore,
        me: &Recipient,
        now: Now,
    ) -> Result<Option<NodeSpec>> {
        let refuse =
            |reason, message: &str| Err(Error::forbidden(reason, format!("the node spec {message}")));
        let worker = trust.worker(&signed.worker, &me.site, None, now)?;
        let document = signed.document.verify([&worker.worker])?;
        if document.node_id != me.node_id || document.node_key != me.node_key {
            return refuse(reason::WRONG_RECIPIENT, "is for another node or key");
        }
        if document.not_after > document.issued_at.saturating_add(MAX_LIFETIME) {
            return refuse(reason::MALFORMED, "holds longer than 7 days");
        }
        if now.is_past(document.not_after) {
            return refuse(reason::EXPIRED, "has lapsed");
        }
        if now.is_before(document.issued_at) {
            return refuse(reason::NOT_YET_VALID, "is from the future");
        }
        if let Some(site) = &document.spec.site {
            let addresses: usize = site.proxy_targets.iter().map(|target| target.addresses.len()).sum();
            if addresses > MAX_PROXY_ADDRESSES || site.cache_images.len() > MAX_CACHE_IMAGES {
                return refuse(reason::MALFORMED, "lists more images or addresses than it may");
            }
        }
        let digest = document.digest();
        match self.held {
            Some((generation, held)) if document.generation == generation && digest == held => {
                return Ok(None);
            }
            Some((generation, _)) if document.generation <= generation => {
                return refuse(
                    reason::SPEC_ROLLBACK,
                    "is older than the one held, or differs at the same generation",
                );
            }
            _ => self.held = Some((document.generation, digest)),
        }
        Ok(Some(document.into_inner().spec))
    }
}
