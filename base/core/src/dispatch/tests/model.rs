//! Long random sequences of events against an oracle that keeps plain sets.
//!
//! The oracle counts anew from its sets after each event, so its state cannot drift. It shares `Share` and
//! `Moderator` with dispatch. Those have tests of their own; this test covers their wiring.

mod oracle;
mod world;

use super::*;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use world::World;

const LIMITS: Limits = Limits { lanes: 5, clients: 3, in_flight: 10, quantum: 30_000, deferred: 2 };
/// Classes of requests and devices: few, so that devices differ in their abilities. One class may not be done twice.
fn classes() -> Vec<Class> {
    ["noop", "aes-128-gcm", "once-encrypt"].into_iter().filter_map(Class::from_name).collect()
}

/// An event of the model. An `Index` picks one of the existing items; without items the event has no effect.
#[derive(Clone, Copy, Debug)]
enum Event {
    Place {
        lane: Index,
        class: Class,
        size: u32,
        urgent: bool,
    },
    Complete(Index, Option<Nanos>),
    UseVoid(Index),
    Announce(Index),
    Due(Index),
    Refill(Index),
    Idle(Index),
    Wait(Nanos),
    Join {
        classes: Classes,
        depth: u32,
    },
    Drain(Index),
    Activate(Index),
    Lose(Index),
    /// Replaces this number of requests of a lost device.
    Rescue(Index, usize),
    Retry(Index),
    SetBalance(Balance),
    Release(Index),
    OpenLane(Index, Notify),
    CloseLane(Index),
    Come {
        weight: u32,
        credit: u32,
    },
    Go(Index),
    SetNotify(Index, Notify),
}

fn notify() -> impl Strategy<Value = Notify> {
    let coalesce = (1..5_u32, 1_000..5_000_u64).prop_map(|(count, delay)| Notify::Coalesce { count, delay });
    let plain = [Notify::Spin, Notify::Park, Notify::BreakEven, Notify::Timer { period: 1_000 }];
    prop_oneof![select(plain.to_vec()), coalesce]
}

fn of_requests() -> impl Strategy<Value = Event> {
    let which = any::<Index>;
    prop_oneof![
        8 => (which(), select(classes()), 0..70_000_u32, any::<bool>())
            .prop_map(|(lane, class, size, urgent)| Event::Place { lane, class, size, urgent }),
        4 => (which(), proptest::option::of(0..100_000_u64)).prop_map(|(which, took)| Event::Complete(which, took)),
        1 => which().prop_map(Event::UseVoid),
        2 => which().prop_map(Event::Announce),
        1 => which().prop_map(Event::Due),
        3 => which().prop_map(Event::Refill),
        1 => which().prop_map(Event::Idle),
        2 => (0..4_000_u64).prop_map(Event::Wait),
    ]
}

fn of_devices() -> impl Strategy<Value = Event> {
    let which = any::<Index>;
    prop_oneof![
        3 => (subsequence(classes(), 1..=3), 1..5_u32)
            .prop_map(|(classes, depth)| Event::Join { classes: classes.into_iter().collect(), depth }),
        1 => which().prop_map(Event::Drain),
        1 => which().prop_map(Event::Activate),
        2 => which().prop_map(Event::Lose),
        3 => (which(), 1..5_usize).prop_map(|(device, most)| Event::Rescue(device, most)),
        3 => which().prop_map(Event::Retry),
        1 => select(Balance::ALL.to_vec()).prop_map(Event::SetBalance),
        6 => which().prop_map(Event::Release),
    ]
}

fn of_clients() -> impl Strategy<Value = Event> {
    let which = any::<Index>;
    prop_oneof![
        4 => (which(), notify()).prop_map(|(client, notify)| Event::OpenLane(client, notify)),
        2 => which().prop_map(Event::CloseLane),
        2 => (1..4_u32, 1..6_u32).prop_map(|(weight, credit)| Event::Come { weight, credit }),
        1 => which().prop_map(Event::Go),
        1 => (which(), notify()).prop_map(|(lane, notify)| Event::SetNotify(lane, notify)),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec(prop_oneof![16 => of_requests(), 3 => of_devices(), 2 => of_clients()], 1..400)
}

proptest! {
    #[test]
    fn each_request_leaves_exactly_once_whatever_happens(events in events()) {
        let mut world = World::new();
        for event in events {
            world.apply(event);
            world.check();
        }
        world.settle();
    }
}
