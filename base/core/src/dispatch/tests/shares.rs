//! Shares of clients on the devices, and use of the devices.

use super::emulated::{Card, Machine};
use super::*;

/// Time on the device of a client with 100 lanes and of one with a single lane, both always with work waiting.
fn served(weights: [u32; 2]) -> [f64; 2] {
    let mut machine = Machine::new(Balance::Eft, &[Card(2_000.0, 1.5)], 32);
    let clients = weights.map(|weight| machine.dispatch.add_client(weight, 64).unwrap());
    let mut lanes = [(100, clients[0]), (1, clients[1])].map(|(count, client)| {
        let lanes: Vec<_> = (0..count).map(|_| machine.dispatch.add_lane(client, Notify::Park).unwrap()).collect();
        lanes.into_iter().cycle()
    });
    // Requests of unequal length: time is shared, not requests.
    let sizes = [4_096, 200];
    for _ in 0..500 {
        for (tag, &client) in clients.iter().enumerate() {
            machine.dispatch.refill(client);
            while machine.dispatch.may_take(client) {
                let lane = lanes[tag].next().unwrap();
                machine.place(Work { size: sizes[tag], ..work(lane, tag as u32) });
            }
        }
    }
    machine.served.map(|time| time as f64)
}

#[test]
fn a_greedy_client_gets_no_more_than_its_weight() {
    for weights in [[1, 1], [3, 1], [1, 3]] {
        let [greedy, modest] = served(weights);
        let ratio = greedy / modest * f64::from(weights[1]) / f64::from(weights[0]);
        assert!((0.95..=1.05).contains(&ratio), "{weights:?}: {ratio}");
    }
}

/// Part of the devices' added rates that is used at 16 KiB, with 64 requests outstanding.
fn used(balance: Balance) -> f64 {
    const SIZE: u32 = 16_384;
    const REQUESTS: u32 = 20_000;
    let cards = [Card(350.0, 0.589), Card(1_250.0, 0.595), Card(8_000.0, 2.0), Card(20_000.0, 6.5)];
    let mut machine = Machine::new(balance, &cards, 64);
    let client = machine.dispatch.add_client(1, 64).unwrap();
    let lane = machine.dispatch.add_lane(client, Notify::Spin).unwrap();
    for _ in 0..REQUESTS {
        if machine.dispatch.in_flight(lane) == 64 {
            machine.advance();
        }
        machine.place(Work { size: SIZE, ..work(lane, 0) });
    }
    while machine.advance() {}
    let rate: f64 = cards.iter().map(|card| 1.0 / card.time(SIZE) as f64).sum();
    f64::from(REQUESTS) / rate / machine.now as f64
}

#[test]
fn eft_gives_the_sum_of_the_rates_of_unequal_devices() {
    let used = used(Balance::Eft);
    assert!((0.97..=1.0).contains(&used), "{used}");
}

#[test]
fn in_turn_the_slowest_device_holds_up_the_others() {
    let used = used(Balance::RoundRobin);
    assert!(used < 0.5, "{used}");
}

#[test]
fn a_device_that_slows_down_gets_less_after_200_completions() {
    let mut machine = Machine::new(Balance::Priced, &[Card(200_000.0, 0.0); 2], 256);
    let client = machine.dispatch.add_client(1, 64).unwrap();
    let lane = machine.dispatch.add_lane(client, Notify::Park).unwrap();
    // With 64 requests outstanding: what the first of two alike devices gets of these.
    let given = |machine: &mut Machine, requests: u32| {
        let before = machine.given[0];
        for _ in 0..requests {
            if machine.dispatch.in_flight(lane) == 64 {
                machine.advance();
            }
            machine.place(Work { size: 64, ..work(lane, 0) });
        }
        machine.given[0] - before
    };
    let alike = given(&mut machine, 1_200);
    machine.slow_down(0, 4.0);
    given(&mut machine, 200);
    // A fifth of the rate of both.
    let slower = given(&mut machine, 1_000);
    assert!((540..=660).contains(&alike), "{alike} of 1,200 of devices that are alike");
    assert!((100..=300).contains(&slower), "{slower} of 1,000 of one that takes four times as long");
}
