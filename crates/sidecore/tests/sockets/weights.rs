//! How programs of one user share its thread: counted in bytes, so that a slow machine changes nothing.

use crate::common::{Program, Stream, connect, connection, got, limited, until};
use rustix::net::sockopt::set_socket_send_buffer_size;
use sidecore::config::SocketsConfig;
use sidecore::core::streams::cursor::word;
use sidecore::core::streams::layout::{HEAD, SHARED, TAIL, WRITER};
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::atomic::Ordering;

/// Streams of each program: all places of a bank.
const STREAMS: u32 = 64;
/// Bytes that each of them has at once: several transfers, and the kernel takes them whether or not the peer reads.
const EACH: u64 = 128 << 10;
/// Weight of the heavy program; that of the other is 1.
const WEIGHT: u32 = 4;
/// What the heavy one had moved for each byte of the light one while both were flooded: where another thread had the core
/// meanwhile it is a little more or less.
const SHARES: std::ops::Range<f64> = 2.0..8.0;
/// Rounds that are summed up before one looks, and at most.
const ROUNDS: std::ops::RangeInclusive<u64> = 10..=200;

/// Streams, and their peers.
fn streams(program: &Program) -> Vec<(Stream<'_>, TcpStream)> {
    let stream = |place| {
        let (here, there) = connection();
        set_socket_send_buffer_size(&here, 1 << 20).unwrap();
        (program.promote(place, 1, &here), there)
    };
    (0..STREAMS).map(stream).collect()
}

fn moved(streams: &[(Stream<'_>, TcpStream)]) -> u64 {
    streams.iter().map(|(stream, _)| stream.read(SHARED, HEAD)).sum()
}

#[test]
fn programs_of_one_user_have_shares_by_weight() {
    let weights = BTreeMap::from([("heavy".to_owned(), WEIGHT)]);
    let ring_kib = (EACH >> 10) as u32;
    let service = limited(SocketsConfig { ring_kib, weights, ..SocketsConfig::default() });
    let programs = ["light", "heavy"].map(|name| Program::named(connect(service.socket()), name));
    let mut both = programs.each_ref().map(streams);
    let (mut sums, mut said) = ([0, 0], Vec::new());
    for round in 1..=*ROUNDS.end() {
        both.iter().flatten().for_each(|(stream, _)| stream.until_armed());
        for (stream, _) in both.iter().flatten() {
            stream.word(WRITER, TAIL).store(word(EACH * round, false), Ordering::Release);
        }
        assert!(both.iter().flatten().all(|(stream, _)| stream.ring()));
        let (begin, all) = (EACH * (round - 1) * u64::from(STREAMS), EACH * u64::from(STREAMS));
        let now = || both.each_ref().map(|streams| moved(streams) - begin);
        // As long as both are seen to have something.
        let seen = std::iter::repeat_with(now).take_while(|moved| moved.iter().all(|moved| *moved < all * 15 / 16));
        let last = seen.last().unwrap_or_default();
        sums = [sums[0] + last[0], sums[1] + last[1]];
        until("all is moved", || now() == [all, all]);
        for (_, peer) in both.iter_mut().flatten() {
            got(peer, EACH as usize);
        }
        let ratio = sums[1] as f64 / sums[0].max(1) as f64;
        if round >= *ROUNDS.start() && SHARES.contains(&ratio) {
            return;
        }
        said.push(ratio);
    }
    panic!("bytes of the heavy one for each of the light one: {said:?}");
}
