//! Changes of the choice and the order of requests on devices under load: nothing is lost, nothing is done twice.

use crate::common::{administer, connect};
use crate::devices::{devices_when, service, worker};
use crate::load::{Load, Tally};
use crate::losses::{frozen, patient, replayed};
use sidecore::config::DeviceConfig;
use sidecore::core::policy::balance::Balance;
use sidecore::core::policy::order::Order;
use sidecore::counters::{DeviceCounter, DeviceStats};

/// More than one chunk.
const LONG: usize = 80_000;

fn settings() -> impl Iterator<Item = String> {
    let orders = |balance| Order::ALL.map(|order| (balance, order));
    let all = Balance::ALL.into_iter().flat_map(orders);
    all.map(|(balance, order)| format!("balance={balance} order={order}"))
}

fn switched_under_load(devices: Vec<DeviceConfig>, rounds: u32) {
    let service = service(devices);
    let mut control = administer(&service);
    let mut loads = [(200, 48), (LONG, 16)]
        .map(|(size, places)| (Load::new(connect(&service), "aes-256-gcm", size, places, true), places as u32));
    for _ in 0..rounds {
        for setting in settings() {
            for (load, places) in &mut loads {
                load.fill(*places);
            }
            for one in setting.split(' ') {
                control.set(one).unwrap();
            }
            for (load, places) in &mut loads {
                (0..*places / 2).for_each(|_| load.take_one());
            }
        }
    }
    for (load, places) in &mut loads {
        load.finish();
        let submitted = *places + (rounds * 2 * Balance::ALL.len() as u32 - 1) * (*places / 2);
        assert_eq!(load.tally, Tally { done: submitted, ..Tally::default() });
    }
    devices_when(&service, |all| all.iter().all(|device| device.get(DeviceCounter::InFlight) == 0));
}

#[test]
fn emulated_devices_are_switched_under_load() {
    let device = |name: &str, fixed: u64, per_byte: f64| DeviceConfig::emulated(name, fixed, per_byte);
    switched_under_load(vec![device("a", 5_000, 0.5), device("b", 50_000, 0.6), device("c", 500, 3.0)], 5);
}

#[test]
fn workers_are_switched_under_load() {
    switched_under_load(vec![worker("a"), DeviceConfig::inline("b"), worker("c")], 5);
    switched_under_load(vec![worker("only")], 5);
}

#[test]
fn a_device_killed_with_requests_kept_back_for_it_loses_none() {
    for order in [Order::Shortest, Order::Fifo] {
        let service = patient(vec![frozen("dies"), DeviceConfig::inline("lives")]);
        let mut control = administer(&service);
        control.set("balance=round-robin").unwrap();
        control.set(&format!("order={order}")).unwrap();
        let mut load = Load::new(connect(&service), "aes-256-gcm", 4000, 32, true);
        load.fill(32);
        (0..16).for_each(|_| load.take_one());
        let has =
            |device: &DeviceStats| [DeviceCounter::InFlight, DeviceCounter::Requests].map(|what| device.get(what));
        let began = if order == Order::Shortest { 2 } else { 16 };
        devices_when(&service, |all| has(&all[0]) == [16, began]);
        control.set("device.dies=kill").unwrap();
        load.finish();
        assert_eq!((load.tally.done, replayed(&service)), (32, 16));
    }
}

#[test]
fn what_is_kept_back_moves_to_a_device_that_keeps_back_too() {
    let service = patient(vec![frozen("dies"), DeviceConfig::emulated("lives", 20_000, 0.0)]);
    let mut control = administer(&service);
    for setting in ["balance=round-robin", "order=shortest"] {
        control.set(setting).unwrap();
    }
    let mut load = Load::new(connect(&service), "aes-256-gcm", 4000, 32, false);
    load.fill(32);
    (0..16).for_each(|_| load.take_one());
    control.set("device.dies=kill").unwrap();
    load.finish();
    assert_eq!(load.tally, Tally { done: 32, ..Tally::default() });
    let all = devices_when(&service, |all| all[1].get(DeviceCounter::Requests) == 32);
    assert_eq!(all[0].get(DeviceCounter::Replayed), 16);
}

#[test]
fn what_is_kept_back_goes_out_when_the_order_changes() {
    let service = patient(vec![frozen("only")]);
    let mut control = administer(&service);
    control.set("order=shortest").unwrap();
    let mut load = Load::new(connect(&service), "aes-256-gcm", 4000, 8, false);
    load.fill(8);
    let given = |all: &[DeviceStats]| all[0].get(DeviceCounter::Requests);
    devices_when(&service, |all| given(all) == 2 && all[0].get(DeviceCounter::InFlight) == 8);
    control.set("order=fifo").unwrap();
    devices_when(&service, |all| given(all) == 8);
    control.set("device.only=kill").unwrap();
    load.finish();
    assert_eq!(load.tally.failed, [0; 8]);
}

#[test]
fn short_requests_pass_long_ones() {
    // A long one takes 800 ms of the model's time, in three pieces.
    let service = patient(vec![DeviceConfig::emulated("only", 0, 1e4)]);
    let mut control = administer(&service);
    control.set("order=shortest").unwrap();
    let [mut long, mut short] =
        [(LONG, 6), (100, 12)].map(|(size, places)| Load::new(connect(&service), "aes-256-gcm", size, places, true));
    long.fill(6);
    devices_when(&service, |all| all[0].get(DeviceCounter::InFlight) == 6);
    short.run(12);
    control.set("device.only=kill").unwrap();
    long.finish();
    let Tally { done, failed, .. } = &long.tally;
    println!("{done} long ones were done before 12 short ones");
    assert!(short.tally.done == 12 && done + failed.len() as u32 == 6 && !failed.is_empty(), "{:?}", long.tally);
}
