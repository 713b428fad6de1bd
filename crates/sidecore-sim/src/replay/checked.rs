//! A dispatch that is told nothing impossible: who names what is not there is refused before core sees it.

use sidecore_core::dispatch::record::{Call, Decision, KEPT_BACK, Start, WAIT, apply};
use sidecore_core::dispatch::{ClientId, DeviceState, Dispatch, LaneId, Limits};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::Balance;
use std::collections::HashSet;

/// Largest tables that are made, whatever a record says.
const MAX_TABLE: u32 = 1 << 20;

#[derive(Debug)]
pub(super) struct Checked {
    dispatch: Dispatch,
    /// Present clients, with their open lanes.
    clients: Vec<Option<u32>>,
    /// Open lanes, with their clients.
    lanes: Vec<Option<ClientId>>,
    devices: usize,
    /// Requests that no device has: kept back for one, or waiting since theirs died. Nobody can complete them.
    nowhere: HashSet<u64>,
}

/// Whether a call is answered with a decision.
pub(super) fn decides(call: &Call) -> bool {
    matches!(
        call,
        Call::AddClient { .. }
            | Call::AddLane(..)
            | Call::AddDevice(_)
            | Call::MayTake(_)
            | Call::Place(..)
            | Call::Release(..)
            | Call::Complete(..)
            | Call::Announce(..)
            | Call::Due(..)
            | Call::Replace(..)
    )
}

impl Checked {
    /// `None`: such tables are not made.
    pub(super) fn new(start: Start) -> Option<Self> {
        let Start { limits, balance } = start;
        let Limits { lanes, clients, in_flight, .. } = limits;
        let fits = lanes.max(clients).max(in_flight) <= MAX_TABLE;
        fits.then(|| Self::empty(limits, balance))
    }

    fn empty(limits: Limits, balance: Balance) -> Self {
        Self {
            dispatch: Dispatch::new(limits, balance),
            clients: Vec::new(),
            lanes: Vec::new(),
            devices: 0,
            nowhere: HashSet::new(),
        }
    }

    /// Makes the call, if it can be made. `None`: it names what is not there.
    pub(super) fn apply(&mut self, call: Call) -> Option<Decision> {
        if !self.is_possible(&call) {
            return None;
        }
        let kept = match &call {
            Call::AddDevice(_) => Kept::Device,
            Call::AddClient { .. } => Kept::Client,
            Call::AddLane(client, _) => Kept::Lane(*client),
            Call::Replace(_, ticket) => Kept::Moved(Some(*ticket)),
            Call::Place(..) => Kept::Moved(None),
            Call::Release(..) => Kept::Released,
            Call::RemoveClient(client) => Kept::ClientGone(*client),
            Call::CloseLane(lane) => Kept::LaneClosed(*lane),
            _ => Kept::Nothing,
        };
        let decision = apply(&mut self.dispatch, call);
        self.keep(kept, decision);
        Some(decision)
    }

    fn is_possible(&self, call: &Call) -> bool {
        match call {
            Call::AddLane(client, _) | Call::Refill(client) | Call::Idle(client) | Call::MayTake(client) => {
                self.lanes_of(*client).is_some()
            }
            Call::RemoveClient(client) => self.lanes_of(*client) == Some(0),
            Call::CloseLane(lane)
            | Call::SetNotify(lane, _)
            | Call::Refuse { lane, .. }
            | Call::Announce(_, lane)
            | Call::Due(_, lane) => self.is_open(*lane),
            Call::Place(_, work) => self.is_open(work.lane),
            Call::Observe { device, .. } | Call::Drain(device) | Call::Lose(device) | Call::Release(_, device) => {
                *device < self.devices
            }
            Call::Complete(ticket, _) => !self.nowhere.contains(&ticket.to_word()),
            // Only what a lost device had is given to others.
            Call::Replace(_, ticket) => {
                let state = self.dispatch.device_of(*ticket).map(|device| self.dispatch.device_state(device));
                state.is_none_or(|state| state == DeviceState::Gone)
            }
            Call::AddClient { .. }
            | Call::AddDevice(_)
            | Call::SetBalance(_)
            | Call::SetOrder(_)
            | Call::Reprice(_) => true,
        }
    }

    fn lanes_of(&self, client: ClientId) -> Option<u32> {
        *self.clients.get(client.0 as usize)?
    }

    fn is_open(&self, lane: LaneId) -> bool {
        self.lanes.get(lane.0 as usize).is_some_and(Option::is_some)
    }

    fn keep(&mut self, kept: Kept, decision: Decision) {
        let number = decision[0].checked_sub(1).map(|number| number as usize);
        match (kept, number) {
            (Kept::Client, Some(id)) => put(&mut self.clients, id, 0),
            (Kept::Lane(client), Some(id)) => {
                put(&mut self.lanes, id, client);
                self.count_lanes(client, 1);
            }
            (Kept::Device, Some(number)) => self.devices = self.devices.max(number + 1),
            (Kept::ClientGone(client), _) => self.clients[client.0 as usize] = None,
            (Kept::LaneClosed(lane), _) => {
                if let Some(client) = self.lanes[lane.0 as usize].take() {
                    self.count_lanes(client, -1);
                }
            }
            (Kept::Moved(old), _) => self.moved(old, decision),
            (Kept::Released, _) => {
                self.nowhere.remove(&decision[1]);
            }
            _ => {}
        }
    }

    fn count_lanes(&mut self, client: ClientId, more: i32) {
        if let Some(Some(lanes)) = self.clients.get_mut(client.0 as usize) {
            *lanes = lanes.saturating_add_signed(more);
        }
    }

    /// A request was placed, or had this ticket before. Some decisions give it one with which no device has it.
    fn moved(&mut self, old: Option<Ticket>, decision: Decision) {
        if let Some(old) = old {
            self.nowhere.remove(&old.to_word());
        }
        let waits = old.is_some() && decision[0] == WAIT;
        if waits || decision[0] & 0xff == KEPT_BACK {
            self.nowhere.insert(decision[1]);
        }
    }
}

/// What has to be kept in mind of a call.
#[derive(Clone, Copy, Debug)]
enum Kept {
    Nothing,
    Client,
    Lane(ClientId),
    Device,
    ClientGone(ClientId),
    LaneClosed(LaneId),
    Moved(Option<Ticket>),
    Released,
}

fn put<T: Clone>(table: &mut Vec<Option<T>>, index: usize, item: T) {
    if table.len() <= index {
        table.resize(index + 1, None);
    }
    table[index] = Some(item);
}
