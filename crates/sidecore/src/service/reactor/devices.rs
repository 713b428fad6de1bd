//! Devices as their sidecore knows them: joining, leaving, dying, and what becomes of their requests.

use super::{Device, HOUSEKEEPING, Reactor};
use crate::config::{DeviceAction, DeviceConfig, DeviceKind, Place};
use crate::counters::{DeviceCounter, SidecoreCounter};
use crate::device::{Emulated, Health, Port, Worker, WorkerOptions};
use crate::sys::clock;
use sidecore_core::dispatch::{Capability, DeviceState, Dispatch, Done, MAX_DEVICES, Replaced};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::Rates;
use sidecore_core::policy::order::Order;
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;
use sidecore_core::wire::Status;
use std::io;

/// What `sed` compares devices by: their time for this operation and size.
const REFERENCE: (&str, u32) = ("aes-256-gcm", 16_384);
/// The time of the reference on a device of weight 1000, ns.
const FASTEST: Nanos = 1_000;

impl Device {
    /// A request with that many bytes of input is handed to it.
    #[inline]
    pub(super) fn count(&mut self, bytes: u64) {
        self.handed.0 += 1;
        self.handed.1 += bytes;
    }

    /// Brings the device's counters up to date.
    pub(super) fn publish(&self, dispatch: &Dispatch, device: usize) {
        let (load, (requests, bytes)) = (dispatch.device_load(device), self.handed);
        self.counters.set(DeviceCounter::Requests, requests);
        self.counters.set(DeviceCounter::Bytes, bytes);
        self.counters.set_state(dispatch.device_state(device));
        self.counters.set(DeviceCounter::InFlight, u64::from(load.in_flight));
        self.counters.set(DeviceCounter::BacklogNs, load.backlog);
    }
}

impl Reactor {
    pub(super) fn add_configured_devices(&mut self) -> io::Result<()> {
        for config in self.setup.config.devices.clone() {
            if config.sidecore.is_none_or(|sidecore| sidecore == self.setup.index) {
                self.add_device(&config)?;
            }
        }
        Ok(())
    }

    pub(super) fn add_device(&mut self, config: &DeviceConfig) -> io::Result<()> {
        let taken = |(index, device): (usize, &Device)| {
            device.name == config.name && self.dispatch.device_state(index) != DeviceState::Gone
        };
        if self.devices.iter().enumerate().any(taken) {
            return Err(invalid(format!("there is a device {:?} already: give this one another name", config.name)));
        }
        let Some(index) = self.dispatch.next_device() else {
            return Err(invalid(format!(
                "a sidecore has at most {MAX_DEVICES} devices at a time: remove one before adding {:?}",
                config.name
            )));
        };
        let (port, rates) = self.port(config)?;
        let counters = self.setup.counters.device(self.setup.index * MAX_DEVICES + index);
        counters.open(&config.name, self.setup.index as u32, config.kind.name(), place(config));
        let weight = config.weight.unwrap_or_else(|| weight(&rates));
        let capability = Capability {
            classes: config.classes(),
            immediate: config.kind == DeviceKind::Inline,
            depth: config.depth,
            weight,
            rates,
        };
        self.dispatch.add_device(capability);
        if !matches!(port, Port::Inline) {
            self.remote.push(index);
        }
        let name = config.name.clone();
        let device = Device { name, port, counters, progress_at: self.now, removing: false, handed: (0, 0) };
        match self.devices.get_mut(index) {
            // That one is gone, and none of its requests is left.
            Some(gone) => *gone = device,
            None => self.devices.push(device),
        }
        Ok(())
    }

    fn port(&self, config: &DeviceConfig) -> io::Result<(Port, Rates)> {
        let max_request = self.setup.config.limits.max_request_bytes;
        match config.kind {
            DeviceKind::Inline => Ok((Port::Inline, self.setup.calibration.rates())),
            DeviceKind::Worker => {
                let worker = Worker::start(WorkerOptions {
                    name: config.name.clone(),
                    place: place(config),
                    free: self.free.clone(),
                    depth: config.depth,
                    max_request,
                    park_cost: self.setup.calibration.park_cost,
                    to_device: self.notify.to_device,
                    from_device: self.notify.from_device,
                    sidecore: self.setup.wake.clone(),
                })?;
                Ok((Port::Worker(worker), self.setup.calibration.rates()))
            }
            DeviceKind::Emulated => {
                let emulated = Emulated::new(config.fixed_ns, config.per_byte_ns, config.depth, max_request);
                let rates = self.setup.calibration.modelled(|bytes| emulated.time(bytes));
                Ok((Port::Emulated(Box::new(emulated)), rates))
            }
        }
    }

    /// What `sidecore set device.NAME=…` asks for.
    pub(super) fn device_action(&mut self, name: &str, action: DeviceAction) -> Result<(), String> {
        let state = |index: &usize| self.dispatch.device_state(*index);
        let mut found = (0..self.devices.len()).rev().filter(|index| self.devices[*index].name == name);
        let Some(index) = found.find(|index| state(index) != DeviceState::Gone) else {
            let here = (0..self.devices.len()).filter(|index| state(index) != DeviceState::Gone);
            let names: Vec<&str> = here.map(|index| self.devices[index].name.as_str()).collect();
            return Err(format!("no device {name:?} here; there are {names:?}"));
        };
        match action {
            DeviceAction::Drain => self.dispatch.drain(index),
            DeviceAction::Remove => {
                self.dispatch.drain(index);
                self.devices[index].removing = true;
            }
            DeviceAction::Kill if matches!(self.devices[index].port, Port::Inline) => {
                return Err(format!("{name:?} is the sidecore itself: drain it instead"));
            }
            DeviceAction::Kill => {
                let health = self.devices[index].port.revoke();
                self.bury(index, health);
            }
        }
        self.look_after_devices();
        self.devices[index].publish(&self.dispatch, index);
        Ok(())
    }

    /// Finds devices that died, that do not answer, and that are to be taken away.
    pub(super) fn look_after_devices(&mut self) {
        let timeout = Nanos::from(self.setup.config.limits.device_timeout_ms) * 1_000_000;
        // While the sidecore itself was away, no device could show its progress.
        let since = self.now.saturating_sub(std::mem::replace(&mut self.timers.looked_after, self.now));
        let away = since.saturating_sub(2 * HOUSEKEEPING);
        for index in 0..self.devices.len() {
            if self.dispatch.device_state(index) == DeviceState::Gone {
                continue;
            }
            let in_flight = self.dispatch.device_load(index).in_flight;
            let device = &mut self.devices[index];
            device.progress_at += away;
            let stuck = in_flight > 0 && self.now.saturating_sub(device.progress_at) > timeout;
            let health = if stuck { device.port.revoke() } else { device.port.health() };
            if health != Health::Alive {
                self.bury(index, health);
            } else if device.removing && in_flight == 0 {
                device.port.kill();
                self.bury(index, Health::Dead);
            }
        }
    }

    /// Gives the requests of a dead device to others.
    fn bury(&mut self, index: usize, health: Health) {
        // What it still answered before it died counts.
        while let Some(reply) = self.devices[index].port.poll(Nanos::MAX) {
            self.finish_remote(&reply);
        }
        self.dispatch.lose(index);
        self.remote.retain(|remote| *remote != index);
        // Lanes that waited for an answer of this device have none to wait for: before a sleep they are looked at again.
        self.lanes.iter_mut().flatten().for_each(|lane| lane.waits_for_device = false);
        if let Health::DeadWriting(ticket) = health {
            self.fail(ticket);
        }
        let mut from = 0;
        while let Some(ticket) = self.dispatch.next_orphan(index, from) {
            from = ticket.index() + 1;
            self.replay(ticket);
        }
        self.devices[index].port.forget();
        self.devices[index].publish(&self.dispatch, index);
        self.ring_devices();
    }

    /// A request that can be neither replayed nor called done.
    fn fail(&mut self, ticket: Ticket) {
        let Some(done) = self.dispatch.complete(ticket, None) else { return };
        self.give_up(ticket, &done);
    }

    fn give_up(&mut self, ticket: Ticket, done: &Done) {
        let key = self.end_job(ticket);
        self.devices[usize::from(done.device)].counters.add(DeviceCounter::Failed, 1);
        self.answer(done, Status::DeviceFailed { device: done.device }, None, key);
    }

    fn replay(&mut self, ticket: Ticket) {
        self.now = clock::now();
        let lost = self.dispatch.device_of(ticket);
        match self.dispatch.replace(self.now, ticket) {
            None => {}
            Some(Replaced::Wait(ticket)) => self.orphans.push_back(ticket),
            Some(Replaced::GivenUp(done)) => self.give_up(ticket, &done),
            Some(Replaced::Now(done)) => {
                self.count_replay(lost);
                self.redo_now(ticket, &done);
            }
            Some(Replaced::On { device, ticket }) => {
                self.count_replay(lost);
                self.resubmit(device, ticket);
            }
            // Its place, and with it its job, is the same as before.
            Some(Replaced::Held { .. }) => self.count_replay(lost),
        }
    }

    fn count_replay(&self, lost: Option<usize>) {
        self.counters.add(SidecoreCounter::Replayed, 1);
        if let Some(lost) = lost {
            self.devices[lost].counters.add(DeviceCounter::Replayed, 1);
        }
    }

    /// Requests of dead devices for which there was no room try again. `false`: there were none.
    pub(super) fn retry_orphans(&mut self) -> bool {
        let waiting = self.orphans.len();
        for _ in 0..waiting {
            if let Some(ticket) = self.orphans.pop_front() {
                self.replay(ticket);
            }
        }
        self.orphans.len() < waiting
    }

    /// Under the new order devices may have more, or less.
    pub(super) fn set_order(&mut self, order: Order) {
        self.dispatch.set_order(order);
        self.now = clock::now();
        (0..self.devices.len()).for_each(|device| self.release(device));
        self.ring_devices();
    }

    /// Wakes the devices that sleep and were given work.
    pub(super) fn ring_devices(&mut self) {
        for device in &self.remote {
            self.devices[*device].port.ring();
        }
    }
}

fn place(config: &DeviceConfig) -> Place {
    Place::new(config.cpu, config.owned)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn weight(rates: &Rates) -> u32 {
    let reference = Class::from_name(REFERENCE.0).unwrap_or(Class::NOOP);
    let time = rates.estimate(reference, REFERENCE.1).max(1);
    (FASTEST * 1000 / time).clamp(1, 1000) as u32
}
