//! Devices of a sidecore's thread that come and go, and actions on them by name.

use super::devices::Device;
use super::error::DeviceError;
use super::thread::Reactor;
use crate::config::{DeviceAction, DeviceConfig, DeviceKind};
use crate::device::{Emulated, Port, Remote, Worker, WorkerKind, WorkerOptions};
use crate::events::Loss;
use crate::service::calibrate::{Calibration, rates_by_size};
use crate::service::command::LaneKey;
use sidecore_core::dispatch::{Capability, DeviceState, MAX_DEVICES};
use sidecore_core::policy::balance::Rates;
use sidecore_core::policy::notify::ThreadCore;
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;
use sidecore_counters::SidecoreCounter;
use sidecore_daemon::sys::park::ParkTimes;

/// Operation and size whose times set the weights of `sed`.
const REFERENCE: (&str, u32) = ("aes-256-gcm", 16_384);
/// The time of the reference on a device of weight 1000, ns.
const FASTEST: Nanos = 1_000;
/// Assumed round trip to another machine until it is measured, ns.
const FIRST_WAY: Nanos = 500_000;

impl Reactor {
    pub(super) fn add_configured_devices(&mut self) -> Result<(), DeviceError> {
        for config in self.host.setup.config.devices.clone() {
            let is_here = config.sidecore.is_none_or(|sidecore| sidecore == self.host.setup.index);
            // A remote device exists only while its gateway is connected.
            if is_here && config.kind != DeviceKind::Remote {
                self.add_device(&config)?;
            }
        }
        Ok(())
    }

    pub(in crate::service) fn add_device(&mut self, config: &DeviceConfig) -> Result<(), DeviceError> {
        self.enter(config, None)
    }

    pub(in crate::service) fn join(
        &mut self,
        config: &DeviceConfig,
        gateway: LaneKey,
        port: Remote,
    ) -> Result<(), DeviceError> {
        // An earlier device of the same name lost its gateway.
        let before = (0..self.host.devices.len()).find(|index| {
            let device = &self.host.devices[*index];
            device.gateway.is_some() && device.config.name == config.name && self.is_there(*index)
        });
        if let Some(before) = before {
            self.sidecore.kill(&mut self.host, before);
        }
        self.enter(config, Some((gateway, port)))
    }

    pub(in crate::service) fn hold(&mut self, gateway: LaneKey, place: u16, holds: bool) {
        let found = self.host.devices.iter().position(|device| device.gateway == Some(gateway));
        if let Some(index) = found.filter(|index| self.is_there(*index)) {
            self.sidecore.hold(index, place, holds);
        }
    }

    pub(in crate::service) fn count_wrong_answer(&mut self) {
        self.host.counters.add(SidecoreCounter::WrongAnswers, 1);
    }

    fn is_there(&self, index: usize) -> bool {
        self.sidecore.dispatch().device_state(index) != DeviceState::Gone
    }

    fn enter(&mut self, config: &DeviceConfig, remote: Option<(LaneKey, Remote)>) -> Result<(), DeviceError> {
        let index = self.place_for(&config.name)?;
        let gateway = remote.as_ref().map(|(gateway, _)| *gateway);
        let port = match remote {
            Some((_, port)) => Some(Box::new(port) as Box<dyn Port>),
            None => self.port(config)?,
        };
        let rates = rates(config, &self.host.setup.calibration);
        let counters = self.host.setup.counters.device(self.host.setup.index * MAX_DEVICES + index);
        counters.open(&config.name, self.host.setup.index as u32, config.kind.name(), config.place());
        let capability = Capability {
            classes: config.classes(),
            immediate: config.kind == DeviceKind::Inline,
            remote_keys: config.kind == DeviceKind::Remote,
            depth: config.depth(),
            weight: weight(config, &rates),
            rates,
        };
        self.sidecore.add_device(capability);
        let device = Device { config: config.clone(), port, counters, handed: (0, 0), gateway };
        if let Some(gone) = self.host.devices.get_mut(index) {
            // None of its requests is left.
            (*gone, self.host.losses[index]) = (device, Loss::default());
        } else {
            self.host.devices.push(device);
            self.host.losses.push(Loss::default());
        }
        Ok(())
    }

    pub(in crate::service) fn place_for(&self, name: &str) -> Result<usize, DeviceError> {
        let taken = |(index, device): (usize, &Device)| device.config.name == name && self.is_there(index);
        let taken = self.host.devices.iter().enumerate().any(taken);
        if taken {
            return Err(DeviceError::Exists(name.to_owned()));
        }
        self.sidecore.dispatch().next_device().ok_or_else(|| DeviceError::Full(name.to_owned()))
    }

    pub(super) fn calibrate_devices(&mut self, park: ParkTimes) {
        for (index, device) in self.host.devices.iter().enumerate() {
            if let Some(port) = &device.port {
                port.set_park(park);
            }
            let rates = rates(&device.config, &self.host.setup.calibration);
            self.sidecore.estimate_device(index, weight(&device.config, &rates), rates);
        }
    }

    fn port(&self, config: &DeviceConfig) -> Result<Option<Box<dyn Port>>, DeviceError> {
        match config.kind {
            DeviceKind::Inline => Ok(None),
            DeviceKind::Worker => self.worker(config, WorkerKind::Single),
            DeviceKind::Batch => self.worker(config, WorkerKind::Batch),
            DeviceKind::Emulated => {
                Ok(Some(Box::new(Emulated::new(config, self.host.setup.config.limits.max_request_bytes))))
            }
            DeviceKind::Remote => Err(DeviceError::Remote(config.name.clone())),
        }
    }

    fn worker(&self, config: &DeviceConfig, kind: WorkerKind) -> Result<Option<Box<dyn Port>>, DeviceError> {
        let worker = Worker::start(WorkerOptions {
            name: config.name.clone(),
            kind,
            place: ThreadCore::new(config.cpu, config.owned),
            free: self.host.free.clone(),
            depth: config.depth(),
            max_request: self.host.setup.config.limits.max_request_bytes,
            park: self.host.setup.calibration.park(),
            to_device: self.sidecore.notify().to_device,
            from_device: self.sidecore.notify().from_device,
            sidecore: self.host.setup.wake.clone(),
        })?;
        Ok(Some(Box::new(worker)))
    }

    pub(in crate::service) fn device_action(&mut self, name: &str, action: DeviceAction) -> Result<(), DeviceError> {
        let index = self.find(name, action)?;
        match action {
            DeviceAction::Drain => self.sidecore.drain(index),
            DeviceAction::Activate => self.sidecore.activate(index),
            DeviceAction::Remove => self.sidecore.remove(&mut self.host, index),
            DeviceAction::Kill => {
                self.host.losses[index] = Loss::Removed;
                self.sidecore.kill(&mut self.host, index);
            }
        }
        self.host.devices[index].publish(self.sidecore.dispatch(), index, self.host.losses[index]);
        Ok(())
    }

    pub(in crate::service) fn find(&self, name: &str, action: DeviceAction) -> Result<usize, DeviceError> {
        let there = || (0..self.host.devices.len()).filter(|index| self.is_there(*index));
        let Some(index) = there().rev().find(|index| self.host.devices[*index].config.name == name) else {
            let there = there().map(|index| self.host.devices[index].config.name.clone()).collect();
            return Err(DeviceError::NoDevice { name: name.to_owned(), there });
        };
        match action {
            DeviceAction::Kill if self.host.devices[index].port.is_none() => Err(DeviceError::Inline(name.to_owned())),
            DeviceAction::Activate if self.sidecore.is_removing(index) => Err(DeviceError::Leaving(name.to_owned())),
            _ => Ok(index),
        }
    }
}

fn rates(config: &DeviceConfig, calibration: &Calibration) -> Rates {
    match config.kind {
        DeviceKind::Inline | DeviceKind::Worker | DeviceKind::Batch => calibration.rates(|here, _| here),
        DeviceKind::Remote => calibration.rates(|here, _| here.saturating_add(FIRST_WAY)),
        DeviceKind::Emulated => {
            rates_by_size(|bytes| Emulated::time(config.fixed_ns, config.per_byte_ns, bytes.into()))
        }
    }
}

fn weight(config: &DeviceConfig, rates: &Rates) -> u32 {
    let reference = Class::from_name(REFERENCE.0).unwrap_or(Class::NOOP);
    let time = rates.estimate(reference, REFERENCE.1).max(1);
    config.weight.unwrap_or((FASTEST * 1000 / time).clamp(1, 1000) as u32)
}
