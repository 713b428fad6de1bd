//! A device as its sidecore's thread has it: port, counters, gateway.

use crate::config::DeviceConfig;
use crate::device::{Blame, Port};
use crate::events::Loss;
use crate::service::command::{Event, LaneKey};
use sidecore_core::dispatch::{DeviceState, Dispatch};
use sidecore_counters::{DeviceBlock, DeviceCounter};

#[derive(Debug)]
pub(super) struct Device {
    pub(super) config: DeviceConfig,
    /// `None` for the sidecore itself, which does its work inline.
    pub(super) port: Option<Box<dyn Port>>,
    pub(super) counters: DeviceBlock,
    /// Requests, and bytes of their input.
    pub(super) handed: (u64, u64),
    pub(super) gateway: Option<LaneKey>,
}

impl Device {
    #[inline]
    pub(super) fn count(&mut self, requests: u32, bytes: u64) {
        self.handed.0 += u64::from(requests);
        self.handed.1 += bytes;
    }

    pub(super) fn lost(&self, sidecore: usize, loss: Loss) -> Option<Event> {
        let told = self.gateway.is_none() || loss == Loss::Removed;
        told.then(|| Event::DeviceLost { device: self.config.name.clone(), sidecore, loss })
    }

    pub(super) fn wrong(&self, blame: Blame) -> Event {
        Event::WrongResult { device: self.config.name.clone(), blame }
    }

    #[inline(never)]
    pub(super) fn publish(&self, dispatch: &Dispatch, device: usize, loss: Loss) {
        let (load, (requests, bytes)) = (dispatch.device_load(device), self.handed);
        self.counters.set(DeviceCounter::Requests, requests);
        self.counters.set(DeviceCounter::Bytes, bytes);
        match dispatch.device_state(device) {
            DeviceState::Gone if loss == Loss::Removed => self.counters.set_removed(),
            state => self.counters.set_state(state),
        }
        self.counters.set(DeviceCounter::InFlight, u64::from(load.in_flight));
        self.counters.set(DeviceCounter::BacklogNs, load.backlog);
        if let Some(batches) = self.port.as_ref().and_then(|port| port.batches()) {
            self.counters.set(DeviceCounter::Batches, batches.begun);
            self.counters.set(DeviceCounter::Gathered, batches.requests);
            self.counters.set(DeviceCounter::FullBatches, batches.full);
            self.counters.set(DeviceCounter::WrongResults, batches.wrong);
        }
    }
}
