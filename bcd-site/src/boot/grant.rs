//! Grants: what a machine or a BMC shows to be served an image from the cache.
//!
//! A grant is 128 random bits in a URL. It is held in memory only, by its hash, so that neither a restart nor
//! a look at the process's tables gives one away.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use bcd_core::digest::Sha256Digest;
use bcd_core::id::EntryId;
use bcd_core::time::Timestamp;
use data_encoding::HEXLOWER;

/// The most grants held at once.
pub const MAX_GRANTS: usize = 4096;

/// How long a firmware grant lasts.
pub const FIRMWARE_GRANT_FOR: Duration = Duration::from_secs(2 * 60 * 60);

/// The random bytes of a grant.
pub const GRANT_BYTES: usize = 16;

/// The text of a grant as it stands in a URL: 32 hex digits. It is a secret: no Display, no content in Debug.
#[derive(Clone, PartialEq, Eq)]
pub struct GrantText(String);

impl GrantText {
    /// The text, for the one URL it is made for.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for GrantText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrantText(..)")
    }
}

/// What a grant is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any cached image, for the machine of this boot entry, while the agent holds the lease.
    Boot(EntryId),
    /// This one image, for a BMC at one of these addresses, lease or not.
    Firmware {
        /// The image.
        digest: Sha256Digest,
        /// The BMC's remembered addresses.
        addresses: Vec<IpAddr>,
    },
}

#[derive(Debug)]
struct Grant {
    scope: Scope,
    until: Timestamp,
}

/// All grants that are good.
#[derive(Debug, Default)]
pub struct Grants {
    by_hash: HashMap<Sha256Digest, Grant>,
}

impl Grants {
    /// Makes a grant of `random` bytes. `None` when there are [`MAX_GRANTS`] that haven't lapsed.
    pub fn issue(
        &mut self,
        scope: Scope,
        until: Timestamp,
        now: Timestamp,
        random: [u8; GRANT_BYTES],
    ) -> Option<GrantText> {
        if self.by_hash.len() >= MAX_GRANTS {
            self.by_hash.retain(|_, grant| now < grant.until);
        }
        if self.by_hash.len() >= MAX_GRANTS {
            return None;
        }
        let text = HEXLOWER.encode(&random);
        self.by_hash.insert(Sha256Digest::of(text.as_bytes()), Grant { scope, until });
        Some(GrantText(text))
    }

    /// What the grant `text` is good for at `now`, when it is good at all.
    #[must_use]
    pub fn look_up(&self, text: &str, now: Timestamp) -> Option<&Scope> {
        let grant = self.by_hash.get(&Sha256Digest::of(text.as_bytes()))?;
        (now < grant.until).then_some(&grant.scope)
    }

    /// Takes back every grant of a boot entry.
    pub fn revoke(&mut self, entry: &EntryId) {
        self.by_hash.retain(|_, grant| !matches!(&grant.scope, Scope::Boot(of) if of == entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_764_500_000_000);

    fn entry(n: u8) -> EntryId {
        EntryId::from_parts(START, [n; 10])
    }

    fn random(n: usize) -> [u8; GRANT_BYTES] {
        u128::try_from(n).unwrap().to_be_bytes()
    }

    #[test]
    fn a_grant_is_good_until_it_lapses_and_only_by_its_exact_text() {
        let until = START.saturating_add(Duration::from_secs(1));
        let mut grants = Grants::default();
        let text = grants.issue(Scope::Boot(entry(1)), until, START, random(0xab)).unwrap();
        assert_eq!(text.expose().len(), 32);
        assert_eq!(grants.look_up(text.expose(), START), Some(&Scope::Boot(entry(1))));
        assert_eq!(grants.look_up(text.expose(), until), None);
        assert_eq!(grants.look_up(&text.expose().to_uppercase(), START), None);
        assert_eq!(format!("{text:?}"), "GrantText(..)");
    }

    #[test]
    fn revoking_an_entry_takes_back_all_of_its_grants_and_no_others() {
        let mut grants = Grants::default();
        let until = START.saturating_add(FIRMWARE_GRANT_FOR);
        let texts = [1, 1, 2].map(|n| {
            let scope = Scope::Boot(entry(n));
            let count = grants.by_hash.len();
            grants.issue(scope, until, START, random(count)).unwrap()
        });
        grants.revoke(&entry(1));
        let good = texts.map(|text| grants.look_up(text.expose(), START).is_some());
        assert_eq!(good, [false, false, true]);
    }

    #[test]
    fn a_full_table_refuses_until_one_lapses() {
        let mut grants = Grants::default();
        let soon = START.saturating_add(Duration::from_secs(1));
        for n in 0..MAX_GRANTS {
            assert!(grants.issue(Scope::Boot(entry(1)), soon, START, random(n)).is_some());
        }
        assert_eq!(grants.issue(Scope::Boot(entry(1)), soon, START, random(MAX_GRANTS)), None);
        assert!(grants.issue(Scope::Boot(entry(1)), soon, soon, random(MAX_GRANTS)).is_some());
    }
}
