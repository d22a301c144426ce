//! Points in time as the contract writes them, and the seam to clocks.
//!
//! Pure code takes a [`Timestamp`] (wall time) or a [`Monotonic`] (time since the process began) as an
//! argument. Only shells hold a [`Clock`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in wall time, in whole milliseconds since 1970-01-01T00:00:00Z.
///
/// In JSON it is an RFC 3339 text in UTC with milliseconds, such as `2026-11-30T10:20:30.000Z`; in a
/// database it is the integer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The latest time an RFC 3339 text can say: the last millisecond of the year 9999.
    const MAX_MS: i64 = 253_402_300_799_999;
    /// The earliest one we take: 1970.
    const MIN_MS: i64 = 0;

    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);

    /// From milliseconds since 1970, held within the years 1970 to 9999.
    #[must_use]
    pub const fn from_millis(ms: i64) -> Self {
        if ms < Self::MIN_MS {
            Self(Self::MIN_MS)
        } else if ms > Self::MAX_MS {
            Self(Self::MAX_MS)
        } else {
            Self(ms)
        }
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This time plus `duration`, held at the end of the year 9999.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// This time less `duration`, held at 1970.
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self::from_millis(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero when it is not after.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = jiff::Timestamp::from_millisecond(self.0).map_err(|_| fmt::Error)?;
        write!(f, "{time:.3}")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not an RFC 3339 time between 1970 and 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time between the years 1970 and 9999, such as 2026-11-30T10:20:30.000Z")]
pub struct InvalidTimestamp;

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        let ms = text.parse::<jiff::Timestamp>().map_err(|_| InvalidTimestamp)?.as_millisecond();
        if (Self::MIN_MS..=Self::MAX_MS).contains(&ms) { Ok(Self(ms)) } else { Err(InvalidTimestamp) }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// Time since some fixed moment of this process; never set back, unlike [`Timestamp`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(Duration);

impl Monotonic {
    /// The moment that others are counted from.
    pub const START: Self = Self(Duration::ZERO);

    /// The time that is `since_start` after the start.
    #[must_use]
    pub const fn new(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// This time plus `duration`.
    #[must_use]
    pub const fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }

    /// How long after `earlier` this is; zero when it is not after.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Where a shell gets its time from.
pub trait Clock: Send + Sync + 'static {
    /// Wall time.
    fn now(&self) -> Timestamp;
    /// Monotonic time.
    fn monotonic(&self) -> Monotonic;
}

/// The machine's own clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(std::time::Instant);

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[must_use]
    pub fn new() -> Self {
        Self(std::time::Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam behind which the system's clock is read")]
    fn now(&self) -> Timestamp {
        let since_1970 =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::EPOCH.saturating_add(since_1970)
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(self.0.elapsed())
    }
}

/// A clock that tests set by hand.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug)]
pub struct ManualClock(std::sync::atomic::AtomicU64, Timestamp);

#[cfg(any(test, feature = "testing"))]
impl ManualClock {
    /// A clock that stands at `start`.
    #[must_use]
    pub const fn new(start: Timestamp) -> Self {
        Self(std::sync::atomic::AtomicU64::new(0), start)
    }

    /// Moves both of its times on.
    pub fn advance(&self, by: Duration) {
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_add(ms, std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(any(test, feature = "testing"))]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.1.saturating_add(self.monotonic().since(Monotonic::START))
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic(Duration::from_millis(self.0.load(std::sync::atomic::Ordering::SeqCst)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_time_is_written_in_utc_with_milliseconds() {
        let time: Timestamp = "2026-11-30T12:20:30+02:00".parse().unwrap();
        assert_eq!(time.to_string(), "2026-11-30T10:20:30.000Z");
        assert_eq!(serde_json::to_string(&time).unwrap(), r#""2026-11-30T10:20:30.000Z""#);
    }

    #[test]
    fn times_outside_1970_to_9999_are_refused() {
        for text in
            ["1969-12-31T23:59:59.999Z", "-000001-01-01T00:00:00Z", "yesterday", "", "2026-13-01T00:00:00Z"]
        {
            assert_eq!(text.parse::<Timestamp>(), Err(InvalidTimestamp), "{text}");
        }
        assert!(
            "9999-12-31T23:59:59.999Z".parse::<Timestamp>().is_err()
                || Timestamp::from_millis(i64::MAX).to_string().starts_with("9999")
        );
    }

    proptest! {
        #[test]
        fn print_then_parse_is_identity(ms in 0..=253_402_200_000_000_i64) {
            let time = Timestamp::from_millis(ms);
            prop_assert_eq!(time.to_string().parse::<Timestamp>(), Ok(time));
        }

        #[test]
        fn arithmetic_never_leaves_the_range(ms in any::<i64>(), by in any::<u64>()) {
            let time = Timestamp::from_millis(ms);
            prop_assert!(time.saturating_add(Duration::from_millis(by)) >= time);
            prop_assert!(time.saturating_sub(Duration::from_millis(by)) <= time);
        }
    }
}
