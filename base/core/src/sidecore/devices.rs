//! Devices of a sidecore: joining, leaving, dying, and the transfer of their requests.

use super::{Devices, Event, Host, Sidecore};
use crate::dispatch::record::Call;
use crate::dispatch::{Capability, DeviceState, Done, Reassigned};
use crate::inflight::Ticket;
use crate::policy::balance::Rates;
use crate::session::Refusal;
use crate::time::Nanos;
use crate::wire::Status;

/// A device's answer.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// The request.
    pub ticket: Ticket,
    /// Bytes written to the output extents.
    pub outcome: Result<u32, Refusal>,
    /// Time on the device itself, queueing left out, ns.
    pub took: Nanos,
    /// Its part of the device's time, ns: `took`, or where several are done side by side, its part of a full batch.
    pub part: Nanos,
}

/// State of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answers.
    Alive,
    /// It will never answer again.
    Dead,
    /// It died while it wrote this request's result, which can be neither replayed nor counted as done.
    DeadWriting(Ticket),
}

#[derive(Debug)]
pub(super) struct Device {
    pub(super) progress_at: Nanos,
    /// Removed as soon as it is empty.
    removing: bool,
}

impl<L, R> Sidecore<L, R> {
    /// A device joins under the number that `Dispatch::next_device` returns. `None`: there is no room for it.
    pub fn add_device(&mut self, capability: Capability) -> Option<usize> {
        let immediate = capability.immediate;
        let number = self.dispatch.make(&Call::AddDevice(capability))? as usize;
        let device = Device { progress_at: self.now, removing: false };
        match self.devices.get_mut(number) {
            // The earlier device of this number is gone, and none of its requests is left.
            Some(gone) => *gone = device,
            None => self.devices.push(device),
        }
        if !immediate {
            self.remote.push(number);
        }
        Some(number)
    }

    /// See [`Dispatch::estimate_device`](crate::dispatch::Dispatch::estimate_device).
    pub fn estimate_device(&mut self, device: usize, weight: u32, rates: Rates) {
        self.dispatch.make(&Call::EstimateDevice { device, weight, rates });
    }

    /// The device gets no more requests; what it has is finished.
    pub fn drain(&mut self, device: usize) {
        self.dispatch.make(&Call::Drain(device));
    }

    /// A device that drains gets requests again, unless it is about to be removed.
    pub fn activate(&mut self, device: usize) {
        if !self.is_removing(device) {
            self.dispatch.make(&Call::Activate(device));
        }
    }

    /// Whether the device is about to be removed.
    pub fn is_removing(&self, device: usize) -> bool {
        self.devices[device].removing
    }

    /// The device is removed as soon as it is empty.
    pub fn remove<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, device: usize) {
        self.dispatch.make(&Call::Drain(device));
        self.devices[device].removing = true;
        self.look_after_devices(host);
    }

    /// The device is removed immediately; its requests go to others.
    pub fn kill<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, device: usize) {
        let health = host.revoke(device);
        self.remove_dead(host, device, health);
    }

    pub(super) fn look_after_devices<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H) {
        // While the sidecore itself was away, no device could show its progress.
        let since = self.now.saturating_sub(core::mem::replace(&mut self.timers.looked_after, self.now));
        let away = since.saturating_sub(2 * self.loop_limits.housekeeping);
        for number in 0..self.devices.len() {
            if self.dispatch.device_state(number) == DeviceState::Gone {
                continue;
            }
            let in_flight = self.dispatch.device_load(number).in_flight;
            let device = &mut self.devices[number];
            // Work that was given after it returned did not wait while it was away.
            device.progress_at = device.progress_at.saturating_add(away).min(self.now);
            let late = self.now.saturating_sub(device.progress_at) > self.device_timeout;
            let stuck = in_flight > 0 && late;
            let health = if stuck { host.revoke(number) } else { host.health(number) };
            while let Some(measured) = host.measured(number) {
                self.dispatch.make(&Call::Measured(number, measured));
            }
            if health != Health::Alive {
                self.remove_dead(host, number, health);
            } else if device.removing && in_flight == 0 {
                host.retire(number);
                self.remove_dead(host, number, Health::Dead);
            }
        }
    }

    fn remove_dead<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, number: usize, health: Health) {
        // Answers from before its death count.
        while let Some(reply) = host.poll(number, Nanos::MAX) {
            self.finish(host, &reply);
        }
        self.dispatch.make(&Call::Lose(number));
        self.remote.retain(|remote| *remote != number);
        // Lanes that wait for this device's answer are looked at again before a sleep.
        self.lanes.iter_mut().flatten().for_each(|lane| lane.waits_for_device = false);
        host.device_removed(number);
        if let Health::DeadWriting(ticket) = health {
            self.fail(host, ticket);
        }
        let mut from = 0;
        while let Some(ticket) = self.dispatch.next_orphan(number, from) {
            from = ticket.index() + 1;
            self.replay(host, ticket);
        }
        self.ring_devices(host);
    }

    fn fail<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, ticket: Ticket) {
        if let Some(done) = self.dispatch.complete(ticket, None) {
            self.abandon(host, ticket, &done, Status::DeviceFailed { device: done.device });
        }
    }

    fn abandon<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, ticket: Ticket, done: &Done, status: Status) {
        let request = self.requests[ticket.index()].take();
        self.answer(host, done, status, None, request.as_ref());
    }

    /// The device gains or loses a remote key.
    pub fn hold(&mut self, device: usize, key: u16, holds: bool) {
        self.dispatch.make(&Call::Hold { device, key, holds });
        // Requests that waited for another device may go to this one.
        self.lanes.iter_mut().flatten().for_each(|lane| lane.waits_for_device = false);
    }

    /// A device returns a request undone. Another device gets it; without one it is refused for `why`.
    pub(super) fn take_back<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, ticket: Ticket, why: Refusal) {
        self.now = host.now();
        let Some(device) = self.dispatch.device_of(ticket) else { return };
        let Some(reassigned) = self.dispatch.pass_on(self.now, ticket) else { return };
        self.release(host, device);
        self.moved(host, (device, ticket), reassigned, Status::Refused(why));
        self.ring_devices(host);
    }

    fn replay<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H, ticket: Ticket) {
        self.now = host.now();
        let Some(lost) = self.dispatch.device_of(ticket) else { return };
        let Some(reassigned) = self.dispatch.reassign(self.now, ticket) else { return };
        self.moved(host, (lost, ticket), reassigned, Status::DeviceFailed { device: lost as u8 });
    }

    /// A request moved to another device, or has none and is answered with a failure.
    fn moved<H: Host<Lane = L, Request = R>>(
        &mut self,
        host: &mut H,
        (lost, ticket): (usize, Ticket),
        reassigned: Reassigned,
        otherwise: Status,
    ) {
        host.on(Event::Reassigned { lost, ticket, reassigned: &reassigned });
        match reassigned {
            Reassigned::Wait(ticket) => self.orphans.push_back(ticket),
            Reassigned::Abandoned(done) => self.abandon(host, ticket, &done, otherwise),
            Reassigned::Now(done) => self.rerun_inline(host, ticket, &done),
            // Its place in the table, and with it its request, is the same as before.
            Reassigned::Assigned(given) if given.begins => self.submit(host, given.device, given.ticket),
            Reassigned::Assigned(_) => {}
        }
    }

    pub(super) fn retry_orphans<H: Host<Lane = L, Request = R>>(&mut self, host: &mut H) -> bool {
        let waiting = self.orphans.len();
        for _ in 0..waiting {
            if let Some(ticket) = self.orphans.pop_front() {
                self.replay(host, ticket);
            }
        }
        self.orphans.len() < waiting
    }

    pub(super) fn ring_devices(&self, host: &mut impl Devices) {
        for device in &self.remote {
            host.ring_device(*device);
        }
    }
}
