//! Replays of runs with faults make the same decisions; changed, cut and invented records are refused or differ.

use super::record;
use proptest::prelude::*;
use sidecore_core::dispatch::record::{Call, END, Recorded, Start, hash};
use sidecore_core::dispatch::{Capability, ClientId, KeyLocation, LaneId, Limits, Placement, UserShare, Work};
use sidecore_core::policy::balance::{Balance, Rates};
use sidecore_core::policy::notify::Notify;
use sidecore_core::session::{Class, Classes};
use sidecore_core::time::Nanos;
use sidecore_sim::replay::{Again, Pool, ReplayError, Replayed, again, replay, traffic};
use std::sync::OnceLock;

const ROOM: usize = 1 << 20;
const TRAILER: usize = 2;
/// A run whose devices all answer later.
const SEED: u64 = 8;

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Words of arguments and of decision behind the first word of a call.
fn lengths(head: u64) -> [usize; 2] {
    [head >> 8 & 0xffff, head >> 24 & 0xff].map(|count| count as usize)
}

fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn sample() -> &'static [u64] {
    static SAMPLE: OnceLock<Vec<u64>> = OnceLock::new();
    SAMPLE.get_or_init(|| words(&record(SEED, ROOM)))
}

fn sealed(mut words: Vec<u64>) -> Vec<u8> {
    let last = words.len() - 1;
    words[last] = hash(&words[..last]);
    to_bytes(&words)
}

fn calls_of(number: u8) -> Vec<usize> {
    let (words, mut at) = (sample(), Start::WORDS);
    let mut found = Vec::new();
    while words[at] as u8 != END {
        if words[at] as u8 == number {
            found.push(at);
        }
        at += 1 + lengths(words[at]).iter().sum::<usize>();
    }
    found
}

#[test]
fn runs_with_faults_come_out_the_same() {
    let mut calls = 0;
    for seed in 0..150 {
        let Replayed { events, decisions, first_difference, cut_off } = replay(&record(seed, ROOM)).unwrap();
        assert!(first_difference.is_none() && !cut_off, "seed {seed}: {first_difference:?}");
        assert!(decisions > 0 && decisions <= events);
        calls += events;
    }
    assert!(calls > 50_000, "{calls}");
}

/// The call of batch devices, which the simulated service has not.
const ESTIMATE_DEVICE: usize = 21;

#[test]
fn each_kind_of_call_is_in_some_record() {
    let mut seen = [false; 256];
    for seed in 0..60 {
        let words = words(&record(seed, ROOM));
        let mut left = &words[Start::WORDS..words.len() - TRAILER];
        while let Some((head, rest)) = left.split_first() {
            seen[usize::from(*head as u8)] = true;
            left = &rest[lengths(*head).iter().sum::<usize>()..];
        }
    }
    let missing: Vec<usize> = (1..=22).chain(27..=28).filter(|kind| *kind != ESTIMATE_DEVICE && !seen[*kind]).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_changed_argument_is_found() {
    // Those that went to a device: its load shows the size, the answer later shows the tag.
    let placed: Vec<usize> = calls_of(11).into_iter().filter(|place| sample()[place + 5] as u8 == 1).collect();
    assert!(placed.len() > 200);
    for (place, byte) in placed.iter().step_by(placed.len() / 200).flat_map(|place| [(place, 0), (place, 6)]) {
        let mut words = sample().to_vec();
        // The tag's lowest byte, or the third one of the size.
        words[place + 2] ^= 1 << (byte * 8);
        assert!(matches!(replay(&to_bytes(&words)), Err(ReplayError::Damaged)));
        let replayed = replay(&sealed(words)).unwrap();
        let difference = replayed.first_difference.expect("the change shows");
        assert_ne!(difference.recorded, difference.made, "{difference:?}");
    }
}

#[test]
fn a_changed_decision_is_found_where_it_is() {
    // A decision that is 0 has no word.
    let place = calls_of(9).into_iter().find(|place| lengths(sample()[*place])[1] == 1).unwrap();
    let mut words = sample().to_vec();
    words[place + 1] ^= 1;
    let difference = replay(&sealed(words)).unwrap().first_difference.unwrap();
    assert!(difference.call.starts_with("MayTake"), "{difference:?}");
}

#[test]
fn a_record_without_room_is_cut_off_and_still_the_same() {
    let whole = replay(&record(SEED, ROOM)).unwrap();
    for room in [0, 100, 800, 1_200] {
        let cut = replay(&record(SEED, room)).unwrap();
        assert!(cut.first_difference.is_none() && cut.cut_off && cut.events < whole.events, "{cut:?}");
    }
}

#[test]
fn what_cannot_be_is_told() {
    let start = sample()[..Start::WORDS].to_vec();
    let with = |calls: &[u64]| sealed([start.clone(), calls.to_vec(), vec![u64::from(END), 0]].concat());
    assert_eq!(replay(&with(&[])).unwrap().events, 0);
    assert_eq!(replay(b"").unwrap_err(), ReplayError::NoRecord);
    assert_eq!(replay(&[7; 64]).unwrap_err(), ReplayError::NoRecord);
    assert_eq!(replay(&with(&[99])).unwrap_err(), ReplayError::Unknown(0, 99));
    assert_eq!(replay(&with(&[2 | 1 << 8, 0])).unwrap_err(), ReplayError::Arguments(0, 2));
    assert!(matches!(replay(&with(&[9])).unwrap_err(), ReplayError::Impossible(0, _)));
    assert_eq!(replay(&with(&[9 | 4 << 8])).unwrap_err(), ReplayError::Truncated);
    let mut huge = words(&with(&[]));
    huge[3] |= u64::from(u32::MAX);
    assert_eq!(replay(&sealed(huge)).unwrap_err(), ReplayError::Limits);
    let mut of_other_classes = words(&with(&[]));
    of_other_classes[3] += 1 << 32;
    assert_eq!(replay(&sealed(of_other_classes)).unwrap_err(), ReplayError::NoRecord);
}

proptest! {
    #[test]
    fn a_cut_record_is_an_error(cut in 0..sample().len() * 8) {
        prop_assert!(replay(&to_bytes(sample())[..cut]).is_err());
    }

    #[test]
    fn a_damaged_record_is_an_error(at in 0..sample().len() * 8, flip in 1_u8..) {
        let mut bytes = to_bytes(sample());
        bytes[at] ^= flip;
        prop_assert!(replay(&bytes).is_err());
    }

    /// Words of a real record put together anew: an answer or an error.
    #[test]
    fn a_forged_record_is_survived(
        changes in prop::collection::vec((Start::WORDS..sample().len() - TRAILER, any::<u64>(), 0..3_u8), 1..12),
    ) {
        let mut words = sample().to_vec();
        for (at, word, how) in changes {
            match how {
                0 => words[at] = word,
                1 => words[at] ^= 1 << (word % 64),
                _ => words[at] = sample()[(word as usize) % sample().len()],
            }
        }
        let _ = replay(&sealed(words));
    }

    #[test]
    fn invented_calls_are_survived(
        calls in prop::collection::vec((1..23_u64, 0..4_u64, prop::collection::vec(0..70_u64, 0..5)), 0..200),
    ) {
        let mut words = sample()[..Start::WORDS].to_vec();
        for (kind, first, arguments) in calls {
            words.push(kind | (arguments.len() as u64) << 8 | first << 32);
            words.extend(arguments);
        }
        words.extend([u64::from(END), 0]);
        let _ = replay(&sealed(words));
    }
}

/// The record of ten requests that come simultaneously to one device, with a microsecond of work each.
fn burst() -> Vec<u8> {
    let limits = Limits { lanes: 1, clients: 1, in_flight: 64, quantum: 1_000, deferred: 0 };
    let mut recorded = Recorded::new(limits, Balance::Eft, Some(ROOM));
    recorded.make(&Call::AddClientOf { user: UserShare { name: None, weight: 1 }, weight: 1, credit: 64 });
    recorded.make(&Call::AddLane(ClientId(0), Notify::Park));
    let (classes, rates) = (Classes::all(), Rates::with_prior(1_000));
    let device = Capability { classes, immediate: false, remote_keys: false, depth: 64, weight: 1, rates };
    recorded.make(&Call::AddDevice(device));
    let work = |tag| {
        let (lane, class, key_location) = (LaneId(0), Class::NOOP, KeyLocation::LOCAL);
        Work { lane, tag, class, size: 64, urgent: false, key_location, submitted: None }
    };
    let mut tickets = Vec::new();
    for tag in 0..10 {
        let (Placement::Assigned(given), _) = recorded.place_run(5_000, work(tag), 1, Nanos::MAX) else {
            panic!("it is full")
        };
        tickets.push(given.ticket);
    }
    for (done, ticket) in tickets.into_iter().enumerate() {
        recorded.complete(ticket, Some(1_000));
        recorded.announce(6_000 + 1_000 * done as u64, LaneId(0));
    }
    // One that is not done when the record ends.
    recorded.place_run(20_000, work(11), 1, Nanos::MAX);
    to_bytes(&recorded.end_record().unwrap().into_words())
}

#[test]
fn recorded_requests_come_once_more() {
    let traffic = traffic(&burst()).unwrap();
    assert_eq!((traffic.requests.len(), traffic.devices.len(), traffic.left_out), (10, 1, 1));
    let recorded = Again::recorded(&traffic);
    let each: Vec<Nanos> = (1..=10).map(|number| number * 1_000).collect();
    assert_eq!((&recorded.times, recorded.span, &recorded.busy[..]), (&each, 10_000, &[10_000][..]));
    let pool = |devices: usize, balance| Pool { devices: vec![0; devices], depth: None, balance };
    assert_eq!(again(&traffic, &pool(1, Balance::Eft)), Some(recorded));
    for balance in Balance::ALL {
        let two = again(&traffic, &pool(2, balance)).unwrap();
        assert_eq!((two.times.len(), two.refused), (10, 0), "{balance}");
        assert!(two.at(0.99) <= Some(10_000) && two.busy.iter().sum::<Nanos>() == 10_000, "{balance}: {two:?}");
    }
    let two = again(&traffic, &pool(2, Balance::Eft)).unwrap();
    assert_eq!((two.span, &two.busy[..]), (5_000, &[5_000, 5_000][..]));
    // What finds no room waits.
    let full = again(&traffic, &Pool { depth: Some(1), ..pool(1, Balance::Eft) }).unwrap();
    assert_eq!(full.times, each);
    assert_eq!(again(&traffic, &Pool { devices: vec![1], ..pool(1, Balance::Eft) }), None);
    assert_eq!(again(&traffic, &pool(0, Balance::Eft)), None);
}

#[test]
fn records_with_faults_can_come_once_more() {
    let mut requests = 0;
    for seed in 0..60 {
        let traffic = traffic(&record(seed, ROOM)).unwrap();
        requests += traffic.requests.len();
        for balance in [Balance::Eft, Balance::Priced] {
            let pool = Pool { devices: vec![0, 0], depth: Some(4), balance };
            let found = again(&traffic, &pool).unwrap();
            assert_eq!(found.times.len() as u64 + found.refused, traffic.requests.len() as u64, "seed {seed}");
        }
    }
    assert!(requests > 3_000, "{requests}");
    assert!(traffic(&burst()[..80]).is_err());
}

/// A record may come from anywhere: devices that there are not, and times beyond all measure.
#[test]
fn what_a_record_alleges_is_no_place_in_a_table() {
    let mut words = words(&burst());
    let mut at = Start::WORDS;
    while words[at] as u8 != END {
        let [arguments, decided] = lengths(words[at]);
        let decision = at + 1 + arguments;
        match words[at] as u8 {
            // Another device in the decision about each place and each completion; a day for each request.
            11 => words[decision] |= 200 << 8,
            14 => {
                words[at + 2] = u64::MAX / 2;
                words[decision] |= 200 << 8;
            }
            // An announcement at the end of all time.
            15 => words[at + 1] = u64::MAX - 1,
            _ => {}
        }
        at = decision + decided;
    }
    let traffic = traffic(&sealed(words)).unwrap();
    assert_eq!(traffic.requests.len(), 10);
    let recorded = Again::recorded(&traffic);
    assert!(recorded.mean().is_finite() && recorded.busy == [Nanos::MAX], "{recorded:?}");
    let pool = Pool { devices: vec![0; 2], depth: None, balance: Balance::Priced };
    let found = again(&traffic, &pool).unwrap();
    assert!(found.times.len() == 10 && found.mean().is_finite(), "{found:?}");
}
