//! The nodes of a dispatcher by name: core knows them by number.

use super::stages::Stages;
use sidecore_core::inflight::Ticket;
use sidecore_core::time::Nanos;
use sidecore_nodes::{MAX_NODES, NodeId};
use std::collections::VecDeque;
use std::rc::Rc;

/// Most lost nodes whose number of reassigned events is remembered.
const REMEMBERED: usize = 4 * MAX_NODES;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) member: NodeId,
    pub(super) name: Box<str>,
    pub(super) incarnation: u64,
    pub(super) subject: Rc<str>,
    given: Vec<(u32, Ticket)>,
    pub(super) stages: Stages,
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) refused: u64,
    pub(super) late: u64,
    /// Events that were reassigned because it was lost, since this dispatcher began.
    pub(super) redone: u64,
    pub(super) lag: Nanos,
    /// When its rate was last shown, and how many events it had done then.
    pub(super) shown: (Nanos, u64),
}

#[derive(Debug)]
pub(super) struct Nodes {
    down: String,
    by_number: Vec<Option<Node>>,
    given: Vec<usize>,
    lost: VecDeque<(Box<str>, u64)>,
}

impl Nodes {
    pub(super) fn new(farm: &str) -> Self {
        let by_number = (0..MAX_NODES).map(|_| None).collect();
        Self { down: format!("farm.{farm}.down"), by_number, given: Vec::new(), lost: VecDeque::new() }
    }

    pub(super) fn subject(&self, name: &str, incarnation: u64) -> Rc<str> {
        format!("{}.{name}.{incarnation}", self.down).into()
    }

    pub(super) fn add(&mut self, now: Nanos, member: NodeId, name: &str, incarnation: u64) -> Rc<str> {
        let subject = self.subject(name, incarnation);
        let lost = self.lost.iter().position(|(lost, _)| **lost == *name);
        let redone = lost.and_then(|index| self.lost.remove(index)).map_or(0, |(_, redone)| redone);
        let node = Node {
            member,
            name: name.into(),
            incarnation,
            subject: subject.clone(),
            given: Vec::new(),
            stages: Stages::new(now),
            done: 0,
            failed: 0,
            refused: 0,
            late: 0,
            redone,
            lag: 0,
            shown: (now, 0),
        };
        self.by_number[member.number()] = Some(node);
        subject
    }

    pub(super) fn remove(&mut self, member: NodeId, had: u32) -> Option<Node> {
        self.get_mut(member)?;
        let node = self.by_number[member.number()].take()?;
        self.lost.push_back((node.name.clone(), node.redone + u64::from(had)));
        self.lost.drain(..self.lost.len().saturating_sub(REMEMBERED));
        Some(node)
    }

    pub(super) fn get_mut(&mut self, member: NodeId) -> Option<&mut Node> {
        self.by_number[member.number()].as_mut().filter(|node| node.member == member)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.by_number.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.by_number.iter_mut().flatten()
    }

    pub(super) fn of(&mut self, incarnation: u64) -> Option<&mut Node> {
        self.iter_mut().find(|node| node.incarnation == incarnation)
    }

    pub(super) fn named(&self, name: &str) -> Option<&Node> {
        self.iter().find(|node| &*node.name == name)
    }

    pub(super) fn give(&mut self, member: NodeId, tag: u32, ticket: Ticket) {
        let number = member.number();
        let Some(node) = self.get_mut(member) else { return };
        node.given.push((tag, ticket));
        if node.given.len() == 1 {
            self.given.push(number);
        }
    }

    pub(super) fn each_given(&mut self, mut take: impl FnMut(&Rc<str>, &[(u32, Ticket)])) {
        for number in self.given.drain(..) {
            let Some(node) = &mut self.by_number[number] else { continue };
            take(&node.subject, &node.given);
            node.given.clear();
        }
    }
}
