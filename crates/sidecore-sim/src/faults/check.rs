//! What must hold after each event, and at the end.

use super::client::Link;
use super::service::Request;
use super::world::World;
use super::{Broken, Invariant};
use sidecore_core::sidecore::{Health, Sidecore};
use sidecore_core::time::Pretty;

/// Largest difference between the shares of two backlogged clients, as a part of the larger one.
const UNFAIR: f64 = 0.2;

impl World<'_> {
    pub(super) fn check(&mut self, sidecore: &Sidecore<u32, Request>) {
        if self.broken.is_some() {
            return;
        }
        let alive = !self.service.thread.ended;
        let broken = self.capacity().or_else(|| self.wakeup_of_clients(sidecore));
        let service =
            || self.credit(sidecore).or_else(|| self.accounting(sidecore)).or_else(|| self.wakeup_of_service(sidecore));
        let broken = broken.or_else(|| if alive { service() } else { None });
        let broken = broken.or_else(|| self.wakeup_of_devices());
        if let Some(Broken { invariant, what }) = broken {
            self.fail(invariant, what);
        }
    }

    /// In flight is at most what fits.
    fn capacity(&self) -> Option<Broken> {
        let over = |link: &Link| {
            let slots = u64::from(link.plan.slots);
            link.hostile.is_none() && (link.submission.waiting() > slots || link.completion.waiting() > slots)
        };
        let found = self.links.iter().position(over)?;
        let what = format!("link {found} has more in a ring than it has slots");
        Some(Broken { invariant: Invariant::Capacity, what })
    }

    /// No client is above its credit.
    fn credit(&self, sidecore: &Sidecore<u32, Request>) -> Option<Broken> {
        for (tenant, plan) in self.plan.clients.iter().enumerate() {
            let own = sidecore.lanes().filter(|(_, link)| self.links[**link as usize].tenant as usize == tenant);
            let in_flight: u32 = own.map(|(id, _)| self.in_flight_on(id)).sum();
            if in_flight > plan.credit {
                let what = format!("client {tenant} of credit {} has {in_flight} in flight", plan.credit);
                return Some(Broken { invariant: Invariant::Credit, what });
            }
        }
        None
    }

    /// Dispatch counts what the world counts.
    fn accounting(&self, sidecore: &Sidecore<u32, Request>) -> Option<Broken> {
        let service = &self.service;
        let total = service.in_flight.iter().flatten().count();
        let counted = sidecore.dispatch().total_in_flight();
        if total != counted {
            let what = format!("{total} requests are in flight and dispatch counts {counted}");
            return Some(Broken { invariant: Invariant::Accounting, what });
        }
        for number in 0..service.devices.len() {
            let own = service.in_flight.iter().flatten().filter(|known| known.device == Some(number));
            let (requests, backlog) = own.fold((0, 0), |(n, time), known| (n + 1, time + known.cost));
            let load = sidecore.dispatch().device_load(number);
            if (load.in_flight, load.backlog) != (requests, backlog) {
                let what = format!("device {number} has {requests} requests of {backlog} ns; dispatch says {load:?}");
                return Some(Broken { invariant: Invariant::Accounting, what });
            }
        }
        None
    }

    /// No client sleeps armed with a completion to read and nobody about to wake it.
    fn wakeup_of_clients(&self, sidecore: &Sidecore<u32, Request>) -> Option<Broken> {
        let service = &self.service;
        for (index, link) in self.links.iter().enumerate() {
            let unread = link.thread.nobody_wakes() && link.completion.armed && link.completion.ready();
            if !unread || link.completion.unrung || link.deaf.is_some() || link.service != service.thread.incarnation {
                continue;
            }
            if service.thread.ended {
                continue;
            }
            let lane = sidecore.lanes().find(|(_, own)| **own as usize == index);
            let put_off = lane.and_then(|(id, _)| sidecore.announces_at(id));
            let slept_through =
                |at| service.thread.nobody_wakes() && service.thread.until.is_none_or(|until| until > at);
            if put_off.is_none_or(slept_through) {
                let what = format!("link {index} sleeps armed with a completion to read and nobody rings");
                return Some(Broken { invariant: Invariant::Wakeup, what });
            }
        }
        None
    }

    /// The service does not sleep with something to read of which nobody tells it.
    fn wakeup_of_service(&self, sidecore: &Sidecore<u32, Request>) -> Option<Broken> {
        let service = &self.service;
        if !service.thread.nobody_wakes() {
            return None;
        }
        let broken = |what: String| Some(Broken { invariant: Invariant::Wakeup, what });
        if !service.mailbox.is_empty() {
            return broken("the service sleeps with a command to read".to_owned());
        }
        for (_, index) in sidecore.lanes() {
            let link = &self.links[*index as usize];
            if link.submission.armed && link.submission.ready() && !link.submission.unrung && link.hostile.is_none() {
                return broken(format!("the service sleeps armed with a submission of link {index} to read"));
            }
        }
        for index in &service.devices {
            let device = &self.devices[*index as usize];
            let told = device.replies.unrung || device.ring_at.is_some() || device.health != Health::Alive;
            if device.replies.armed && device.replies.ready() && !told {
                return broken(format!("the service sleeps armed with an answer of device {index} to read"));
            }
        }
        None
    }

    /// No device sleeps armed with a request to read and nobody about to wake it.
    fn wakeup_of_devices(&self) -> Option<Broken> {
        let lost = |device: &super::device::Device| {
            device.thread.nobody_wakes() && device.jobs.armed && device.jobs.ready() && !device.jobs.unrung
        };
        let index = self.devices.iter().position(lost).filter(|_| !self.service.thread.ended)?;
        let what = format!("device {index} sleeps armed with a request to read");
        Some(Broken { invariant: Invariant::Wakeup, what })
    }

    /// At the end of a run that came to none, or of one in which shares can be measured.
    pub(super) fn check_end(&mut self, finished: bool) {
        if self.broken.is_none() && !finished {
            let waiting = self.links.iter().filter(|link| !link.is_settled()).count();
            let in_flight = self.service.in_flight.iter().flatten().count();
            self.fail(
                Invariant::Stall,
                format!("after {} {waiting} clients wait, {in_flight} requests are in flight", Pretty(self.now)),
            );
        }
    }

    /// While all clients have requests waiting, their time on the device follows their weights.
    pub(super) fn check_shares(&mut self) {
        let plans = self.plan.clients.iter();
        let shares = plans.zip(&self.charged).map(|(plan, charged)| *charged as f64 / f64::from(plan.weight));
        let (least, most) =
            shares.fold((f64::MAX, 0.0_f64), |(least, most), share| (least.min(share), most.max(share)));
        if least < most * (1.0 - UNFAIR) {
            let what = format!("backlogged clients had {:?} ns on the device", self.charged);
            self.fail(Invariant::Share, what);
        }
    }
}
