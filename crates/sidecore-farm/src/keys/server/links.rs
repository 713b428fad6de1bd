//! What a key server and each gateway know of each other.
//!
//! A gateway says again and again whom it knows. A key server that is not among them joins, under a new number each time: so
//! that what was under way before is for nobody, whichever of the two, or NATS between them, was gone for a while.

use super::offered::Offered;
use super::workers::{Answered, Done};
use crate::keys::wire::{self, Answer, Asks, Letter, Presence, Up};
use crate::keys::{BEAT, HEADROOM, fresh};
use sidecore_client::gateway::MAX_RESULT;
use sidecore_core::time::Nanos;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most gateways of one key server.
const MOST: usize = 64;
/// A gateway that is silent for so long is forgotten, ns.
const SILENCE: Nanos = 2_000_000_000;
/// Joining is tried again after so long, ns.
const PATIENCE: Nanos = 10 * BEAT;

/// Where a request came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    gateway: Arc<str>,
    incarnation: u64,
}

/// A message for a gateway.
pub(super) struct Post {
    pub(super) gateway: Arc<str>,
    pub(super) body: Vec<u8>,
}

/// All gateways that are heard.
pub(super) struct Links {
    slots: u16,
    leaving: bool,
    by_name: BTreeMap<Arc<str>, Link>,
}

struct Link {
    number: u64,
    incarnation: u64,
    state: State,
    heard: Nanos,
    received: u64,
    answered: u64,
    answers: Vec<Said>,
    beat: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be asked to take this key server.
    New,
    /// It was asked then.
    Asked(Nanos),
    Joined,
    /// To be told that this key server leaves.
    Leaving,
    Left,
}

struct Said {
    ticket: u64,
    held_ns: Nanos,
    work_ns: Nanos,
    done: Done,
}

impl Links {
    pub(super) fn new(slots: u16) -> Self {
        Self { slots, leaving: false, by_name: BTreeMap::new() }
    }

    /// A gateway says that it is there.
    pub(super) fn meet(&mut self, now: Nanos, gateway: &str, presence: &Presence) {
        if !self.by_name.contains_key(gateway) && (self.leaving || self.by_name.len() >= MOST) {
            return;
        }
        let new = || Link::new(presence.gateway, now);
        let link = self.by_name.entry(gateway.into()).or_insert_with(new);
        // Two gateways of one name: the one that is known stays, as long as it is heard.
        if link.number != presence.gateway {
            if now.saturating_sub(link.heard) < PATIENCE || self.leaving {
                return;
            }
            *link = new();
        }
        link.heard = now;
        let known = presence.members.contains(&link.incarnation);
        match link.state {
            State::Asked(_) if known => link.state = State::Joined,
            State::Asked(at) if now.saturating_sub(at) > PATIENCE => link.state = State::New,
            State::Joined | State::Left if !known => *link = new(),
            _ => {}
        }
    }

    /// Requests of a gateway have come. `None`: they are for nobody.
    pub(super) fn received(&mut self, gateway: &str, asks: &Asks<'_>) -> Option<Origin> {
        let (name, link) = self.by_name.get_key_value(gateway)?;
        let origin = Origin { gateway: name.clone(), incarnation: link.incarnation };
        let link = self.link(&origin).filter(|link| link.number == asks.gateway)?;
        if link.incarnation != asks.incarnation {
            return None;
        }
        link.received += asks.list.len() as u64;
        Some(origin)
    }

    /// A request cannot be done here.
    pub(super) fn elsewhere(&mut self, origin: &Origin, ticket: u64) {
        if let Some(link) = self.link(origin) {
            link.answers.push(Said { ticket, held_ns: 0, work_ns: 0, done: Done::Elsewhere });
        }
    }

    /// A request is done.
    pub(super) fn answered(&mut self, now: Nanos, answered: Answered) {
        let Answered { origin, ticket, arrived, work_ns, done } = answered;
        if let Some(link) = self.link(&origin) {
            link.answers.push(Said { ticket, held_ns: now.saturating_sub(arrived), work_ns, done });
        }
    }

    /// Time to say that this key server is there.
    pub(super) fn beat(&mut self, now: Nanos) {
        self.by_name.retain(|_, link| now.saturating_sub(link.heard) < SILENCE);
        for link in self.by_name.values_mut() {
            link.beat = matches!(link.state, State::Asked(_) | State::Joined | State::Left);
        }
    }

    /// The keys are others. Gateways that know this key server are told that it leaves where there are none, so that what it
    /// has is still answered; else it joins anew.
    pub(super) fn keys_changed(&mut self, any: bool) {
        for link in self.by_name.values_mut().filter(|_| !self.leaving) {
            match link.state {
                State::Asked(_) | State::Joined if !any => link.state = State::Leaving,
                _ if any => *link = Link::new(link.number, link.heard),
                _ => {}
            }
        }
    }

    /// No more requests.
    pub(super) fn leave(&mut self) {
        self.leaving = true;
        for link in self.by_name.values_mut() {
            link.state = State::Leaving;
        }
    }

    /// What gateways are to be sent, in messages of at most so many bytes.
    pub(super) fn posts(&mut self, now: Nanos, offered: &Offered, max_payload: usize) -> Vec<Post> {
        let slots = self.slots;
        let most = (max_payload.saturating_sub(HEADROOM) / (MAX_RESULT + 64)).clamp(1, wire::MOST);
        let mut posts = Vec::new();
        for (gateway, link) in &mut self.by_name {
            let mut post = |link: &Link, up| {
                let letter = Letter { gateway: link.number, incarnation: link.incarnation, up };
                posts.push(Post { gateway: gateway.clone(), body: wire::encode(&letter) });
            };
            let offers = offered.offers();
            if link.state == State::New && !offers.is_empty() {
                link.state = State::Asked(now);
                post(link, Up::Join { slots, offers });
            }
            if link.state == State::Leaving {
                link.state = State::Left;
                post(link, Up::Leave);
            }
            let answers = std::mem::take(&mut link.answers);
            for list in answers.chunks(most) {
                link.answered += list.len() as u64;
                post(link, Up::Answers(list.iter().map(Said::answer).collect()));
            }
            if std::mem::take(&mut link.beat) {
                post(link, Up::Beat { received: link.received, answered: link.answered });
            }
        }
        posts
    }

    fn link(&mut self, origin: &Origin) -> Option<&mut Link> {
        self.by_name.get_mut(&origin.gateway).filter(|link| link.incarnation == origin.incarnation)
    }
}

impl Link {
    fn new(number: u64, now: Nanos) -> Self {
        // Without random bytes the clock has to do: a gateway of another number takes no notice of this one's.
        let incarnation = fresh().unwrap_or(now);
        let (answers, state) = (Vec::new(), State::New);
        Self { number, incarnation, state, heard: now, received: 0, answered: 0, answers, beat: false }
    }
}

impl Said {
    fn answer(&self) -> Answer<'_> {
        let (ticket, held_ns, work_ns) = (self.ticket, self.held_ns, self.work_ns);
        Answer { ticket, held_ns, work_ns, outcome: self.done.outcome() }
    }
}
