//! Devices as their sidecore knows them: leaving, dying, and what becomes of their requests.

use super::{DEVICE_TIMEOUT, HOUSEKEEPING, Held};
use crate::faults::device::{Health, Reply};
use crate::faults::sabotage::Sabotage;
use crate::faults::scenario::Kind;
use crate::faults::world::{Clock, Who, World};
use crate::faults::{Invariant, result};
use sidecore_core::dispatch::{DeviceState, Done, MAX_LOSSES, Replaced};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::order::Order;
use sidecore_core::time::Nanos;
use sidecore_core::wire::Status;

impl World<'_> {
    /// The device in dispatch that this number of a fault picks, if one is left.
    fn picked(&self, number: u8) -> Option<usize> {
        let state = |device: &usize| self.service.dispatch.device_state(*device);
        let here: Vec<usize> =
            (0..self.service.devices.len()).filter(|device| state(device) != DeviceState::Gone).collect();
        here.get(usize::from(number) % here.len().max(1)).copied()
    }

    pub(super) fn drain(&mut self, number: u8) {
        if let Some(device) = self.picked(number) {
            self.service.dispatch.drain(device);
            self.devices[self.service.devices[device] as usize].leaving = true;
        }
    }

    pub(super) fn remove(&mut self, number: u8) {
        if let Some(device) = self.picked(number) {
            self.drain(number);
            self.service.removing[device] = true;
        }
    }

    pub(super) fn kill(&mut self, clock: &mut Clock, number: u8) {
        let Some(device) = self.picked(number) else { return };
        let index = self.service.devices[device];
        if self.devices[index as usize].plan.kind != Kind::Inline {
            let health = self.revoke(clock, index);
            self.bury(clock, device, health);
        }
    }

    /// Finds devices that died, that do not answer, and that are to be taken away.
    pub(super) fn look_after_devices(&mut self, clock: &mut Clock) {
        let now = clock.now();
        let since = now - std::mem::replace(&mut self.service.looked_after, now);
        let away = since.saturating_sub(2 * HOUSEKEEPING);
        for number in 0..self.service.devices.len() {
            if self.service.dispatch.device_state(number) == DeviceState::Gone {
                continue;
            }
            let index = self.service.devices[number];
            let in_flight = self.service.dispatch.device_load(number).in_flight;
            self.service.progress[number] += away;
            let patient = self.sabotage == Some(Sabotage::NoTimeout);
            let stuck = in_flight > 0 && now.saturating_sub(self.service.progress[number]) > DEVICE_TIMEOUT && !patient;
            let health = if stuck { self.revoke(clock, index) } else { self.devices[index as usize].health };
            if health != Health::Alive {
                self.bury(clock, number, health);
            } else if self.service.removing[number] && in_flight == 0 {
                self.revoke(clock, index);
                self.bury(clock, number, Health::Dead);
            }
        }
    }

    /// Gives the requests of a dead device to others.
    fn bury(&mut self, clock: &mut Clock, number: usize, health: Health) {
        let index = self.service.devices[number];
        self.say(clock.now(), || format!("the service buries device {index}: {health:?}"));
        // What it still answered before it died counts.
        while let Some(reply) = self.collect(Nanos::MAX, index).filter(|_| self.broken.is_none()) {
            self.finish_remote(clock, &reply);
        }
        self.service.dispatch.lose(number);
        self.devices[index as usize].leaving = true;
        // Whoever waited for this device has no answer to wait for.
        self.service.lanes.iter_mut().flatten().for_each(|lane| lane.waits_for_device = false);
        self.service.remote.retain(|remote| *remote != number);
        if let Health::DeadWriting(ticket) = health {
            self.give_up_written(clock, ticket);
        }
        if self.sabotage == Some(Sabotage::ForgetOrphans) {
            return;
        }
        let mut from = 0;
        while let Some(ticket) = self.service.dispatch.next_orphan(number, from) {
            from = ticket.index() + 1;
            self.replay(clock, ticket);
        }
        self.ring_devices(clock);
    }

    /// A request that can be neither replayed nor called done.
    fn give_up_written(&mut self, clock: &mut Clock, ticket: Ticket) {
        let Some(done) = self.service.dispatch.complete(ticket, None) else { return };
        self.service.held[ticket.index()] = None;
        self.give_up(clock, &done);
    }

    fn give_up(&mut self, clock: &mut Clock, done: &Done) {
        let other = self.sabotage == Some(Sabotage::BlameOther);
        let devices = self.service.devices.len() as u8;
        let device = if other { (done.device + 1) % devices } else { done.device };
        self.check_blame(clock.now(), device);
        self.answer(clock, done, Status::DeviceFailed { device });
    }

    /// A failed request names a device that is gone. Later its number may be another's.
    fn check_blame(&mut self, now: Nanos, device: u8) {
        let named = self.service.devices.get(usize::from(device)).map(|device| &self.devices[*device as usize]);
        if named.is_none_or(|device| !device.leaving) {
            self.fail(now, Invariant::Blame, || format!("a client is told that device {device} failed: it did not"));
        }
    }

    fn replay(&mut self, clock: &mut Clock, ticket: Ticket) {
        let now = clock.now();
        let Some(replaced) = self.service.dispatch.replace(now, ticket) else { return };
        let class = self.service.held[ticket.index()].map(|held| held.class);
        let moved = match replaced {
            Replaced::On { ticket: new, .. } | Replaced::Held { ticket: new, .. } | Replaced::Wait(new) => {
                class.and_then(|class| self.moved(ticket, new, class))
            }
            Replaced::Now(_) | Replaced::GivenUp(_) => class.and_then(|class| self.moved(ticket, ticket, class)),
        };
        let Some(held) = moved else {
            return self.fail(now, Invariant::Once, || format!("{ticket:?} was replayed and nobody had it"));
        };
        self.replaced(clock, replaced, held);
    }

    fn replaced(&mut self, clock: &mut Clock, replaced: Replaced, held: Held) {
        let now = clock.now();
        match replaced {
            Replaced::Wait(ticket) => {
                self.service.held[ticket.index()] = Some(held);
                self.service.orphans.push_back(ticket);
            }
            Replaced::On { device, .. } | Replaced::Held { device, .. } => {
                let kept_back = matches!(replaced, Replaced::Held { .. });
                let cost = self.service.dispatch.estimate(device, held.class, held.size);
                self.give(clock, device, Held { cost, kept_back, ..held });
            }
            Replaced::Now(done) => {
                let len = result(held.link, held.tag, held.size);
                self.answer(clock, &done, Status::Done { len });
            }
            Replaced::GivenUp(done) => {
                let hopeless = held.losses > MAX_LOSSES || !self.some_device_can(held.class);
                if done.lane_open && !hopeless {
                    self.fail(now, Invariant::Blame, || {
                        format!("{held:?} was given up and another device could do it")
                    });
                }
                self.give_up(clock, &done);
            }
        }
    }

    /// Requests of dead devices for which there was no room try again. `false`: there were none.
    pub(super) fn retry_orphans(&mut self, clock: &mut Clock) -> bool {
        let waiting = self.service.orphans.len();
        for _ in 0..waiting {
            if let Some(ticket) = self.service.orphans.pop_front() {
                self.replay(clock, ticket);
            }
        }
        self.service.orphans.len() < waiting
    }

    /// Under the new order devices may have more, or less.
    pub(super) fn set_order(&mut self, clock: &mut Clock, order: Order) {
        self.service.dispatch.set_order(order);
        for number in 0..self.service.devices.len() {
            self.release(clock, number);
        }
        self.ring_devices(clock);
    }

    /// Wakes the devices that sleep and were given work.
    pub(super) fn ring_devices(&mut self, clock: &mut Clock) {
        for number in self.service.remote.clone() {
            let index = self.service.devices[number];
            if self.devices[index as usize].jobs.must_wake() {
                self.wake(clock, Who::Device(index));
            }
        }
    }

    /// An answer of a device that is gone.
    pub(super) fn finish_late(&mut self, clock: &mut Clock, device: u32, reply: Reply) {
        self.say(clock.now(), || format!("device {device}, which is gone, answers"));
        self.finish_remote(clock, &reply);
    }
}
