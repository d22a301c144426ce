//! Boot entries: which machine may be given what at its next network boot, and for how long.
//!
//! An entry comes by a signed command, one a machine. A *ramdisk* entry is armed just before the machine is
//! power-cycled: for [`RENDER_WINDOW`] it is rendered into a script with a join token, to the one peer that
//! asked first, a few times at most. The first successful join consumes it. A *sanboot* entry stands for as
//! long as its machine boots from an image over HTTP.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use bcd_core::digest::Sha256Digest;
use bcd_core::error::{Code, Error, Result};
use bcd_core::id::{EntryId, NodeId};
use bcd_core::machine::{MacAddr, same_machine};
use bcd_core::reason;
use bcd_core::time::Timestamp;
use bcd_core::wire::boot::{DEFAULT_LIFETIME, PrepareRamdisk};
use serde::{Deserialize, Serialize};

/// For how long after it was armed a ramdisk entry is rendered.
pub const RENDER_WINDOW: Duration = Duration::from_secs(30 * 60);

/// The most scripts rendered for one ramdisk entry.
pub const MAX_RENDERS: u32 = 16;

/// The least time between two scripts rendered for one entry.
pub const RENDER_EVERY: Duration = Duration::from_secs(1);

/// How recent a machine's PXE request must be when it asks for its script.
pub const PXE_SEEN_WITHIN: Duration = Duration::from_secs(10 * 60);

/// The longest step id and token reference, in bytes.
pub const MAX_REF_LEN: usize = 256;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// What a machine is to boot, as the command says it.
pub type BootEntry = PrepareRamdisk;

/// Whether the fields agree with each other and are within their bounds.
///
/// # Errors
/// `INVALID_INPUT` with the reason `invalid-payload` and the path of the field.
pub fn check(entry: &BootEntry) -> Result<()> {
    let refuse =
        |path: &str, message: &str| Err(Error::invalid_input(path, message).because(reason::INVALID_PAYLOAD));
    if entry.step_id.is_empty() || entry.step_id.len() > MAX_REF_LEN {
        return refuse("stepId", "a step id has 1 to 256 bytes");
    }
    match (&entry.sanboot_sha256, &entry.token_ref) {
        (None, None) => refuse("tokenRef", "a ramdisk entry needs the reference of its join token"),
        (Some(_), Some(_)) => refuse("tokenRef", "a sanboot entry takes no join token"),
        (None, Some(token)) if token.is_empty() || token.len() > MAX_REF_LEN => {
            refuse("tokenRef", "a token reference has 1 to 256 bytes")
        }
        _ => Ok(()),
    }
}

/// Until when a grant made for an entry at `now` lasts.
#[must_use]
pub fn grant_until(entry: &BootEntry, now: Timestamp) -> Timestamp {
    entry.not_after.unwrap_or_else(|| now.saturating_add(DEFAULT_LIFETIME))
}

/// The bounds on entries; from local configuration only, so that no command can widen them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most entries that are live at once.
    pub max_live: usize,
    /// The most new entries taken within an hour.
    pub max_new_per_hour: usize,
}

/// What a machine's entry says at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing<'a> {
    /// There is none: the machine is unknown.
    None,
    /// There is one, but it was consumed or its window is over: the machine goes on to its next boot device.
    Over,
    /// It is live.
    Live(&'a BootEntry),
}

/// Where a peer stands in the neighbour table of the link that machines boot on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// The link isn't known, or the peer isn't on it (it comes through a router): nothing can be said.
    Unknown,
    /// It is on the link with this address.
    Mac(MacAddr),
}

impl Neighbour {
    fn contradicts(self, mac: MacAddr) -> bool {
        matches!(self, Self::Mac(known) if known != mac)
    }
}

/// A request for a script.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The machine it says it is.
    pub mac: MacAddr,
    /// The product UUID it says it has.
    pub uuid: Option<&'a str>,
    /// Where the connection comes from.
    pub peer: IpAddr,
    /// What the link says of that peer.
    pub neighbour: Neighbour,
    /// Whether the machine must have asked by PXE within [`PXE_SEEN_WITHIN`].
    pub needs_pxe: bool,
}

/// Why an entry is not rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The machine has no entry.
    NoEntry,
    /// Its entry is consumed or past its window.
    Over,
    /// It says another product UUID than the entry's.
    OtherUuid,
    /// The peer has another address on the link than the entry's.
    OtherNeighbour,
    /// No PXE request of that machine was seen lately.
    NoPxeRequest,
    /// Another peer was given this entry already.
    Conflict,
    /// It was rendered [`MAX_RENDERS`] times.
    TooMany,
    /// It was rendered less than [`RENDER_EVERY`] ago.
    TooSoon,
}

/// An entry with what became of it so far; as it is kept in the file, without any token or grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredEntry {
    /// The entry.
    pub entry: BootEntry,
    /// When it was taken.
    pub armed_at: Timestamp,
    /// Whether a join consumed it.
    #[serde(default)]
    pub consumed: bool,
    /// How often it was rendered.
    #[serde(default)]
    pub renders: u32,
    /// The peer it was rendered to.
    #[serde(default)]
    pub peer: Option<IpAddr>,
    #[serde(skip)]
    rendered_at: Option<Timestamp>,
    #[serde(skip)]
    pxe_at: Option<Timestamp>,
    #[serde(skip)]
    conflict: Option<Conflict>,
}

/// Another peer asked for a bound entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// The entry.
    pub entry_id: EntryId,
    /// Whose entry it is.
    pub mac: MacAddr,
    /// Who asked in vain.
    pub peer: IpAddr,
    /// When it last did.
    pub at: Timestamp,
}

impl StoredEntry {
    fn is_sanboot(&self) -> bool {
        self.entry.sanboot_sha256.is_some()
    }

    fn lapsed(&self, now: Timestamp) -> bool {
        match self.entry.not_after {
            Some(end) => now >= end,
            None => !self.is_sanboot() && now.since(self.armed_at) >= DEFAULT_LIFETIME,
        }
    }

    fn is_live(&self, now: Timestamp) -> bool {
        let in_window = self.is_sanboot() || now.since(self.armed_at) < RENDER_WINDOW;
        !self.lapsed(now) && !self.consumed && in_window
    }
}

/// All entries, one a MAC address.
#[derive(Debug)]
pub struct Entries {
    by_mac: BTreeMap<MacAddr, StoredEntry>,
    taken: VecDeque<Timestamp>,
    limits: Limits,
}

impl Entries {
    /// None yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { by_mac: BTreeMap::new(), taken: VecDeque::new(), limits }
    }

    /// Those kept by an earlier run; entries that lapsed since are left out, and so are those beyond the
    /// limit.
    #[must_use]
    pub fn restore(limits: Limits, stored: Vec<StoredEntry>, now: Timestamp) -> Self {
        let mut entries = Self::new(limits);
        for entry in stored.into_iter().filter(|entry| !entry.lapsed(now)).take(limits.max_live) {
            entries.by_mac.insert(entry.entry.mac, entry);
        }
        entries
    }

    /// What to keep for the next run.
    #[must_use]
    pub fn stored(&self) -> Vec<&StoredEntry> {
        self.by_mac.values().collect()
    }

    /// Arms an entry in place of any other of its machine, and says which one it replaced. The same entry
    /// again changes nothing, so that a command may be delivered twice.
    ///
    /// `approved` lifts the limits: the command belongs to a batch whose approval was verified.
    ///
    /// # Errors
    /// `INVALID_INPUT` (`invalid-payload`) as in [`check`] and for an entry already past its end;
    /// `INVALID_STATE` (`entry-limit`).
    pub fn prepare(&mut self, entry: BootEntry, approved: bool, now: Timestamp) -> Result<Option<EntryId>> {
        check(&entry)?;
        if entry.not_after.is_some_and(|end| now >= end) {
            return Err(Error::invalid_input("notAfter", "the entry is past its end already")
                .because(reason::INVALID_PAYLOAD));
        }
        self.by_mac.retain(|_, stored| !stored.lapsed(now));
        if self.by_mac.get(&entry.mac).is_some_and(|stored| stored.entry.entry_id == entry.entry_id) {
            return Ok(None);
        }
        while self.taken.front().is_some_and(|&at| now.since(at) >= HOUR) {
            self.taken.pop_front();
        }
        if !approved {
            let others = self.by_mac.keys().filter(|&&mac| mac != entry.mac).count();
            if others >= self.limits.max_live {
                return Err(entry_limit("max_live_entries", self.limits.max_live));
            }
            if self.taken.len() >= self.limits.max_new_per_hour {
                return Err(entry_limit("max_new_entries_per_hour", self.limits.max_new_per_hour));
            }
            self.taken.push_back(now);
        }
        let stored = StoredEntry {
            armed_at: now,
            consumed: false,
            renders: 0,
            peer: None,
            rendered_at: None,
            pxe_at: None,
            conflict: None,
            entry,
        };
        Ok(self.by_mac.insert(stored.entry.mac, stored).map(|old| old.entry.entry_id))
    }

    /// Drops an entry; whether there was one.
    pub fn clean_up(&mut self, entry: &EntryId) -> bool {
        let before = self.by_mac.len();
        self.by_mac.retain(|_, stored| stored.entry.entry_id != *entry);
        self.by_mac.len() < before
    }

    /// Drops every entry of a machine and says which they were.
    pub fn clean_up_node(&mut self, node: &NodeId) -> Vec<EntryId> {
        let mut gone = Vec::new();
        self.by_mac.retain(|_, stored| {
            let keep = stored.entry.node_id != *node;
            if !keep {
                gone.push(stored.entry.entry_id.clone());
            }
            keep
        });
        gone
    }

    /// Marks an entry as consumed by a join; whether it was there and fresh.
    pub fn handle_consumed(&mut self, entry: &EntryId) -> bool {
        let found = self.by_mac.values_mut().find(|stored| stored.entry.entry_id == *entry);
        found.is_some_and(|stored| !std::mem::replace(&mut stored.consumed, true))
    }

    /// What the machine's entry says at `now`.
    #[must_use]
    pub fn standing(&self, mac: MacAddr, now: Timestamp) -> Standing<'_> {
        match self.by_mac.get(&mac) {
            Some(stored) if stored.is_live(now) => Standing::Live(&stored.entry),
            Some(stored) if !stored.lapsed(now) => Standing::Over,
            _ => Standing::None,
        }
    }

    /// Takes in a PXE request of a machine. A new DISCOVER is a new boot: it frees the entry from its peer.
    pub fn handle_pxe(&mut self, mac: MacAddr, discover: bool, now: Timestamp) {
        if let Some(stored) = self.by_mac.get_mut(&mac) {
            stored.pxe_at = Some(now);
            if discover {
                stored.peer = None;
                stored.conflict = None;
            }
        }
    }

    /// Gives the entry out to who asks, and binds it to that peer.
    ///
    /// # Errors
    /// Why it isn't given.
    pub fn render(&mut self, ask: &Ask<'_>, now: Timestamp) -> Result<BootEntry, Refusal> {
        let stored = self.by_mac.get_mut(&ask.mac).filter(|stored| !stored.lapsed(now));
        let stored = stored.ok_or(Refusal::NoEntry)?;
        if !stored.is_live(now) {
            return Err(Refusal::Over);
        }
        if ask.neighbour.contradicts(ask.mac) {
            return Err(Refusal::OtherNeighbour);
        }
        if let (Some(known), Some(told)) = (&stored.entry.product_uuid, ask.uuid)
            && !same_machine(known, told)
        {
            return Err(Refusal::OtherUuid);
        }
        let pxe_seen = stored.pxe_at.is_some_and(|at| now.since(at) < PXE_SEEN_WITHIN);
        if ask.needs_pxe && !pxe_seen {
            return Err(Refusal::NoPxeRequest);
        }
        if !stored.is_sanboot() {
            if stored.peer.is_some_and(|peer| peer != ask.peer) {
                let StoredEntry { entry, conflict, .. } = stored;
                *conflict = Some(Conflict {
                    entry_id: entry.entry_id.clone(),
                    mac: ask.mac,
                    peer: ask.peer,
                    at: now,
                });
                return Err(Refusal::Conflict);
            }
            if stored.renders >= MAX_RENDERS {
                return Err(Refusal::TooMany);
            }
        }
        if stored.rendered_at.is_some_and(|at| now.since(at) < RENDER_EVERY) {
            return Err(Refusal::TooSoon);
        }
        stored.renders = stored.renders.saturating_add(1);
        stored.rendered_at = Some(now);
        stored.peer = Some(ask.peer);
        Ok(stored.entry.clone())
    }

    /// Whether the entry is still there and live, and its MAC does not contradict `neighbour`: asked before a
    /// script leaves that took time to make.
    #[must_use]
    pub fn still_live(&self, entry: &EntryId, now: Timestamp) -> bool {
        self.by_mac.values().any(|stored| stored.entry.entry_id == *entry && stored.is_live(now))
    }

    /// Whether a peer with this `neighbour` may be served images for the entry: it is there, consumed or not,
    /// and the peer isn't known to be another machine.
    #[must_use]
    pub fn may_fetch(&self, entry: &EntryId, neighbour: Neighbour, now: Timestamp) -> bool {
        self.by_mac.values().any(|stored| {
            stored.entry.entry_id == *entry && !stored.lapsed(now) && !neighbour.contradicts(stored.entry.mac)
        })
    }

    /// The entries that other peers asked for since their machines' last DISCOVER.
    pub fn conflicts(&self) -> impl Iterator<Item = &Conflict> {
        self.by_mac.values().filter_map(|stored| stored.conflict.as_ref())
    }

    /// The images that sanboot entries boot.
    pub fn sanboot_images(&self, now: Timestamp) -> impl Iterator<Item = Sha256Digest> {
        let live = self.by_mac.values().filter(move |stored| stored.is_live(now));
        live.filter_map(|stored| stored.entry.sanboot_sha256)
    }

    /// How many entries are live at `now`.
    #[must_use]
    pub fn live(&self, now: Timestamp) -> usize {
        self.by_mac.values().filter(|stored| stored.is_live(now)).count()
    }
}

fn entry_limit(key: &str, limit: usize) -> Error {
    let message = format!("the site agent takes no more boot entries: [boot] {key} is {limit}");
    Error::new(Code::InvalidState, message).because(reason::ENTRY_LIMIT).detail("limit", limit)
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
