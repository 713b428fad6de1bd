//! Hostile clients, and neighbours that must stay unaffected.

use crate::checked::Load;
use crate::common::{connect, options, start};
use crate::peer::{Held, Peer, until};
use scopeguard::defer;
use sidecore::client::{Client, Options};
use sidecore::config::{Config, DeviceConfig};
use sidecore::core::session::{Class, Op};
use sidecore::core::wire::Fault;
use sidecore::engine::crypto::sample::sample;
use sidecore::service::Service;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const ATTACKERS: u64 = 2;
const MUTATIONS: u64 = 4_000_000;

const DEVICES: &str = r#"
device = [
    { name = "inline", kind = "inline", ops = ["aes-256-gcm", "noop"] },
    { name = "worker", kind = "worker", ops = ["aes-256-gcm", "aes-256-gcm-decrypt", "sha-256"], depth = 8 },
    { name = "card", kind = "emulated", ops = ["aes-256-gcm", "sha-256"], fixed_ns = 2000, per_byte_ns = 0.5 },
    { name = "slow", kind = "emulated", ops = ["3des-cbc", "3des-cbc-decrypt"], fixed_ns = 500000 },
]"#;

fn socket(service: &Service) -> &str {
    service.socket().to_str().unwrap()
}

fn check_while<T>(service: &Service, work: impl FnOnce() -> T) -> (T, Load) {
    let done = AtomicBool::new(false);
    let mut load = Load::new(&options(service), 32, 77).unwrap();
    let result = thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                load.step().unwrap();
            }
            load.drain().unwrap();
        });
        let result = {
            defer!(done.store(true, Ordering::Relaxed));
            work()
        };
        neighbour.join().unwrap();
        result
    });
    (result, load)
}

fn add_up(lines: Vec<String>, sums: &mut BTreeMap<String, u64>) {
    for line in lines {
        let (count, what) = line.split_once(' ').unwrap();
        *sums.entry(what.to_owned()).or_default() += count.parse::<u64>().unwrap();
    }
}

#[test]
fn whatever_is_written_to_a_lane_harms_no_other() {
    let service = start(Config::parse(DEVICES).unwrap());
    let (sums, neighbour) = check_while(&service, || {
        let attack =
            |seed: u64| Peer::start(&["scribble", socket(&service), &seed.to_string(), &MUTATIONS.to_string()]);
        let attackers: Vec<Peer> = (1..=ATTACKERS).map(attack).collect();
        let mut sums = BTreeMap::new();
        for attacker in attackers {
            add_up(attacker.finish(), &mut sums);
        }
        sums
    });
    println!("{sums:#?}\nneighbour: {:?}", neighbour.counts);
    assert!(service.is_alive());
    assert!(sums["mutations"] >= ATTACKERS * MUTATIONS);
    // Lanes end only by a fault, or by the attacker's own decision.
    let known = |end: &str| Fault::ALL.iter().any(|fault| end.ends_with(&format!("({})", fault.name())));
    let strange: Vec<_> =
        sums.keys().filter(|end| !known(end) && !["left", "mutations"].contains(&end.as_str())).collect();
    assert!(strange.is_empty(), "{strange:?}");
    assert!(sums.keys().any(|end| known(end)), "{sums:?}");
    assert_eq!(neighbour.counts.done, neighbour.counts.submitted);
    assert!(neighbour.counts.done > 1000, "{:?}", neighbour.counts);
}

#[test]
fn each_broken_rule_ends_the_lane_by_its_name() {
    let slow = DeviceConfig::emulated("slow", 1_000_000_000, 0.0);
    let service = start(Config { devices: vec![slow], ..Config::default() });
    let mut ends = Peer::start(&["faults", socket(&service)]).finish().into_iter();
    // The fault of reserved bits twice: in the flags and above them.
    let mut rules = Fault::ALL.to_vec();
    rules.insert(1, Fault::ReservedBits);
    for rule in rules {
        let end = ends.next().unwrap();
        assert!(end.ends_with(&format!("its client broke the protocol ({})", rule.name())), "{rule:?}: {end}");
    }
    assert!(service.is_alive());
}

#[test]
fn whatever_is_said_to_the_socket_harms_no_other() {
    let service = start(Config::default());
    let (refusals, neighbour) = check_while(&service, || {
        let mut knockers: Vec<Peer> =
            (1..=2u64).map(|seed| Peer::start(&["knock", socket(&service), &seed.to_string()])).collect();
        let holding: Vec<String> = knockers.iter_mut().map(Peer::line).collect();
        println!("{holding:?}");
        // With the most permitted connections held, others still connect and are served.
        for _ in 0..20 {
            let mut client = connect(&service);
            let spec = sample(Class::NOOP, 0, 0).spec;
            client.open_session(&spec).unwrap();
        }
        knockers.into_iter().flat_map(Peer::finish).collect::<Vec<_>>()
    });
    assert_eq!(refusals.len(), 2);
    assert!(refusals.iter().all(|refusal| refusal.contains("connections without a lane")), "{refusals:?}");
    assert!(service.is_alive());
    assert_eq!(neighbour.counts.done, neighbour.counts.submitted);
    assert!(neighbour.counts.done > 100, "{:?}", neighbour.counts);
}

#[test]
fn a_service_stops_under_a_flood_of_unknown_sessions() {
    for _ in 0..3 {
        let service = start(Config::default());
        let mut flood = Peer::start(&["flood", socket(&service)]);
        flood.expect("flooding");
        thread::sleep(Duration::from_millis(20));
        let (stopped, when) = mpsc::channel();
        thread::spawn(move || {
            drop(service);
            let _ = stopped.send(());
        });
        assert!(when.recv_timeout(Duration::from_secs(30)).is_ok(), "the service does not stop");
        flood.finish();
    }
}

#[test]
fn descriptors_that_run_out_are_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let mut service = Peer::start(&["serve-with", "48", path.to_str().unwrap()]);
    service.expect("serving");
    let options = Options { socket: path, slots: 8, arena_bytes: 4096, ..Options::default() };
    let mut clients = Vec::new();
    let reason = loop {
        match Client::connect(&options) {
            Ok(client) => clients.push(client),
            Err(error) => break error.to_string(),
        }
    };
    assert!(reason.contains("descriptor"), "{reason} after {} lanes", clients.len());
    let session = clients[0].open_session(&sample(Class::NOOP, 0, 0).spec).unwrap();
    clients[0].call(session, Op::Noop, 0, &[], 0).unwrap();
    clients.clear();
    until("the descriptors are given back", || Client::connect(&options).is_ok());
    service.finish();
}

#[test]
fn attackers_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let service = Peer::serve(&path, "");
    let before = Held::by(service.pid());
    let path = path.to_str().unwrap();
    Peer::start(&["scribble", path, "9", "100000"]).finish();
    Peer::start(&["knock", path, "9"]).finish();
    until("lanes and descriptors are given back", || Held::by(service.pid()) == before);
    service.finish();
}
