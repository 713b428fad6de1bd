//! The sidecore: what it looks at, whose ring it empties, and how it waits, as the service's thread for a user does.

use super::connection::Ring;
use super::parameters::{Streams, strayed};
use super::world::{Both, Count, Event};
use crate::engine::{Engine, Timer};
use sidecore_core::doorbell::Doorbell;
use sidecore_core::policy::notify::{Wait, WaitLoop, Waiter};
use sidecore_core::streams::hold::Holder;
use sidecore_core::streams::sweep::{ClientId, Outcome, StreamId, Sweep};
use sidecore_core::time::Nanos;

/// Most bytes of one transfer.
const MOST: u32 = 64 * 1024;

/// One transfer.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    client: ClientId,
    stream: StreamId,
    since: Nanos,
    asked: u32,
    moved: u32,
    /// How far the ring was written when it was looked at.
    tail: u64,
}

/// What the sidecore is at.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// Nothing; what it did last has ended.
    Nothing,
    Moving(Transfer),
    /// It takes the socket of a connection that enters a ring.
    Taking(u32),
    /// It sleeps.
    Asleep(Option<Timer>),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Sidecore {
    doing: Doing,
    sweep: Sweep,
    client: ClientId,
    waits: WaitLoop,
}

impl Sidecore {
    /// One program's, with places for so many streams. It owns its core.
    pub(super) fn new(set: &Streams, streams: u32) -> Self {
        let mut sweep = Sweep::new();
        let client = sweep.add_client(1);
        sweep.add_places(client, streams);
        let waiter = Waiter::new(set.sidecore.notify, set.wake.park_cost_us.nanos(), true);
        Self { doing: Doing::Nothing, sweep, client, waits: WaitLoop::for_several(waiter) }
    }

    /// There is something in that stream's ring, or the kernel takes more of it again.
    pub(super) fn announce(&mut self, stream: u32) {
        self.sweep.announce(self.client, stream);
    }
}

impl Both {
    pub(super) fn doorbell(&self) -> Doorbell<'_> {
        Doorbell(&self.doorbell.0[0])
    }

    /// What it did has ended.
    pub(super) fn sidecore_goes_on(&mut self, engine: &mut Engine<Event>) {
        match std::mem::replace(&mut self.sidecore.doing, Doing::Nothing) {
            Doing::Nothing | Doing::Asleep(_) => {}
            Doing::Moving(transfer) => self.transferred(engine, transfer),
            Doing::Taking(stream) => {
                if let Some(ring) = &mut self.connection(stream).ring {
                    ring.open = true;
                    self.sidecore.announce(stream);
                }
            }
        }
        while self.step(engine) {}
    }

    /// One step. `true`: it took no time.
    fn step(&mut self, engine: &mut Engine<Event>) -> bool {
        let now = engine.now();
        for stream in self.announced.drain(..) {
            self.sidecore.sweep.announce(self.sidecore.client, stream);
        }
        let found = self.sidecore.sweep.waits() || !self.promoted.is_empty();
        match self.sidecore.waits.next(now, found) {
            Wait::Look if found => {
                self.sidecore.waits.waiter.end(now);
                return !self.serve(engine);
            }
            Wait::Look => {}
            Wait::Spin => {
                self.work(engine, self.set.sidecore.look_ns.get(), Doing::Nothing);
                return false;
            }
            Wait::Arm => self.doorbell().arm(),
            Wait::Disarm => self.doorbell().disarm(),
            Wait::Sleep { until, .. } => {
                let timer = until.map(|until| engine.schedule(until, Event::Timer));
                self.sidecore.doing = Doing::Asleep(timer);
                return false;
            }
        }
        true
    }

    /// So much CPU time passes, and then comes that.
    fn work(&mut self, engine: &mut Engine<Event>, time: f64, then: Doing) {
        let time = time.round() as Nanos;
        self.add(Count::Sidecore, time as f64);
        self.sidecore.doing = then;
        engine.after(time, Event::Sidecore);
    }

    /// Takes a socket, or begins a transfer. `false`: there was nothing to it.
    fn serve(&mut self, engine: &mut Engine<Event>) -> bool {
        if let Some(stream) = self.promoted.pop_front() {
            self.work(engine, self.set.promotion.sidecore_us.ns(), Doing::Taking(stream));
            return true;
        }
        let Some((client, stream)) = self.sidecore.sweep.take() else { return false };
        let since = engine.now();
        let Some((waiting, tail)) = self.connection(stream).ring.as_ref().and_then(look) else {
            self.sidecore.sweep.served(client, stream, 0, 0, Outcome::Empty);
            return false;
        };
        let asked = waiting.min(MOST);
        let moved = self.offer(engine, stream, asked);
        let time = strayed(self.set.transfer(moved), engine.random());
        self.work(engine, time as f64, Doing::Moving(Transfer { client, stream, since, asked, moved, tail }));
        true
    }

    fn transferred(&mut self, engine: &mut Engine<Event>, transfer: Transfer) {
        let Transfer { client, stream, since, asked, moved, tail } = transfer;
        self.moved(engine, stream, moved);
        let ring = self.ring(stream);
        let outcome = if moved < asked {
            Outcome::Blocked
        } else if ring.tail != tail || ring.cursors().waiting() > 0 {
            Outcome::More
        } else {
            ring.bell().arm();
            Outcome::Empty
        };
        self.sidecore.sweep.served(client, stream, engine.now() - since, moved, outcome);
        self.let_go(engine, stream);
    }

    /// Something happened for which the sidecore may sleep.
    pub(super) fn wake_sidecore(&mut self, engine: &mut Engine<Event>) {
        if let Doing::Asleep(timer) = self.sidecore.doing {
            let _ = timer.and_then(|timer| engine.cancel(timer));
            self.sidecore.doing = Doing::Nothing;
            self.add(Count::Sidecore, self.set.wake.sleep_us.ns());
            engine.after(self.set.wake.latency_us.nanos(), Event::Sidecore);
        }
    }

    /// It wakes by itself.
    pub(super) fn sidecore_is_due(&mut self, engine: &mut Engine<Event>) {
        self.work(engine, self.set.wake.sleep_us.ns(), Doing::Nothing);
    }
}

/// Takes a stream and looks at its ring: bytes that wait there, and how far it was written. `None`: there is nothing, or
/// the program has it and tells when it lets go; the bell is armed.
fn look(ring: &Ring) -> Option<(u32, u64)> {
    ring.bell().disarm();
    if !ring.hold().take(Holder::Sidecore) {
        // No time passes between this and a second attempt, in which the program could let go.
        ring.bell().arm();
        return None;
    }
    let waiting = ring.cursors().waiting();
    if waiting == 0 {
        ring.hold().release();
        ring.bell().arm();
        return None;
    }
    Some((waiting, ring.tail))
}
