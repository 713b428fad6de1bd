//! Cards, bus and memory by themselves.

use super::super::cards::{Cards, Hardware, Request};
use super::super::event::OcfEvent;
use crate::engine::{Engine, World};
use sidecore_core::time::Nanos;

struct Bench {
    cards: Cards,
    requests: Vec<(u32, Request)>,
    done: Vec<(u32, Nanos)>,
    slowest: f64,
}

impl World for Bench {
    type Event = OcfEvent;

    fn handle(&mut self, engine: &mut Engine<OcfEvent>, event: OcfEvent) {
        if let OcfEvent::Arrival(index) = event {
            let (card, request) = self.requests[index as usize];
            self.cards.submit(engine, card, request);
        } else if self.cards.handle(engine, event) {
            self.done.extend(self.cards.done.drain(..).map(|finished| (finished.id, engine.now())));
        }
        self.slowest = self.slowest.max(self.cards.slowdown());
    }
}

/// A bus of 0.1 B/ns, a memory of 1 B/ns; a card needs 1 us, buffers 100 B and computes 20 ns per byte.
fn hardware() -> Hardware {
    Hardware {
        cards: 4,
        bus: 0.1,
        memory: 1.0,
        fixed: 1_000.0,
        variation: 0.0,
        per_byte: 20.0,
        buffer: 100.0,
        command: 0.0,
        record: 1,
    }
}

fn run(hardware: Hardware, requests: &[(u32, u32)]) -> Bench {
    let requests: Vec<_> = (0..).zip(requests).map(|(id, (card, size))| (*card, Request { id, size: *size })).collect();
    let mut engine = Engine::new(1);
    (0..requests.len() as u32).for_each(|index| {
        engine.schedule(0, OcfEvent::Arrival(index));
    });
    let mut bench = Bench { cards: Cards::new(hardware), requests, done: Vec::new(), slowest: 0.0 };
    engine.run(&mut bench, 10_000_000);
    bench
}

#[test]
fn a_request_is_fetched_filled_streamed_and_drained() {
    // 1 us, 100 B in at 0.1 B/ns, 1,000 B computed while 1,800 B stream at 0.09 B/ns, 100 B out.
    assert_eq!(run(hardware(), &[(0, 1_000)]).done, [(0, 1_000 + 1_000 + 20_000 + 1_000)]);
    // A request that fits into the buffer overlaps nothing.
    assert_eq!(run(hardware(), &[(0, 80)]).done, [(0, 1_000 + 800 + 1_600 + 800)]);
}

#[test]
fn a_card_takes_one_request_after_the_other_and_cards_work_beside_each_other() {
    let after = run(hardware(), &[(0, 80), (0, 80)]);
    assert_eq!((&after.done[..], after.cards.used(10_000_000)[2]), (&[(0, 4_200), (1, 8_400)][..], 8_400.0));
    let beside = run(Hardware { bus: 1e6, memory: 1e6, ..hardware() }, &[(0, 80), (1, 80)]);
    assert_eq!(beside.done, [(0, 2_602), (1, 2_602)]);
}

#[test]
fn cards_share_the_bus() {
    let alone = run(hardware(), &[(0, 10_000)]).done[0].1;
    let both = run(hardware(), &[(0, 10_000), (1, 10_000)]);
    // 2 x 20,000 B at 0.1 B/ns, and the first command.
    assert!((401_000..402_000).contains(&both.done[1].1) && alone < 204_000, "{alone} {:?}", both.done);
    assert!((both.cards.used(10_000_000)[0] - 40_000.0).abs() < 1e-3 && (both.slowest - 3.0).abs() < 1e-9);
}

#[test]
fn results_wait_for_a_memory_that_is_busy() {
    let slow = Hardware { memory: 0.02, ..hardware() };
    let done = run(slow, &[(0, 10_000)]).done[0].1;
    // 10,000 B of results at 0.02 B/ns.
    assert!((500_000..510_000).contains(&done), "{done}");
}

#[test]
fn a_record_ends_at_once() {
    let record = Hardware { record: 5, ..hardware() };
    // The first request is alone, since the card was idle; the others are one record.
    let done = run(record, &[(0, 80), (0, 80), (0, 80), (0, 80)]).done;
    assert_eq!(done, [(0, 4_200), (1, 16_800), (2, 16_800), (3, 16_800)]);
}
