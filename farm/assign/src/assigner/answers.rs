//! Messages of nodes.

use super::stages::Stage;
use super::{Assigner, End, OVER};
use crate::payload::Payload;
use crate::wire::{self, Answer, Answers, Beat, DispatcherMessage, Join, NodeMessage, Outcome};
use bytes::Bytes;
use sidecore_core::inflight::Ticket;
use sidecore_core::time::Nanos;
use sidecore_nodes::{Answered, BeatOutcome, Failed, MAX_NODES, NodeId};

/// The longest wait after a failure is that power of two times the first one.
const MAX_BACKOFF_DOUBLINGS: u32 = 7;
/// Most refusals by nodes before an event is abandoned.
const MAX_REFUSALS: u32 = 100;
/// Most messages that wait to be sent to nodes. Beyond it, answers to requests without events are dropped.
const MAX_REPLIES: usize = 1024;

impl<T> Assigner<T> {
    /// Takes a message of a node.
    pub fn hear(&mut self, now: Nanos, message: &Bytes) {
        match NodeMessage::decode(message) {
            Some(NodeMessage::Join(join)) => self.join(now, &join),
            Some(NodeMessage::Beat(beat)) => self.beat(now, &beat),
            Some(NodeMessage::Answers(answers)) => self.answers(now, &answers, message),
            Some(NodeMessage::Started { incarnation, tickets }) => self.started(incarnation, &tickets),
            Some(NodeMessage::Leave { node, incarnation }) => self.leave(node, incarnation),
            None => self.totals.garbage += 1,
        }
    }

    fn join(&mut self, now: Nanos, join: &Join) {
        if join.dispatcher != self.settings.dispatcher {
            return;
        }
        if self.nodes.of(join.incarnation).is_none() && !self.admit(now, join) {
            self.totals.turned_away += 1;
            return self.reply(join.node, join.incarnation, &DispatcherMessage::Full { most: MAX_NODES as u32 });
        }
        let welcome = DispatcherMessage::Welcome { dispatcher: join.dispatcher, incarnation: join.incarnation };
        self.reply(join.node, join.incarnation, &welcome);
    }

    /// `false`: there is no room for the node.
    fn admit(&mut self, now: Nanos, join: &Join) -> bool {
        // The node has restarted, and its events are lost.
        if let Some(former) = self.nodes.named(join.node).map(|node| node.member) {
            self.lose(now, former, true);
        }
        let offers = self.kinds.numbers(&join.offers);
        let Some(member) = self.held.pool.join(now, join.slots, offers, join.beat_ns) else { return false };
        self.nodes.add(now, member, join.node, join.incarnation);
        true
    }

    fn beat(&mut self, now: Nanos, beat: &Beat) {
        let Some(node) = self.nodes.of(beat.incarnation) else {
            return self.reply(beat.node, beat.incarnation, &DispatcherMessage::JoinAgain);
        };
        let member = node.member;
        if self.held.pool.beat(now, member, beat.received, beat.answered) != BeatOutcome::Fine {
            self.lose(now, member, false);
        }
    }

    fn leave(&mut self, name: &str, incarnation: u64) {
        if let Some(node) = self.nodes.of(incarnation).filter(|node| &*node.name == name) {
            self.held.pool.leave(node.member);
        }
    }

    fn started(&mut self, incarnation: u64, tickets: &[u64]) {
        let Some(member) = self.nodes.of(incarnation).map(|node| node.member) else { return };
        for ticket in tickets {
            self.held.pool.started(member, Ticket::from_word(*ticket));
        }
    }

    fn answers(&mut self, now: Nanos, answers: &Answers, message: &Bytes) {
        let Some(node) = self.nodes.of(answers.incarnation) else {
            self.totals.late += answers.list.len() as u64;
            return;
        };
        let member = node.member;
        for answer in &answers.list {
            if !self.answer(now, member, answer, message) {
                self.totals.late += 1;
                self.nodes.get_mut(member).into_iter().for_each(|node| node.late += 1);
            }
        }
    }

    /// Whether the answer counts: its ticket is one that this node has.
    fn answer(&mut self, now: Nanos, member: NodeId, answer: &Answer, message: &Bytes) -> bool {
        let ticket = Ticket::from_word(answer.ticket);
        match answer.outcome {
            Outcome::Done(body) | Outcome::DoneLarge(body) => {
                let body = Payload::new(message.slice_ref(body.0), matches!(answer.outcome, Outcome::DoneLarge(_)));
                let done = self.held.pool.answered(now, member, ticket, answer.held_ns, answer.work_ns);
                done.map(|done| self.done(now, member, &done, answer, body)).is_some()
            }
            Outcome::Failed { reason } => {
                let failed = self.held.pool.failed(now, member, ticket);
                failed.map(|failed| self.failed(now, member, failed, reason)).is_some()
            }
            Outcome::Refused { reason } => {
                let refused = self.held.pool.refused(now, member, ticket);
                refused.map(|tag| self.refused(now, member, tag, reason)).is_some()
            }
        }
    }

    fn done(&mut self, now: Nanos, member: NodeId, done: &Answered, answer: &Answer, body: Payload) {
        let arrived = self.held.get(done.tag).map_or(done.handed, |held| held.arrived);
        if let Some(node) = self.nodes.get_mut(member) {
            node.done += 1;
            let at_node = answer.held_ns - answer.work_ns;
            node.stages.record(Stage::Queue, done.handed.saturating_sub(arrived).saturating_add(at_node));
            node.stages.record(Stage::Network, done.way);
            node.stages.record(Stage::Work, answer.work_ns);
        }
        self.end_tag(now, done.tag, End::Done(body), Some(member));
    }

    fn failed(&mut self, now: Nanos, member: NodeId, failed: Failed, reason: &str) {
        self.nodes.get_mut(member).into_iter().for_each(|node| node.failed += 1);
        match failed {
            Failed::Again { tag } => {
                self.totals.redone += 1;
                let Some(held) = self.held.get_mut(tag) else { return };
                if held.event.is_over(now) {
                    let tries = u8::try_from(held.failures + 1).unwrap_or(u8::MAX);
                    return self.end_tag(now, tag, End::Dead { reason: format!("{OVER}: {reason}"), tries }, None);
                }
                let times = 1 << held.failures.min(MAX_BACKOFF_DOUBLINGS);
                held.failures += 1;
                let backoff = self.settings.backoff.saturating_mul(times);
                self.held.again_later(tag, now.saturating_add(backoff));
            }
            Failed::Dead { tag, tries } => {
                self.end_tag(now, tag, End::Dead { reason: reason.to_owned(), tries }, None);
            }
        }
    }

    fn refused(&mut self, now: Nanos, member: NodeId, tag: u32, reason: &str) {
        self.nodes.get_mut(member).into_iter().for_each(|node| node.refused += 1);
        let Some(held) = self.held.get_mut(tag) else { return };
        held.refusals += 1;
        if held.refusals > MAX_REFUSALS {
            let reason = format!("no node can do it: {reason}");
            return self.end_tag(now, tag, End::Dead { reason, tries: 0 }, None);
        }
        self.again(tag);
    }

    fn reply(&mut self, name: &str, incarnation: u64, down: &DispatcherMessage) {
        if self.messages.len() < MAX_REPLIES {
            let subject = self.nodes.subject(name, incarnation);
            self.messages.push_back((subject, wire::encode(down, 0)));
        }
    }
}
