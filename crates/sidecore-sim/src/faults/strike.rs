//! Faults as they happen.

use super::client::End;
use super::scenario::{Fault, FaultKind, Kind};
use super::service::Command;
use super::world::{Clock, Who, World};
use sidecore_core::time::Nanos;

impl World<'_> {
    /// The fault of that number happens, if there is somebody left that it can happen to.
    pub(super) fn strike(&mut self, clock: &mut Clock, number: usize) {
        let Some((_, fault)) = self.plan.faults.get(number).copied() else { return };
        if self.strike_one(clock, fault).is_some() {
            self.struck[FaultKind::from(fault) as usize] += 1;
        }
    }

    fn strike_one(&mut self, clock: &mut Clock, fault: Fault) -> Option<()> {
        let now = clock.now();
        if self.service.thread.ended {
            return None;
        }
        self.say(now, || format!("fault: {fault:?}"));
        match fault {
            Fault::DeviceDeath { device, told: false } => {
                let device = self.alive(device)?;
                self.crash(clock, device);
            }
            Fault::DeviceStall { device, time } => {
                let device = self.alive(device)?;
                self.stall(now, device, time);
            }
            Fault::DeviceSlow { device, factor, time } => {
                let device = self.alive(device)?;
                self.slow(now, device, factor, time);
            }
            Fault::ClientDeath { lane, returns } => {
                let link = self.living(lane)?;
                self.kill_client(clock, link, returns);
            }
            Fault::ClientDeaf { lane, time } => {
                let link = self.living(lane)?;
                let until = time.map_or(Nanos::MAX, |time| now + time);
                self.links[link as usize].deaf = Some(until);
                // Whoever sleeps is not woken by what it will not read.
                self.wake(clock, Who::Client(link));
            }
            Fault::ClientHostile { lane, how } => {
                let link = self.living(lane)?;
                self.links[link as usize].hostile = Some(how);
                self.wake(clock, Who::Client(link));
            }
            Fault::ServiceDeath { down } => self.kill_service(clock, down),
            Fault::DeviceDeath { told: true, .. }
            | Fault::DeviceJoin(_)
            | Fault::DeviceDrain(_)
            | Fault::DeviceRemove(_)
            | Fault::SetNotify(_)
            | Fault::SetBalance(_)
            | Fault::SetOrder(_) => self.tell(clock, Command::Set(fault)),
        }
        Some(())
    }

    /// A device with a life of its own that the running service has.
    fn alive(&self, number: u8) -> Option<u32> {
        let devices = self.service.devices.iter().copied().filter(|device| {
            let device = &self.devices[*device as usize];
            device.plan.kind != Kind::Inline && device.is_alive()
        });
        let devices: Vec<u32> = devices.collect();
        devices.get(usize::from(number) % devices.len().max(1)).copied()
    }

    /// A client that is connected and does nothing strange yet.
    fn living(&self, number: u8) -> Option<u32> {
        let connected = |link: &&u32| {
            let link = &self.links[**link as usize];
            link.ended.is_none_or(|end| end == End::Fault)
                && !link.thread.ended
                && link.hostile.is_none()
                && link.deaf.is_none()
        };
        let all: Vec<u32> = (0..self.links.len() as u32).collect();
        let links: Vec<u32> = all.iter().filter(connected).copied().collect();
        links.get(usize::from(number) % links.len().max(1)).copied()
    }
}
