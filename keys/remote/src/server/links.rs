//! The mutual state of a key server and each gateway.
//!
//! A gateway repeats the list of key servers that it knows. A key server that is missing there joins under a new
//! number. Messages under an old number are ignored, whether the key server, the gateway, or NATS between them was
//! away.

use super::offered::Offered;
use super::workers::{Answered, Done, Origin};
use crate::wire::{self, Answer, Echo, MessageBody, Presence, ServerMessage};
use crate::{BEAT, DEPTH, HEADROOM, fresh};
use sidecore_client::gateway::{MAX_RESULT, Request};
use sidecore_core::time::Nanos;
use std::collections::BTreeMap;
use std::sync::Arc;

const MAX_GATEWAYS: usize = 64;
/// A gateway that is silent for this time is forgotten, ns.
const GATEWAY_TIMEOUT: Nanos = 2_000_000_000;
/// A gateway that sent a malformed message is ignored for this time, ns: reading them takes time from others.
const MUTE: Nanos = 1_000_000_000;
const JOIN_INTERVAL: Nanos = 10 * BEAT;

pub(super) struct Post {
    pub(super) gateway: Arc<str>,
    pub(super) body: Vec<u8>,
}

pub(super) struct Links {
    slots: u16,
    leaving: bool,
    by_name: BTreeMap<Arc<str>, Link>,
    renewed: Vec<Arc<str>>,
}

struct Link {
    number: u64,
    incarnation: u64,
    state: LinkState,
    heard: Nanos,
    /// Its clock at its last presence.
    presence_sent: Nanos,
    /// Its requests are dropped unread until then.
    mute_until: Nanos,
    received: u64,
    answered: u64,
    answers: Vec<QueuedReply>,
    beat: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkState {
    /// The next message asks the gateway to take this key server.
    New,
    Asked(Nanos),
    Joined,
    /// The next message announces the end of this key server.
    Leaving,
    Left,
}

struct QueuedReply {
    ticket: u64,
    held_ns: Nanos,
    work_ns: Nanos,
    done: Done,
}

impl Links {
    pub(super) fn new(slots: u16) -> Self {
        Self { slots, leaving: false, by_name: BTreeMap::new(), renewed: Vec::new() }
    }

    pub(super) fn meet(&mut self, now: Nanos, gateway: &str, presence: &Presence) {
        if !self.by_name.contains_key(gateway) && (self.leaving || self.by_name.len() >= MAX_GATEWAYS) {
            return;
        }
        let new = || Link::new(presence.gateway, now);
        let (link, renewed) = (self.by_name.entry(gateway.into()).or_insert_with(new), &mut self.renewed);
        // Of two gateways with one name the known one stays until it is silent.
        if link.number != presence.gateway {
            if now.saturating_sub(link.heard) < JOIN_INTERVAL || self.leaving {
                return;
            }
            link.renew(presence.gateway, now);
            renewed.push(gateway.into());
        }
        (link.heard, link.presence_sent) = (now, presence.sent);
        let known = presence.members.contains(&link.incarnation);
        match link.state {
            LinkState::Asked(_) if known => link.state = LinkState::Joined,
            LinkState::Asked(at) if now.saturating_sub(at) > JOIN_INTERVAL => link.state = LinkState::New,
            LinkState::Joined | LinkState::Left if !known => {
                link.renew(presence.gateway, now);
                renewed.push(gateway.into());
            }
            _ => {}
        }
    }

    /// Whether a gateway of that name may be one of this version: it is there, or there was no room for it.
    pub(super) fn may_know(&self, gateway: &str) -> bool {
        self.by_name.contains_key(gateway) || self.by_name.len() >= MAX_GATEWAYS
    }

    /// Reads and counts a gateway's requests on a key. `None`: not for this key server, or beyond the gateway's limit.
    /// Most of these are dropped unread: a flood is cheap for others.
    pub(super) fn receive<'a>(
        &mut self,
        now: Nanos,
        gateway: &str,
        payload: &'a [u8],
        key: &str,
    ) -> Option<(Origin, Vec<Request<'a>>)> {
        let name = self.by_name.get_key_value(gateway)?.0.clone();
        let link = self.by_name.get_mut(&name)?;
        let room = u64::from(DEPTH).checked_sub(link.received - link.answered).filter(|room| *room > 0)?;
        if now < link.mute_until {
            return None;
        }
        let Some(batch) = wire::request_batch(payload, key) else {
            link.mute_until = now.saturating_add(MUTE);
            return None;
        };
        let count = batch.list.len() as u64;
        if link.number != batch.gateway || link.incarnation != batch.incarnation || count > room {
            return None;
        }
        link.received += count;
        Some((Origin { gateway: name, incarnation: link.incarnation }, batch.list))
    }

    pub(super) fn elsewhere(&mut self, origin: &Origin, ticket: u64) {
        if let Some(link) = self.link(origin) {
            link.answers.push(QueuedReply { ticket, held_ns: 0, work_ns: 0, done: Done::Elsewhere });
        }
    }

    pub(super) fn answered(&mut self, now: Nanos, answered: Answered) {
        let Answered { origin, ticket, arrived, work_ns, done } = answered;
        if let Some(link) = self.link(&origin) {
            link.answers.push(QueuedReply { ticket, held_ns: now.saturating_sub(arrived), work_ns, done });
        }
    }

    pub(super) fn beat(&mut self, now: Nanos) {
        self.by_name.retain(|_, link| now.saturating_sub(link.heard) < GATEWAY_TIMEOUT);
        for link in self.by_name.values_mut() {
            link.beat = matches!(link.state, LinkState::Asked(_) | LinkState::Joined | LinkState::Left);
        }
    }

    /// The keys have changed. Without any key, gateways receive a message that this key server leaves, and still get
    /// open answers. Otherwise it joins again.
    pub(super) fn keys_changed(&mut self, any: bool) {
        for (gateway, link) in self.by_name.iter_mut().filter(|_| !self.leaving) {
            match link.state {
                LinkState::Asked(_) | LinkState::Joined if !any => link.state = LinkState::Leaving,
                _ if any => {
                    link.renew(link.number, link.heard);
                    self.renewed.push(gateway.clone());
                }
                _ => {}
            }
        }
    }

    /// Gateways that are new since the last call: answers to their earlier requests are obsolete.
    pub(super) fn take_renewed(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.renewed)
    }

    pub(super) fn leave(&mut self) {
        self.leaving = true;
        for link in self.by_name.values_mut() {
            link.state = LinkState::Leaving;
        }
    }

    pub(super) fn posts(&mut self, now: Nanos, offered: &Offered, max_payload: usize) -> Vec<Post> {
        let slots = self.slots;
        let most = (max_payload.saturating_sub(HEADROOM) / (MAX_RESULT + 64)).clamp(1, wire::MAX_LIST);
        let mut posts = Vec::new();
        for (gateway, link) in &mut self.by_name {
            let mut post = |link: &Link, body| {
                let echo = Echo { sent: link.presence_sent, held_ns: now.saturating_sub(link.heard) };
                let message = ServerMessage { gateway: link.number, incarnation: link.incarnation, echo, body };
                posts.push(Post { gateway: gateway.clone(), body: wire::encode(&message) });
            };
            let is_new = link.state == LinkState::New;
            let offers = if is_new { offered.offers(gateway) } else { Vec::new() };
            if !offers.is_empty() {
                link.state = LinkState::Asked(now);
                post(link, MessageBody::Join { slots, offers });
            }
            if link.state == LinkState::Leaving {
                link.state = LinkState::Left;
                post(link, MessageBody::Leave);
            }
            let answers = std::mem::take(&mut link.answers);
            for list in answers.chunks(most) {
                link.answered += list.len() as u64;
                post(link, MessageBody::Answers(list.iter().map(QueuedReply::answer).collect()));
            }
            if std::mem::take(&mut link.beat) {
                post(link, MessageBody::Beat { received: link.received, answered: link.answered });
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
        // Without random bytes the clock must do: other gateways ignore this number.
        let incarnation = fresh().unwrap_or(now);
        let (answers, state) = (Vec::new(), LinkState::New);
        Self {
            number,
            incarnation,
            state,
            heard: now,
            presence_sent: 0,
            mute_until: 0,
            received: 0,
            answered: 0,
            answers,
            beat: false,
        }
    }

    /// Starts again with a gateway of this name. A muted one stays muted.
    fn renew(&mut self, number: u64, heard: Nanos) {
        let (mute_until, presence_sent) = (self.mute_until, self.presence_sent);
        *self = Self { presence_sent, mute_until, ..Self::new(number, heard) };
    }
}

impl QueuedReply {
    fn answer(&self) -> Answer<'_> {
        let (ticket, held_ns, work_ns) = (self.ticket, self.held_ns, self.work_ns);
        Answer { ticket, held_ns, work_ns, outcome: self.done.outcome() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::RequestBatch;
    use sidecore_client::gateway::{Operation, Task};
    use sidecore_client::spec::Scheme;

    fn asks(links: &Links, gateway: &str, count: u64) -> Vec<u8> {
        let (scheme, operation, input) = (Scheme::Ed25519, Operation::Sign, &[7; 32]);
        let request =
            |ticket| Request { ticket, key: "www", task: Task::Open { scheme: scheme.clone(), operation }, input };
        let incarnation = links.by_name[gateway].incarnation;
        wire::encode(&RequestBatch { gateway: 1, incarnation, list: (0..count).map(request).collect() })
    }

    fn links(gateways: &[&str]) -> Links {
        let mut links = Links::new(2);
        for gateway in gateways {
            links.meet(0, gateway, &Presence { gateway: 1, members: Vec::new(), sent: 0 });
        }
        links
    }

    #[test]
    fn a_gateway_has_so_many_requests_here_and_no_more_until_some_are_answered() {
        let mut links = links(&["good", "bad"]);
        let payload = asks(&links, "bad", 100);
        let taken = (0..1000).filter_map(|_| links.receive(0, "bad", &payload, "www")).count();
        assert_eq!(taken, DEPTH as usize / 100);
        let good = asks(&links, "good", u64::from(DEPTH));
        let (origin, list) = links.receive(0, "good", &good, "www").unwrap();
        assert_eq!(list.len(), DEPTH as usize);
        assert!(links.receive(0, "good", &asks(&links, "good", 1), "www").is_none());
        links.elsewhere(&origin, 0);
        links.posts(0, &Offered::default(), 1 << 20);
        assert!(links.receive(0, "good", &asks(&links, "good", 2), "www").is_none());
        assert!(links.receive(0, "good", &asks(&links, "good", 1), "www").is_some());
    }

    #[test]
    fn what_is_no_message_mutes_its_gateway_for_a_while_and_no_other_one() {
        let mut links = links(&["good", "bad"]);
        let (good, bad) = (asks(&links, "good", 1), asks(&links, "bad", 1));
        assert!(links.receive(0, "bad", &bad, "another").is_none());
        links.keys_changed(true);
        assert_eq!(links.take_renewed().len(), 2, "what they asked before is done for nothing");
        let bad_again = asks(&links, "bad", 1);
        assert!(links.receive(MUTE - 1, "bad", &bad_again, "www").is_none(), "nor after it joined again");
        assert!(links.receive(MUTE, "bad", &bad_again, "www").is_some());
        assert!(links.receive(1, "good", &good, "www").is_none(), "of the time before");
        let good = asks(&links, "good", 1);
        assert!(links.receive(1, "good", &good, "www").is_some());
    }
}
