//! The choice of devices, changed under load: nothing is lost, nothing comes twice.

use crate::common::{administer, connect};
use crate::devices::{devices_when, service, worker};
use crate::load::{Load, Tally};
use crate::losses::{frozen, patient, replayed};
use sidecore::config::DeviceConfig;
use sidecore::core::policy::balance::Balance;
use sidecore_counters::{DeviceCounter, DeviceStats};

/// Bytes of a long request.
const LONG: usize = 80_000;

fn switched_under_load(devices: Vec<DeviceConfig>, rounds: u32) {
    let service = service(devices);
    let mut control = administer(&service);
    let mut loads = [(200, 48), (LONG, 16)]
        .map(|(size, places)| (Load::new(connect(&service), "aes-256-gcm", size, places, true), places as u32));
    for _ in 0..rounds {
        for balance in Balance::ALL {
            for (load, places) in &mut loads {
                load.fill(*places);
            }
            control.set(&format!("balance={balance}")).unwrap();
            for (load, places) in &mut loads {
                (0..*places / 2).for_each(|_| load.take_one());
            }
        }
    }
    for (load, places) in &mut loads {
        load.finish();
        let submitted = *places + (rounds * Balance::ALL.len() as u32 - 1) * (*places / 2);
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
fn a_device_killed_with_its_requests_loses_none() {
    let service = patient(vec![frozen("dies"), DeviceConfig::inline("lives")]);
    let mut control = administer(&service);
    control.set("balance=round-robin").unwrap();
    let mut load = Load::new(connect(&service), "aes-256-gcm", 4000, 32, true);
    load.fill(32);
    (0..16).for_each(|_| load.take_one());
    let has = |device: &DeviceStats| [DeviceCounter::InFlight, DeviceCounter::Requests].map(|what| device.get(what));
    devices_when(&service, |all| has(&all[0]) == [16, 16]);
    control.set("device.dies=kill").unwrap();
    load.finish();
    assert_eq!((load.tally.done, replayed(&service)), (32, 16));
}
