//! Room for lanes: at a user's limit, idle lanes of its processes are taken back for another one of them.
//!
//! So a server may have more workers than the limit on its user's processes, as long as not all of them work. A lane
//! is taken back only if its client permits that, the longest idle first, and only for a process of the same user: a
//! subordinate user takes none of its owner's. A
//! request sent at that moment is lost with its lane, and the client repeats it on another one. A
//! connection waits until the lane taken back is freed, or, where all lanes are in use, until one is idle.

use super::connection::Ending;
use super::state::{Listener, Work};
use super::waiting::{ROOM_INTERVAL_NS, Waiting};
use crate::control::{self, Reply, Request};
use crate::events;
use crate::service::command::{ClientKey, LaneKey};
use crate::service::quotas::{NoRoom, Short};
use sidecore_core::time::Nanos;
use sidecore_daemon::tenants::Tenant;
use sidecore_ipc::sys::clock;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsFd;

/// Time without a request after which a lane is idle, ns.
const IDLE: Nanos = 10_000_000;
const TAKEN_BACK: &str = "it was idle, and another process of this user needs a lane";

/// Lanes that can only be taken back together, and the time since when all of them are idle.
#[derive(Debug)]
struct Holder {
    lanes: Vec<LaneKey>,
    used_at: Nanos,
    reclaimable: bool,
}

impl Listener {
    pub(super) fn give_lane(&mut self, key: LaneKey, mut waiting: Waiting) -> io::Result<()> {
        if let Some(refusal) = Request::of_other_layout(waiting.attach.abi) {
            return self.reply(key, &Reply::Refused(refusal));
        }
        if let Err(reason) = self.beyond_limits(key, &waiting.attach) {
            return self.reply(key, &Reply::TooLarge(reason));
        }
        match self.attach(key, &waiting.attach) {
            Ok((reply, fds)) => self.reply_with(key, &reply, &fds.each_ref().map(AsFd::as_fd)),
            Err(NoRoom { short, why }) => {
                if !self.make_room(key, &mut waiting, short) {
                    return self.reply(key, &Reply::Refused(why));
                }
                if let Some(connection) = self.connections.get_mut(&key) {
                    connection.busy = true;
                    waiting.called = false;
                    self.queue.waiting.insert(key, waiting);
                }
                Ok(())
            }
        }
    }

    pub(super) fn attach_again(&mut self, key: LaneKey) {
        let Some(waiting) = self.queue.waiting.remove(&key) else { return };
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.busy = false;
        }
        let user = self.tenant(key);
        if self.give_lane(key, waiting).and_then(|()| self.listen_again(key)).is_err() {
            self.disconnect(key);
        }
        if self.queue.waiting.get(&key).is_some_and(Waiting::expects_room) {
            // Other lanes may be idle, for the next connection.
            self.call_next(user, |waiting| !waiting.expects_room());
        }
    }

    pub(super) fn room_for_next(&mut self, user: Tenant) {
        self.call_next(user, |_| true);
    }

    fn call_next(&mut self, user: Tenant, is_meant: impl Fn(&Waiting) -> bool) {
        let (connections, quotas) = (&self.connections, &self.quotas);
        let of_user =
            |key: &LaneKey| connections.get(key).is_some_and(|connection| quotas.tenant(connection.client) == user);
        let mut waiting = self.queue.waiting.iter_mut();
        if let Some((key, waiting)) =
            waiting.find(|(key, waiting)| !waiting.called && is_meant(waiting) && of_user(key))
        {
            waiting.called = true;
            self.turns.push(&user, Work::Attach(*key));
        }
    }

    /// Gives periodic turns to the first waiting connection of each user, since lanes become idle over time.
    /// Connections at the end of their wait get a turn to be refused.
    pub(super) fn look_for_room(&mut self) {
        let now = clock::now();
        if self.queue.is_empty() || now < self.queue.looked_at + ROOM_INTERVAL_NS {
            return;
        }
        self.queue.looked_at = now;
        let mut users = HashSet::new();
        for (key, waiting) in &mut self.queue.waiting {
            let Some(connection) = self.connections.get(key) else { continue };
            let user = self.quotas.tenant(connection.client);
            if (users.insert(user) || now >= waiting.until) && !waiting.called {
                waiting.called = true;
                self.turns.push(&user, Work::Attach(*key));
            }
        }
    }

    /// Takes back lanes for this connection. `false`: it should not wait.
    fn make_room(&mut self, key: LaneKey, waiting: &mut Waiting, short: Short) -> bool {
        let now = clock::now();
        if short == Short::Own || now >= waiting.until {
            return false;
        }
        waiting.taken_back.retain(|lane| self.ending.contains_key(lane));
        if waiting.expects_room() {
            return true;
        }
        let Some(client) = self.connections.get(&key).map(|connection| connection.client) else { return false };
        let holders = self.holders(client.0, short, now);
        let reclaimable = || holders.iter().filter(|holder| holder.reclaimable);
        let longest_idle =
            reclaimable().filter(|holder| holder.used_at + IDLE <= now).min_by_key(|holder| holder.used_at);
        for lane in longest_idle.into_iter().flat_map(|holder| &holder.lanes) {
            self.take_back(*lane);
            waiting.taken_back.push(*lane);
        }
        let tenant = self.quotas.tenant(client);
        let frees = |ending: &Ending| ending.has_lane() && self.quotas.tenant(ending.client) == tenant;
        reclaimable().next().is_some() || self.ending.values().any(frees)
    }

    fn holders(&mut self, user: u32, short: Short, now: Nanos) -> Vec<Holder> {
        let mut holders: HashMap<(ClientKey, Option<LaneKey>), Holder> = HashMap::new();
        for (key, connection) in self.connections.iter_mut().filter(|(_, connection)| connection.client.0 == user) {
            let Some(attached) = &mut connection.attached else { continue };
            let used_at = if connection.busy { now } else { attached.used_at(now) };
            let lane = (short == Short::Lanes).then_some(*key);
            let holder = holders.entry((connection.client, lane)).or_insert_with(|| Holder {
                lanes: Vec::new(),
                used_at,
                reclaimable: true,
            });
            holder.lanes.push(*key);
            holder.used_at = holder.used_at.max(used_at);
            holder.reclaimable &= attached.claim.reclaimable;
        }
        holders.into_values().collect()
    }

    fn take_back(&mut self, lane: LaneKey) {
        if let Some(connection) = self.connections.get(&lane) {
            // Only to send the reason; the connection ends in any case.
            let _ = control::send(&connection.socket, &Reply::Ended(TAKEN_BACK.to_owned()), &[]);
            let (uid, pid) = connection.client;
            events::lane_taken_back(uid, pid);
        }
        self.disconnect(lane);
    }
}
