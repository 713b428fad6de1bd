//! The oracle's state in plain sets: clients, lanes, devices and requests on their way.

use super::super::*;
use crate::policy::admission::Share;
use alloc::collections::BTreeMap;

/// Backlog that exhausts a device's credit under `tokens`, ns.
const WINDOW: Nanos = 20_000;

#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) ticket: Ticket,
    pub(super) work: Work,
    pub(super) device: usize,
    pub(super) waiting: bool,
    /// Serial number of its deferral, if it is deferred.
    pub(super) held: Option<u64>,
    pub(super) handed: Nanos,
    pub(super) cost: Nanos,
    pub(super) losses: u8,
}

pub(super) struct Unit {
    pub(super) state: DeviceState,
    pub(super) classes: Classes,
    pub(super) depth: u32,
}

pub(super) struct Channel {
    pub(super) client: ClientId,
    pub(super) open: bool,
    pub(super) moderator: Moderator,
    /// Whether each completion since the last announcement is urgent.
    pub(super) finished: Vec<bool>,
}

pub(super) struct Tenant {
    pub(super) present: bool,
    pub(super) share: Share,
    pub(super) credit: u32,
}

#[derive(Default)]
pub(super) struct Oracle {
    pub(super) requests: Vec<Request>,
    pub(super) void: Vec<Ticket>,
    pub(super) answers: Vec<u32>,
    pub(super) units: Vec<Unit>,
    pub(super) lanes: BTreeMap<u32, Channel>,
    pub(super) clients: BTreeMap<u32, Tenant>,
}

impl Oracle {
    pub(super) fn tickets(&self, filter: impl Fn(&Request) -> bool) -> Vec<Ticket> {
        self.requests.iter().filter(|request| filter(request)).map(|request| request.ticket).collect()
    }

    pub(super) fn on(&self, device: usize) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(move |request| request.device == device && !request.waiting)
    }

    pub(super) fn has_room(&self, device: usize) -> bool {
        self.on(device).filter(|request| request.held.is_none()).count() < self.units[device].depth as usize
    }

    pub(super) fn is_first_of_its_client(&self, device: usize, ticket: Ticket) -> bool {
        let client = |request: &Request| self.lanes[&request.work.lane.0].client;
        let held: Vec<&Request> = self.on(device).filter(|request| request.held.is_some()).collect();
        let Some(this) = held.iter().find(|request| request.ticket == ticket) else { return false };
        held.iter().filter(|other| client(other) == client(this)).all(|other| this.held <= other.held)
    }

    pub(super) fn defers(&self, device: usize) -> bool {
        self.on(device).any(|request| request.held.is_some())
    }

    pub(super) fn backlog(&self, device: usize) -> Nanos {
        self.on(device).map(|request| request.cost).sum()
    }

    pub(super) fn of_lane(&self, lane: u32) -> u32 {
        self.requests.iter().filter(|request| request.work.lane.0 == lane).count() as u32
    }

    pub(super) fn of_client(&self, client: u32) -> u32 {
        self.lanes_of(client).into_iter().map(|lane| self.of_lane(lane.0)).sum()
    }

    pub(super) fn lanes_of(&self, client: u32) -> Vec<LaneId> {
        self.lanes.iter().filter(|(_, lane)| lane.client.0 == client).map(|(&id, _)| LaneId(id)).collect()
    }

    pub(super) fn open_lanes(&self) -> Vec<LaneId> {
        self.lanes.iter().filter(|(_, lane)| lane.open).map(|(&id, _)| LaneId(id)).collect()
    }

    pub(super) fn present(&self) -> Vec<ClientId> {
        self.clients.iter().filter(|(_, client)| client.present).map(|(&id, _)| ClientId(id)).collect()
    }

    pub(super) fn devices(&self, states: &[DeviceState]) -> Vec<usize> {
        (0..self.units.len()).filter(|&device| states.contains(&self.units[device].state)).collect()
    }

    pub(super) fn next_unit(&self) -> Option<usize> {
        let named = |device: usize| self.requests.iter().any(|request| request.device == device);
        let free = self.devices(&[DeviceState::Gone]).into_iter().find(|&device| !named(device));
        free.or_else(|| Some(self.units.len()).filter(|&count| count < MAX_DEVICES))
    }

    pub(super) fn may_take(&self, client: u32) -> bool {
        let Tenant { share, credit, .. } = &self.clients[&client];
        self.requests.len() < super::LIMITS.in_flight as usize && self.of_client(client) < *credit && share.may_take()
    }

    pub(super) fn capable(&self, class: Class) -> Vec<usize> {
        let can = |device: &usize| self.units[*device].classes.contains(class);
        self.devices(&[DeviceState::Active]).into_iter().filter(can).collect()
    }

    pub(super) fn with_room(&self, class: Class, balance: Balance) -> Vec<usize> {
        let has_room = |&device: &usize| {
            let has_credit = balance != Balance::Tokens || self.backlog(device) < WINDOW;
            let deferred = if balance == Balance::Priced { super::LIMITS.deferred } else { 0 };
            has_credit && self.on(device).count() < (self.units[device].depth + deferred) as usize
        };
        self.capable(class).into_iter().filter(has_room).collect()
    }

    pub(super) fn is_new(&self, ticket: Ticket) -> bool {
        !self.void.contains(&ticket) && self.requests.iter().all(|request| request.ticket != ticket)
    }

    pub(super) fn take(&mut self, ticket: Ticket) -> Request {
        let at = self.requests.iter().position(|request| request.ticket == ticket).expect("it is on its way");
        self.void.push(ticket);
        self.requests.swap_remove(at)
    }

    pub(super) fn answered(&mut self, request: &Request) -> Done {
        let Work { lane, tag, urgent, .. } = request.work;
        self.answers[tag as usize] += 1;
        let channel = self.lanes.get_mut(&lane.0).unwrap();
        channel.finished.push(urgent);
        let lane_open = channel.open;
        self.free_numbers();
        Done { work: request.work, device: request.device as u8, handed: request.handed, lane_open }
    }

    pub(super) fn free_numbers(&mut self) {
        let lanes: Vec<u32> = self.lanes.keys().copied().collect();
        for lane in lanes {
            if !self.lanes[&lane].open && self.of_lane(lane) == 0 {
                self.lanes.remove(&lane);
            }
        }
        let lanes = &self.lanes;
        self.clients.retain(|&id, client| client.present || lanes.values().any(|lane| lane.client.0 == id));
    }

    pub(super) fn announce(&mut self, now: Nanos, lane: LaneId) -> WakeDecision {
        let Channel { moderator, finished, .. } = self.lanes.get_mut(&lane.0).unwrap();
        moderator.completed(now, finished.len() as u32, finished.contains(&true));
        finished.clear();
        self.due(now, lane)
    }

    pub(super) fn due(&mut self, now: Nanos, lane: LaneId) -> WakeDecision {
        let moderator = &mut self.lanes.get_mut(&lane.0).unwrap().moderator;
        let ring = moderator.due(now);
        if ring == WakeDecision::Now {
            moderator.rung();
        }
        ring
    }
}
