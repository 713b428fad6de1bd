//! Tests of counter files, whole and damaged.

use super::*;
use crate::kinds::{ClassCounter, Counter, Kind, LaneCounter, SidecoreCounter};
use crate::limits::Limit;
use crate::snapshot::{ClassStats, Snapshot};
use proptest::prelude::*;
use sidecore_core::dispatch::DeviceState;
use sidecore_core::policy::notify::{Audit, ThreadCore};
use sidecore_core::session::Class;
use sidecore_core::stage::Stage;
use sidecore_core::wire::Fault;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;

const SHAPE: Shape = Shape { sidecores: 2, lanes: 5, devices: 3, keys: 3 };

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sidecore-counters-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("counters")
    }

    fn counters(&self) -> Arc<Counters> {
        let start = Start { pid: 77, sample_every: 64, now: sidecore_ipc::sys::clock::now() };
        Counters::create(&self.file(), SHAPE, start).unwrap()
    }

    fn read(&self) -> Snapshot {
        Snapshot::read(&self.file()).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_fresh_file_has_a_header_and_no_open_block() {
    let scratch = Scratch::new();
    let _counters = scratch.counters();
    let snapshot = scratch.read();
    assert_eq!((snapshot.shape, snapshot.start.pid, snapshot.start.sample_every), (SHAPE, 77, 64));
    assert!(snapshot.is_alive());
    assert_eq!(snapshot.notify, [None; 4]);
    assert!(snapshot.sidecores.is_empty() && snapshot.devices.is_empty());
    assert!(snapshot.lanes.is_empty() && snapshot.classes.is_empty() && snapshot.keys.is_empty());
}

#[test]
fn policies_and_heartbeat_come_back() {
    let scratch = Scratch::new();
    let counters = scratch.counters();
    let notify = [Notify::Spin, Notify::Park, Notify::Timer { period: 250_000 }, Notify::BreakEven];
    counters.set_policies(notify, Balance::Sed);
    let seen = scratch.read();
    assert_eq!((seen.notify, seen.balance), (notify.map(Some), Some(Balance::Sed)));
    assert!(!seen.clients_may_spin);
    counters.set_clients_may_spin(true);
    assert!(scratch.read().clients_may_spin);
    counters.heartbeat(1);
    assert!(!scratch.read().is_alive() && scratch.read().heartbeat_age() > 0);
    assert_eq!(scratch.read().uptime(), 0);
    counters.heartbeat(u64::MAX);
    assert!(!scratch.read().is_alive(), "the clock began anew since");
}

#[test]
fn limits_come_back_with_their_users_and_unpublished_ones_do_not() {
    let scratch = Scratch::new();
    let counters = scratch.counters();
    assert!(scratch.read().limits.is_empty());
    let keys = LimitUse { limit: Limit::Keys, used: 200, most: 256, uid: None };
    let last = LimitUse { limit: Limit::KeysPerCreator, used: 3, most: 16, uid: Some(u32::MAX) };
    counters.set_limit(&keys);
    counters.set_limit(&last);
    let seen = scratch.read();
    assert_eq!(seen.limits, [keys, last]);
    assert_eq!((seen.limit(Limit::Keys), seen.limit(Limit::Lanes)), (Some(&keys), None));
    counters.set_limit(&LimitUse { used: 0, most: 0, ..keys });
    assert_eq!(scratch.read().limits, [last]);
}

#[test]
fn sidecores_come_back_with_their_classes_added_up() {
    let scratch = Scratch::new();
    let counters = scratch.counters();
    let (gcm, rsa) = (Class::from_name("aes-256-gcm").unwrap(), Class::from_name("rsa-2048-sign").unwrap());
    let places = [ThreadCore::new(None, true), ThreadCore::new(Some(0), true)];
    for (index, place) in places.into_iter().enumerate() {
        let sidecore = counters.sidecore(index);
        sidecore.open(place);
        sidecore.add(SidecoreCounter::Requests, 3);
        sidecore.class(gcm, 1, 1000);
        sidecore.record(gcm, Stage::Host, 5_000);
    }
    counters.sidecore(1).class(rsa, 1, 32);
    let audit =
        Audit { waits: 1, empty_polls: 2, naps: 3, parks: 4, spun_ns: 5, slept_ns: 6, cost_ns: 30, optimum_ns: 20 };
    counters.sidecore(1).audit(&audit);
    let snapshot = scratch.read();
    assert_eq!([0, 1].map(|index| snapshot.sidecores[index].place), places);
    assert_eq!((snapshot.sidecores[0].audit(), snapshot.sidecores[1].audit()), (Audit::default(), audit));
    let counts = |class: &ClassStats| [ClassCounter::Requests, ClassCounter::Bytes].map(|counter| class.get(counter));
    let seen: Vec<_> = snapshot.classes.iter().map(|class| (class.class, counts(class))).collect();
    assert_eq!(seen, [(gcm, [2, 2000]), (rsa, [1, 32])]);
    let host = snapshot.classes[0].stages[Stage::Host as usize].summary();
    assert_eq!((host.count, host.mean), (2, 5_000.0));
}

#[test]
fn who_waits_is_the_same_in_the_service_and_in_the_file() {
    let scratch = Scratch::new();
    let counters = scratch.counters();
    counters.set_policies([Notify::Spin; 4], Balance::Eft);
    counters.sidecore(1).open(ThreadCore::new(Some(1), false));
    counters.device(0).open("inline", 0, "inline", None);
    counters.device(1).open("w", 0, "worker", Some(ThreadCore::new(Some(2), true)));
    counters.device(2).open("gone", 0, "worker", Some(ThreadCore::default()));
    counters.device(2).set_state(DeviceState::Gone);
    let waiters = counters.waiters();
    let places = (vec![ThreadCore::new(Some(1), false)], vec![ThreadCore::new(Some(2), true)]);
    assert_eq!((waiters.sidecores.clone(), waiters.workers.clone()), places);
    let seen = scratch.read();
    assert_eq!(seen.parked(), waiters.parked(seen.notify));
    assert_eq!(seen.parked()[0].as_deref(), Some("parks: core 1 is shared"));
    assert_eq!(
        seen.devices.iter().map(|device| device.worker).collect::<Vec<_>>(),
        [None, Some(places.1[0]), Some(ThreadCore::default())]
    );
}

#[test]
fn devices_come_back() {
    let scratch = Scratch::new();
    let counters = scratch.counters();
    let device = counters.device(2);
    device.open("card", 1, "emulated", None);
    assert_eq!(scratch.read().devices[0].state(), Some(DeviceState::Active));
    device.set_state(DeviceState::Gone);
    device.add(DeviceCounter::Requests, 9);
    device.set(DeviceCounter::BacklogNs, 700);
    device.record(1_000);
    let snapshot = scratch.read();
    let [seen] = &snapshot.devices[..] else { panic!("{snapshot:?}") };
    assert_eq!((seen.index, &*seen.name, seen.sidecore, &*seen.kind), (2, "card", 1, "emulated"));
    assert_eq!(seen.state(), Some(DeviceState::Gone));
    assert_eq!((seen.get(DeviceCounter::Requests), seen.get(DeviceCounter::BacklogNs)), (9, 700));
    assert_eq!((seen.stages[0].summary().count, seen.stages[0].sum()), (1, 1_000));
}

#[test]
fn lanes_come_back_and_begin_anew() {
    let scratch = Scratch::new();
    let counters = scratch.counters();
    let lane = counters.lane(4);
    lane.open(1234, 1000, 1, "nginx").unwrap();
    for counter in LaneCounter::ALL {
        lane.add(counter, counter as u64 + 1);
    }
    for stage in Stage::ALL {
        lane.record(stage, 100 * (stage as u64 + 1));
    }
    let snapshot = scratch.read();
    let [seen] = &snapshot.lanes[..] else { panic!("{snapshot:?}") };
    assert_eq!((seen.index, seen.pid, seen.uid, seen.sidecore, &*seen.name), (4, 1234, 1000, 1, "nginx"));
    assert!(LaneCounter::ALL.into_iter().all(|counter| seen.get(counter) == counter as u64 + 1));
    assert!(Stage::ALL.into_iter().all(|stage| seen.stages[stage as usize].sum() == 100 * (stage as u64 + 1)));
    assert_eq!(seen.fault(), None, "no fault has the number 10");
    lane.close();
    assert!(scratch.read().lanes.is_empty());
    lane.open(1235, 1000, 0, "curl").unwrap();
    lane.set(LaneCounter::Fault, Fault::HeadTooLong as u64 + 1);
    let again = &scratch.read().lanes[0];
    assert_eq!((again.pid, &*again.name, again.get(LaneCounter::Done)), (1235, "curl", 0));
    assert_eq!((again.stages[0].summary().count, again.fault()), (0, Some(Fault::HeadTooLong)));
}

#[test]
fn keys_come_back_added_up_and_begin_anew() {
    let scratch = Scratch::new();
    let counters = scratch.counters();
    counters.open_key(2, &"k".repeat(64)).unwrap();
    for sidecore in 0..2 {
        let key = counters.key(sidecore, 2);
        key.add(KeyCounter::Submitted, 5);
        key.add(KeyCounter::InFlight, 2);
        key.sub(KeyCounter::InFlight, 1);
        for stage in Stage::ALL {
            key.record(stage, 1_000);
        }
    }
    let earlier = scratch.read();
    let [seen] = &earlier.keys[..] else { panic!("{earlier:?}") };
    assert_eq!((seen.index, &*seen.name), (2, &*"k".repeat(64)));
    assert_eq!((seen.get(KeyCounter::Submitted), seen.get(KeyCounter::InFlight)), (10, 2));
    let times: Vec<u64> = seen.stages.iter().map(|stage| stage.summary().count).collect();
    assert_eq!(times, [2, 2, 2], "what clients say of the others is not told by key");
    counters.key(1, 2).add(KeyCounter::Submitted, 1);
    let since = scratch.read().since(&earlier);
    assert_eq!((since.keys[0].get(KeyCounter::Submitted), since.keys[0].get(KeyCounter::InFlight)), (1, 2));
    counters.close_key(2);
    assert!(scratch.read().keys.is_empty());
    counters.open_key(2, "next").unwrap();
    let since = scratch.read().since(&earlier);
    assert_eq!((&*since.keys[0].name, since.keys[0].get(KeyCounter::Submitted)), ("next", 0));
    counters.key(0, 2).sub(KeyCounter::InFlight, 1);
    assert_eq!(scratch.read().keys[0].get(KeyCounter::InFlight), 0, "a request of the key that was here before");
}

#[test]
fn lanes_add_up_and_the_first_fault_stays() {
    let scratch = Scratch::new();
    let counters = scratch.counters();
    for (index, fault) in [0, Fault::HeadTooLong as u64 + 1, Fault::ReservedBits as u64 + 1].into_iter().enumerate() {
        let lane = counters.lane(index);
        lane.open(1, 1, 0, "").unwrap();
        lane.set(LaneCounter::Fault, fault);
        lane.set(LaneCounter::InFlight, 2);
        lane.record(Stage::Total, 1_000);
    }
    let lanes = scratch.read().lanes;
    let mut sum = lanes[0].clone();
    lanes[1..].iter().for_each(|lane| sum.merge(lane));
    assert_eq!((sum.fault(), sum.get(LaneCounter::InFlight)), (Some(Fault::HeadTooLong), 6));
    assert_eq!((sum.stage(Stage::Total).sum(), sum.stage(Stage::Queue).sum()), (3_000, 0));
    sum.clear_levels();
    assert_eq!((sum.fault(), sum.get(LaneCounter::InFlight), sum.stage(Stage::Total).sum()), (None, 0, 3_000));
}

fn metrics<C: Counter>() -> Vec<String> {
    for row in C::ROWS {
        assert!(row.help.ends_with('.') && row.kind != Kind::Times, "{row:?}");
        assert!(row.heading.is_empty() || row.heading == row.heading.to_uppercase(), "{row:?}");
        assert!(!(row.kind.is_level() && row.heading.ends_with("/S")), "a level has no rate: {row:?}");
    }
    let times = (!C::STAGES.is_empty()).then_some(C::TIMES.0);
    let names = C::ROWS.iter().map(|row| row.metric).filter(|metric| !metric.is_empty()).chain(times);
    names.map(|name| C::PREFIX.to_owned() + name).collect()
}

#[test]
fn each_row_can_be_shown_and_no_two_have_one_name() {
    let mut names = [metrics::<SidecoreCounter>(), metrics::<DeviceCounter>(), metrics::<LaneCounter>()].concat();
    names.extend([metrics::<KeyCounter>(), metrics::<ClassCounter>()].concat());
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
    let plain = |name: &String| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    assert!(names.iter().all(plain), "{names:?}");
}

#[test]
fn long_names_are_cut_between_characters() {
    let scratch = Scratch::new();
    let lane = scratch.counters().lane(0);
    lane.open(1, 1, 0, &"ä".repeat(40)).unwrap();
    assert_eq!(scratch.read().lanes[0].name, "ä".repeat(16));
    lane.open(1, 1, 0, &format!("x{}", "ä".repeat(40))).unwrap();
    assert_eq!(scratch.read().lanes[0].name, format!("x{}", "ä".repeat(15)));
}

#[test]
fn an_interval_holds_what_came_since() {
    let scratch = Scratch::new();
    let counters = scratch.counters();
    let (kept, reopened) = (counters.lane(1), counters.lane(2));
    for lane in [&kept, &reopened] {
        lane.open(1, 1, 0, "").unwrap();
        lane.add(LaneCounter::Done, 10);
        lane.record(Stage::Queue, 500);
    }
    counters.sidecore(0).open(ThreadCore::default());
    counters.sidecore(0).class(Class::NOOP, 1, 1);
    counters.device(0).open("a", 0, "inline", None);
    counters.device(0).add(DeviceCounter::Requests, 5);
    let earlier = scratch.read();
    kept.add(LaneCounter::Done, 5);
    kept.set(LaneCounter::InFlight, 3);
    reopened.open(2, 2, 0, "").unwrap();
    reopened.add(LaneCounter::Done, 4);
    counters.sidecore(0).class(Class::NOOP, 1, 1);
    counters.sidecore(0).set(SidecoreCounter::Lanes, 2);
    counters.device(0).add(DeviceCounter::Requests, 2);
    let since = scratch.read().since(&earlier);
    let lanes: Vec<_> = since.lanes.iter().map(|lane| (lane.get(LaneCounter::Done), lane.stages[0].sum())).collect();
    assert_eq!(lanes, [(5, 0), (4, 0)]);
    assert_eq!(since.lanes[0].get(LaneCounter::InFlight), 3);
    assert_eq!([ClassCounter::Requests, ClassCounter::Bytes].map(|counter| since.classes[0].get(counter)), [1, 1]);
    assert_eq!(since.sidecores[0].get(SidecoreCounter::Lanes), 2);
    assert_eq!(since.devices[0].get(DeviceCounter::Requests), 2);
    assert!(since.interval > 0 && since.interval <= since.taken - earlier.taken);
}

#[test]
fn another_service_counts_from_its_own_start() {
    let scratch = Scratch::new();
    let lane = scratch.counters().lane(0);
    lane.open(1, 1, 0, "").unwrap();
    lane.add(LaneCounter::Done, 10);
    let earlier = scratch.read();
    let lane = scratch.counters().lane(0);
    lane.open(1, 1, 0, "").unwrap();
    lane.add(LaneCounter::Done, 7);
    let since = scratch.read().since(&earlier);
    assert_eq!(since.lanes[0].get(LaneCounter::Done), 7);
    assert!((since.per_second(7) * since.interval as f64 / 1e9 - 7.0).abs() < 1e-6);
}

#[test]
fn each_writer_adds_up_to_its_own_sum() {
    const ADDITIONS: u64 = 200_000;
    let scratch = Scratch::new();
    let counters = scratch.counters();
    std::thread::scope(|scope| {
        for index in 0..2 {
            let lane = counters.lane(index);
            lane.open(1, 1, 0, "").unwrap();
            scope.spawn(move || {
                for _ in 0..ADDITIONS {
                    lane.add(LaneCounter::Done, index as u64 + 1);
                    lane.record(Stage::Queue, 1_000);
                }
            });
        }
        let mut before = 0;
        for _ in 0..100 {
            let done = scratch.read().lanes[0].get(LaneCounter::Done);
            assert!((before..=ADDITIONS).contains(&done));
            before = done;
        }
    });
    for (index, lane) in scratch.read().lanes.iter().enumerate() {
        assert_eq!(lane.get(LaneCounter::Done), ADDITIONS * (index as u64 + 1));
        let queue = &lane.stages[Stage::Queue as usize];
        assert_eq!((queue.summary().count, queue.sum()), (ADDITIONS, ADDITIONS * 1_000));
    }
}

#[test]
fn a_new_file_replaces_the_old_one_at_once() {
    let scratch = Scratch::new();
    fs::write(scratch.file(), "what an older version wrote").unwrap();
    let old = scratch.counters();
    let _new = scratch.counters();
    old.lane(0).open(1, 1, 0, "old").unwrap();
    assert!(scratch.read().lanes.is_empty());
    assert_eq!(fs::metadata(scratch.file()).unwrap().permissions().mode() & 0o7777, 0o644);
    assert_eq!(fs::read_dir(scratch.file().parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn lanes_and_keys_that_are_not_used_take_no_space() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    let shape = Shape { lanes: 65_536, keys: Shape::LIMIT.keys, ..SHAPE };
    let _counters = Counters::create(&scratch.file(), shape, Start { pid: 1, sample_every: 1, now: 1 }).unwrap();
    let metadata = fs::metadata(scratch.file()).unwrap();
    assert!(metadata.len() > 300 << 20 && metadata.blocks() * 512 < 2 << 20, "{metadata:?}");
}

#[test]
fn what_cannot_be_made_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let start = Start { pid: 1, sample_every: 1, now: 1 };
    let huge = Shape { lanes: u32::MAX, ..SHAPE };
    assert_eq!(Counters::create(&scratch.file(), huge, start).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    fs::create_dir(scratch.file()).unwrap();
    assert!(Counters::create(&scratch.file(), SHAPE, start).is_err());
    assert!(Counters::create(&scratch.file().join("none/counters"), SHAPE, start).is_err());
    assert_eq!(fs::read_dir(scratch.file().parent().unwrap()).unwrap().count(), 1);
}

fn reason(scratch: &Scratch) -> String {
    Snapshot::read(&scratch.file()).unwrap_err().to_string()
}

#[test]
fn errors_say_what_to_do() {
    let scratch = Scratch::new();
    assert!(reason(&scratch).contains("start `sidecore serve`"));
    fs::write(scratch.file(), "short").unwrap();
    assert!(reason(&scratch).contains("no counter file of sidecore"));
    fs::write(scratch.file(), vec![7; 1 << 16]).unwrap();
    assert!(reason(&scratch).contains("no counter file of sidecore"));
    scratch.counters().set(header::VERSION, 10);
    assert!(reason(&scratch).contains("reads 9; the service is newer: restart this program"), "{}", reason(&scratch));
    scratch.counters().set(header::ABOUT, u64::MAX);
    assert!(reason(&scratch).contains("damaged"), "{}", reason(&scratch));
    let Shape { lanes, keys, .. } = Shape::LIMIT;
    for shape in [Shape { lanes: u32::MAX, ..SHAPE }, Shape { lanes, ..SHAPE }, Shape { keys, ..SHAPE }] {
        let counters = scratch.counters();
        describe(counters.mapping.lines(counters.bytes), shape, Start { pid: 1, sample_every: 1, now: 1 });
        assert!(reason(&scratch).contains("damaged"), "{}", reason(&scratch));
    }
    fs::remove_file(scratch.file()).unwrap();
    fs::create_dir(scratch.file()).unwrap();
    assert!(reason(&scratch).contains("that this user may read"), "{}", reason(&scratch));
}

fn full() -> Scratch {
    let scratch = Scratch::new();
    let counters = scratch.counters();
    counters.set_policies([Notify::BreakEven; 4], Balance::Eft);
    (0..SHAPE.keys as usize).for_each(|place| counters.open_key(place, "key").unwrap());
    (0..SHAPE.lanes as usize).for_each(|index| counters.lane(index).open(1, 1, 0, "lane").unwrap());
    (0..SHAPE.devices as usize).for_each(|index| counters.device(index).open("device", 0, "inline", None));
    for index in 0..SHAPE.sidecores as usize {
        counters.sidecore(index).open(ThreadCore::new(Some(1), false));
        counters.sidecore(index).class(Class::NOOP, 1, 1);
    }
    scratch
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_shortened_file_is_an_error(part in 0.0..1.0_f64) {
        let scratch = full();
        let len = fs::metadata(scratch.file()).unwrap().len();
        let file = fs::OpenOptions::new().write(true).open(scratch.file()).unwrap();
        file.set_len((len as f64 * part) as u64).unwrap();
        prop_assert!(Snapshot::read(&scratch.file()).is_err());
    }

    #[test]
    fn any_words_are_numbers_or_an_error(
        header in proptest::collection::vec((2..header::WORDS, any::<u64>()), 0..2),
        words in proptest::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 0..2000),
    ) {
        let scratch = full();
        let file = fs::OpenOptions::new().write(true).open(scratch.file()).unwrap();
        let behind = header::WORDS..SHAPE.words();
        let words = words.into_iter().map(|(index, value)| (behind.start + index.index(behind.len()), value));
        for (word, value) in header.into_iter().chain(words) {
            file.write_all_at(&value.to_ne_bytes(), (word * WORD) as u64).unwrap();
        }
        if let Ok(snapshot) = Snapshot::read(&scratch.file()) {
            let since = snapshot.since(&snapshot);
            let _ = (since.uptime(), since.per_second(u64::MAX), since.is_alive());
            for lane in &since.lanes {
                let _ = (lane.audit().ratio(), lane.fault());
                prop_assert!(lane.stages[0].summary().p50 <= lane.stages[0].summary().p99);
            }
        }
    }

    #[test]
    fn any_bytes_are_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
        let scratch = Scratch::new();
        fs::write(scratch.file(), bytes).unwrap();
        prop_assert!(Snapshot::read(&scratch.file()).is_err());
    }
}
