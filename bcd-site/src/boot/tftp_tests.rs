//! Whole transfers between the machine and a made-up client, with loss, wrap-around and refusals.

use proptest::prelude::*;

use super::*;

fn rrq(name: &str, mode: &str, options: &[(&str, &str)]) -> Vec<u8> {
    let mut packet = vec![0, OP_READ];
    for text in [name, mode].into_iter().chain(options.iter().flat_map(|&(name, value)| [name, value])) {
        packet.extend_from_slice(text.as_bytes());
        packet.push(0);
    }
    packet
}

fn request(options: &[(&str, &str)]) -> ReadRequest {
    match read_opening(&rrq("snponly.efi", "octet", options)) {
        Opening::Read(request) => request,
        other => panic!("{other:?}"),
    }
}

fn at(ms: u64) -> Monotonic {
    Monotonic::new(Duration::from_millis(ms))
}

fn ack(number: u16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    vec![0, OP_ACK, high, low]
}

/// A file whose every byte tells its place.
fn byte(offset: u64) -> u8 {
    u8::try_from((offset ^ (offset >> 8) ^ (offset >> 16)) & 0xff).unwrap()
}

/// Fills the window and takes every packet that is ready.
fn pump(transfer: &mut Transfer) -> Vec<Vec<u8>> {
    while let Some(read) = transfer.poll_read() {
        let data: Vec<u8> = (0..read.len as u64).map(|n| byte(read.offset + n)).collect();
        transfer.handle_block(&data);
    }
    std::iter::from_fn(|| transfer.poll_transmit().map(<[u8]>::to_vec)).collect()
}

/// Runs a transfer to a client that acknowledges every window, and gives what arrived.
fn receive(size: u64, options: &[(&str, &str)], window: usize, drop: impl Fn(u32) -> bool) -> Vec<u8> {
    let mut now = 0;
    let mut transfer = Transfer::new(&request(options), size, at(now));
    let (mut file, mut expected, mut count) = (Vec::new(), 1_u16, 0);
    while transfer.outcome().is_none() {
        let packets = pump(&mut transfer);
        let (mut in_window, mut answer) = (0, None);
        for packet in packets {
            count += 1;
            if drop(count) {
                continue;
            }
            if packet[1] == OP_OACK {
                answer = Some(ack(0));
            } else if packet[2..4] == expected.to_be_bytes() {
                file.extend_from_slice(&packet[4..]);
                answer = Some(ack(expected));
                expected = expected.wrapping_add(1);
                in_window += 1;
            }
        }
        assert!(in_window <= window, "{in_window}");
        match answer {
            Some(answer) => transfer.handle_packet(&answer, at(now)),
            None => {
                now += 2000;
                transfer.handle_timeout(at(now));
            }
        }
    }
    assert_eq!(transfer.outcome(), Some(Outcome::Done));
    file
}

fn check_file(file: &[u8], size: u64) {
    assert_eq!(file.len() as u64, size);
    assert!(file.iter().zip(0..).all(|(&got, offset)| got == byte(offset)));
}

#[test]
fn files_around_the_block_size_arrive_whole() {
    for size in [0, 1, 511, 512, 513, 1024, 5000] {
        check_file(&receive(size, &[], 1, |_| false), size);
        check_file(&receive(size, &[("blksize", "1468"), ("windowsize", "4")], 4, |_| false), size);
    }
}

#[test]
fn block_numbers_wrap_to_zero() {
    let size = 8 * 65_537 + 3;
    check_file(&receive(size, &[("blksize", "8")], 1, |_| false), size);
    check_file(&receive(size, &[("blksize", "8"), ("windowsize", "16")], 16, |_| false), size);
}

#[test]
fn a_file_arrives_whole_though_packets_are_lost() {
    for window in ["1", "4", "16"] {
        let options = [("blksize", "512"), ("windowsize", window), ("tsize", "0")];
        // A third of the packets, picked so that no length of window is in step with the loss.
        let lost = |n: u32| n.wrapping_mul(2_654_435_761) >> 16 & 0xff < 85;
        check_file(&receive(40_000, &options, 16, lost), 40_000);
    }
}

#[test]
fn options_are_agreed_to_within_bounds_and_in_any_case() {
    let check = |options: &[(&str, &str)], oack: &str| {
        let mut transfer = Transfer::new(&request(options), 173_792, at(0));
        let first = pump(&mut transfer).remove(0);
        let got =
            if first[1] == OP_OACK { String::from_utf8(first[2..].to_vec()).unwrap() } else { String::new() };
        assert_eq!(got.replace('\0', " ").trim_end(), oack, "{options:?}");
    };
    check(
        &[("tsize", "0"), ("blksize", "1468"), ("windowsize", "4")],
        "blksize 1468 tsize 173792 windowsize 4",
    );
    check(&[("BlkSize", "65464"), ("TSIZE", "9")], "blksize 1468 tsize 173792");
    check(
        &[("blksize", "8"), ("windowsize", "65535"), ("timeout", "10")],
        "blksize 8 timeout 10 windowsize 16",
    );
    check(&[("blksize", "99999999999999999999")], "");
    check(&[("blksize", "7"), ("windowsize", "0"), ("timeout", "0"), ("timeout", "11")], "");
    check(&[("multicast", ""), ("blksize", "-1"), ("blksize", "x")], "");
    check(&[], "");
}

#[test]
fn the_same_bytes_are_sent_again_5_times_2_seconds_apart() {
    let mut transfer = Transfer::new(&request(&[]), 100, at(0));
    let first = pump(&mut transfer);
    for n in 1..=5 {
        transfer.handle_timeout(at(n * 2000 - 1));
        assert!(pump(&mut transfer).is_empty(), "{n}");
        assert_eq!(transfer.poll_timeout(), at(n * 2000));
        transfer.handle_timeout(at(n * 2000));
        assert_eq!(pump(&mut transfer), first, "{n}");
    }
    transfer.handle_timeout(at(12_000));
    assert_eq!(transfer.outcome(), Some(Outcome::TimedOut));
    assert!(pump(&mut transfer).is_empty());
}

#[test]
fn a_duplicate_or_foreign_acknowledgement_sends_nothing() {
    let mut transfer = Transfer::new(&request(&[]), 2000, at(0));
    assert_eq!(pump(&mut transfer).len(), 1);
    for number in [0, 2, 65_535] {
        transfer.handle_packet(&ack(number), at(1));
        assert!(pump(&mut transfer).is_empty(), "{number}");
    }
    transfer.handle_packet(&ack(1), at(1));
    assert_eq!(pump(&mut transfer)[0][..4], [0, OP_DATA, 0, 2]);
    transfer.handle_packet(&ack(1), at(2));
    assert!(pump(&mut transfer).is_empty());
}

#[test]
fn a_gap_in_a_window_is_sent_again_from_there() {
    let mut transfer = Transfer::new(&request(&[("windowsize", "4")]), 10_000, at(0));
    pump(&mut transfer);
    transfer.handle_packet(&ack(0), at(0));
    assert_eq!(pump(&mut transfer).len(), 4);
    transfer.handle_packet(&ack(2), at(0));
    let numbers: Vec<u8> = pump(&mut transfer).iter().map(|packet| packet[3]).collect();
    assert_eq!(numbers, [3, 4, 5, 6]);
}

#[test]
fn a_size_probe_is_no_failure() {
    let end = |options: &[(&str, &str)], code: u8| {
        let mut transfer = Transfer::new(&request(options), 10, at(0));
        pump(&mut transfer);
        transfer.handle_packet(&[0, OP_ERROR, 0, code, b'x', 0], at(0));
        transfer.outcome()
    };
    assert_eq!(end(&[("tsize", "0")], 8), Some(Outcome::Probed));
    assert_eq!(end(&[("tsize", "0")], 0), Some(Outcome::Probed));
    assert_eq!(end(&[("tsize", "0")], 3), Some(Outcome::Aborted(3)));
    assert_eq!(end(&[], 8), Some(Outcome::Aborted(8)));
}

#[test]
fn only_reads_in_octet_mode_of_names_below_the_root_open_a_transfer() {
    let name = |text: &str| FileName::parse(text).map(|name| name.as_str().to_owned());
    for (text, path) in [
        ("snponly.efi", "snponly.efi"),
        ("/boot//x", ""),
        ("\\Boot\\BCD", "Boot/BCD"),
        ("/Boot\\x64\\wdsnbp.com", "Boot/x64/wdsnbp.com"),
        ("a b.efi", "a b.efi"),
        ("", ""),
        ("/", ""),
        ("..", ""),
        ("a/../b", ""),
        ("a\\..\\..\\b", ""),
        ("./a", ""),
        ("a\n", ""),
        (&"x".repeat(255), &"x".repeat(255)),
        (&"x".repeat(256), ""),
    ] {
        assert_eq!(name(text).unwrap_or_default(), path, "{text}");
    }
    let check = |packet: &[u8], code: Option<ErrorCode>| match (read_opening(packet), code) {
        (Opening::Refuse(got, _), Some(code)) => assert_eq!(got, code, "{packet:?}"),
        (Opening::Ignore, None) => {}
        (other, _) => panic!("{packet:?}: {other:?}"),
    };
    check(&[0, OP_WRITE, b'x', 0], Some(ErrorCode::Illegal));
    check(&rrq("x", "netascii", &[]), Some(ErrorCode::Illegal));
    check(&rrq("../x", "octet", &[]), Some(ErrorCode::NotFound));
    check(b"\0\x01x", Some(ErrorCode::Illegal));
    check(b"\0\x01x\0octet", Some(ErrorCode::Illegal));
    check(b"\0\x01\xff\0octet\0", Some(ErrorCode::Illegal));
    check(&ack(1), Some(ErrorCode::UnknownId));
    check(&[0, OP_ERROR, 0, 5, 0], None);
    check(&[], None);
    check(&[1, 1], None);
    let padded = |len: usize| {
        let mut packet = rrq("x", "OCTET", &[]);
        packet.resize(len, 0);
        packet
    };
    assert!(matches!(read_opening(&padded(MAX_REQUEST)), Opening::Read(_)));
    check(&padded(MAX_REQUEST + 1), None);
    assert_eq!(ErrorCode::NotFound.packet("no\0"), b"\0\x05\0\x01no\0");
}

proptest! {
    #[test]
    fn no_packets_make_it_panic(
        opening in proptest::collection::vec(any::<u8>(), 0..80),
        packets in proptest::collection::vec(proptest::collection::vec(0_u8..7, 0..6), 0..20),
        size in 0_u64..3000,
    ) {
        let _ = read_opening(&opening);
        let mut transfer = Transfer::new(&request(&[("windowsize", "3"), ("blksize", "100")]), size, at(0));
        for (packet, ms) in packets.iter().zip((0..).step_by(1500)) {
            let sent = pump(&mut transfer).len();
            prop_assert!(sent <= 3);
            transfer.handle_packet(packet, at(ms));
            transfer.handle_timeout(at(ms));
        }
    }

    #[test]
    fn names_stay_below_the_root(text in "[a./\\\\]{0,12}") {
        if let Some(name) = FileName::parse(&text) {
            prop_assert!(!name.as_str().starts_with('/'));
            prop_assert!(name.as_str().split('/').all(|part| part != ".." && !part.is_empty()));
        }
    }
}
