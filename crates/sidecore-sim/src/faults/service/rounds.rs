//! One round after the other, and how the sidecore waits when one found nothing.

use super::{HOUSEKEEPING, Pc};
use crate::faults::Invariant;
use crate::faults::sabotage::Sabotage;
use crate::faults::world::{Clock, Who, World};
use sidecore_core::policy::notify::{Forecast, Notify, Step};
use sidecore_core::time::Nanos;

impl World<'_> {
    pub(in crate::faults) fn step_service(&mut self, clock: &mut Clock) {
        match self.service.pc {
            Pc::Round => self.begin_round(clock),
            Pc::Collect(from) => self.collect_replies(clock, from),
            Pc::Lane(index) => self.serve_lane(clock, index),
            Pc::Announce(id, next) => {
                self.announce(clock, id);
                self.service.pc = Pc::Lane(next);
            }
            Pc::RingDevices => {
                self.ring_devices(clock);
                self.service.pc = Pc::LookAround;
            }
            Pc::LookAround => self.end_round(clock),
            Pc::Idle => return self.idle(clock),
            Pc::ArmLane(_) | Pc::LookLane(_) | Pc::ArmDevice(_) | Pc::LookDevice(_) => return self.fall_asleep(clock),
            Pc::Woken(since) => {
                self.service.waiter.parked(since, clock.now());
                self.disarm();
                self.service.pc = Pc::Round;
            }
        }
        let worked = std::mem::take(&mut self.service.worked);
        if worked > 0 { self.go_on_after(clock, Who::Service, worked) } else { self.go_on(clock, Who::Service) }
    }

    fn begin_round(&mut self, clock: &mut Clock) {
        let wasted = self.service.blocked && self.is_room_wasted();
        let service = &mut self.service;
        service.withheld = service.blocked && !wasted;
        service.share += u64::from(!service.withheld);
        service.blocked = false;
        self.service.busy = self.retry_orphans(clock);
        self.service.pc = Pc::Collect(0);
    }

    /// Between two rounds, or before a wait.
    fn end_round(&mut self, clock: &mut Clock) {
        let now = clock.now();
        self.obey(clock);
        if self.service.announce.is_some_and(|due| now >= due) {
            self.announce_due(clock);
        }
        self.service.dispatch.reprice(now);
        if now >= self.service.housekeeping {
            self.service.housekeeping = now + HOUSEKEEPING;
            self.look_after_devices(clock);
            self.service.dispatch.reprice(clock.now());
        }
        let service = &mut self.service;
        if service.busy {
            service.waiter.end(now);
        }
        service.pc = if service.busy { Pc::Round } else { Pc::Idle };
    }

    fn idle(&mut self, clock: &mut Clock) {
        let now = clock.now();
        self.service.waiter.begin(now);
        let predicts = self.service.hops.service == Notify::Predict;
        if let Some(at) = self.device_due().filter(|_| predicts) {
            self.service.waiter.expect(Forecast { at, sigma: 0 });
        }
        let step = self.service.waiter.step(now);
        match step {
            Step::Spin => {
                self.service.pc = Pc::Round;
                let delay = 100 + clock.random().below(900);
                self.go_on_after(clock, Who::Service, delay);
                if !self.plan.owned {
                    self.fail(now, Invariant::Spin, || "the service spins on a shared core".to_owned());
                }
            }
            Step::Nap { until } if !predicts => self.sleep_service(clock, Some(until)),
            // A device may be waited for at a known time, a request may come before: it rings.
            Step::Nap { .. } | Step::Park => {
                self.service.nap = if let Step::Nap { until } = step { Some(until) } else { None };
                self.service.pc = Pc::ArmLane(0);
                self.go_on(clock, Who::Service);
            }
        }
    }

    /// Arms each doorbell and looks once more at what it stands for; if nothing is there, sleeps.
    fn fall_asleep(&mut self, clock: &mut Clock) {
        let blind = self.sabotage == Some(Sabotage::ArmAfterLook);
        let mut something = false;
        self.service.pc = match self.service.pc {
            Pc::ArmLane(index) => match self.arm_lane(index) {
                Some(place) => Pc::LookLane(place),
                None if self.device_period().is_some() => return self.sleep_service(clock, self.service.nap),
                None => Pc::ArmDevice(0),
            },
            Pc::LookLane(index) => {
                let lane = self.service.hot.get(index).and_then(|id| self.service.lanes[id.0 as usize].as_ref());
                let ready = |link: u32| self.links[link as usize].submission.ready();
                something = lane.is_some_and(|lane| !lane.pending.is_empty() || (ready(lane.link) && !blind));
                Pc::ArmLane(index + 1)
            }
            Pc::ArmDevice(index) => {
                let Some(number) = self.service.remote.get(index) else {
                    return self.sleep_service(clock, self.service.nap);
                };
                let device = self.service.devices[*number];
                self.devices[device as usize].replies.arm();
                Pc::LookDevice(index)
            }
            Pc::LookDevice(index) => {
                let device = self.service.remote.get(index).map(|number| self.service.devices[*number]);
                something = device.is_some_and(|device| self.devices[device as usize].replies.ready()) && !blind;
                Pc::ArmDevice(index + 1)
            }
            other => other,
        };
        if something {
            self.disarm();
            self.service.pc = Pc::Round;
        }
        self.go_on(clock, Who::Service);
    }

    /// Arms the first lane from that place on that does not wait for a device. `None`: there is none.
    fn arm_lane(&mut self, from: usize) -> Option<usize> {
        let service = &self.service;
        let waits = |id: &sidecore_core::dispatch::LaneId| {
            service.lanes[id.0 as usize].as_ref().is_none_or(|lane| lane.waits_for_device)
        };
        let place = from + service.hot.iter().skip(from).position(|id| !waits(id))?;
        let link = service.lanes[service.hot[place].0 as usize].as_ref()?.link;
        self.links[link as usize].submission.arm();
        Some(place)
    }

    fn disarm(&mut self) {
        for id in &self.service.hot {
            if let Some(lane) = &self.service.lanes[id.0 as usize] {
                self.links[lane.link as usize].submission.disarm();
            }
        }
        for number in &self.service.remote {
            self.devices[self.service.devices[*number] as usize].replies.disarm();
        }
    }

    fn sleep_service(&mut self, clock: &mut Clock, until: Option<Nanos>) {
        let now = clock.now();
        let until = self.wake_at(now, until);
        self.service.pc = Pc::Woken(now);
        self.say(now, || "the service sleeps".to_owned());
        self.sleep(clock, Who::Service, until);
    }

    /// How often devices are looked at that do not wake their sidecore.
    fn device_period(&self) -> Option<Nanos> {
        match self.service.hops.from_device {
            Notify::Timer { period } => Some(period),
            _ => None,
        }
    }

    /// The next instant at which there is something to do, whether something rings or not.
    fn wake_at(&self, now: Nanos, until: Option<Nanos>) -> Option<Nanos> {
        let service = &self.service;
        let busy = service.dispatch.total_in_flight() > 0;
        let housekeeping = busy.then_some(service.housekeeping);
        let look = self.device_period().filter(|_| busy).map(|period| now + period);
        [until, housekeeping, look, self.device_due(), service.announce].into_iter().flatten().min()
    }

    /// When the next answer of a device is due, as far as that is known.
    fn device_due(&self) -> Option<Nanos> {
        let due = |number: &usize| self.devices[self.service.devices[*number] as usize].due();
        self.service.remote.iter().filter_map(due).min()
    }
}
