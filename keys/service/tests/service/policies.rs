//! Waiting of the four hops: nothing stalls under any policy, in any mixture, nor while policies change.

use crate::common::{Running, administer, connect, options, start};
use crate::devices::worker;
use crate::load::{Load, Tally};
use scopeguard::defer;
use sidecore::client::{Client, Options};
use sidecore::config::{Config, DeviceConfig, NotifyConfig};
use sidecore::core::policy::notify::{Audit, Notify};
use sidecore_counters::{LaneCounter, SidecoreCounter, Snapshot};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const POLICIES: [Notify; 6] = [
    Notify::Spin,
    Notify::Park,
    Notify::Timer { period: 100_000 },
    Notify::Coalesce { count: 4, delay: 100_000 },
    Notify::BreakEven,
    Notify::Learn,
];

fn with(notify: NotifyConfig, devices: Vec<DeviceConfig>) -> Running {
    start(Config { notify, devices, ..Config::default() })
}

fn inline() -> Vec<DeviceConfig> {
    vec![DeviceConfig::inline("inline")]
}

fn loops(service: &Running) {
    for (in_flight, total) in [(1, 40), (32, 640)] {
        let mut load = Load::new(connect(service), "aes-128-gcm", 100, in_flight, in_flight == 1);
        load.run(total);
        assert_eq!(load.tally, Tally { done: total, ..Tally::default() });
    }
}

/// All policies on one hop with all on another; the others park.
fn any_two_ways(devices: Vec<DeviceConfig>, one: &str, other: &str) {
    let service = with(NotifyConfig::all(Notify::Park), devices);
    let mut control = administer(&service);
    for first in POLICIES {
        control.set(&format!("notify.{one}={first}")).unwrap();
        for second in POLICIES {
            control.set(&format!("notify.{other}={second}")).unwrap();
            loops(&service);
        }
    }
}

#[test]
fn service_and_client_may_wait_in_any_two_ways() {
    any_two_ways(inline(), "service", "client");
}

#[test]
fn a_service_and_its_worker_may_wait_in_any_two_ways() {
    any_two_ways(vec![worker("worker")], "to_device", "from_device");
}

#[test]
fn a_sidecore_and_its_worker_may_wait_in_any_two_ways() {
    any_two_ways(vec![worker("worker")], "service", "from_device");
}

#[test]
fn a_client_may_wait_as_it_likes_whatever_the_service_advises() {
    for advised in POLICIES {
        let service = with(NotifyConfig { client: advised, ..NotifyConfig::default() }, inline());
        for own in POLICIES {
            let options = Options { notify: Some(own), ..options(&service) };
            let mut load = Load::new(Client::connect(&options).unwrap(), "aes-128-gcm", 100, 2, false);
            load.run(30);
            assert_eq!(load.tally.done, 30);
        }
    }
}

#[test]
fn policies_change_under_load_and_nothing_is_lost() {
    let devices =
        vec![DeviceConfig::inline("inline"), worker("worker"), DeviceConfig::emulated("emulated", 20_000, 0.0)];
    let service = with(NotifyConfig::default(), devices);
    administer(&service).set("balance=round-robin").unwrap();
    let ended = AtomicBool::new(false);
    let tallies = thread::scope(|scope| {
        let loads = [1, 32].map(|in_flight| {
            let (service, ended) = (&service, &ended);
            scope.spawn(move || {
                let mut load = Load::new(connect(service), "aes-128-gcm", 300, in_flight, true);
                let mut total = 0;
                while !ended.load(Ordering::Relaxed) {
                    load.run(50);
                    total += 50;
                }
                (load.tally, total)
            })
        });
        {
            defer!(ended.store(true, Ordering::Relaxed));
            let mut control = administer(&service);
            for policy in POLICIES.into_iter().cycle().take(100) {
                control.set(&format!("notify={policy}")).unwrap();
                thread::sleep(Duration::from_millis(3));
            }
        }
        loads.map(|load| load.join().unwrap())
    });
    for (tally, total) in tallies {
        println!("{total} requests");
        assert_eq!(tally, Tally { done: total, ..Tally::default() });
    }
}

#[test]
fn balance_changes_under_load_and_nothing_is_lost() {
    let devices =
        vec![DeviceConfig::inline("inline"), worker("worker"), DeviceConfig::emulated("emulated", 20_000, 0.0)];
    let service = with(NotifyConfig::default(), devices);
    let mut control = administer(&service);
    let mut load = Load::new(connect(&service), "aes-128-gcm", 300, 32, true);
    for policy in ["round-robin", "sed", "eft"].into_iter().cycle().take(60) {
        load.fill(32);
        control.set(&format!("balance={policy}")).unwrap();
        load.run(50);
    }
    assert_eq!(load.tally, Tally { done: 60 * 82, ..Tally::default() });
}

/// Longer than any test waits, ns.
const NEVER: u64 = 86_400_000_000_000;

/// The longest of some single requests under `coalesce(8,delay)` on the last hop. The device takes 2 ms, so that the
/// client sleeps.
fn coalesced(delay: u64, urgent: bool) -> Duration {
    let client = Notify::Coalesce { count: 8, delay };
    let slow = vec![DeviceConfig::emulated("slow", 2_000_000, 0.0)];
    let service = with(NotifyConfig { client, ..NotifyConfig::all(Notify::Park) }, slow);
    let mut load = Load::new(connect(&service), "aes-128-gcm", 100, 1, false);
    load.urgent = urgent;
    let times = [(); 5].map(|()| {
        let start = Instant::now();
        load.run(1);
        start.elapsed()
    });
    times.into_iter().max().unwrap()
}

#[test]
fn a_coalesced_completion_comes_after_the_delay_and_an_urgent_one_at_once() {
    let patient = coalesced(30_000_000, false);
    assert!(patient >= Duration::from_millis(32), "{patient:?}");
    // An urgent completion is announced.
    coalesced(NEVER, true);
}

#[test]
fn as_many_completions_as_are_coalesced_come_at_once() {
    let client = Notify::Coalesce { count: 8, delay: NEVER };
    let service = with(NotifyConfig { client, ..NotifyConfig::all(Notify::Park) }, inline());
    let mut load = Load::new(connect(&service), "aes-128-gcm", 100, 8, false);
    for _ in 0..20 {
        load.fill(8);
        load.finish();
    }
}

#[test]
fn a_client_that_looks_by_itself_is_never_woken() {
    let timer = Notify::Timer { period: 200_000 };
    let slow = vec![DeviceConfig::emulated("slow", 300_000, 0.0)];
    let service = with(NotifyConfig { client: timer, ..NotifyConfig::all(Notify::Park) }, slow);
    let mut load = Load::new(connect(&service), "aes-128-gcm", 100, 4, false);
    load.run(200);
    let audit = load.client.wait_report().audit;
    assert!(audit.naps > 0 && audit.parks == 0, "{audit:?}");
    let lane = &Snapshot::read(service.counters()).unwrap().lanes[0];
    assert_eq!(lane.get(LaneCounter::WakeupsSent), 0);
}

fn until_the_waits(notify: &str, are: impl Fn(&Audit) -> bool) {
    let slow = vec![DeviceConfig::emulated("slow", 1_000_000, 0.0)];
    let service = with(NotifyConfig::all(Notify::Park), slow);
    let options = Options { notify: Some(Notify::parse(notify).unwrap()), ..options(&service) };
    let mut load = Load::new(Client::connect(&options).unwrap(), "aes-128-gcm", 100, 1, false);
    let patience = Instant::now() + Duration::from_secs(20);
    let mut total = 0;
    loop {
        load.run(20);
        total += 20;
        let audit = load.client.wait_report().audit;
        if are(&audit) {
            println!("{total} requests: {audit:?}");
            break;
        }
        assert!(Instant::now() < patience, "{audit:?}");
    }
    assert_eq!(load.tally, Tally { done: total, ..Tally::default() });
}

#[test]
fn a_client_learns_to_park_at_once_for_what_takes_long() {
    // Break-even would spin for as long as a park costs.
    until_the_waits("learn", |audit| audit.parks >= 100 && audit.ratio() < 1.5);
}

#[test]
fn resting_lanes_wake_up_for_each_burst() {
    let service = with(NotifyConfig::all(Notify::Park), vec![DeviceConfig::inline("inline"), worker("worker")]);
    let mut loads: Vec<Load> = (0..40).map(|_| Load::new(connect(&service), "aes-128-gcm", 64, 4, false)).collect();
    let resting = || {
        let sidecore = &Snapshot::read(service.counters()).unwrap().sidecores[0];
        sidecore.get(SidecoreCounter::DormantLanes)
    };
    let mut most = 0;
    for burst in 0..100 {
        thread::sleep(Duration::from_millis(5));
        most = most.max(resting());
        // Some bursts are of all lanes, some of a few.
        let step = [1, 7, 13, 39][burst % 4];
        for load in loads.iter_mut().step_by(step) {
            load.fill(4);
        }
        for load in loads.iter_mut().step_by(step) {
            load.finish();
        }
    }
    assert!(most >= 32, "only {most} lanes rested");
    let done: u32 = loads.iter().map(|load| load.tally.done).sum();
    assert_eq!(done, 25 * 4 * (40 + 6 + 4 + 2));
}
