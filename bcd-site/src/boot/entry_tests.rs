//! The life of boot entries, at the edges of every window and limit.

use bcd_core::id::WorkflowId;

use super::*;

const START: Timestamp = Timestamp::from_millis(1_764_500_000_000);
const UUID: &str = "00112233-4455-6677-8899-aabbccddeeff";

fn after(duration: Duration) -> Timestamp {
    START.saturating_add(duration)
}

fn mac(n: u16) -> MacAddr {
    let [a, b] = n.to_be_bytes();
    MacAddr::new([0x52, 0x54, 0, 0, a, b]).unwrap()
}

fn entry(n: u16) -> BootEntry {
    let [a, b] = n.to_be_bytes();
    let random = [a, b, 0, 0, 0, 0, 0, 0, 0, 0];
    BootEntry {
        entry_id: EntryId::from_parts(START, random),
        workflow_id: WorkflowId::from_parts(START, random),
        step_id: "boot".to_owned(),
        node_id: NodeId::from_parts(START, random),
        mac: mac(n),
        product_uuid: Some(UUID.to_owned()),
        token_ref: Some("token".to_owned()),
        not_after: Some(after(2 * HOUR)),
        sanboot_sha256: None,
    }
}

fn sanboot(n: u16) -> BootEntry {
    BootEntry {
        token_ref: None,
        not_after: None,
        sanboot_sha256: Some(Sha256Digest::of(b"image")),
        ..entry(n)
    }
}

fn entries() -> Entries {
    Entries::new(Limits { max_live: 256, max_new_per_hour: 64 })
}

fn one(entry: BootEntry) -> Entries {
    let mut entries = entries();
    entries.prepare(entry, false, START).unwrap();
    entries
}

fn ask(n: u16) -> Ask<'static> {
    Ask {
        mac: mac(n),
        uuid: None,
        peer: IpAddr::from([10, 77, 0, 9]),
        neighbour: Neighbour::Unknown,
        needs_pxe: false,
    }
}

#[test]
fn a_ramdisk_entry_is_rendered_for_30_minutes_and_then_it_is_over() {
    let window = RENDER_WINDOW - Duration::from_millis(1);
    assert!(one(entry(1)).render(&ask(1), after(window)).is_ok());
    assert_eq!(one(entry(1)).render(&ask(1), after(RENDER_WINDOW)), Err(Refusal::Over));
    assert_eq!(one(entry(1)).standing(mac(1), after(RENDER_WINDOW)), Standing::Over);
    assert_eq!(one(entry(1)).standing(mac(1), after(2 * HOUR)), Standing::None);
    assert_eq!(one(entry(1)).render(&ask(1), after(2 * HOUR)), Err(Refusal::NoEntry));
    assert_eq!(one(entry(1)).render(&ask(2), START), Err(Refusal::NoEntry));
}

#[test]
fn a_sanboot_entry_without_an_end_stands_and_is_rendered_at_every_boot() {
    let mut entries = one(sanboot(1));
    for n in 0..=u64::from(MAX_RENDERS) {
        let peer = IpAddr::from([10, 0, 0, u8::try_from(n).unwrap()]);
        assert!(
            entries.render(&Ask { peer, ..ask(1) }, after(u32::try_from(n).unwrap() * 24 * HOUR)).is_ok()
        );
    }
    assert_eq!(entries.sanboot_images(after(99 * HOUR)).count(), 1);
}

#[test]
fn an_entry_without_an_end_lasts_6_hours() {
    let entries = one(BootEntry { not_after: None, ..entry(1) });
    assert_eq!(entries.standing(mac(1), after(DEFAULT_LIFETIME - Duration::from_millis(1))), Standing::Over);
    assert_eq!(entries.standing(mac(1), after(DEFAULT_LIFETIME)), Standing::None);
    assert_eq!(grant_until(&sanboot(1), START), after(DEFAULT_LIFETIME));
    assert_eq!(grant_until(&entry(1), START), after(2 * HOUR));
}

#[test]
fn a_join_consumes_the_entry_once_and_images_are_still_served() {
    let mut entries = one(entry(1));
    let id = entry(1).entry_id;
    assert!(entries.handle_consumed(&id));
    assert!(!entries.handle_consumed(&id));
    assert_eq!(entries.render(&ask(1), START), Err(Refusal::Over));
    assert!(!entries.still_live(&id, START));
    assert!(entries.may_fetch(&id, Neighbour::Mac(mac(1)), START));
    assert!(!entries.may_fetch(&id, Neighbour::Mac(mac(2)), START));
    assert!(!entries.may_fetch(&id, Neighbour::Unknown, after(2 * HOUR)));
}

#[test]
fn the_first_peer_binds_the_entry_until_a_new_discover() {
    let mut entries = one(entry(1));
    let other = Ask { peer: IpAddr::from([10, 77, 0, 66]), ..ask(1) };
    assert!(entries.render(&ask(1), START).is_ok());
    assert_eq!(entries.render(&other, after(RENDER_EVERY)), Err(Refusal::Conflict));
    assert_eq!(entries.conflicts().map(|conflict| conflict.peer).collect::<Vec<_>>(), [other.peer]);
    entries.handle_pxe(mac(1), false, after(RENDER_EVERY));
    assert_eq!(entries.render(&other, after(RENDER_EVERY)), Err(Refusal::Conflict));
    entries.handle_pxe(mac(1), true, after(RENDER_EVERY));
    assert_eq!(entries.conflicts().count(), 0);
    assert!(entries.render(&other, after(RENDER_EVERY)).is_ok());
}

#[test]
fn an_entry_is_rendered_16_times_and_once_a_second() {
    let mut entries = one(entry(1));
    for n in 0..MAX_RENDERS {
        let now = after(RENDER_EVERY * n);
        assert!(entries.render(&ask(1), now).is_ok(), "{n}");
        let soon = now.saturating_add(RENDER_EVERY - Duration::from_millis(1));
        let refusal = if n + 1 == MAX_RENDERS { Refusal::TooMany } else { Refusal::TooSoon };
        assert_eq!(entries.render(&ask(1), soon), Err(refusal), "{n}");
    }
    assert_eq!(entries.render(&ask(1), after(RENDER_EVERY * MAX_RENDERS)), Err(Refusal::TooMany));
}

#[test]
fn a_machine_that_contradicts_the_entry_gets_nothing_and_binds_nothing() {
    let check = |ask: Ask<'_>, refusal: Option<Refusal>| {
        let mut entries = one(entry(1));
        assert_eq!(entries.render(&ask, START).err(), refusal, "{ask:?}");
        assert_eq!(entries.stored()[0].renders, u32::from(refusal.is_none()), "{ask:?}");
    };
    check(Ask { uuid: Some("33221100-5544-7766-8899-AABBCCDDEEFF"), ..ask(1) }, None);
    check(Ask { uuid: Some("33221100-5544-7766-8899-000000000000"), ..ask(1) }, Some(Refusal::OtherUuid));
    check(Ask { uuid: Some("none"), ..ask(1) }, Some(Refusal::OtherUuid));
    check(Ask { neighbour: Neighbour::Mac(mac(1)), ..ask(1) }, None);
    check(Ask { neighbour: Neighbour::Mac(mac(2)), ..ask(1) }, Some(Refusal::OtherNeighbour));
    check(Ask { needs_pxe: true, ..ask(1) }, Some(Refusal::NoPxeRequest));
}

#[test]
fn a_pxe_request_counts_for_10_minutes() {
    let mut entries = one(entry(1));
    entries.handle_pxe(mac(1), true, START);
    let ask = Ask { needs_pxe: true, ..ask(1) };
    assert_eq!(entries.render(&ask, after(PXE_SEEN_WITHIN)), Err(Refusal::NoPxeRequest));
    assert!(entries.render(&ask, after(PXE_SEEN_WITHIN - Duration::from_millis(1))).is_ok());
}

#[test]
fn both_limits_hold_at_their_bound_and_a_batch_lifts_them() {
    let mut entries = Entries::new(Limits { max_live: 2, max_new_per_hour: 3 });
    for n in [1, 2] {
        entries.prepare(entry(n), false, START).unwrap();
    }
    let refused = |result: Result<Option<EntryId>>| {
        assert_eq!(result.unwrap_err().reason(), Some("entry-limit"));
    };
    refused(entries.prepare(entry(3), false, START));
    assert!(entries.prepare(entry(2), false, START).unwrap().is_none(), "the same one again");
    let renewed = BootEntry { entry_id: EntryId::from_parts(START, [9; 10]), ..entry(2) };
    assert_eq!(entries.prepare(renewed.clone(), false, START).unwrap(), Some(entry(2).entry_id));
    assert!(entries.clean_up(&renewed.entry_id));
    refused(entries.prepare(entry(3), false, after(HOUR - Duration::from_millis(1))));
    entries.prepare(entry(4), true, START).unwrap();
    entries.prepare(entry(5), true, START).unwrap();
    assert_eq!(entries.live(START), 3);
    assert_eq!(entries.clean_up_node(&entry(5).node_id), [entry(5).entry_id]);
    entries.clean_up(&entry(4).entry_id);
    entries.prepare(entry(3), false, after(HOUR)).unwrap();
}

#[test]
fn a_payload_whose_fields_disagree_is_refused_with_its_path() {
    let check = |entry: BootEntry, path: &str| {
        let error = entries().prepare(entry, false, START).unwrap_err();
        assert_eq!((error.path(), error.reason()), (Some(path), Some("invalid-payload")));
    };
    check(BootEntry { token_ref: None, ..entry(1) }, "tokenRef");
    check(BootEntry { token_ref: Some("x".repeat(257)), ..entry(1) }, "tokenRef");
    check(BootEntry { token_ref: Some("x".to_owned()), ..sanboot(1) }, "tokenRef");
    check(BootEntry { step_id: String::new(), ..entry(1) }, "stepId");
    check(BootEntry { step_id: "x".repeat(257), ..entry(1) }, "stepId");
    check(BootEntry { not_after: Some(START), ..entry(1) }, "notAfter");
    let longest = BootEntry { step_id: "x".repeat(256), token_ref: Some("x".repeat(256)), ..entry(1) };
    assert!(entries().prepare(longest, false, START).is_ok());
}

#[test]
fn what_is_kept_survives_a_restart_and_what_lapsed_does_not() {
    let mut entries = one(entry(1));
    entries.prepare(BootEntry { not_after: Some(after(HOUR)), ..entry(2) }, false, START).unwrap();
    entries.render(&ask(1), START).unwrap();
    let json = serde_json::to_string(&entries.stored()).unwrap();
    let stored: Vec<StoredEntry> = serde_json::from_str(&json).unwrap();
    let limits = Limits { max_live: 256, max_new_per_hour: 64 };
    let restored = Entries::restore(limits, stored, after(HOUR));
    let kept = restored.stored();
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].entry.clone(), kept[0].renders, kept[0].armed_at), (entry(1), 1, START));
    assert!(kept[0].peer.is_some());
}
