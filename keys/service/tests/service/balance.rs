//! Division of requests between devices. Judged by counts and modelled times; measured times are printed only.

use crate::common::{connect, start};
use crate::devices::{shares, worker};
use crate::load::Load;
use sidecore::config::{Config, DeviceConfig, NotifyConfig};
use sidecore::core::policy::balance::Balance;
use sidecore::core::policy::notify::Notify;
use std::time::Instant;

const SIZE: usize = 16_384;
const TOTAL: u32 = 2_400;

fn divided(balance: Balance, devices: Vec<DeviceConfig>, in_flight: usize) -> Vec<u64> {
    let service = start(Config { balance, devices, notify: NotifyConfig::all(Notify::Park), ..Config::default() });
    let mut load = Load::new(connect(&service), "aes-256-gcm", SIZE, in_flight, true);
    let start = Instant::now();
    load.run(TOTAL);
    println!("{balance}: {:.0} requests a second", f64::from(TOTAL) / start.elapsed().as_secs_f64());
    assert_eq!(load.tally.done, TOTAL);
    shares(&service, u64::from(TOTAL))
}

/// Time of one request on each device of the model, ns.
fn times(devices: &[DeviceConfig]) -> Vec<f64> {
    let input = (SIZE + 12) as f64;
    devices.iter().map(|device| device.fixed_ns as f64 + device.per_byte_ns * input).collect()
}

/// The rate that this division reaches, as a part of the sum of the devices' rates: all have been at work until the one
/// with the most work is done.
fn of_the_sum(times: &[f64], shares: &[u64]) -> f64 {
    let rates: f64 = times.iter().map(|time| 1.0 / time).sum();
    let longest = times.iter().zip(shares).map(|(time, share)| time * *share as f64).fold(0.0, f64::max);
    f64::from(TOTAL) / longest / rates
}

#[test]
fn eft_uses_devices_of_unequal_speed_in_full() {
    // Slow, and with many requests in flight, so that no device runs dry while the sidecore, which computes for all,
    // is interrupted.
    let device = |name: &str, fixed: u64, per_byte: f64| DeviceConfig {
        depth: Some(256),
        ..DeviceConfig::emulated(name, fixed, per_byte)
    };
    let three = vec![device("a", 320_000, 16.0), device("b", 640_000, 32.0), device("c", 1_280_000, 48.0)];
    for devices in [three[..2].to_vec(), three] {
        let times = times(&devices);
        let shares = divided(Balance::Eft, devices, 192);
        let rates: f64 = times.iter().map(|time| 1.0 / time).sum();
        println!("times {times:?} ns, shares {shares:?}, {:.3} of the sum", of_the_sum(&times, &shares));
        for (time, share) in times.iter().zip(&shares) {
            let ideal = f64::from(TOTAL) / time / rates;
            assert!((*share as f64 / ideal - 1.0).abs() < 0.03, "{share} instead of {ideal:.0}");
        }
        assert!(of_the_sum(&times, &shares) >= 0.97);
    }
}

#[test]
fn round_robin_spreads_evenly() {
    let slow = |name: &str, fixed: u64| DeviceConfig::emulated(name, fixed, 0.0);
    let shares = divided(Balance::RoundRobin, vec![slow("a", 50_000), slow("b", 100_000), slow("c", 50_000)], 48);
    assert_eq!(shares, [u64::from(TOTAL) / 3; 3]);
    let shares = divided(Balance::RoundRobin, vec![DeviceConfig::inline("a"), worker("b")], 32);
    assert_eq!(shares, [u64::from(TOTAL) / 2; 2]);
}

#[test]
fn sed_divides_by_weight() {
    let weighted = |name: &str, weight: u32, fixed: u64| DeviceConfig {
        weight: Some(weight),
        ..DeviceConfig::emulated(name, fixed, 0.0)
    };
    let shares = divided(Balance::Sed, vec![weighted("a", 300, 100_000), weighted("b", 100, 300_000)], 40);
    println!("shares {shares:?}");
    assert!((shares[0] as f64 / f64::from(TOTAL) - 0.75).abs() < 0.03, "{shares:?}");
}

#[test]
fn a_device_of_small_depth_gets_what_it_can_hold() {
    let shallow = DeviceConfig { depth: Some(1), ..DeviceConfig::emulated("shallow", 1_000_000, 0.0) };
    let shares = divided(Balance::RoundRobin, vec![shallow, DeviceConfig::emulated("deep", 20_000, 0.0)], 32);
    assert!(shares[0] > 0 && shares[0] < u64::from(TOTAL) / 4, "{shares:?}");
}

#[test]
fn every_policy_serves_devices_that_are_full() {
    let device = |name: &str, fixed: u64| DeviceConfig { depth: Some(2), ..DeviceConfig::emulated(name, fixed, 0.0) };
    for balance in Balance::ALL {
        // Everything is done, and each device has its part.
        let shares = divided(balance, vec![device("a", 20_000), device("b", 40_000)], 192);
        assert!(shares.iter().all(|share| *share > 0), "{balance}: {shares:?}");
    }
}
