//! Users and clients that have used up their shares in the present round.
//!
//! Their other lanes are passed over without a look at their rings: a user may have a thousand of them. The table also
//! finds how many rounds would pass in which nobody may take anything, so that they are passed over as well.

use crate::dispatch::{Lack, Limits};
use crate::work::{ClientId, LaneId};
use alloc::vec;
use alloc::vec::Vec;

#[derive(Debug)]
pub(super) struct Spent {
    /// Client and user of each lane.
    owners: Vec<(ClientId, u32)>,
    /// By client and by user: the last round in which it had nothing left.
    clients: Vec<u64>,
    users: Vec<u64>,
    round: u64,
    any: bool,
    /// Rounds until one of those with requests waiting is in credit, at most; `None`: none waits for that.
    fewest: Option<u64>,
}

impl Spent {
    pub(super) fn new(limits: &Limits) -> Self {
        let clients = limits.clients as usize;
        Self {
            owners: Vec::with_capacity(limits.lanes as usize),
            clients: vec![0; clients],
            users: vec![0; 2 * clients.max(1)],
            round: 0,
            any: false,
            fewest: None,
        }
    }

    pub(super) fn enter(&mut self, lane: LaneId, client: ClientId, user: u32) {
        let lane = lane.0 as usize;
        if self.owners.len() <= lane {
            self.owners.resize(lane + 1, (client, user));
        }
        self.owners[lane] = (client, user);
    }

    /// Another round begins. Returns the number of rounds of shares that it stands for.
    #[inline]
    pub(super) fn begin(&mut self, round: u64) -> u64 {
        (self.round, self.any) = (round, false);
        self.fewest.take().unwrap_or(1)
    }

    /// Somebody is in credit: the next round of shares is the next one.
    #[inline]
    pub(super) fn someone_is_in_credit(&mut self) {
        self.fewest = Some(1);
    }

    /// A lane with requests waiting had no turn, or not all of its turn, because its client lacks this.
    pub(super) fn lacks(&mut self, lane: LaneId, lack: Lack) {
        let Some(&(client, user)) = self.owners.get(lane.0 as usize) else { return };
        let (table, place) = match lack {
            Lack::Share(rounds) => {
                self.fewest = Some(self.fewest.map_or(rounds, |fewest| fewest.min(rounds)));
                (&mut self.users, user as usize)
            }
            Lack::Part => (&mut self.clients, client.0 as usize),
            Lack::Room => return,
        };
        if let Some(round) = table.get_mut(place) {
            (*round, self.any) = (self.round, true);
        }
    }

    /// Whether the lane's client or user has nothing left in this round.
    #[inline]
    pub(super) fn has(&self, lane: LaneId) -> bool {
        self.any && self.is_marked(lane)
    }

    fn is_marked(&self, lane: LaneId) -> bool {
        let is_now = |table: &[u64], place: usize| table.get(place) == Some(&self.round);
        self.owners.get(lane.0 as usize).is_some_and(|(client, user)| {
            is_now(&self.users, *user as usize) || is_now(&self.clients, client.0 as usize)
        })
    }
}
