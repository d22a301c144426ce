//! Time for a machine whose clock may say anything: a signed server time plus the monotonic clock.

use std::time::Duration;

use crate::time::{Monotonic, Timestamp};

/// How far one later server time may move the clock, besides its drift.
const MAX_CORRECTION: Duration = Duration::from_secs(5);
/// How far a monotonic clock drifts: 500 parts in a million.
const DRIFT_PARTS: u32 = 2_000;

/// Trusted time, once a server time was heard over a pinned connection.
#[derive(Clone, Copy, Debug)]
pub struct TrustedClock {
    floor: Timestamp,
    anchor: Option<(Timestamp, Monotonic)>,
}

impl TrustedClock {
    /// Before anything was heard: nothing is earlier than `floor`, the newest time known for sure (the
    /// program's build, or the newest signed time that was seen).
    #[must_use]
    pub const fn new(floor: Timestamp) -> Self {
        Self { floor, anchor: None }
    }

    /// Takes in a server time heard at `at`: the first sets the clock, later ones correct it by at most 5 s
    /// and 500 ppm of the time since. It never goes below the floor.
    pub fn hear(&mut self, server_time: Timestamp, at: Monotonic) {
        let server_time = server_time.max(self.floor);
        let corrected = match self.anchor {
            None => server_time,
            Some((time, since)) => {
                let elapsed = at.since(since);
                let expected = time.saturating_add(elapsed);
                let bound = MAX_CORRECTION + elapsed / DRIFT_PARTS;
                server_time.clamp(expected.saturating_sub(bound), expected.saturating_add(bound))
            }
        };
        self.anchor = Some((corrected, at));
    }

    /// The time at `at`.
    #[must_use]
    pub fn at(&self, at: Monotonic) -> Now {
        match self.anchor {
            Some((time, since)) => Now { time: time.saturating_add(at.since(since)), known: true },
            None => Now { time: self.floor, known: false },
        }
    }
}

/// A time to check signed things against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The time; a lower bound when it is not known.
    pub time: Timestamp,
    /// Whether a server time was heard: only then can something be from the future.
    pub known: bool,
}

impl Now {
    /// A time that is known.
    #[must_use]
    pub const fn known(time: Timestamp) -> Self {
        Self { time, known: true }
    }

    /// Whether something that holds until `not_after` has lapsed, with the allowance for skew.
    #[must_use]
    pub fn is_past(&self, not_after: Timestamp) -> bool {
        self.time > not_after.saturating_add(crate::wire::SKEW)
    }

    /// Whether something that holds from `not_before` is from the future, with the allowance for skew.
    #[must_use]
    pub fn is_before(&self, not_before: Timestamp) -> bool {
        self.known && self.time.saturating_add(crate::wire::SKEW) < not_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::new(Duration::from_secs(seconds))
    }

    fn time(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + seconds * 1000)
    }

    #[test]
    fn the_first_time_sets_and_later_ones_correct_within_bounds() {
        let mut clock = TrustedClock::new(time(0));
        assert_eq!(clock.at(at(5)), Now { time: time(0), known: false });
        clock.hear(time(1000), at(10));
        assert_eq!(clock.at(at(20)), Now::known(time(1010)));
        clock.hear(time(9999), at(20));
        assert_eq!(clock.at(at(20)).time, time(1015).saturating_add(Duration::from_millis(5)));
        clock.hear(time(0), at(20));
        assert_eq!(clock.at(at(20)).time, time(1010).saturating_add(Duration::from_millis(5)));
    }

    #[test]
    fn nothing_is_earlier_than_the_floor() {
        let mut clock = TrustedClock::new(time(100));
        clock.hear(time(0), at(0));
        assert_eq!(clock.at(at(0)).time, time(100));
    }

    #[test]
    fn without_a_known_time_only_lapsed_things_are_refused() {
        let now = TrustedClock::new(time(1000)).at(at(0));
        assert!(now.is_past(time(1000 - 61)) && !now.is_past(time(1000 - 60)));
        assert!(!now.is_before(time(999_999)));
        let now = Now::known(time(1000));
        assert!(now.is_before(time(1061)) && !now.is_before(time(1060)));
    }
}
