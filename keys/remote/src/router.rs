//! A gateway's decisions: the choice of a key server, and the requests of a lost one.
//!
//! [`NodePool`](sidecore_nodes::NodePool) chooses, with keys as kinds of events: a gateway knows at most
//! [`Class::COUNT`] keys at a time. Each request is answered once, by the first answer to its last attempt. It is
//! answered with [`Outcome::Elsewhere`] if its key has had no offer for a moment, if it failed at [`TRIES`] key servers,
//! or if its time is over. The caller passes messages and the time.

mod catalog;
mod pauses;
#[cfg(test)]
mod tests;

use crate::notes::{Notes, Reason};
use crate::wire::{self, Answer, Echo, MessageBody, Presence, RequestBatch, ServerMessage};
use crate::{DEPTH, HEADROOM, subjects};
use catalog::{KeyCatalog, OfferRefusal};
use pauses::Pauses;
use sidecore_client::gateway::{self, MAX_INPUT, Offer, Outcome, Request, Task, Tell};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::Balance;
use sidecore_core::session::{Class, Refusal};
use sidecore_core::time::Nanos;
use sidecore_nodes::pending::{Pending, Placed, Priority};
use sidecore_nodes::{BeatOutcome, Failed, NodeId, Reassignment};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// Failed key servers after which a request is abandoned.
const TRIES: u8 = 3;
/// A key server that has requests and answers none for this part of their time limit hangs: others still have time.
const STALL_PART: Nanos = 3;
/// Time after which a message under way to a key server counts as lost, ns.
const GRACE: Nanos = 200_000_000;
/// Most pairs of an expelled key server and its key.
const MAX_EXPELLED: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Its number. Messages to earlier gateways are not for it.
    pub(crate) number: u64,
    pub(crate) balance: Balance,
    pub(crate) depth: u32,
    /// Time limit of a request, ns.
    pub(crate) patience: Nanos,
    /// A key server that is silent for this time is lost, ns.
    pub(crate) silence: Nanos,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServiceMessage {
    Offer { key: Rc<str>, public: Rc<[u8]> },
    Withdraw(Rc<str>),
    Answer { ticket: u64, ended: Ended },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done(Vec<u8>),
    Refused(u8),
    Elsewhere,
}

/// For requests on a key that NATS does not let this gateway ask for.
const DENIED: Ended = Ended::Refused(Refusal::KeyDenied as u8);

impl ServiceMessage {
    pub(crate) fn tell(&self) -> Tell<'_> {
        match self {
            Self::Offer { key, public } => Tell::Offer(Offer { key, public }),
            Self::Withdraw(key) => Tell::Withdraw(key),
            Self::Answer { ticket, ended } => {
                let outcome = match ended {
                    Ended::Done(result) => Outcome::Done(result),
                    Ended::Refused(reason) => Outcome::Refused(*reason),
                    Ended::Elsewhere => Outcome::Elsewhere,
                };
                Tell::Answer(gateway::Answer { ticket: *ticket, outcome })
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) server: Rc<str>,
    pub(crate) key: Rc<str>,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug)]
struct Entry {
    ticket: u64,
    task: Task,
    input: Vec<u8>,
    /// The key server that has it, and its ticket. `None`: it waits for room.
    with: Option<(NodeId, Ticket)>,
    /// The service has no answer yet.
    open: bool,
}

#[derive(Debug)]
struct Unchecked {
    ticket: u64,
    server: Rc<str>,
    key: Rc<str>,
    /// It came sealed.
    is_relayed: bool,
}

#[derive(Debug)]
struct Server {
    name: Rc<str>,
    incarnation: u64,
    member: NodeId,
    /// When its last message came.
    heard: Nanos,
    offers: Vec<Class>,
    /// Keys that were another one than others offered before it.
    refused: Vec<Rc<str>>,
}

#[derive(Debug)]
pub(crate) struct KeyRouter {
    settings: Settings,
    servers: Vec<Server>,
    catalog: KeyCatalog,
    entries: Pending<Entry>,
    /// Deadlines: time, tag and the service's ticket.
    due: VecDeque<(Nanos, u32, u64)>,
    service_messages: VecDeque<ServiceMessage>,
    asks: Vec<(u32, NodeId, Ticket)>,
    notes: Notes,
    /// Keys that NATS does not let this gateway ask for. The service still counts them as offered, so requests fail
    /// with the reason.
    denied: BTreeSet<String>,
    /// Latest completed requests, until the service has checked the results.
    done: VecDeque<Unchecked>,
    /// Key servers and the key with wrong results. Their other keys stay in use.
    expelled: BTreeSet<(Rc<str>, Rc<str>)>,
    pauses: Pauses,
}

impl KeyRouter {
    pub(crate) fn new(settings: Settings) -> Self {
        // A request past its deadline keeps its place until its key server answers or is lost.
        let in_flight = settings.depth.saturating_mul(2).clamp(2, 1 << 16);
        let farm = sidecore_nodes::Settings {
            balance: settings.balance,
            in_flight,
            depth: DEPTH,
            silence: settings.silence,
            grace: GRACE,
            tries: TRIES,
            // Operations on keys kill no key server.
            deaths: u8::MAX,
            stall: settings.patience / STALL_PART,
        };
        Self {
            settings,
            servers: Vec::new(),
            catalog: KeyCatalog::new(),
            entries: Pending::new(farm),
            due: VecDeque::new(),
            service_messages: VecDeque::new(),
            asks: Vec::new(),
            notes: Notes::new(),
            denied: BTreeSet::new(),
            done: VecDeque::with_capacity(in_flight as usize),
            expelled: BTreeSet::new(),
            pauses: Pauses::default(),
        }
    }

    pub(crate) fn asked(&mut self, now: Nanos, request: &Request<'_>) {
        let ticket = request.ticket;
        if self.denied.contains(request.key) {
            return self.service_messages.push_back(ServiceMessage::Answer { ticket, ended: DENIED });
        }
        let has_room = self.entries.room() > 0;
        let Some(class) = has_room.then(|| self.catalog.request(request.key)).flatten() else {
            return self.service_messages.push_back(ServiceMessage::Answer { ticket, ended: Ended::Elsewhere });
        };
        let (task, input) = (request.task.clone(), request.input.to_vec());
        let entry = Entry { ticket, task, input, with: None, open: true };
        let is_behind = self.entries.has_fresh(class);
        let Ok(tag) = self.entries.add(class, Priority::Normal, entry) else { return };
        self.due.push_back((now.saturating_add(self.settings.patience), tag, ticket));
        // Requests that wait were tried when room last changed.
        if !is_behind {
            self.place(now, Some(class));
        }
    }

    pub(crate) fn heard(&mut self, now: Nanos, name: &str, message: &ServerMessage<'_>) {
        if message.gateway != self.settings.number || sidecore_nats::name(name).is_err() {
            return;
        }
        if let MessageBody::Join { slots, offers } = &message.body {
            return self.joined(now, name, message, *slots, offers);
        }
        let is_it = |server: &&mut Server| *server.name == *name && server.incarnation == message.incarnation;
        let Some(server) = self.servers.iter_mut().find(is_it) else { return };
        server.heard = now;
        let member = server.member;
        self.observe_round_trip(now, member, message.echo);
        match &message.body {
            MessageBody::Beat { received, answered } => match self.entries.pool.beat(now, member, *received, *answered)
            {
                BeatOutcome::Fine => {}
                BeatOutcome::Unknown => self.lose(now, member, "is not known any more"),
                BeatOutcome::Lossy => self.lose(now, member, "lost messages"),
            },
            MessageBody::Answers(list) => {
                for answer in list {
                    self.answered(now, member, answer);
                }
                self.end_pause(now, member);
            }
            MessageBody::Leave => self.leaves(now, member),
            MessageBody::Join { .. } => {}
        }
        self.settle(now);
    }

    pub(crate) fn denied(&mut self, now: Nanos, key: &str) {
        self.denied.insert(key.to_owned());
        let has = |server: &&Server| {
            server.offers.iter().any(|class| self.catalog.key(*class).is_some_and(|(name, _)| *name == *key))
        };
        // The key servers join again immediately, without this key. A new incarnation also avoids counting the denied
        // request as lost.
        let members: Vec<NodeId> = self.servers.iter().filter(has).map(|server| server.member).collect();
        for member in members {
            self.lose(now, member, "joins again, without a key that NATS does not let this gateway ask for");
        }
        self.catalog.expire(key);
        self.give_up_all(key, &DENIED);
    }

    /// Ends the requests on a key, those under way and those that wait.
    fn give_up_all(&mut self, key: &str, ended: &Ended) {
        for tag in 0..self.entries.capacity() as u32 {
            let Some(class) = self.entries.class(tag) else { continue };
            if self.catalog.key(class).is_some_and(|(name, _)| *name == *key) {
                self.give_up(tag, ended.clone());
            }
        }
    }

    /// The service reports a wrong result. Its key server gets no more requests on this key.
    pub(crate) fn wrong(&mut self, now: Nanos, ticket: u64) {
        let Some(at) = self.done.iter().position(|done| done.ticket == ticket) else { return };
        let Some(Unchecked { server, key, is_relayed, .. }) = self.done.remove(at) else { return };
        if is_relayed {
            return self.spoiled(now, &server);
        }
        let is_full = self.expelled.len() >= MAX_EXPELLED;
        if is_full || !self.expelled.insert((server.clone(), key.clone())) {
            return;
        }
        let what = format!(
            "answers for the key {key} with what that key has not made: it is not asked for it until this gateway starts again"
        );
        self.note(now, &server, Reason::Wrong, &what);
        let member = self.servers.iter().find(|known| known.name == server).map(|known| known.member);
        if let Some(member) = member {
            // It joins again immediately, without that key.
            self.remove(now, member);
        }
    }

    /// A sealed answer does not open. The key server may have changed it, or somebody behind it, so it is left out for a
    /// time only.
    fn spoiled(&mut self, now: Nanos, server: &Rc<str>) {
        let Some(member) = self.servers.iter().find(|known| known.name == *server).map(|known| known.member) else {
            return;
        };
        let pause = self.pauses.begin(now, server) / 1_000_000;
        let what = format!(
            "answered with what the service behind it has not sealed, or somebody between changed it: others are asked in its place for {pause} ms, as far as they have its keys"
        );
        self.note(now, server, Reason::Wrong, &what);
        self.remove(now, member);
    }

    /// The service says which public part its key of this name has, or that it has no such key.
    pub(crate) fn knows(&mut self, now: Nanos, key: &str, public: Option<&[u8]>) {
        let Some(another) = self.catalog.knows(key, public) else { return };
        let offers_it = |server: &&Server| server.offers.contains(&another);
        let wrong: Vec<NodeId> = self.servers.iter().filter(offers_it).map(|server| server.member).collect();
        for member in wrong {
            self.lose(
                now,
                member,
                &format!("offers {key} with another public part than the service on this machine has"),
            );
        }
        // They are for the former key: another one would answer them wrongly, and its key server would be expelled.
        self.give_up_all(key, &Ended::Elsewhere);
        // These join again immediately, with the right one.
        let kept_out = |server: &&Server| server.refused.iter().any(|refused| **refused == *key);
        let right: Vec<NodeId> = self.servers.iter().filter(kept_out).map(|server| server.member).collect();
        for member in right {
            self.remove(now, member);
        }
    }

    pub(crate) fn tick(&mut self, now: Nanos) {
        while let Some(member) = self.entries.pool.silent(now) {
            self.lose_silent(now, member);
        }
        while let Some((_, tag, ticket)) = self.due.front().copied().filter(|(at, ..)| *at <= now) {
            self.due.pop_front();
            self.too_late(tag, ticket);
        }
        while let Some((_, key)) = self.catalog.next_gone(now) {
            if !self.denied.contains(&*key) {
                self.service_messages.push_back(ServiceMessage::Withdraw(key));
            }
        }
        self.entries.pool.reprice(now);
        self.settle(now);
    }

    /// As [`NodePool::was_away`](sidecore_nodes::NodePool::was_away).
    pub(crate) fn was_away(&mut self, now: Nanos, away: Nanos) {
        self.entries.pool.was_away(now, away);
    }

    pub(crate) fn service_messages(&mut self) -> &mut VecDeque<ServiceMessage> {
        &mut self.service_messages
    }

    pub(crate) fn notes(&mut self) -> &mut Notes {
        &mut self.notes
    }

    pub(crate) fn presence(&self, now: Nanos) -> Presence {
        let members = self.servers.iter().map(|server| server.incarnation).collect();
        Presence { gateway: self.settings.number, members, sent: now }
    }

    /// Requests to publish, in messages of at most `max_payload` bytes. Requests for one key of one key server share a
    /// message.
    pub(crate) fn outgoing(&mut self, max_payload: usize) -> Vec<Outgoing> {
        let mut asks = std::mem::take(&mut self.asks);
        asks.retain(|(tag, member, ticket)| {
            self.entries.get(*tag).is_some_and(|entry| entry.with == Some((*member, *ticket)))
        });
        let class = |tag: u32| self.entries.class(tag).map(Class::index);
        asks.sort_by_key(|(tag, member, _)| (member.number(), class(*tag)));
        let together = asks.chunk_by(|one, other| one.1 == other.1 && class(one.0) == class(other.0));
        let most = (max_payload.saturating_sub(HEADROOM) / (MAX_INPUT + HEADROOM)).clamp(1, wire::MAX_LIST);
        together.flat_map(|list| list.chunks(most)).filter_map(|list| self.message(list)).collect()
    }

    fn message(&self, list: &[(u32, NodeId, Ticket)]) -> Option<Outgoing> {
        let (tag, member, _) = *list.first()?;
        let server = self.servers.iter().find(|server| server.member == member)?;
        let (key, _) = self.catalog.key(self.entries.class(tag)?)?;
        let request = |(tag, _, ticket): &(u32, NodeId, Ticket)| {
            let entry = self.entries.get(*tag)?;
            Some(Request { ticket: ticket.to_word(), key: &key, task: entry.task.clone(), input: &entry.input })
        };
        let list = list.iter().filter_map(request).collect();
        let batch = RequestBatch { gateway: self.settings.number, incarnation: server.incarnation, list };
        let body = wire::encode(&batch);
        Some(Outgoing { server: server.name.clone(), key: key.clone(), body })
    }

    fn observe_round_trip(&mut self, now: Nanos, member: NodeId, echo: Echo) {
        if let Some(way) = echo.way(now) {
            self.entries.pool.observe_round_trip(now, member, way);
        }
    }

    fn joined(&mut self, now: Nanos, name: &str, message: &ServerMessage<'_>, slots: u16, offers: &[Offer<'_>]) {
        let incarnation = message.incarnation;
        if let Some(server) = self.servers.iter().find(|server| *server.name == *name) {
            if server.incarnation == incarnation {
                return;
            }
            // The key server has restarted, or its keys have changed.
            self.lose(now, server.member, "joins again");
        }
        if self.is_left_out(now, name, offers) {
            return;
        }
        let slots = if self.pauses.is_doubted(name) { 1 } else { slots };
        let name: Rc<str> = name.into();
        let mut refused = Vec::new();
        let classes: Vec<Class> =
            offers.iter().filter_map(|offer| self.offered(now, &name, offer, &mut refused)).collect();
        let member =
            (!classes.is_empty()).then(|| self.entries.pool.join(now, slots, classes.iter().copied().collect(), 0));
        match member {
            Some(Some(member)) => {
                self.observe_round_trip(now, member, message.echo);
                self.note(now, &name, Reason::Joined, &format!("offers {} keys", classes.len()));
                self.servers.push(Server { name, incarnation, member, heard: now, offers: classes, refused });
            }
            Some(None) => {
                self.withdraw(now, &classes, 0);
                self.note(now, &name, Reason::Offer, "is one too many: a farm has at most 64 key servers at a time");
            }
            None => self.note(now, &name, Reason::Offer, "offers no key"),
        }
        self.settle(now);
    }

    fn offered(
        &mut self,
        now: Nanos,
        server: &Rc<str>,
        offer: &Offer<'_>,
        refused: &mut Vec<Rc<str>>,
    ) -> Option<Class> {
        let key = offer.key;
        if self.denied.contains(key) || self.expelled.contains(&(server.clone(), key.into())) {
            return None;
        }
        if !subjects::fits(key) {
            let what = format!("offers a key {key:?}, which cannot be part of a subject of NATS");
            self.note(now, server, Reason::Offer, &what);
            return None;
        }
        match self.catalog.offer(offer) {
            Ok((class, first)) => {
                if let Some((key, public)) = self.catalog.key(class).filter(|_| first) {
                    self.service_messages.push_back(ServiceMessage::Offer { key, public });
                }
                Some(class)
            }
            Err(OfferRefusal::Another) => {
                let what = format!("offers {key} with another public part than others: it is not asked for it");
                self.note(now, server, Reason::Offer, &what);
                refused.push(key.into());
                None
            }
            Err(OfferRefusal::Unknown) => {
                let what = format!(
                    "offers {key} with another public part than the service on this machine has: it is not asked for it"
                );
                self.note(now, server, Reason::Offer, &what);
                None
            }
            Err(OfferRefusal::TooMany) => {
                let most = Class::COUNT;
                let what = format!("offers {key}, but a gateway takes at most {most} keys: use --allow there");
                self.note(now, server, Reason::Offer, &what);
                None
            }
        }
    }

    fn leaves(&mut self, now: Nanos, member: NodeId) {
        self.entries.pool.leave(member);
        let server = self.servers.iter_mut().find(|server| server.member == member);
        let offers = server.map(|server| std::mem::take(&mut server.offers));
        self.withdraw(now, &offers.unwrap_or_default(), self.entries.pool.allowed_delay(member));
    }

    fn withdraw(&mut self, now: Nanos, classes: &[Class], delay: Nanos) {
        for class in classes {
            self.catalog.withdraw(now, *class, delay);
        }
    }

    fn lose(&mut self, now: Nanos, member: NodeId, why: &str) {
        if let Some(server) = self.servers.iter().find(|server| server.member == member) {
            let name = server.name.clone();
            self.note(now, &name, Reason::Lost, why);
        }
        self.remove(now, member);
    }

    /// It is lost: it says nothing, or it lives and answers nothing.
    fn lose_silent(&mut self, now: Nanos, member: NodeId) {
        let lives = |server: &&Server| now.saturating_sub(server.heard) < self.settings.silence;
        let name = self.servers.iter().filter(lives).find(|server| server.member == member).map(|server| &server.name);
        let Some(name) = name.cloned() else { return self.lose(now, member, "is silent") };
        let ms = |time: Nanos| time / 1_000_000;
        let (stall, pause) = (self.settings.patience / STALL_PART, self.pauses.begin(now, &name));
        let what = format!(
            "has requests and answers none for {} ms: others are asked in its place for {} ms, as far as they have its keys",
            ms(stall),
            ms(pause)
        );
        self.lose(now, member, &what);
    }

    /// The first answer after a pause: it joins again immediately, with all that it can do at a time.
    fn end_pause(&mut self, now: Nanos, member: NodeId) {
        let name = self.servers.iter().find(|server| server.member == member).map(|server| server.name.clone());
        if name.is_some_and(|name| self.pauses.end(&name)) {
            self.remove(now, member);
        }
    }

    /// Whether it is left out for now: it hung, and others have all that it offers.
    fn is_left_out(&self, now: Nanos, name: &str, offers: &[Offer<'_>]) -> bool {
        !self.pauses.is_over(now, name) && offers.iter().all(|offer| self.catalog.is_offered(offer.key))
    }

    fn remove(&mut self, now: Nanos, member: NodeId) {
        if let Some(place) = self.servers.iter().position(|server| server.member == member) {
            let server = self.servers.swap_remove(place);
            self.withdraw(now, &server.offers, self.entries.pool.allowed_delay(member));
        }
        self.entries.pool.lose(now, member, false);
        self.settle(now);
    }

    fn answered(&mut self, now: Nanos, member: NodeId, answer: &Answer<'_>) {
        let ticket = Ticket::from_word(answer.ticket);
        let ended = match answer.outcome {
            Outcome::Done(result) => Ended::Done(result.to_vec()),
            // Only the service decides about permissions.
            Outcome::Refused(_) if answer.outcome.refusal() == Some(Refusal::KeyDenied) => {
                return self.declined(now, member, ticket);
            }
            Outcome::Refused(reason) => Ended::Refused(reason),
            Outcome::Elsewhere => return self.declined(now, member, ticket),
        };
        if let Some(done) = self.entries.pool.answered(now, member, ticket, answer.held_ns, answer.work_ns) {
            if matches!(ended, Ended::Done(_)) {
                self.remember(done.tag, member);
            }
            self.end(done.tag, ended);
        }
    }

    /// Notes the key server of a result. Unchecked results never outnumber requests in flight.
    fn remember(&mut self, tag: u32, member: NodeId) {
        let server = self.servers.iter().find(|server| server.member == member).map(|server| server.name.clone());
        let key = self.entries.class(tag).and_then(|class| self.catalog.key(class)).map(|(key, _)| key);
        let entry = self.entries.get(tag).map(|entry| (entry.ticket, entry.task == Task::Relay));
        if let (Some((ticket, is_relayed)), Some(server), Some(key)) = (entry, server, key) {
            if self.done.len() >= self.entries.capacity() {
                self.done.pop_front();
            }
            self.done.push_back(Unchecked { ticket, server, key, is_relayed });
        }
    }

    /// Another key server may have the key, or may use it. This one may have all others.
    fn declined(&mut self, now: Nanos, member: NodeId, ticket: Ticket) {
        match self.entries.pool.declined(now, member, ticket) {
            Some(Failed::Again { tag }) => self.again(tag),
            Some(Failed::Dead { tag, .. }) => self.end(tag, Ended::Elsewhere),
            // The attempt is void: another one counts.
            None => {}
        }
    }

    fn settle(&mut self, now: Nanos) {
        while let Some(moved) = self.entries.pool.next_reassignment(now) {
            match moved {
                Reassignment::Assigned { tag, member, ticket } => self.give(tag, member, ticket),
                Reassignment::Again { tag } => self.again(tag),
                Reassignment::Abandoned { tag } => self.end(tag, Ended::Elsewhere),
            }
        }
        self.place(now, None);
    }

    fn again(&mut self, tag: u32) {
        let Some(entry) = self.entries.get_mut(tag) else { return };
        entry.with = None;
        if entry.open {
            self.entries.again(tag);
        } else {
            self.close(tag);
        }
    }

    fn place(&mut self, now: Nanos, only: Option<Class>) {
        let Self { entries, catalog, asks, .. } = self;
        let mut abandoned = Vec::new();
        let size = |entry: &Entry| entry.input.len();
        entries.place(now, only, size, |tag, class, entry, placed| match placed {
            Placed::Assigned(member, ticket) => {
                entry.with = Some((member, ticket));
                asks.push((tag, member, ticket));
                false
            }
            Placed::NoNode => {
                let waits = catalog.lingers(class);
                abandoned.extend((!waits).then_some(tag));
                waits
            }
        });
        for tag in abandoned {
            self.end(tag, Ended::Elsewhere);
        }
    }

    fn give(&mut self, tag: u32, member: NodeId, ticket: Ticket) {
        if let Some(entry) = self.entries.get_mut(tag) {
            entry.with = Some((member, ticket));
            self.asks.push((tag, member, ticket));
        }
    }

    /// Answers a request past its deadline. Its key server may still answer, or is lost later.
    fn too_late(&mut self, tag: u32, ticket: u64) {
        if self.entries.get(tag).is_some_and(|entry| entry.ticket == ticket) {
            self.give_up(tag, Ended::Elsewhere);
        }
    }

    /// Answers the service. A request with a key server keeps its place until that server answers or is lost.
    fn give_up(&mut self, tag: u32, ended: Ended) {
        let Some(entry) = self.entries.get_mut(tag).filter(|entry| entry.open) else { return };
        let answer = ServiceMessage::Answer { ticket: entry.ticket, ended };
        entry.open = false;
        let is_waiting = entry.with.is_none();
        self.service_messages.push_back(answer);
        if is_waiting {
            self.close(tag);
        }
    }

    fn end(&mut self, tag: u32, ended: Ended) {
        if let Some(entry) = self.entries.get(tag).filter(|entry| entry.open) {
            self.service_messages.push_back(ServiceMessage::Answer { ticket: entry.ticket, ended });
        }
        self.close(tag);
    }

    fn close(&mut self, tag: u32) {
        if let Some((class, _)) = self.entries.remove(tag) {
            self.catalog.done(class);
        }
    }

    fn note(&mut self, now: Nanos, server: &str, reason: Reason, what: &str) {
        self.notes.note(now, server, reason, format!("the key server {server} {what}"));
    }
}
