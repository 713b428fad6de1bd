//! Devices that die or hang with requests: each request still completes exactly once, and right.

use crate::common::{Running, administer, connect, start};
use crate::devices::{devices_when, service, worker};
use crate::load::{Load, Tally};
use sidecore::client::{Client, Request};
use sidecore::config::{Config, DeviceConfig, LimitsConfig};
use sidecore::core::dispatch::DeviceState;
use sidecore::core::session::{Class, Refusal};
use sidecore::core::wire::Status;
use sidecore::engine::crypto::sample::sample;
use sidecore_counters::{DeviceCounter, SidecoreCounter, Snapshot};
use std::time::Duration;

/// Input of triple DES that keeps a worker busy for some hundred milliseconds, bytes.
const LONG: usize = 8 << 20;

pub(crate) fn replayed(service: &Running) -> u64 {
    Snapshot::read(service.counters()).unwrap().sidecores[0].get(SidecoreCounter::Replayed)
}

fn gone(service: &Running, device: usize) {
    devices_when(service, |all| all[device].state() == Some(DeviceState::Gone));
}

/// A device with a time of a second and a millisecond a byte, so that it still has its requests when the test
/// continues. Eleven seconds, for 10,000 bytes, exceed every other wait of the tests.
pub(crate) fn frozen(name: &str) -> DeviceConfig {
    DeviceConfig::emulated(name, 1_000_000_000, 1e6)
}

pub(crate) fn patience(devices: Vec<DeviceConfig>) -> Config {
    let limits = LimitsConfig { device_timeout_ms: 600_000, ..LimitsConfig::default() };
    Config { devices, limits, ..Config::default() }
}

pub(crate) fn patient(devices: Vec<DeviceConfig>) -> Running {
    start(patience(devices))
}

fn killed_under_load(victim: &DeviceConfig, rounds: u32) {
    let service = service([DeviceConfig::inline("survivor")]);
    let mut control = administer(&service);
    control.set("balance=round-robin").unwrap();
    for round in 0..rounds {
        let mut load = Load::new(connect(&service), "aes-256-gcm", 4000, 64, round % 2 == 0);
        let DeviceConfig { kind, fixed_ns, .. } = victim;
        control.set(&format!("device={{name='v',kind='{}',fixed_ns={fixed_ns}}}", kind.name())).unwrap();
        load.run(100);
        load.fill(64);
        control.set("device.v=kill").unwrap();
        load.run(100);
        assert_eq!(load.tally, Tally { done: 264, ..Tally::default() });
        // The next one reuses its number.
        gone(&service, 1);
    }
    println!("{} replayed in {rounds} rounds", replayed(&service));
}

#[test]
fn an_emulated_device_killed_under_load_loses_nothing() {
    killed_under_load(&DeviceConfig::emulated("v", 300_000, 0.0), 12);
}

#[test]
fn a_worker_killed_under_load_loses_nothing() {
    killed_under_load(&worker("v"), 24);
}

#[test]
fn what_a_dead_device_had_is_counted_as_replayed() {
    let service = patient(vec![frozen("dies"), DeviceConfig::inline("lives")]);
    let mut control = administer(&service);
    control.set("balance=round-robin").unwrap();
    let mut load = Load::new(connect(&service), "aes-256-gcm", 4000, 32, true);
    load.fill(32);
    (0..16).for_each(|_| load.take_one());
    control.set("device.dies=kill").unwrap();
    load.finish();
    assert_eq!(load.tally, Tally { done: 32, ..Tally::default() });
    let all = devices_when(&service, |all| all[1].get(DeviceCounter::Requests) == 32);
    assert_eq!((all[0].get(DeviceCounter::Requests), all[0].get(DeviceCounter::Replayed)), (16, 16));
    assert_eq!((all[0].get(DeviceCounter::Failed), replayed(&service)), (0, 16));
}

#[test]
fn with_all_devices_dead_requests_fail_by_number_and_new_ones_are_refused() {
    for (victim, count) in [(frozen("only"), 16), (worker("only"), 1)] {
        let service = patient(vec![victim]);
        let mut control = administer(&service);
        // A worker is killed while it computes; an emulated device holds all requests until their time.
        let (class, size) = if count == 1 { ("rsa-4096-decrypt", 0) } else { ("aes-256-gcm", 4000) };
        let mut load = Load::new(connect(&service), class, size, count, false);
        load.fill(count as u32);
        if count > 1 {
            devices_when(&service, |all| all[0].get(DeviceCounter::InFlight) == count as u64);
        }
        control.set("device.only=kill").unwrap();
        load.finish();
        // The worker may have been done, or not have begun.
        let Tally { done, refused, failed } = load.tally.clone();
        let ended = done as usize + refused.len() + failed.len();
        assert!(ended == count && failed.iter().all(|device| *device == 0), "{:?}", load.tally);
        assert!(count == 1 || failed.len() == count, "{:?}", load.tally);
        load.run(5);
        assert_eq!(load.tally.refused[refused.len()..], [Refusal::NoDevice; 5]);
        control.set("device={name='new',kind='inline'}").unwrap();
        load.run(5);
        assert_eq!(load.tally.done, done + 5);
    }
}

#[test]
fn requests_not_taken_yet_are_refused_when_the_last_device_dies() {
    let service = patient(vec![DeviceConfig { depth: Some(2), ..frozen("only") }]);
    let mut control = administer(&service);
    control.set("notify=park").unwrap();
    let mut load = Load::new(connect(&service), "aes-256-gcm", 4000, 8, false);
    load.fill(8);
    devices_when(&service, |all| all[0].get(DeviceCounter::InFlight) == 2);
    // Its lane waits for the device; the sidecore sleeps.
    std::thread::sleep(Duration::from_millis(50));
    control.set("device.only=kill").unwrap();
    load.finish();
    assert_eq!((load.tally.done, load.tally.failed.len(), load.tally.refused.len()), (0, 2, 6));
}

#[test]
fn requests_that_wait_for_room_fail_with_the_last_device() {
    let shallow = |name: &str| DeviceConfig { depth: Some(8), ..frozen(name) };
    let service = patient(vec![shallow("a"), shallow("b")]);
    let mut control = administer(&service);
    let mut load = Load::new(connect(&service), "aes-256-gcm", 4000, 16, false);
    load.fill(16);
    devices_when(&service, |all| all.iter().all(|device| device.get(DeviceCounter::InFlight) == 8));
    // The first one's requests find no room on the second; then that dies, too.
    control.set("device.a=kill").unwrap();
    control.set("device.b=kill").unwrap();
    load.finish();
    load.tally.failed.sort_unstable();
    assert_eq!(load.tally.failed, [[0; 8], [1; 8]].concat());
}

#[test]
fn requests_that_wait_for_room_are_taken_over_by_a_device_that_joins() {
    let shallow = |name: &str| DeviceConfig { depth: Some(8), ..frozen(name) };
    let service = patient(vec![shallow("a"), shallow("b")]);
    let mut control = administer(&service);
    let mut load = Load::new(connect(&service), "aes-256-gcm", 4000, 16, true);
    load.fill(16);
    devices_when(&service, |all| all.iter().all(|device| device.get(DeviceCounter::InFlight) == 8));
    control.set("device.a=kill").unwrap();
    control.set("device={name='c',kind='inline'}").unwrap();
    control.set("device.b=kill").unwrap();
    load.finish();
    assert_eq!(load.tally, Tally { done: 16, ..Tally::default() });
}

fn impatient(device_timeout_ms: u32, devices: Vec<DeviceConfig>) -> Running {
    let limits = LimitsConfig { max_request_bytes: 16 << 20, device_timeout_ms, ..LimitsConfig::default() };
    start(Config { devices, limits, sample_every: 1, ..Config::default() })
}

fn long_request(client: &mut Client) -> (sidecore::client::Buffer, Status, Vec<u8>) {
    let des = sample(Class::from_name("3des-cbc").unwrap(), LONG, 3);
    let session = client.open_session(&des.spec).unwrap();
    let buffer = client.alloc(des.input.len() as u32).unwrap();
    client.write(&buffer, 0, &des.input).unwrap();
    let extents = [buffer.extent()];
    let request = Request { session, op: des.op, head_len: 0, inputs: &extents, outputs: &extents, urgent: false };
    client.submit(1, &request).unwrap();
    client.ring();
    (buffer, client.wait().unwrap().status, des.input)
}

fn with_room(service: &Running) -> Client {
    let options = sidecore::client::Options { arena_bytes: 32 << 20, ..crate::common::options(service) };
    Client::connect(&options).unwrap()
}

#[test]
fn a_device_that_hangs_is_replaced_and_its_late_answer_ignored() {
    let service =
        impatient(20, vec![worker("hangs"), DeviceConfig { weight: Some(1), ..DeviceConfig::inline("helps") }]);
    let (mut client, mut control) = (with_room(&service), administer(&service));
    // The first turn is the worker's.
    control.set("balance=round-robin").unwrap();
    let (buffer, status, input) = long_request(&mut client);
    assert_eq!(status, Status::Done { len: LONG as u32 });
    let mut got = vec![0; LONG];
    client.read(&buffer, 0, &mut got).unwrap();
    assert!(got == local(&input), "replayed from input that was overwritten, or not at all");
    gone(&service, 0);
    assert_eq!(replayed(&service), 1);
    // The late worker finds its gate shut: the client's later writes stay.
    client.write(&buffer, 0, &input).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    client.read(&buffer, 0, &mut got).unwrap();
    assert!(got == input[..LONG]);
    assert!(client.poll().is_none());
}

fn local(input: &[u8]) -> Vec<u8> {
    let des = sample(Class::from_name("3des-cbc").unwrap(), LONG, 3);
    let session = sidecore::engine::crypto::Session::open(&des.spec).unwrap();
    let mut output = vec![0; LONG];
    session.run(des.op, 0, input, &mut output).unwrap();
    output
}

#[test]
fn a_device_does_not_answer_for_the_sidecore_being_away() {
    let only = |op: &str, device: DeviceConfig| DeviceConfig { ops: vec![op.to_owned()], ..device };
    let devices = vec![only("rsa-2048-decrypt", worker("quick")), only("3des-cbc", DeviceConfig::inline("slow"))];
    let service = impatient(100, devices);
    let mut client = with_room(&service);
    let mut load = Load::new(connect(&service), "rsa-2048-decrypt", 0, 16, false);
    std::thread::scope(|scope| {
        let long = scope.spawn(|| (0..2).map(|_| long_request(&mut client).1).collect::<Vec<Status>>());
        while !long.is_finished() {
            load.run(50);
        }
        assert_eq!(long.join().unwrap(), [Status::Done { len: LONG as u32 }; 2]);
    });
    assert_eq!((load.tally.refused.len(), load.tally.failed.len()), (0, 0));
    assert_eq!(Snapshot::read(service.counters()).unwrap().devices[0].state(), Some(DeviceState::Active));
}

#[test]
fn a_request_that_hangs_one_device_after_the_other_is_given_up() {
    let service = impatient(20, (0..6).map(|number| worker(&format!("w{number}"))).collect());
    let (mut client, mut control) = (with_room(&service), administer(&service));
    control.set("balance=round-robin").unwrap();
    let (_, status, _) = long_request(&mut client);
    assert_eq!(status, Status::DeviceFailed { device: 3 });
    let all = devices_when(&service, |all| all[3].state() == Some(DeviceState::Gone));
    let replayed: Vec<u64> = all.iter().map(|device| device.get(DeviceCounter::Replayed)).collect();
    assert_eq!((replayed, all[3].get(DeviceCounter::Failed)), (vec![1, 1, 1, 0, 0, 0], 1));
    let mut load = Load::new(connect(&service), "aes-256-gcm", 100, 8, false);
    load.run(100);
    assert_eq!(load.tally.done, 100);
}

#[test]
fn an_emulated_device_slower_than_the_patience_is_taken_for_dead() {
    let devices = vec![DeviceConfig::emulated("glacial", 1_000_000_000, 0.0), DeviceConfig::inline("helps")];
    let service = impatient(20, devices);
    let mut control = administer(&service);
    control.set("balance=round-robin").unwrap();
    let mut load = Load::new(connect(&service), "aes-256-gcm", 4000, 32, true);
    load.run(300);
    assert_eq!(load.tally, Tally { done: 300, ..Tally::default() });
    gone(&service, 0);
}
