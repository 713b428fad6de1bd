//! How programs of one user share its thread: counted in bytes, so that a slow machine changes nothing.

use crate::common::{Program, Stream, connect, connection, limited, until};
use sidecore::config::SocketsConfig;
use sidecore::core::streams::cursor::word;
use sidecore::core::streams::layout::{HEAD, SHARED, TAIL, WRITER};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::atomic::Ordering;
use std::thread;

/// Streams of each program.
const STREAMS: u32 = 16;
/// Bytes that each of them has at once: several transfers.
const EACH: u64 = 256 << 10;
/// Weight of the heavy program; that of the other is 1.
const WEIGHT: u32 = 4;
/// What the heavy one had moved for each byte of the light one while both were flooded: where another thread had the core
/// meanwhile it is a little more or less.
const SHARES: std::ops::Range<f64> = 2.0..8.0;
/// Rounds that are summed up before one looks, and at most.
const ROUNDS: std::ops::RangeInclusive<u64> = 10..=200;

fn moved(streams: &[Stream<'_>]) -> u64 {
    streams.iter().map(|stream| stream.read(SHARED, HEAD)).sum()
}

/// Streams whose peers read all and forget it.
fn streams(program: &Program) -> Vec<Stream<'_>> {
    let stream = |place| {
        let (here, mut there) = connection();
        thread::spawn(move || io::copy(&mut there.by_ref(), &mut io::sink()));
        program.promote(place, 1, &here)
    };
    (0..STREAMS).map(stream).collect()
}

#[test]
fn programs_of_one_user_have_shares_by_weight() {
    let weights = BTreeMap::from([("heavy".to_owned(), WEIGHT)]);
    let ring_kib = (EACH >> 10) as u32;
    let service = limited(SocketsConfig { ring_kib, weights, ..SocketsConfig::default() });
    let programs = ["light", "heavy"].map(|name| Program::named(connect(service.socket()), name));
    let both = programs.each_ref().map(streams);
    let (mut sums, mut said) = ([0, 0], Vec::new());
    for round in 1..=*ROUNDS.end() {
        for stream in both.iter().flatten() {
            stream.until_armed();
        }
        for stream in both.iter().flatten() {
            stream.word(WRITER, TAIL).store(word(EACH * round, false), Ordering::Release);
        }
        assert!(both.iter().flatten().all(Stream::ring));
        let (begin, all) = (EACH * (round - 1) * u64::from(STREAMS), EACH * u64::from(STREAMS));
        let now = || both.each_ref().map(|streams| moved(streams) - begin);
        // As long as both have something.
        let mut last = now();
        while last.iter().all(|moved| *moved < all * 15 / 16) {
            last = now();
        }
        sums = [sums[0] + last[0], sums[1] + last[1]];
        until("all is moved", || now() == [all, all]);
        let ratio = sums[1] as f64 / sums[0] as f64;
        if round >= *ROUNDS.start() && SHARES.contains(&ratio) {
            return;
        }
        said.push(ratio);
    }
    panic!("bytes of the heavy one for each of the light one: {said:?}");
}
