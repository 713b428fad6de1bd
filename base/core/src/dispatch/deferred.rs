//! Deferred requests: given to a device, and queued by least rank until the device can begin with them.
//!
//! Under `priced`, where a device has more requests than it holds, users are served in proportion to their weights: by
//! start-time fair queueing (Goyal, Vin and Cheng, "Start-time fair queueing", 1996). A request's rank is its begin if its
//! user had its part of the time alone: at the end of the user's last request on any device, or now. The rank of the
//! request that a device begins is "now" there. A user's time on other devices counts, or a user of one device would
//! get a part of that one only. It counts up to [`MAX_AHEAD_NS`].
//!
//! A rank is a place of the user and of no request: when its time has come, the request begins that has the least rank
//! among those of this user, which are counted by client in the same way.

use super::Dispatch;
use crate::inflight::{RequestState, Ticket};
use crate::time::Nanos;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Unit of a user's time, in parts of a nanosecond: a short request of a heavy user takes some, too.
const PARTS: Nanos = 16;

/// Limit of a rank ahead of the virtual time, ns of its share. It bounds the price of time on a device that
/// no other client wanted.
const MAX_AHEAD_NS: Nanos = 1_000_000_000;

/// Marks a free place.
const NOBODY: u32 = u32::MAX;

/// A deferred request: its user, its rank among the user's requests, and which came first.
#[derive(Clone, Copy, Debug)]
struct Place {
    user: u32,
    rank: Nanos,
    came: u64,
    ticket: Ticket,
}

#[derive(Debug)]
pub(super) struct DeferredQueue {
    /// Rank of the user, which came first, place.
    heap: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    places: Vec<Place>,
    came: u64,
    begun: Nanos,
}

/// The rank of a request of `cost` ns. `next`: the rank of the next one, if later than `begun`, the rank that began last.
/// The weight is at least 1.
fn fair(next: &mut Nanos, begun: Nanos, weight: u32, cost: Nanos) -> Nanos {
    let rank = (*next).clamp(begun, begun.saturating_add(MAX_AHEAD_NS * PARTS));
    let time = cost.saturating_mul(PARTS) / Nanos::from(weight);
    *next = rank.saturating_add(time.max(1));
    rank
}

impl DeferredQueue {
    pub(super) fn new(capacity: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(capacity), places: Vec::with_capacity(capacity), came: 0, begun: 0 }
    }

    pub(super) fn len(&self) -> u32 {
        self.heap.len() as u32
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The rank of a user's request of `cost` ns on the device.
    pub(super) fn rank(&self, next: &mut Nanos, weight: u32, cost: Nanos) -> Nanos {
        fair(next, self.begun, weight, cost)
    }

    /// `rank` is the user's, `own` the request's among those of its user.
    pub(super) fn push(&mut self, rank: Nanos, user: u32, own: Nanos, ticket: Ticket) {
        self.came += 1;
        let place = Place { user, rank: own, came: self.came, ticket };
        let free = if self.places.len() > self.heap.len() {
            self.places.iter().position(|place| place.user == NOBODY)
        } else {
            None
        };
        let at = free.unwrap_or_else(|| {
            self.places.push(place);
            self.places.len() - 1
        });
        self.places[at] = place;
        self.heap.push(Reverse((rank, self.came, at as u32)));
    }

    /// The next request, its user, and its rank among those of the user. `is_shared`: whether the user has several
    /// clients.
    pub(super) fn pop(&mut self, is_shared: impl Fn(u32) -> bool) -> Option<(Ticket, u32, Nanos)> {
        let Reverse((rank, _, at)) = self.heap.pop()?;
        self.begun = self.begun.max(rank);
        let (at, user) = (at as usize, self.places[at as usize].user);
        if is_shared(user) {
            let own = self.places.iter().enumerate().filter(|(_, place)| place.user == user);
            if let Some((first, _)) = own.min_by_key(|(_, place)| (place.rank, place.came)) {
                self.places.swap(at, first);
            }
        }
        let Place { rank, ticket, .. } = self.places[at];
        self.places[at].user = NOBODY;
        Some((ticket, user, rank))
    }

    /// The device died: its requests are found in the table.
    pub(super) fn clear(&mut self) {
        self.heap.clear();
        self.places.clear();
    }
}

impl Dispatch {
    /// The next deferred request for this device, if the device may begin one: the caller submits it. To be called after
    /// each completion, until it returns `None`.
    #[inline]
    pub fn release(&mut self, now: Nanos, device: usize) -> Option<Ticket> {
        if self.on_device(device) >= self.loads[device].depth {
            return None;
        }
        let users = &mut self.clients.users;
        let (ticket, user, rank) = self.devices[device].deferred.pop(|user| users[user].has_several_clients())?;
        let begun = &mut users[user].begun;
        *begun = rank.max(*begun);
        let entry = self.inflight.get_mut(ticket)?;
        (entry.state, entry.handed) = (RequestState::OnDevice, now);
        Some(ticket)
    }

    /// Whether the device may begin with a request that was just given to it. Otherwise the request is deferred.
    #[inline]
    pub(super) fn begins(&mut self, device: usize, ticket: Ticket) -> bool {
        let begins =
            self.loads[device].in_flight <= self.loads[device].depth && self.devices[device].deferred.is_empty();
        if !begins {
            self.defer(device, ticket);
        }
        begins
    }

    #[cold]
    fn defer(&mut self, device: usize, ticket: Ticket) {
        let Some(entry) = self.inflight.get_mut(ticket) else { return };
        let id = self.clients.lane(entry.work.lane).client;
        let place = self.clients.client(id).user;
        let (client, user) = self.clients.both_mut(id);
        let deferred = &mut self.devices[device].deferred;
        let rank = deferred.rank(&mut user.next, user.share.weight(), entry.cost);
        let own = fair(&mut client.next, user.begun, client.share.weight(), entry.cost);
        entry.state = RequestState::Deferred;
        deferred.push(rank, place, own, ticket);
    }
}
