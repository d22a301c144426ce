//! The fence: whether this agent may answer PXE machines at this moment.
//!
//! Two agents that answer the same machines hand out two kernels, so only the holder of the site's boot
//! lease answers, and only while it knows that it holds it. The fence is the agent's half: it stands by
//! itself once the gateway has been silent for the lease's time to live. Silence is counted from when the
//! newest acknowledged heartbeat was *sent* (not from when its answer came), on the monotonic clock, so
//! that neither a slow network nor a clock set back stretches a lease.

use std::time::Duration;

use bcd_core::time::Monotonic;

/// The time to live of a lease that names none (seed: 15 seconds).
pub const DEFAULT_TTL: Duration = Duration::from_secs(15);

/// The longest time to live that is taken; a longer one is cut to it.
pub const MAX_TTL: Duration = Duration::from_secs(300);

/// The boot lease as the control plane last told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootLease {
    /// Whether this agent is the active boot server of its site.
    pub active: bool,
    /// Which holding of the lease it is; it never falls, and 0 is no holding.
    pub epoch: u64,
    /// For how long the holder may go on without hearing from the gateway; zero stands for [`DEFAULT_TTL`].
    pub ttl: Duration,
}

/// Proof that the lease was held at the moment it was asked for; only [`Fence::held`] makes one.
///
/// It is not kept across an await: whoever waited asks again before the answer leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLease {
    epoch: u64,
}

impl HeldLease {
    /// The epoch it is held at, never 0.
    #[must_use]
    pub const fn epoch(self) -> u64 {
        self.epoch
    }
}

/// The lease and the last sign of life of the gateway.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fence {
    lease: Option<BootLease>,
    heard: Option<Monotonic>,
}

impl Fence {
    /// Takes in what the control plane says of the lease. A lower epoch than the known one is stale and
    /// ignored.
    pub fn handle_lease(&mut self, lease: BootLease) {
        if self.lease.is_none_or(|known| lease.epoch >= known.epoch) {
            self.lease = Some(lease);
        }
    }

    /// Takes in that the gateway acknowledged the heartbeat sent at `sent`.
    pub fn handle_heard(&mut self, sent: Monotonic) {
        self.heard = self.heard.max(Some(sent));
    }

    /// The lease, when it is held at `now`.
    #[must_use]
    pub fn held(&self, now: Monotonic) -> Option<HeldLease> {
        let lease = self.lease.filter(|lease| lease.active && lease.epoch > 0)?;
        let ttl = if lease.ttl.is_zero() { DEFAULT_TTL } else { lease.ttl.min(MAX_TTL) };
        (now.since(self.heard?) < ttl).then_some(HeldLease { epoch: lease.epoch })
    }

    /// The epoch last told, held or not, for the status report.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.lease.map_or(0, |lease| lease.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Monotonic {
        Monotonic::new(Duration::from_millis(ms))
    }

    fn lease(active: bool, epoch: u64, ttl_ms: u64) -> BootLease {
        BootLease { active, epoch, ttl: Duration::from_millis(ttl_ms) }
    }

    fn check(lease: Option<BootLease>, heard: Option<u64>, now: u64, held: Option<u64>) {
        let mut fence = Fence::default();
        if let Some(lease) = lease {
            fence.handle_lease(lease);
        }
        if let Some(ms) = heard {
            fence.handle_heard(at(ms));
        }
        assert_eq!(fence.held(at(now)).map(HeldLease::epoch), held, "{lease:?} {heard:?} {now}");
    }

    #[test]
    fn a_lease_is_held_until_the_silence_reaches_its_ttl() {
        check(Some(lease(true, 3, 1000)), Some(500), 1499, Some(3));
        check(Some(lease(true, 3, 1000)), Some(500), 1500, None);
        check(Some(lease(true, 3, 0)), Some(0), 14_999, Some(3));
        check(Some(lease(true, 3, 0)), Some(0), 15_000, None);
        check(Some(lease(true, 3, u64::MAX)), Some(0), 299_999, Some(3));
        check(Some(lease(true, 3, u64::MAX)), Some(0), 300_000, None);
    }

    #[test]
    fn nothing_is_held_without_a_lease_an_epoch_or_a_sign_of_life() {
        check(None, Some(0), 0, None);
        check(Some(lease(false, 3, 1000)), Some(0), 0, None);
        check(Some(lease(true, 0, 1000)), Some(0), 0, None);
        check(Some(lease(true, 3, 1000)), None, 0, None);
    }

    #[test]
    fn a_stale_epoch_and_an_older_heartbeat_change_nothing() {
        let mut fence = Fence::default();
        fence.handle_heard(at(1000));
        fence.handle_heard(at(10));
        fence.handle_lease(lease(false, 5, 1000));
        fence.handle_lease(lease(true, 4, 1000));
        assert_eq!(fence.held(at(1000)), None);
        fence.handle_lease(lease(true, 6, 1000));
        assert_eq!(fence.held(at(1999)).map(HeldLease::epoch), Some(6));
        assert_eq!(fence.epoch(), 6);
    }
}
