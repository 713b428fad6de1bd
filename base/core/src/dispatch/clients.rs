//! Users, their clients and these clients' lanes as dispatch knows them.

use super::users::{User, UserShare, Users};
use crate::policy::admission::Share;
use crate::policy::notify::Moderator;
use crate::time::Nanos;
use crate::work::{ClientId, LaneId};
use alloc::vec::Vec;

#[derive(Debug)]
pub(super) struct Client {
    /// Place of its user in the table of users.
    pub(super) user: u32,
    /// Its part of its user's time.
    pub(super) share: Share,
    /// The last of its user's rounds in which that part was refilled.
    round: u64,
    pub(super) credit: u32,
    pub(super) in_flight: u32,
    /// Rank of its next deferred request among those of its user.
    pub(super) next: Nanos,
    lanes: u32,
    present: bool,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) client: ClientId,
    pub(super) moderator: Moderator,
    pub(super) in_flight: u32,
    pub(super) finished: u32,
    pub(super) urgent: bool,
    pub(super) open: bool,
}

#[derive(Debug)]
pub(super) struct Tables {
    pub(super) users: Users,
    clients: Vec<Client>,
    lanes: Vec<Lane>,
    limits: (usize, usize),
}

impl Tables {
    pub(super) fn new(clients: u32, lanes: u32, quantum: Nanos) -> Self {
        let limits = (clients as usize, lanes as usize);
        let (users, lanes) = (Users::new(limits.0, quantum), Vec::with_capacity(limits.1));
        Self { users, clients: Vec::with_capacity(limits.0), lanes, limits }
    }

    pub(super) fn add_client(&mut self, user: UserShare, weight: u32, credit: u32) -> Option<ClientId> {
        let free = self.clients.iter().position(|c| !c.present && c.lanes == 0);
        if free.is_none() && self.clients.len() >= self.limits.0 {
            return None;
        }
        let (user, share) = (self.users.enter(user), Share::new(weight));
        let client = Client { user, share, round: 0, credit, in_flight: 0, next: 0, lanes: 0, present: true };
        Some(ClientId(put(&mut self.clients, free, self.limits.0, client)?))
    }

    pub(super) fn remove_client(&mut self, client: ClientId) {
        let client = &mut self.clients[client.0 as usize];
        if core::mem::take(&mut client.present) {
            self.users.leave(client.user);
        }
    }

    /// A client and its user.
    #[inline]
    pub(super) fn both_mut(&mut self, client: ClientId) -> (&mut Client, &mut User) {
        let client = &mut self.clients[client.0 as usize];
        let user = &mut self.users[client.user];
        (client, user)
    }

    /// Both shares get what the rounds since their last refill add. Returns whether there were any.
    #[inline]
    pub(super) fn begin_turn(&mut self, client: ClientId, round: u64, quantum: Nanos) -> bool {
        self.users.round = round;
        let (client, user) = self.both_mut(client);
        let begins = user.begin_round(round, quantum);
        if client.round == user.turn {
            return begins;
        }
        let passed = user.turn - core::mem::replace(&mut client.round, user.turn);
        client.share.refill_rounds(user.quantum(quantum), passed);
        true
    }

    pub(super) fn add_lane(&mut self, client: ClientId, moderator: Moderator) -> Option<LaneId> {
        let lane = Lane { client, moderator, in_flight: 0, finished: 0, urgent: false, open: true };
        let free = self.lanes.iter().position(|l| !l.open && l.in_flight == 0);
        let id = put(&mut self.lanes, free, self.limits.1, lane)?;
        self.client_mut(client).lanes += 1;
        Some(LaneId(id))
    }

    pub(super) fn close_lane(&mut self, lane: LaneId) {
        let lane = self.lane_mut(lane);
        let (client, was_open, in_flight) = (lane.client, lane.open, lane.in_flight);
        lane.open = false;
        // The client's number stays taken while devices still have requests of its lanes.
        if was_open && in_flight == 0 {
            self.client_mut(client).lanes -= 1;
        }
    }

    pub(super) fn has_client(&self, client: ClientId) -> bool {
        self.clients.get(client.0 as usize).is_some_and(|client| client.present)
    }

    pub(super) fn has_lanes(&self, client: ClientId) -> bool {
        self.lanes.iter().any(|lane| lane.open && lane.client == client)
    }

    pub(super) fn is_open(&self, lane: LaneId) -> bool {
        self.lanes.get(lane.0 as usize).is_some_and(|lane| lane.open)
    }

    #[inline]
    pub(super) fn client_mut(&mut self, client: ClientId) -> &mut Client {
        &mut self.clients[client.0 as usize]
    }

    pub(super) fn client(&self, client: ClientId) -> &Client {
        &self.clients[client.0 as usize]
    }

    #[inline]
    pub(super) fn lane(&self, lane: LaneId) -> &Lane {
        &self.lanes[lane.0 as usize]
    }

    #[inline]
    pub(super) fn lane_mut(&mut self, lane: LaneId) -> &mut Lane {
        &mut self.lanes[lane.0 as usize]
    }

    #[inline]
    pub(super) fn started(&mut self, lane: LaneId, cost: Nanos) {
        let lane = self.lane_mut(lane);
        lane.in_flight += 1;
        let client = lane.client;
        let (client, user) = self.both_mut(client);
        client.in_flight += 1;
        client.share.charge(cost);
        user.share.charge(cost);
    }

    /// Up to `run` requests of the lane are answered without being in flight, limited by the shares of client and
    /// user. Returns their number.
    #[inline]
    pub(super) fn done_at_once(&mut self, lane: LaneId, urgent: bool, cost: Nanos, run: u32) -> u32 {
        let (client, user) = self.both_mut(self.lane(lane).client);
        let count = client.share.charge_run(&mut user.share, cost, run);
        let lane = self.lane_mut(lane);
        lane.finished += count;
        lane.urgent |= urgent;
        count
    }

    /// A request of the lane left the devices. Returns whether the lane is still open.
    #[inline]
    pub(super) fn finished(&mut self, lane: LaneId, urgent: bool) -> bool {
        let lane = self.lane_mut(lane);
        lane.in_flight -= 1;
        lane.finished += 1;
        lane.urgent |= urgent;
        let (client, open, in_flight) = (lane.client, lane.open, lane.in_flight);
        let client = self.client_mut(client);
        client.in_flight -= 1;
        if !open && in_flight == 0 {
            client.lanes -= 1;
        }
        open
    }
}

/// Puts an item at a free place or at the end; `None` if the table has `limit` items.
fn put<T>(table: &mut Vec<T>, free: Option<usize>, limit: usize, item: T) -> Option<u32> {
    let index = match free {
        Some(index) => {
            table[index] = item;
            index
        }
        None if table.len() < limit => {
            table.push(item);
            table.len() - 1
        }
        None => return None,
    };
    Some(index as u32)
}
