//! Properties of balancing: learnt times of devices, and use of the devices.

use proptest::prelude::*;
use sidecore_core::policy::balance::{Balance, Balancer, Load, Rates};
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;

/// Time of a request as a fixed part (ns) and a part per byte (ns).
#[derive(Clone, Copy, Debug)]
struct Line {
    fixed: f64,
    per_byte: f64,
}

impl Line {
    fn time(self, size: u32) -> Nanos {
        (self.fixed + self.per_byte * f64::from(size)).round().max(1.0) as Nanos
    }

    fn faster(self, times: f64) -> Self {
        Self { fixed: self.fixed / times, per_byte: self.per_byte / times }
    }
}

fn line() -> impl Strategy<Value = Line> {
    (100.0..20_000.0_f64, 0.01..10.0_f64).prop_map(|(fixed, per_byte)| Line { fixed, per_byte })
}

/// Sizes from 16 B to 64 KiB, even over their logarithm.
fn sizes() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec((4.0..=16.0_f64).prop_map(|log| log.exp2() as u32), 400)
}

struct Device {
    line: Line,
    rates: Rates,
    load: Load,
    /// Finish, size and estimate of each request it has.
    queue: VecDeque<(Nanos, u32, Nanos)>,
    free_at: Nanos,
}

impl Device {
    fn new(line: Line) -> Self {
        let load = Load::idle(64, 1);
        Self { line, rates: Rates::new(), load, queue: VecDeque::new(), free_at: 0 }
    }

    fn take(&mut self, now: Nanos, size: u32) {
        let estimate = self.rates.estimate(Class::NOOP, size);
        self.free_at = self.free_at.max(now) + self.line.time(size);
        self.queue.push_back((self.free_at, size, estimate));
        self.load.in_flight += 1;
        self.load.backlog += estimate;
    }

    fn finish(&mut self) -> Nanos {
        let (finish, size, estimate) = self.queue.pop_front().unwrap();
        self.load.in_flight -= 1;
        self.load.backlog -= estimate;
        self.rates.observe(Class::NOOP, size, self.line.time(size));
        finish
    }
}

fn closed_loop(policy: Balance, lines: &[Line], outstanding: usize, requests: impl Iterator<Item = u32>) -> Nanos {
    let mut devices: Vec<Device> = lines.iter().copied().map(Device::new).collect();
    let mut balancer = Balancer::new(policy);
    let mut now = 0;
    for (number, size) in requests.enumerate() {
        if number >= outstanding {
            let next = |device: &&mut Device| device.queue.front().map_or(Nanos::MAX, |request| request.0);
            now = devices.iter_mut().min_by_key(next).unwrap().finish();
        }
        let loads: Vec<Load> = devices.iter().map(|device| device.load).collect();
        let estimate = |i: usize| devices[i].rates.estimate(Class::NOOP, size);
        let chosen =
            balancer.choose(&loads, |_| true, estimate, |i, time| loads[i].finish(time)).expect("a device has room");
        devices[chosen].take(now, size);
    }
    devices.iter().map(|device| device.free_at).max().unwrap()
}

fn mix(requests: usize) -> impl Iterator<Item = u32> {
    let mut state = 42_u64;
    (0..requests).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        [64, 256, 256, 1_024, 1_500, 4_096, 16_384, 200][(state >> 61) as usize]
    })
}

/// Least time of the requests on devices of these speeds, relative to `line`.
fn ideal(line: Line, speeds: &[f64], requests: impl Iterator<Item = u32>) -> f64 {
    requests.map(|size| line.time(size) as f64).sum::<f64>() / speeds.iter().sum::<f64>()
}

const UNEQUAL: [f64; 4] = [1.0, 1.0, 2.5, 7.0];
const CARD: Line = Line { fixed: 8_000.0, per_byte: 2.0 };

#[test]
fn eft_uses_unequal_devices_fully() {
    let lines = UNEQUAL.map(|speed| CARD.faster(speed));
    let took = closed_loop(Balance::Eft, &lines, 48, mix(20_000)) as f64;
    let used = ideal(CARD, &UNEQUAL, mix(20_000)) / took;
    assert!((0.97..=1.001).contains(&used), "{used}");
}

#[test]
fn round_robin_is_held_up_by_the_slowest() {
    let lines = UNEQUAL.map(|speed| CARD.faster(speed));
    let took = closed_loop(Balance::RoundRobin, &lines, 48, mix(20_000)) as f64;
    let used = ideal(CARD, &UNEQUAL, mix(20_000)) / took;
    assert!(used < 0.6, "{used}");
}

fn learn_prices(balancer: &mut Balancer, loads: &[Load], time: impl Fn(usize, u32) -> Option<Nanos>) {
    balancer.devices_changed(loads.len());
    for number in 0..1_000 {
        balancer.placed(Class::NOOP, if number % 20 == 0 { 16_384 } else { 256 }, 1);
    }
    balancer.reprice(0, loads, |i, _, size| time(i, size));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn estimates_follow_a_fixed_part_and_a_part_per_byte(line in line(), sizes in sizes()) {
        let mut rates = Rates::new();
        for size in sizes {
            rates.observe(Class::NOOP, size, line.time(size));
        }
        for size in (16..=65_536).step_by(13) {
            let (exact, estimate) = (line.time(size) as f64, rates.estimate(Class::NOOP, size) as f64);
            prop_assert!((estimate - exact).abs() <= exact * 0.1, "{estimate} for {exact} at {size}");
        }
    }

    #[test]
    fn outliers_are_forgotten(line in line(), outlier: u64, size in 16..65_536_u32) {
        let mut rates = Rates::new();
        rates.observe(Class::NOOP, size, line.time(size));
        rates.observe(Class::NOOP, size, outlier);
        (0..48).for_each(|_| rates.observe(Class::NOOP, size, line.time(size)));
        let (exact, estimate) = (line.time(size) as f64, rates.estimate(Class::NOOP, size) as f64);
        prop_assert!((estimate - exact).abs() <= exact * 0.1 + 1.0, "{estimate} for {exact}");
    }

    #[test]
    fn hostile_observations_leave_bounded_estimates(
        seen in prop::collection::vec((any::<u32>(), any::<u64>()), 0..40),
        sizes in prop::collection::vec(any::<u32>(), 20),
    ) {
        let mut rates = Rates::new();
        for &(size, took) in &seen {
            rates.observe(Class::NOOP, size >> (took % 32), took >> (size % 64));
        }
        for size in sizes {
            prop_assert!(rates.estimate(Class::NOOP, size) <= 1 << 40);
        }
        prop_assert_eq!(rates.known(Class::NOOP), !seen.is_empty());
    }

    #[test]
    fn eft_uses_any_devices_fully_at_one_size(lines in prop::collection::vec(line(), 2..5), size in 16..65_536_u32) {
        let requests = 4_000;
        let took = closed_loop(Balance::Eft, &lines, 60, std::iter::repeat_n(size, requests)) as f64;
        let rate: f64 = lines.iter().map(|line| 1.0 / line.time(size) as f64).sum();
        // At the end each device may have one request more than its part, and at the begin one while nothing is known
        // of it.
        let slowest = lines.iter().map(|line| line.time(size)).max().unwrap() as f64;
        prop_assert!(requests as f64 / rate / (took - 2.0 * slowest) >= 0.97, "{took}");
    }

    #[test]
    fn with_nothing_to_do_priced_is_eft(lines in prop::collection::vec(line(), 2..8), size in 16..65_536_u32) {
        let loads: Vec<Load> = lines.iter().map(|&line| Device::new(line).load).collect();
        let mut priced = Balancer::new(Balance::Priced);
        learn_prices(&mut priced, &loads, |i, size| Some(lines[i].time(size)));
        let (estimate, finish) = (|i: usize| lines[i].time(size), |i: usize, time| loads[i].finish(time));
        let eft = Balancer::new(Balance::Eft).choose(&loads, |_| true, estimate, finish);
        prop_assert_eq!(priced.choose(&loads, |_| true, estimate, finish), eft);
    }

    #[test]
    fn the_chosen_device_can_take_it(
        policy in prop::sample::select(&Balance::ALL),
        devices in prop::collection::vec((any::<[bool; 2]>(), 0..3_u32, 0..3_u32), 0..6),
        backlog in prop_oneof![0..40_000_u64, any::<u64>()],
        priced: bool,
    ) {
        let load = |(flags, in_flight, depth): &([bool; 2], u32, u32)| {
            Load { usable: flags[0], in_flight: *in_flight, backlog, ..Load::idle(*depth, *depth) }
        };
        let loads: Vec<Load> = devices.iter().map(load).collect();
        let has_credit = policy != Balance::Tokens || backlog < 20_000;
        let has_room = |i: usize| loads[i].usable && loads[i].in_flight < loads[i].depth;
        let fits = |i: usize| has_credit && has_room(i) && devices[i].0[1];
        // By price a request may be for a device that has no room.
        let is_full = |i: usize| loads[i].usable && devices[i].0[1] && !has_room(i);
        let waits = policy == Balance::Priced && priced && (0..loads.len()).any(is_full);
        let mut balancer = Balancer::new(policy);
        if priced {
            learn_prices(&mut balancer, &loads, |i, size| devices[i].0[1].then_some(i as u64 * u64::from(size)));
        }
        for _ in 0..4 {
            let chosen = balancer.choose(&loads, |i| devices[i].0[1], |i| i as u64, |i, time| loads[i].finish(time));
            prop_assert!(chosen.is_some() == (0..loads.len()).any(fits) || chosen.is_none() && waits);
            prop_assert!(chosen.is_none_or(fits));
        }
    }
}
