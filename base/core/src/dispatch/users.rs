//! Users as dispatch knows them: time is shared among users first, and each user's time among its clients.
//!
//! A user's share is refilled once in each round of the sidecore. Its clients have a round of their own within it, which
//! is over when all clients with waiting requests have used up their parts: then [`Users::next_turns`] begins the
//! next one, as long as the user is in credit. So a user gets no more time for having many clients, and a client with
//! many lanes gets no more than another client of its user.
//!
//! A user whose last client left keeps its place in the table. Otherwise a program that does one long request, ends and
//! comes again would never pay for it.

use crate::policy::admission::Share;
use crate::time::Nanos;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// A user of whom a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserShare {
    /// The host's name for the user; `None`: a user of this client alone.
    pub name: Option<u64>,
    /// Its weight among users.
    pub weight: u32,
}

/// Why a client with waiting requests may take none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Its user's share is used up for this number of rounds.
    Share(u64),
    /// Its own part of that share is used up.
    Part,
    /// Something that only a device can give: see [`Dispatch::waits_for_device`](super::Dispatch::waits_for_device).
    Room,
}

#[derive(Debug)]
pub(super) struct User {
    name: Option<u64>,
    pub(super) share: Share,
    clients: u32,
    /// The last round of the sidecore in which its share was refilled.
    round: u64,
    /// Number of the round of its clients.
    pub(super) turn: u64,
    /// Rounds of its clients until one of those that wait for the next one is in credit; 0: none waits.
    wanted: u64,
    /// Rank of its next deferred request, and the highest rank among its clients of one that began.
    pub(super) next: Nanos,
    pub(super) begun: Nanos,
}

impl User {
    /// The quantum of its clients. A client alone needs at least its user's refill, however heavy the user is.
    #[inline]
    pub(super) fn quantum(&self, quantum: Nanos) -> Nanos {
        quantum.saturating_mul(self.share.weight().into())
    }

    #[inline]
    pub(super) fn round(&self) -> u64 {
        self.round
    }

    pub(super) fn has_several_clients(&self) -> bool {
        self.clients > 1
    }

    #[inline]
    pub(super) fn begin_round(&mut self, round: u64, quantum: Nanos) -> bool {
        if self.round == round {
            return false;
        }
        let passed = round.saturating_sub(core::mem::replace(&mut self.round, round));
        self.share.refill_rounds(quantum, passed);
        if self.clients <= 1 {
            self.turn = self.turn.saturating_add(passed);
        }
        true
    }
}

/// The users of a dispatch, by their places.
#[derive(Debug)]
pub(super) struct Users {
    all: Vec<User>,
    limit: usize,
    /// Users with clients that wait for the next round within them.
    wanting: Vec<u32>,
    quantum: Nanos,
    /// The latest round.
    pub(super) round: u64,
}

impl Users {
    /// Half of the places are for users with a client, and as many for those who left.
    pub(super) fn new(clients: usize, quantum: Nanos) -> Self {
        let limit = 2 * clients.max(1);
        Self { all: Vec::with_capacity(limit), limit, wanting: Vec::with_capacity(limit), quantum, round: 0 }
    }

    /// One more client of this user. Returns the user's place.
    pub(super) fn enter(&mut self, UserShare { name, weight }: UserShare) -> u32 {
        let known = self.all.iter().position(|user| name.is_some() && user.name == name);
        let place = known.unwrap_or_else(|| {
            let new =
                User { name, share: Share::new(weight), clients: 0, round: 0, turn: 0, wanted: 0, next: 0, begun: 0 };
            let nobody = self.all.iter().position(|user| user.clients == 0 && user.name.is_none());
            let free = nobody.or_else(|| self.least_indebted().filter(|_| self.all.len() >= self.limit));
            if let Some(free) = free {
                self.wanting.retain(|user| *user as usize != free);
                self.all[free] = new;
                free
            } else {
                self.all.push(new);
                self.all.len() - 1
            }
        });
        let user = &mut self.all[place];
        user.share.set_weight(weight);
        user.clients += 1;
        place as u32
    }

    pub(super) fn leave(&mut self, user: u32) {
        self.all[user as usize].clients -= 1;
    }

    /// Of the users without a client, the one whose debt is paid first.
    fn least_indebted(&self) -> Option<usize> {
        let passed = |user: &User| self.round.saturating_sub(user.round);
        let owes = |user: &User| user.share.rounds_to_credit(self.quantum).saturating_sub(passed(user));
        let absent = self.all.iter().enumerate().filter(|(_, user)| user.clients == 0);
        absent.min_by_key(|(_, user)| owes(user)).map(|(place, _)| place)
    }

    /// A client of this user waits for the next round within it, and is in credit after so many.
    pub(super) fn want(&mut self, user: u32, rounds: u64) {
        let wanted = &mut self.all[user as usize].wanted;
        if *wanted == 0 {
            self.wanting.push(user);
        }
        *wanted = if *wanted == 0 { rounds } else { rounds.min(*wanted) };
    }

    #[inline]
    pub(super) fn is_any_wanted(&self) -> bool {
        !self.wanting.is_empty()
    }

    /// Begins the next round of clients where one waits for it and its user is in credit. Returns whether there is one.
    pub(super) fn next_turns(&mut self) -> bool {
        let mut any = false;
        for user in self.wanting.drain(..) {
            let user = &mut self.all[user as usize];
            let rounds = core::mem::take(&mut user.wanted);
            if user.share.may_take() {
                user.turn = user.turn.saturating_add(rounds);
                any = true;
            }
        }
        any
    }
}

impl Index<u32> for Users {
    type Output = User;

    #[inline]
    fn index(&self, user: u32) -> &User {
        &self.all[user as usize]
    }
}

impl IndexMut<u32> for Users {
    #[inline]
    fn index_mut(&mut self, user: u32) -> &mut User {
        &mut self.all[user as usize]
    }
}
