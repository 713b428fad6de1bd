//! Stage times and counters: complete, in order, and consistent with the client.

use crate::common::{Running, administer, connect, start};
use crate::devices::{devices_when, worker};
use crate::load::Load;
use crate::losses::{frozen, patience};
use sidecore::client::Error;
use sidecore::config::{Config, DeviceConfig};
use sidecore::core::session::{Class, Op};
use sidecore::core::stage::Stage;
use sidecore_counters::{ClassCounter, DeviceCounter, LaneCounter, SidecoreCounter, Snapshot};
use std::time::{Duration, Instant};

fn sampled(sample_every: u32, device: DeviceConfig) -> Running {
    start(Config { sample_every, ..patience(vec![device]) })
}

fn in_order(load: &Load) {
    for (stamps, received) in &load.stages {
        let order = [stamps.submitted, stamps.handed, stamps.taken, *received];
        assert!(order.is_sorted() && order[0] > 0, "{order:?}");
    }
}

#[test]
fn sampled_requests_carry_all_stages_in_order() {
    for device in [DeviceConfig::inline("d"), worker("d"), DeviceConfig::emulated("d", 10_000, 0.1)] {
        let (emulated, service) = (device.fixed_ns > 0, sampled(1, device));
        for in_flight in [1, 32] {
            let mut load = Load::new(connect(&service), "aes-256-gcm", 2000, in_flight, false);
            load.run(500);
            assert_eq!(load.stages.len(), 500);
            in_order(&load);
            assert!(!emulated || load.stages.iter().all(|(stamps, _)| stamps.device() >= 10_000));
        }
    }
}

fn wakeups(service: &Running) -> u64 {
    Snapshot::read(service.counters()).unwrap().sidecores[0].get(SidecoreCounter::WakeupsReceived)
}

#[test]
fn under_a_timer_no_device_rings() {
    // Each request has one ring of its client; some wake-ups are for commands.
    const REQUESTS: u64 = 20;
    const COMMANDS: u64 = 8;
    let rung = |from_device: &str, class: &str| {
        let service = sampled(1, worker("card"));
        let mut control = administer(&service);
        control.set("notify=park").unwrap();
        control.set(&format!("notify.from_device={from_device}")).unwrap();
        let mut load = Load::new(connect(&service), class, 64, 1, false);
        let before = wakeups(&service);
        for _ in 0..REQUESTS {
            // The sidecore goes to sleep before, so that the client rings.
            std::thread::sleep(Duration::from_millis(2));
            load.run(1);
        }
        wakeups(&service) - before
    };
    assert!(rung("timer(20ms)", "aes-256-gcm") <= REQUESTS + COMMANDS, "the device rang");
    // As a control: a request of milliseconds finds the sidecore asleep again, and under park the device rings as
    // well.
    assert!(rung("park", "rsa-4096-decrypt") > REQUESTS + COMMANDS, "nobody rang");
}

#[test]
fn replayed_requests_carry_their_stages_too() {
    let service = sampled(1, frozen("dies"));
    let mut load = Load::new(connect(&service), "aes-256-gcm", 10_000, 32, false);
    load.fill(32);
    devices_when(&service, |all| all[0].get(DeviceCounter::InFlight) == 32);
    let mut control = administer(&service);
    control.set("device={name='lives',kind='inline'}").unwrap();
    control.set("device.dies=kill").unwrap();
    load.finish();
    assert_eq!((load.tally.done, load.stages.len()), (32, 32));
    in_order(&load);
}

#[test]
fn one_in_so_many_is_sampled_and_of_long_operations_each() {
    for (every, expected) in [(0, 0), (10, 30)] {
        let service = sampled(every, DeviceConfig::inline("d"));
        let mut load = Load::new(connect(&service), "aes-256-gcm", 100, 8, false);
        load.run(300);
        assert_eq!(load.stages.len(), expected);
        let mut long = Load::new(connect(&service), "rsa-2048-decrypt", 0, 2, false);
        long.run(20);
        assert_eq!(long.stages.len(), 20);
        in_order(&long);
    }
}

fn settled(service: &Running, received: u64) -> Snapshot {
    let patience = Instant::now() + Duration::from_secs(10);
    loop {
        let snapshot = Snapshot::read(service.counters()).unwrap();
        let said = snapshot.lanes.first().map_or(0, |lane| lane.get(LaneCounter::ClientReceived));
        if said == received && snapshot.sidecores[0].get(SidecoreCounter::Requests) > 0 {
            return snapshot;
        }
        assert!(Instant::now() < patience, "the counters stay at {said} of {received}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn counters_agree_with_the_client() {
    let service = sampled(1, DeviceConfig::inline("d"));
    let mut load = Load::new(connect(&service), "aes-256-gcm", 1000, 16, false);
    load.run(1000);
    let session = load.client.open_session(&sidecore::engine::crypto::sample::sample(Class::NOOP, 0, 0).spec).unwrap();
    for _ in 0..7 {
        assert!(matches!(load.client.call(session, Op::Sign, 0, &[1], 64), Err(Error::Refused(_))));
    }
    let snapshot = settled(&service, 1007);
    let [lane, sidecore, device] = [
        [LaneCounter::Submitted, LaneCounter::Done, LaneCounter::Refused, LaneCounter::Failed]
            .map(|counter| snapshot.lanes[0].get(counter)),
        [SidecoreCounter::Requests, SidecoreCounter::Refused, SidecoreCounter::Lanes, SidecoreCounter::Faults]
            .map(|counter| snapshot.sidecores[0].get(counter)),
        [DeviceCounter::Requests, DeviceCounter::Bytes, DeviceCounter::InFlight, DeviceCounter::Failed]
            .map(|counter| snapshot.devices[0].get(counter)),
    ];
    assert_eq!(lane, [1007, 1000, 7, 0]);
    assert_eq!(sidecore, [1000, 7, 1, 0]);
    assert_eq!(device, [1000, 1000 * 1012, 0, 0]);
    assert_eq!(snapshot.lanes[0].get(LaneCounter::BytesIn), 1000 * 1012);
    assert_eq!(snapshot.lanes[0].get(LaneCounter::BytesOut), 1000 * 1016);
    assert_eq!(snapshot.devices[0].stages[0].summary().count, 1000);
    for stage in Stage::ALL {
        assert_eq!(snapshot.lanes[0].stages[stage as usize].summary().count, 1000, "{}", stage.name());
    }
    let class = &snapshot.classes[0];
    let counts = [ClassCounter::Requests, ClassCounter::Bytes].map(|counter| class.get(counter));
    assert_eq!((class.class.name(), counts), ("aes-256-gcm", [1000, 1000 * 1012]));
    let waits = load.client.wait_report().audit.waits;
    assert!(snapshot.lanes[0].audit().waits <= waits);
}
