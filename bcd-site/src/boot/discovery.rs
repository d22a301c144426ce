//! The machines seen on the provisioning network that have no boot entry.
//!
//! Everything in this list is said by strangers, so it is bounded in number, in rate and in what a value may
//! look like. When it is full, machines seen by DHCP alone (which anybody can forge by the thousand) give
//! way before those that an HTTP fetch confirmed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bcd_core::machine::MacAddr;
use bcd_core::time::Timestamp;
use serde::Serialize;

/// The most machines listed.
pub const MAX_MACHINES: usize = 256;

/// How long a machine is listed after it was last seen.
pub const FORGET_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The most machines taken up within [`NEW_PER`].
pub const MAX_NEW: usize = 32;

/// The time that [`MAX_NEW`] counts in.
pub const NEW_PER: Duration = Duration::from_secs(60);

/// The least time between two reports asked for because of a new machine.
pub const REPORT_EVERY: Duration = Duration::from_secs(30);

/// The longest architecture name, in bytes.
pub const MAX_ARCH_LEN: usize = 32;

/// How a machine was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// By a DHCP request.
    Dhcp,
    /// By a fetch of its script.
    Http,
}

/// One sight of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Its address.
    pub mac: MacAddr,
    /// Its product UUID as told; dropped unless it is in canonical form.
    pub uuid: Option<String>,
    /// Its architecture as told; dropped unless it is `[a-z0-9_-]{1,32}`.
    pub arch: Option<String>,
    /// How it was seen.
    pub via: Via,
}

/// A machine without a boot entry, as it is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Discovered {
    /// Its address.
    pub mac: MacAddr,
    /// Its product UUID in canonical form, where it told one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_uuid: Option<String>,
    /// Such as `bios`, `x86_64-efi`, `arm64-efi-http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// The surest way it was seen.
    pub via: Via,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// When it was last seen.
    pub last_seen: Timestamp,
}

/// The list.
#[derive(Debug, Default)]
pub struct Discovery {
    machines: BTreeMap<MacAddr, Discovered>,
    taken_up: VecDeque<Timestamp>,
    unreported: bool,
    reported: Option<Timestamp>,
}

impl Discovery {
    /// Takes in one sight of a machine at `now`.
    pub fn handle(&mut self, seen: Sighting, now: Timestamp) {
        self.machines.retain(|_, machine| now.since(machine.last_seen) < FORGET_AFTER);
        let uuid = seen.uuid.filter(|uuid| is_canonical_uuid(uuid));
        let arch = seen.arch.filter(|arch| is_arch(arch));
        if let Some(machine) = self.machines.get_mut(&seen.mac) {
            machine.last_seen = now;
            machine.product_uuid = uuid.or_else(|| machine.product_uuid.take());
            machine.arch = arch.or_else(|| machine.arch.take());
            if seen.via == Via::Http {
                machine.via = Via::Http;
            }
            return;
        }
        if !self.may_take_up(now) || !self.make_room(seen.via) {
            return;
        }
        self.taken_up.push_back(now);
        self.unreported = true;
        self.machines.insert(
            seen.mac,
            Discovered {
                mac: seen.mac,
                product_uuid: uuid,
                arch,
                via: seen.via,
                first_seen: now,
                last_seen: now,
            },
        );
    }

    /// Drops a machine from the list: it has a boot entry now.
    pub fn remove(&mut self, mac: MacAddr) {
        self.machines.remove(&mac);
    }

    /// Whether the machine is listed.
    #[must_use]
    pub fn contains(&self, mac: MacAddr) -> bool {
        self.machines.contains_key(&mac)
    }

    /// The listed machines at `now`, by address.
    pub fn machines(&self, now: Timestamp) -> impl Iterator<Item = &Discovered> {
        self.machines.values().filter(move |machine| now.since(machine.last_seen) < FORGET_AFTER)
    }

    /// Whether a status report should be sent now because of a new machine: true once for every
    /// [`REPORT_EVERY`] at most.
    pub fn poll_report(&mut self, now: Timestamp) -> bool {
        let due = self.unreported && self.reported.is_none_or(|reported| now.since(reported) >= REPORT_EVERY);
        if due {
            self.unreported = false;
            self.reported = Some(now);
        }
        due
    }

    fn may_take_up(&mut self, now: Timestamp) -> bool {
        while self.taken_up.front().is_some_and(|&at| now.since(at) >= NEW_PER) {
            self.taken_up.pop_front();
        }
        self.taken_up.len() < MAX_NEW
    }

    /// Makes room for one machine: the one seen by DHCP alone the longest ago goes first; one that HTTP
    /// confirmed gives way only to another such.
    fn make_room(&mut self, newcomer: Via) -> bool {
        if self.machines.len() < MAX_MACHINES {
            return true;
        }
        let victim = self
            .machines
            .values()
            .filter(|machine| machine.via == Via::Dhcp || newcomer == Via::Http)
            .min_by_key(|machine| (machine.via == Via::Http, machine.last_seen))
            .map(|machine| machine.mac);
        victim.is_some_and(|mac| self.machines.remove(&mac).is_some())
    }
}

fn is_canonical_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        })
}

fn is_arch(text: &str) -> bool {
    (1..=MAX_ARCH_LEN).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_764_500_000_000);

    fn mac(n: u16) -> MacAddr {
        let [a, b] = n.to_be_bytes();
        MacAddr::new([0x52, 0x54, 0, 0, a, b]).unwrap()
    }

    fn sighting(n: u16, via: Via) -> Sighting {
        Sighting { mac: mac(n), uuid: None, arch: None, via }
    }

    fn minutes(n: u64) -> Timestamp {
        START.saturating_add(Duration::from_secs(60 * n))
    }

    fn full(via: Via) -> (Discovery, Timestamp) {
        let mut list = Discovery::default();
        for n in 0..256_u16 {
            list.handle(sighting(n, via), minutes(u64::from(n / 32)));
        }
        assert_eq!(list.machines(minutes(7)).count(), MAX_MACHINES);
        (list, minutes(8))
    }

    #[test]
    fn a_minute_takes_up_32_new_machines_and_not_one_more() {
        let mut list = Discovery::default();
        for n in 0..33 {
            list.handle(sighting(n, Via::Dhcp), START);
        }
        assert_eq!(list.machines(START).count(), MAX_NEW);
        list.handle(sighting(33, Via::Dhcp), minutes(1));
        assert!(list.contains(mac(33)));
    }

    #[test]
    fn a_full_list_gives_up_dhcp_sightings_before_confirmed_ones() {
        let (mut list, now) = full(Via::Dhcp);
        list.handle(sighting(0, Via::Http), now);
        list.handle(sighting(999, Via::Dhcp), now);
        assert!(list.contains(mac(0)) && !list.contains(mac(1)) && list.contains(mac(999)));
        assert_eq!(list.machines(now).count(), MAX_MACHINES);

        let (mut list, now) = full(Via::Http);
        list.handle(sighting(999, Via::Dhcp), now);
        assert!(!list.contains(mac(999)), "a DHCP sighting drives out no confirmed machine");
        list.handle(sighting(998, Via::Http), now);
        assert!(list.contains(mac(998)) && !list.contains(mac(0)));
    }

    #[test]
    fn a_machine_is_forgotten_a_day_after_its_last_sight() {
        let mut list = Discovery::default();
        list.handle(sighting(1, Via::Dhcp), START);
        assert_eq!(list.machines(minutes(24 * 60 - 1)).count(), 1);
        assert_eq!(list.machines(minutes(24 * 60)).count(), 0);
    }

    #[test]
    fn only_canonical_uuids_and_plain_architectures_are_kept() {
        let mut list = Discovery::default();
        let mut check = |uuid: &str, arch: &str, kept: (bool, bool)| {
            list = Discovery::default();
            let seen = Sighting {
                mac: mac(1),
                uuid: Some(uuid.to_owned()),
                arch: Some(arch.to_owned()),
                via: Via::Http,
            };
            list.handle(seen, START);
            let machine = list.machines(START).next().unwrap();
            assert_eq!((machine.product_uuid.is_some(), machine.arch.is_some()), kept, "{uuid} {arch}");
        };
        check("00112233-4455-6677-8899-aabbccddeeff", &"a".repeat(32), (true, true));
        check("00112233-4455-6677-8899-AABBCCDDEEFF", &"a".repeat(33), (false, false));
        check("00112233445566778899aabbccddeeff", "", (false, false));
        check("00112233-4455-6677-8899-aabbccddeef\n", "x86 64", (false, false));
    }

    #[test]
    fn a_report_is_asked_for_once_every_30_seconds_at_most() {
        let mut list = Discovery::default();
        assert!(!list.poll_report(START));
        list.handle(sighting(1, Via::Dhcp), START);
        assert!(list.poll_report(START));
        assert!(!list.poll_report(START));
        list.handle(sighting(2, Via::Dhcp), START);
        assert!(!list.poll_report(START.saturating_add(Duration::from_millis(29_999))));
        assert!(list.poll_report(START.saturating_add(REPORT_EVERY)));
        list.handle(sighting(2, Via::Http), minutes(2));
        assert!(!list.poll_report(minutes(3)), "a known machine is no news");
    }
}
