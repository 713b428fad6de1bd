//! Devices: join, change and leave.

use super::deferred::DeferredQueue;
use super::remote_keys::RemoteKeys;
use super::{Capability, Device, DeviceState, Dispatch, KeyLocation, MAX_DEVICES};
use crate::policy::balance::{Balance, BatchEstimate, Load, Measured, Rates, SteadyRates};
use crate::session::Class;
use crate::time::Nanos;
use alloc::vec::Vec;

impl Dispatch {
    /// The number of the next device: that of a gone device without requests in the table, else a new one. `None`:
    /// all [`MAX_DEVICES`] numbers are taken.
    pub fn next_device(&self) -> Option<usize> {
        let named = self.inflight.devices();
        let free = |device: &usize| self.devices[*device].state == DeviceState::Gone && named >> device & 1 == 0;
        let count = self.devices.len();
        (0..count).find(free).or(Some(count).filter(|count| *count < MAX_DEVICES))
    }

    /// A device joins under the number that [`Dispatch::next_device`] returns.
    pub fn add_device(&mut self, capability: Capability) -> Option<usize> {
        let Capability { classes, immediate, remote_keys, depth, weight, rates } = capability;
        let number = self.next_device()?;
        let most = self.inflight.capacity().min(depth.saturating_add(self.deferred) as usize);
        let deferred = DeferredQueue::new(most);
        let remote_keys = remote_keys.then(RemoteKeys::default);
        let steady = (self.balance() == Balance::Priced).then(|| SteadyRates::new(&rates));
        let device = Device {
            state: DeviceState::Active,
            classes,
            immediate,
            remote_keys,
            rates,
            steady,
            deferred,
            fills: None,
            last: None,
        };
        put(&mut self.devices, number, device);
        put(&mut self.loads, number, Load { deferred: self.deferred, ..Load::idle(depth, weight) });
        self.balancer.devices_changed(self.devices.len());
        Some(number)
    }

    /// Takes a device's measured times of requests done side by side. From now on [`Self::complete`] takes each
    /// request's part of a full batch.
    pub fn measured(&mut self, device: usize, measured: &Measured) {
        let known = &mut self.devices[device];
        known.rates.scale(measured);
        if let Some(steady) = &mut known.steady {
            steady.scale(measured);
        }
        known.last = None;
        let fills = known.fills.get_or_insert_with(BatchEstimate::new);
        fills.set(measured);
        let mut from = 0;
        while let Some(ticket) = self.inflight.next_on(device as u8, from) {
            from = ticket.index() + 1;
            if let Some(entry) = self.inflight.get(ticket).filter(|entry| entry.work.class == measured.class) {
                fills.entered(entry.work.class, entry.work.size, entry.cost);
            }
        }
    }

    /// Sets the weight, and the rates of classes without an observation.
    pub fn estimate_device(&mut self, device: usize, weight: u32, rates: &Rates) {
        let known = &mut self.devices[device];
        known.rates.adopt(rates);
        if let Some(steady) = &mut known.steady {
            steady.adopt(rates);
        }
        self.loads[device].weight = weight;
    }

    /// Under `tokens` the device asks for work until it has this much, ns.
    pub fn set_window(&mut self, device: usize, window: Nanos) {
        self.loads[device].window = window;
    }

    /// Pauses or resumes a device, which keeps its requests. A draining or gone device stays as it is.
    pub fn set_paused(&mut self, device: usize, paused: bool) {
        if self.devices[device].state == DeviceState::Active {
            self.loads[device].usable = !paused;
            self.balancer.devices_changed(self.devices.len());
        }
    }

    /// The device gets no more requests; what it has is finished.
    pub fn drain(&mut self, device: usize) {
        if self.devices[device].state == DeviceState::Active {
            self.devices[device].state = DeviceState::Draining;
            self.loads[device].usable = false;
            self.balancer.devices_changed(self.devices.len());
        }
    }

    /// A device that drains gets requests again.
    pub fn activate(&mut self, device: usize) {
        if self.devices[device].state == DeviceState::Draining {
            self.devices[device].state = DeviceState::Active;
            self.loads[device].usable = true;
            self.balancer.devices_changed(self.devices.len());
        }
    }

    /// The device died, or is removed immediately. [`Dispatch::next_orphan`] lists its requests.
    pub fn lose(&mut self, device: usize) {
        self.devices[device].state = DeviceState::Gone;
        self.devices[device].deferred.clear();
        self.loads[device].usable = false;
        self.balancer.devices_changed(self.devices.len());
    }

    /// How far the device may be used.
    pub fn device_state(&self, device: usize) -> DeviceState {
        self.devices[device].state
    }

    /// The balancer's view of the device.
    pub fn device_load(&self, device: usize) -> &Load {
        &self.loads[device]
    }

    /// The device's estimated time for a request.
    pub fn estimate(&self, device: usize, class: Class, size: u32) -> Nanos {
        self.devices[device].rates.estimate(class, size)
    }

    /// Whether the device answers later and has room for a request of that class, regardless of the policy.
    pub fn can_take(&self, device: usize, class: Class) -> bool {
        let known = &self.devices[device];
        self.loads[device].has_room() && known.can(class, KeyLocation::LOCAL) && !known.immediate
    }

    /// Whether a time of the device for that class was observed.
    pub fn knows(&self, device: usize, class: Class) -> bool {
        self.devices[device].rates.known(class)
    }
}

fn put<T>(items: &mut Vec<T>, number: usize, item: T) {
    match items.get_mut(number) {
        Some(old) => *old = item,
        None => items.push(item),
    }
}
