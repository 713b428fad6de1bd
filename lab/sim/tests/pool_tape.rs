//! Pools that get the requests of a recorded service.

use sidecore_core::dispatch::record::{Call, Recorded};
use sidecore_core::dispatch::{Capability, ClientId, KeyLocation, LaneId, Limits, Placement, UserShare, Work};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::{Balance, Rates};
use sidecore_core::policy::notify::Notify;
use sidecore_core::session::{Class, Classes};
use sidecore_core::time::Nanos;
use sidecore_sim::engine::Random;
use sidecore_sim::plan::Plan;
use sidecore_sim::replay::traffic;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Time of arrival and of completion, ns; name of the operation; bytes.
type Done = (Nanos, Nanos, &'static str, u32);

/// The record of a service with these requests of one client.
fn record(requests: &[Done]) -> Vec<u8> {
    let limits = Limits { lanes: 1, clients: 1, in_flight: 4_096, quantum: 1_000, deferred: 0 };
    let mut recorded = Recorded::new(limits, Balance::Eft, Some(1 << 22));
    recorded.make(&Call::AddClientOf { user: UserShare { name: None, weight: 1 }, weight: 1, credit: 4_096 });
    recorded.make(&Call::AddLane(ClientId(0), Notify::Park));
    let (classes, rates) = (Classes::all(), Rates::with_prior(1_000));
    let device = Capability { classes, immediate: false, remote_keys: false, depth: 4_096, weight: 1, rates };
    recorded.make(&Call::AddDevice(device));
    let arrivals = requests.iter().enumerate().map(|(number, (came, ..))| (*came, false, number));
    let ends = requests.iter().enumerate().map(|(number, (_, done, ..))| (*done, true, number));
    let mut events: Vec<(Nanos, bool, usize)> = arrivals.chain(ends).collect();
    // A completion precedes an arrival at the same time.
    events.sort_by_key(|(at, is_end, number)| (*at, !is_end, *number));
    let mut tickets: Vec<Option<Ticket>> = vec![None; requests.len()];
    for (at, is_end, number) in events {
        let (came, _, name, size) = requests[number];
        if is_end {
            recorded.complete(tickets[number].unwrap(), Some(at - came));
            recorded.announce(at, LaneId(0));
            continue;
        }
        let (class, key_location) = (Class::from_name(name).unwrap(), KeyLocation::LOCAL);
        let (lane, tag) = (LaneId(0), number as u32);
        let work = Work { lane, tag, class, size, urgent: false, key_location, submitted: None };
        let (Placement::Assigned(given), _) = recorded.place_run(at, work, 1, Nanos::MAX) else { panic!("it is full") };
        tickets[number] = Some(given.ticket);
    }
    recorded.end_record().unwrap().into_words().iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The plan with these sections, beside the record.
fn read(folder: &TempDir, record: &[u8], sections: &str) -> Result<Plan, String> {
    fs::write(folder.path().join("record"), record).unwrap();
    let text = format!(
        "system = \"pool\"\ntitle = \"A pool\"\n{sections}\n[table]\ncell = \"p99_us\"\n\
         rows = {{ \"requests.rate_per_s\" = [0] }}\ncolumns = {{ \"host.cores\" = [1] }}\n"
    );
    Plan::parse(&folder.path().join("pool.toml"), &text).map_err(|error| error.to_string())
}

fn metric(plan: &Plan, name: &str) -> f64 {
    let number = plan.system.metrics.iter().position(|metric| metric.name == name).unwrap();
    plan.system.run(&plan.settings, 1).values[number]
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 0.01, "{found} instead of {expected}");
}

const DEVICE: &str = "[device.core]\naes-256-gcm = { us_by_bytes = \"64:2, 16384:10\" }\nrsa-2048 = { us = 300 }\n";

/// One request each millisecond, of three kinds in turn.
fn quiet() -> Vec<u8> {
    let kinds = [("aes-256-gcm", 64), ("aes-256-gcm", 16_384), ("rsa-2048-sign-digest", 32)];
    let request = |number: u64| {
        let (name, size) = kinds[number as usize % kinds.len()];
        (number * 1_000_000, number * 1_000_000 + 5_000, name, size)
    };
    record(&(0..3_000).map(request).collect::<Vec<_>>())
}

#[test]
fn requests_come_at_their_times_with_their_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |requests: &str| {
        let sections =
            format!("[requests]\ntape = \"record\"\n{requests}\n[work.aes-256-gcm]\n[work.rsa-2048]\n{DEVICE}");
        read(&folder, &quiet(), &sections).unwrap()
    };
    let recorded = plan("");
    // A name of the plan may be that of a family.
    near(metric(&recorded, "mean_us"), (2.0 + 10.0 + 300.0) / 3.0);
    near(metric(&recorded, "p50_us"), 10.0);
    near(metric(&recorded, "rate_per_s"), 1_000.0);
    // The gaps shrink together.
    let faster = plan("rate_per_s = 4_000");
    near(metric(&faster, "rate_per_s"), 4_000.0);
    assert!(metric(&faster, "mean_us") > metric(&recorded, "mean_us"));
    assert_eq!(recorded.system.note(&recorded.settings), None);
    let mut other = recorded.clone();
    fs::copy(folder.path().join("record"), folder.path().join("other")).unwrap();
    other.set_all(&["requests.tape=other", "requests.rate_per_s=2000"]).unwrap();
    near(metric(&other, "rate_per_s"), 2_000.0);
}

#[test]
fn what_cannot_arrive_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let good = format!("[requests]\ntape = \"record\"\n[work.aes-256-gcm]\n[work.rsa-2048]\n{DEVICE}");
    let quiet = quiet();
    for (from, to, said) in [
        ("\"record\"", "\"recrod\"", "recrod cannot be read: "),
        ("\"record\"", "\".\"", "is no file"),
        ("\"record\"", "\"pool.toml\"", "this is no record of this version"),
        (
            "[work.aes-256-gcm]\n[work.rsa-2048]",
            "[work.rsa]",
            "requests.tape: record: the plan lacks operations of the record: add [work.aes-256-gcm]",
        ),
        ("[work.rsa-2048]", "[work.sign]", "work.sign: no device does it"),
        ("[work.aes", "clients = 2\n[work.aes", "a record has all requests: leave out clients, burst and change_at"),
    ] {
        fs::write(folder.path().join("pool.toml"), "no record").unwrap();
        let error = read(&folder, &quiet, &good.replace(from, to)).unwrap_err();
        assert!(error.contains(said) && error.contains("pool.toml:"), "{error}\ninstead of {said}");
    }
    let error = read(&folder, &record(&[]), &good).unwrap_err();
    assert!(error.contains("no request in it was done"), "{error}");
}

/// Requests of clients that keep some in flight, each sent after an answer and a time of thinking, at one device.
fn closed(in_flight: usize, think: f64) -> Vec<Done> {
    let mut random = Random::new(1);
    let (mut free, mut requests) = (0.0_f64, Vec::new());
    let mut next = vec![0.0_f64; in_flight];
    for _ in 0..2_000 {
        let earliest = next.iter_mut().min_by(|a, b| f64::total_cmp(a, b)).unwrap();
        let came = *earliest;
        free = came.max(free) + random.exponential(10_000.0);
        requests.push((came.round() as Nanos, free.round() as Nanos + 1, "noop", 0));
        *earliest = free + 1.0 + random.exponential(think);
    }
    requests
}

/// Independent arrivals at one device.
fn open(load: f64) -> Vec<Done> {
    let mut random = Random::new(2);
    let (mut came, mut free) = (0.0_f64, 0.0);
    let request = |_| {
        came += random.exponential(10_000.0 / load);
        free = came.max(free) + random.exponential(10_000.0);
        (came.round() as Nanos, free.round() as Nanos + 1, "noop", 0)
    };
    (0..2_000).map(request).collect()
}

#[test]
fn clients_that_wait_for_answers_are_noted() {
    for (in_flight, think) in [(1, 10.0), (1, 20_000.0), (4, 10.0), (32, 10.0), (2, 20_000.0)] {
        let bytes = record(&closed(in_flight, think));
        assert!(traffic(&bytes).unwrap().closed_loop().is_some(), "{in_flight} in flight, {think} ns");
        let folder = tempfile::tempdir().unwrap();
        let sections = "[requests]\ntape = \"record\"\n[work.noop]\n[device.core]\nnoop = { us = 10 }\n";
        let plan = read(&folder, &bytes, sections).unwrap();
        let note = plan.system.note(&plan.settings).unwrap();
        assert!(note.starts_with("The recorded clients waited for answers"), "{note}");
    }
    for load in [0.01, 0.1, 0.5, 0.8, 0.95] {
        assert!(traffic(&record(&open(load))).unwrap().closed_loop().is_none(), "load {load}");
    }
    let plan = Plan::parse(
        Path::new("pool.toml"),
        "system = \"pool\"\ntitle = \"A pool\"\n[requests]\nrate_per_s = 9\n[work.noop]\n[device.core]\nnoop = { us = 10 }\n\
         [table]\ncell = \"p99_us\"\nrows = { \"requests.clients\" = [0] }\ncolumns = { \"host.cores\" = [1] }\n",
    )
    .unwrap();
    assert_eq!(plan.system.note(&plan.settings), None);
}
