//! The checks of invariants, after each event and at the end.

use super::Invariant;
use super::client::Link;
use super::device::Device;
use super::scenario::DEVICE_TIMEOUT;
use super::service::Request;
use super::world::World;
use sidecore_core::sidecore::{Health, Sidecore};
use sidecore_core::time::Pretty;

/// Largest difference between the shares of two backlogged users, or of two clients of one, as a part of the larger one.
const UNFAIR: f64 = 0.2;

impl World<'_> {
    pub(super) fn check(&mut self, sidecore: &Sidecore<u32, Request>) {
        let alive = !self.service.thread.ended;
        let living = |check: fn(&Self, &Sidecore<u32, Request>) -> Option<String>| {
            if alive { check(self, sidecore) } else { None }
        };
        let all = [
            (Invariant::Capacity, self.capacity()),
            (Invariant::Wakeup, living(Self::wakeup_of_clients)),
            (Invariant::Credit, living(Self::credit)),
            (Invariant::Accounting, living(Self::accounting)),
            (Invariant::Wakeup, living(Self::wakeup_of_service)),
            (Invariant::Wakeup, living(Self::wakeup_of_devices)),
            (Invariant::Stall, living(Self::timeouts)),
        ];
        for (invariant, what) in all {
            if let Some(what) = what {
                self.fail(invariant, what);
            }
        }
    }

    fn capacity(&self) -> Option<String> {
        let over = |link: &Link| {
            let slots = u64::from(link.plan.slots);
            link.hostile.is_none() && (link.submission.waiting() > slots || link.completion.waiting() > slots)
        };
        let found = self.links.iter().position(over)?;
        Some(format!("link {found} has more in a ring than it has slots"))
    }

    fn credit(&self, sidecore: &Sidecore<u32, Request>) -> Option<String> {
        for (tenant, plan) in self.plan.clients.iter().enumerate() {
            let own = sidecore.lanes().filter(|(_, link)| self.links[**link as usize].tenant as usize == tenant);
            let in_flight: u32 = own.map(|(id, _)| self.in_flight_on(id)).sum();
            if in_flight > plan.credit {
                return Some(format!("client {tenant} of credit {} has {in_flight} in flight", plan.credit));
            }
        }
        None
    }

    fn accounting(&self, sidecore: &Sidecore<u32, Request>) -> Option<String> {
        let service = &self.service;
        let total = service.in_flight.iter().flatten().count();
        let counted = sidecore.dispatch().total_in_flight();
        if total != counted {
            return Some(format!("{total} requests are in flight and dispatch counts {counted}"));
        }
        for number in 0..service.devices.len() {
            let own = service.in_flight.iter().flatten().filter(|known| known.device == Some(number));
            let (requests, backlog) = own.fold((0, 0), |(n, time), known| (n + 1, time + known.cost));
            let load = sidecore.dispatch().device_load(number);
            if (load.in_flight, load.backlog) != (requests, backlog) {
                return Some(format!(
                    "device {number} has {requests} requests of {backlog} ns; dispatch says {load:?}"
                ));
            }
        }
        None
    }

    fn wakeup_of_clients(&self, sidecore: &Sidecore<u32, Request>) -> Option<String> {
        let service = &self.service;
        for (index, link) in self.links.iter().enumerate() {
            let unread = link.thread.nobody_wakes() && link.completion.is_unheard();
            let deaf = link.deaf.is_some() || link.service != service.thread.incarnation;
            if !unread || deaf {
                continue;
            }
            let lane = sidecore.lanes().find(|(_, own)| **own as usize == index);
            let put_off = lane.and_then(|(id, _)| sidecore.announces_at(id));
            let slept_through =
                |at| service.thread.nobody_wakes() && service.thread.until.is_none_or(|until| until > at);
            if put_off.is_none_or(slept_through) {
                return Some(format!("link {index} sleeps armed with a completion to read and nobody rings"));
            }
        }
        None
    }

    fn wakeup_of_service(&self, sidecore: &Sidecore<u32, Request>) -> Option<String> {
        let service = &self.service;
        if !service.thread.nobody_wakes() {
            return None;
        }
        if !service.mailbox.is_empty() {
            return Some("the service sleeps with a command to read".to_owned());
        }
        for (_, index) in sidecore.lanes() {
            let link = &self.links[*index as usize];
            if link.submission.is_unheard() && link.hostile.is_none() {
                return Some(format!("the service sleeps armed with a submission of link {index} to read"));
            }
        }
        for index in &service.devices {
            let device = &self.devices[*index as usize];
            if device.replies.is_unheard() && device.ring_at.is_none() && device.health == Health::Alive {
                return Some(format!("the service sleeps armed with an answer of device {index} to read"));
            }
        }
        None
    }

    fn wakeup_of_devices(&self, _: &Sidecore<u32, Request>) -> Option<String> {
        let lost = |device: &Device| device.thread.nobody_wakes() && device.handed.is_unheard();
        let index = self.devices.iter().position(lost)?;
        Some(format!("device {index} sleeps armed with a request to read"))
    }

    fn timeouts(&self, _: &Sidecore<u32, Request>) -> Option<String> {
        let late = |index: &&u32| {
            let device = &self.devices[**index as usize];
            let waits = self.now.saturating_sub(device.progress_at);
            device.is_alive() && device.has() > 0 && waits > DEVICE_TIMEOUT + DEVICE_TIMEOUT / 2
        };
        let index = self.service.devices.iter().find(late)?;
        let since = Pretty(self.devices[*index as usize].progress_at);
        Some(format!("device {index} shows no progress since {since}, and still has work"))
    }

    pub(super) fn check_end(&mut self, finished: bool) {
        if self.broken.is_none() && !finished {
            let waiting = self.links.iter().filter(|link| !link.is_settled()).count();
            let in_flight = self.service.in_flight.iter().flatten().count();
            let after = Pretty(self.now);
            let what = format!("after {after} {waiting} clients wait, {in_flight} requests are in flight");
            self.fail(Invariant::Stall, what);
        }
    }

    /// While all clients have requests waiting, their users' time on the device follows the users' weights, and the
    /// clients of one user have equal parts.
    pub(super) fn check_shares(&mut self) {
        let clients = || self.plan.clients.iter().zip(&self.charged);
        let mut users = [None; 3];
        for (plan, charged) in clients() {
            *users[usize::from(plan.user)].get_or_insert(0.0) += *charged as f64 / f64::from(plan.weight);
        }
        let of_user = |user: u8| clients().filter(move |(plan, _)| plan.user == user).map(|(_, time)| *time as f64);
        if is_unfair(users.into_iter().flatten()) || (0..3).any(|user| is_unfair(of_user(user))) {
            let of = self.plan.clients.iter().map(|plan| plan.user).collect::<Vec<_>>();
            let what = format!("backlogged clients of users {of:?} had {:?} ns on the device", self.charged);
            self.fail(Invariant::Share, what);
        }
    }
}

fn is_unfair(shares: impl Iterator<Item = f64>) -> bool {
    let (least, most) = shares.fold((f64::MAX, 0.0_f64), |(least, most), share| (least.min(share), most.max(share)));
    least < most * (1.0 - UNFAIR)
}
