//! What is answered to the packets of real boot ROMs, and to packets no ROM would send.

use std::path::Path;
use std::time::Duration;

use bcd_core::id::{EntryId, NodeId, WorkflowId};
use bcd_core::time::Monotonic;
use proptest::prelude::*;

use super::*;
use crate::boot::entry::{BootEntry, Limits, RENDER_WINDOW};
use crate::boot::fence::{BootLease, Fence};

const NOW: Timestamp = Timestamp::from_millis(1_764_500_000_000);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const ANYWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, CLIENT_PORT);

fn config() -> DhcpConfig {
    DhcpConfig {
        server: SERVER,
        tftp: true,
        url: "http://10.77.0.2:8080".to_owned(),
        bios_file: "undionly.kpxe".to_owned(),
        x64_file: "snponly.efi".to_owned(),
        arm64_file: "snponly-arm64.efi".to_owned(),
    }
}

fn lease() -> Option<HeldLease> {
    let mut fence = Fence::default();
    fence.handle_lease(BootLease { active: true, epoch: 1, ttl: Duration::ZERO });
    fence.handle_heard(Monotonic::START);
    fence.held(Monotonic::START)
}

fn entry(mac: MacAddr) -> BootEntry {
    BootEntry {
        entry_id: EntryId::from_parts(NOW, [0; 10]),
        workflow_id: WorkflowId::from_parts(NOW, [0; 10]),
        step_id: "boot".to_owned(),
        node_id: NodeId::from_parts(NOW, [0; 10]),
        mac,
        product_uuid: None,
        token_ref: Some("token".to_owned()),
        not_after: None,
        sanboot_sha256: None,
    }
}

fn no_entries() -> Entries {
    Entries::new(Limits { max_live: 8, max_new_per_hour: 8 })
}

fn entries_of(packet: &[u8]) -> Entries {
    let mut entries = no_entries();
    let mac: [u8; 6] = packet[28..34].try_into().unwrap();
    if let Ok(mac) = MacAddr::new(mac) {
        entries.prepare(entry(mac), false, NOW).unwrap();
    }
    entries
}

fn decide(packet: &[u8], from: SocketAddrV4, port: Port) -> Decision {
    answer(packet, from, port, &config(), &entries_of(packet), lease(), NOW)
}

struct Udp {
    from: SocketAddrV4,
    to: SocketAddrV4,
    data: Vec<u8>,
}

/// The UDP packets of a classic little-endian pcap of Ethernet frames.
fn read_pcap(name: &str) -> Vec<Udp> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/dhcp").join(name);
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(file[..4], [0xd4, 0xc3, 0xb2, 0xa1], "{name}");
    let mut rest = &file[24..];
    let mut packets = Vec::new();
    while rest.len() >= 16 {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let frame = &rest[16..16 + len];
        rest = &rest[16 + len..];
        let (ethertype, ip) = (&frame[12..14], &frame[14..]);
        if ethertype != [8, 0] || ip[9] != 17 {
            continue;
        }
        let udp = &ip[usize::from(ip[0] & 15) * 4..];
        let socket = |address: usize, port: usize| {
            let ip: [u8; 4] = ip[address..address + 4].try_into().unwrap();
            SocketAddrV4::new(ip.into(), u16::from_be_bytes([udp[port], udp[port + 1]]))
        };
        packets.push(Udp { from: socket(12, 0), to: socket(16, 2), data: udp[8..].to_vec() });
    }
    packets
}

/// An answer's options in order, with the end and its padding left off.
fn options(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut options = Vec::new();
    let mut rest = &bytes[240..];
    while rest[0] != 255 {
        let len = usize::from(rest[1]);
        options.push((rest[0], rest[2..2 + len].to_vec()));
        rest = &rest[2 + len..];
    }
    options
}

fn option(bytes: &[u8], code: u8) -> Option<Vec<u8>> {
    options(bytes).into_iter().find(|(of, _)| *of == code).map(|(_, data)| data)
}

fn header_file(bytes: &[u8]) -> String {
    let field = &bytes[108..236];
    let end = field.iter().position(|&byte| byte == 0).unwrap();
    String::from_utf8(field[..end].to_vec()).unwrap()
}

/// Holds one answer against what every ROM was seen to need, and says it in a line.
fn check_and_sum_up(request: &[u8], reply: &Reply) -> String {
    let bytes = &reply.bytes;
    assert!(bytes.len() >= MIN_ANSWER);
    assert_eq!(bytes[0], 2, "BOOTREPLY");
    assert_eq!(bytes[4..8], request[4..8], "xid");
    assert_eq!(bytes[10..12], request[10..12], "flags");
    assert_eq!(bytes[16..20], [0; 4], "yiaddr: no address is handed out");
    assert_eq!(bytes[20..24], SERVER.octets(), "siaddr");
    assert_eq!(bytes[24..28], request[24..28], "giaddr");
    assert_eq!(bytes[28..44], request[28..44], "chaddr");
    assert_eq!(option(bytes, 54).unwrap(), SERVER.octets());
    assert_eq!(option(bytes, 97), option(request, 97), "mirrored only when sent");
    assert_eq!(option(bytes, 67).unwrap(), header_file(bytes).into_bytes());
    let class = String::from_utf8(option(bytes, 60).unwrap()).unwrap();
    let discovery = (class == "PXEClient").then(|| vec![6, 1, 8, 255]);
    assert_eq!(option(bytes, 43), discovery);
    let kind = match option(bytes, 53).unwrap()[..] {
        [2] => "OFFER",
        [5] => "ACK",
        ref other => panic!("message type {other:?}"),
    };
    let to = match reply.to {
        Destination::Broadcast => "all".to_owned(),
        Destination::Unicast(to) => to.to_string(),
    };
    format!("{kind} {class} to {to}: {}", header_file(bytes))
}

/// Every DHCP request in a capture is answered as listed; those left out are not boot requests for us.
fn check_capture(name: &str, expected: &[&str]) {
    let mut got = Vec::new();
    for packet in read_pcap(name) {
        let port = match packet.to.port() {
            SERVER_PORT => Port::Dhcp,
            4011 => Port::Pxe,
            _ => continue,
        };
        if packet.data[0] != 1 {
            continue;
        }
        match decide(&packet.data, packet.from, port) {
            Decision::Answer { reply, .. } => got.push(check_and_sum_up(&packet.data, &reply)),
            Decision::Ignore(Ignored::OtherServer) => got.push("-".to_owned()),
            Decision::Ignore(Ignored::NotPxe) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(got, expected, "{name}");
}

const SCRIPT_OFFER: &str = "OFFER PXEClient to all: http://10.77.0.2:8080/boot/ipxe";

#[test]
fn every_captured_rom_is_answered() {
    check_capture("seabios-ipxe-e1000.pcap", &[SCRIPT_OFFER, "-"]);
    check_capture(
        "seabios-ipxe-virtio.pcap",
        &[SCRIPT_OFFER, "-", "ACK PXEClient to 10.77.0.130:68: http://10.77.0.2:8080/boot/ipxe"],
    );
    check_capture(
        "ovmf-pxe-x64.pcap",
        &[
            "OFFER PXEClient to all: snponly.efi",
            "-",
            "ACK PXEClient to 10.77.0.131:4011: snponly.efi",
            SCRIPT_OFFER,
            "-",
            "ACK PXEClient to 10.77.0.131:68: http://10.77.0.2:8080/boot/ipxe",
        ],
    );
    check_capture("ovmf-arm64.pcap", &["OFFER PXEClient to all: snponly-arm64.efi", "-"]);
    check_capture(
        "ovmf-http-x64.pcap",
        &["OFFER HTTPClient to all: http://10.77.0.2:8080/boot/file/snponly.efi", "-", SCRIPT_OFFER, "-"],
    );
    check_capture("seabios-ipxe-chain-undionly.pcap", &[SCRIPT_OFFER, "-", SCRIPT_OFFER, "-"]);
}

#[test]
fn roms_that_gave_up_on_a_wrong_answer_get_the_right_one() {
    check_capture("var-no60.pcap", &["OFFER PXEClient to all: snponly.efi"; 4]);
    check_capture(
        "var-o43_none.pcap",
        &["OFFER PXEClient to all: snponly.efi", "-", "ACK PXEClient to 10.77.0.136:4011: snponly.efi"],
    );
    let ack = "ACK PXEClient to 10.77.0.128:68: http://10.77.0.2:8080/boot/ipxe";
    check_capture("bv-nosiaddr.pcap", &[SCRIPT_OFFER, "-", ack, ack, ack, ack]);
}

/// A DISCOVER of a made-up machine with the options given, then whatever `change` does to it.
fn request(options: &[(u8, &[u8])], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = vec![0; 240];
    packet[..3].copy_from_slice(&[1, 1, 6]);
    packet[4..8].copy_from_slice(&[1, 2, 3, 4]);
    packet[28..34].copy_from_slice(&[0x52, 0x54, 0, 1, 2, 3]);
    packet[236..].copy_from_slice(&[99, 130, 83, 99]);
    for (code, data) in options {
        packet.push(*code);
        packet.push(u8::try_from(data.len()).unwrap());
        packet.extend_from_slice(data);
    }
    packet.push(255);
    change(&mut packet);
    packet
}

const DISCOVER: (u8, &[u8]) = (53, &[1]);
const REQUEST: (u8, &[u8]) = (53, &[3]);
const PXE: (u8, &[u8]) = (60, b"PXEClient:Arch:00007:UNDI:003000");
const X64: (u8, &[u8]) = (93, &[0, 7]);

fn replied(packet: &[u8], from: SocketAddrV4, port: Port) -> Reply {
    match decide(packet, from, port) {
        Decision::Answer { reply, .. } => {
            check_and_sum_up(packet, &reply);
            reply
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_rom_without_a_client_id_is_served_and_none_is_made_up() {
    let packet = request(&[DISCOVER, PXE, X64], |_| {});
    assert_eq!(option(&replied(&packet, ANYWHERE, Port::Dhcp).bytes, 97), None);
}

#[test]
fn a_relayed_request_goes_back_to_its_relay_with_option_82_last() {
    let info: &[u8] = &[1, 4, 0, 1, 2, 3, 151, 2, 0xff, 0x00];
    let packet = request(&[DISCOVER, (82, info), PXE, X64, (97, &[0; 17])], |packet| {
        packet[24..28].copy_from_slice(&[10, 9, 8, 1]);
    });
    let check = |from: &str, to: &str| {
        let reply = replied(&packet, from.parse().unwrap(), Port::Dhcp);
        assert_eq!(reply.to, Destination::Unicast(to.parse().unwrap()), "{from}");
        assert_eq!(options(&reply.bytes).last(), Some(&(82, info.to_vec())));
    };
    check("10.9.8.1:67", "10.9.8.1:67");
    check("10.9.8.1:20067", "10.9.8.1:20067");
    check("192.0.2.7:67", "10.9.8.1:67");
}

#[test]
fn a_client_with_an_address_is_answered_at_it() {
    let packet = request(&[REQUEST, PXE, X64], |packet| packet[12..16].copy_from_slice(&[10, 77, 0, 9]));
    let from: SocketAddrV4 = "10.77.0.9:4011".parse().unwrap();
    let reply = replied(&packet, from, Port::Pxe);
    assert_eq!(reply.to, Destination::Unicast(from));
    assert_eq!(reply.bytes[12..16], [10, 77, 0, 9], "ciaddr");
    let at_client_port = Destination::Unicast("10.77.0.9:68".parse().unwrap());
    assert_eq!(replied(&packet, from, Port::Dhcp).to, at_client_port);
    assert_eq!(replied(&request(&[DISCOVER, PXE], |_| {}), ANYWHERE, Port::Pxe).to, Destination::Broadcast);
}

#[test]
fn ipxe_in_every_spelling_gets_its_script_and_never_a_loader() {
    for class in [(77, &b"iPXE"[..]), (77, b"\x04iPXE"), (175, b"\xb1\x05\x01")] {
        let packet = request(&[DISCOVER, PXE, X64, class], |_| {});
        let reply = replied(&packet, ANYWHERE, Port::Dhcp);
        assert_eq!(header_file(&reply.bytes), "http://10.77.0.2:8080/boot/ipxe", "{class:?}");
    }
}

#[test]
fn what_is_not_for_us_is_not_answered() {
    let check = |packet: Vec<u8>, why: Ignored| {
        assert_eq!(decide(&packet, ANYWHERE, Port::Dhcp), Decision::Ignore(why));
    };
    let good = [DISCOVER, PXE, X64];
    check(request(&good, |packet| packet[0] = 2), Ignored::Malformed);
    check(request(&good, |packet| packet[1] = 6), Ignored::Malformed);
    check(request(&good, |packet| packet[2] = 16), Ignored::Malformed);
    check(request(&good, |packet| packet[2] = 255), Ignored::Malformed);
    check(request(&good, |packet| packet[28] = 1), Ignored::Malformed);
    check(request(&good, |packet| packet[28..34].fill(0)), Ignored::Malformed);
    check(
        request(&good, |packet| packet.truncate(239)).into_iter().chain([0; 0]).collect(),
        Ignored::Malformed,
    );
    check(request(&good, |packet| packet.resize(MAX_REQUEST + 1, 0)), Ignored::Malformed);
    check(request(&good, |packet| packet[239] = 0), Ignored::NotPxe);
    check(request(&[PXE, X64], |_| {}), Ignored::NotPxe);
    check(request(&[(53, &[8]), PXE, X64], |_| {}), Ignored::NotPxe);
    check(request(&[DISCOVER, X64], |_| {}), Ignored::NotPxe);
    check(request(&[DISCOVER, (60, b"MSFT 5.0")], |_| {}), Ignored::NotPxe);
    check(request(&[REQUEST, PXE, X64, (54, &[10, 77, 0, 1])], |_| {}), Ignored::OtherServer);
    check(request(&[DISCOVER, PXE, (93, &[0, 6])], |_| {}), Ignored::NoFile);
    replied(&request(&good, |packet| packet.resize(MAX_REQUEST, 0)), ANYWHERE, Port::Dhcp);
}

#[test]
fn nothing_is_answered_or_listed_without_the_lease_and_strangers_are_only_listed() {
    let packet = request(&[DISCOVER, PXE, X64], |_| {});
    let decide =
        |entries: &Entries, lease, now| answer(&packet, ANYWHERE, Port::Dhcp, &config(), entries, lease, now);
    let known = entries_of(&packet);
    assert_eq!(decide(&known, None, NOW), Decision::Ignore(Ignored::NoLease));
    assert_eq!(decide(&no_entries(), None, NOW), Decision::Ignore(Ignored::NoLease));
    assert_eq!(decide(&known, lease(), NOW.saturating_add(RENDER_WINDOW)), Decision::Ignore(Ignored::Over));
    let Decision::Discovered(seen) = decide(&no_entries(), lease(), NOW) else { panic!("not listed") };
    assert_eq!((seen.arch.as_deref(), seen.via), (Some("x86_64-efi"), Via::Dhcp));
}

#[test]
fn without_tftp_only_http_is_offered_and_a_long_url_stands_in_option_67_alone() {
    let long = "x".repeat(FILE_FIELD);
    let config = DhcpConfig { tftp: false, url: format!("http://{long}"), ..config() };
    let decide =
        |packet: &[u8]| answer(packet, ANYWHERE, Port::Dhcp, &config, &entries_of(packet), lease(), NOW);
    assert_eq!(decide(&request(&[DISCOVER, PXE, X64], |_| {})), Decision::Ignore(Ignored::NoFile));
    let http = request(&[DISCOVER, (60, b"HTTPClient"), (93, &[0, 19])], |_| {});
    let Decision::Answer { reply, .. } = decide(&http) else { panic!("not answered") };
    assert_eq!(header_file(&reply.bytes), "");
    assert_eq!(option(&reply.bytes, 66), None);
    let file = String::from_utf8(option(&reply.bytes, 67).unwrap()).unwrap();
    assert_eq!(file, format!("http://{long}/boot/file/snponly-arm64.efi"));
}

proptest! {
    #[test]
    fn no_packet_makes_it_panic(packet in proptest::collection::vec(any::<u8>(), 0..700), port: bool) {
        let port = if port { Port::Pxe } else { Port::Dhcp };
        let _ = answer(&packet, ANYWHERE, port, &config(), &no_entries(), lease(), NOW);
    }

    #[test]
    fn no_options_make_it_panic(options in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut packet = request(&[DISCOVER, PXE, X64], |packet| { packet.pop(); });
        packet.extend(options);
        let _ = decide(&packet, ANYWHERE, Port::Dhcp);
    }
}
