//! Order of service: counted in transfers of others, so that a slow machine changes nothing.

use crate::common::{Program, connection, got, limited, until, until_at_once};
use sidecore_sockets_service::SocketsConfig;
use sidecore_streams::cursor::word;
use sidecore_streams::layout::{HEAD, SHARED, TAIL, TRANSFERS, WRITER};
use std::sync::atomic::Ordering;

/// Streams that are flooded: all places of the first bank.
const FLOODED: u32 = 64;
/// Bytes in each of their rings: several transfers.
const EACH: u64 = 256 << 10;
/// Rounds before the test fails: a round proves nothing if another thread had the core meanwhile.
const ROUNDS: u64 = 200;
/// Least remaining transfers of others in a valid round.
const TO_COME: u64 = 100;
/// Most transfers of others before a new stream's. By plain turns it would be one of each of them.
const WAITS: u64 = 24;

fn transfers(program: &Program) -> u64 {
    let of = |place| program.banks[0].word(place, SHARED, TRANSFERS).load(Ordering::Relaxed);
    (0..FLOODED).map(of).sum()
}

#[test]
fn a_quiet_connection_does_not_wait_behind_flooded_ones() {
    let service = limited(&SocketsConfig { ring_kib: (EACH >> 10) as u32, ..SocketsConfig::default() });
    let mut program = Program::attach(&service);
    program.add_bank().unwrap();
    let mut flooded = Vec::new();
    for place in 0..FLOODED {
        let (here, there) = connection();
        flooded.push((program.promote(place, 1, &here), there));
    }
    let (here, mut quiet_peer) = connection();
    let mut quiet = program.promote(FLOODED, 1, &here);
    let mut waited = Vec::new();
    for round in 1..=ROUNDS {
        for (stream, _) in &flooded {
            stream.until_armed();
        }
        quiet.until_armed();
        let start = transfers(&program);
        for (stream, _) in &flooded {
            stream.word(WRITER, TAIL).store(word(EACH * round, false), Ordering::Release);
        }
        assert!(flooded.iter().all(|(stream, _)| stream.ring()));
        until_at_once("a round of the flooded", || transfers(&program) >= start + u64::from(FLOODED));
        let before = transfers(&program);
        assert!(quiet.write(b"q"));
        until_at_once("the quiet one's turn", || quiet.read(SHARED, HEAD) >= quiet.tail);
        let after = transfers(&program);
        assert_eq!(got(&mut quiet_peer, 1), b"q");
        for (stream, peer) in &mut flooded {
            got(peer, EACH as usize);
            until("all is moved", || stream.read(SHARED, HEAD) == EACH * round);
        }
        if transfers(&program) > before + TO_COME {
            waited.push(after - before);
            if after - before <= WAITS {
                return;
            }
        }
    }
    panic!("transfers of others meanwhile: {waited:?}");
}
