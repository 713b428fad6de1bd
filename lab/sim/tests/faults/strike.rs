//! Faults as they happen.

use super::client::{End, Link};
use super::device::Device;
use super::scenario::{Fault, FaultKind, Kind};
use super::service::Command;
use super::world::{Actor, Clock, SimEvent, World, pick};
use sidecore_core::time::Nanos;

impl World<'_> {
    pub(super) fn strike(&mut self, clock: &mut Clock, number: usize) {
        let Some((_, fault)) = self.plan.faults.get(number).copied() else { return };
        if self.strike_one(clock, fault).is_some() {
            self.struck[FaultKind::from(fault) as usize] += 1;
        }
    }

    fn strike_one(&mut self, clock: &mut Clock, fault: Fault) -> Option<()> {
        let now = self.now;
        if self.service.thread.ended {
            return None;
        }
        self.say(|| format!("fault: {fault:?}"));
        match fault {
            Fault::DeviceDeath { device, told: false } => {
                let device = self.alive(device)?;
                self.crash(clock, device);
            }
            Fault::DeviceStall { device, time } => {
                let device = self.alive(device)?;
                self.devices[device as usize].stall(now, time);
            }
            Fault::DeviceSlow { device, factor, time } => {
                let device = self.alive(device)?;
                self.devices[device as usize].slow = (factor.into(), now + time);
            }
            Fault::IdleThenHang { device, idle } => {
                let device = self.alive(device)?;
                self.links.iter_mut().for_each(|link| link.rest(now + idle));
                clock.after(idle, SimEvent::Hang(device));
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
                self.wake(clock, Actor::Client(link));
            }
            Fault::ClientHostile { lane, how } => {
                let link = self.living(lane)?;
                self.links[link as usize].hostile = Some(how);
                self.wake(clock, Actor::Client(link));
            }
            Fault::ServiceDeath { down } => self.kill_service(clock, down),
            Fault::DeviceDeath { told: true, .. }
            | Fault::DeviceJoin(_)
            | Fault::DeviceDrain(_)
            | Fault::DeviceRemove(_)
            | Fault::SetNotify(_)
            | Fault::SetBalance(_) => self.tell(clock, Command::Set(fault)),
        }
        Some(())
    }

    fn alive(&self, number: u8) -> Option<u32> {
        let alive = |device: &Device| device.plan.kind != Kind::Inline && device.is_alive();
        pick(number, self.service.devices.iter().copied().filter(|device| alive(&self.devices[*device as usize])))
    }

    /// A client that is connected and does nothing strange yet.
    fn living(&self, number: u8) -> Option<u32> {
        let connected = |link: &Link| {
            let open = link.ended.is_none_or(|end| end == End::Fault) && !link.thread.ended;
            open && link.hostile.is_none() && link.deaf.is_none()
        };
        pick(number, (0..self.links.len() as u32).filter(|link| connected(&self.links[*link as usize])))
    }
}
