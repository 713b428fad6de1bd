//! Events of lost nodes on their way to others.

use super::NodeId;
use super::node::Node;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use sidecore_core::dispatch::{Dispatch, Reassigned};
use sidecore_core::inflight::Ticket;
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;

/// The fate of an event whose node was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reassignment {
    /// It goes to another node, under a new name.
    Assigned {
        /// The caller's name for it.
        tag: u32,
        /// The node.
        member: NodeId,
        /// Name of the attempt.
        ticket: Ticket,
    },
    /// No node could take it: place it anew.
    Again {
        /// The caller's name for it.
        tag: u32,
    },
    /// Too many nodes were lost with it: it is abandoned.
    Abandoned {
        /// The caller's name for it.
        tag: u32,
    },
}

/// How many deaths alone prove that an event kills nodes. One does not: machines fail, and live nodes are silent on busy
/// ones.
const ALONE: u8 = 3;

/// What becomes of an event whose node was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Another node gets it at once.
    Elsewhere,
    /// It is placed anew, alone on a node.
    Anew,
    Abandoned,
}

impl Fate {
    /// Of an event with which so many nodes died, of at most `most`: at the last [`ALONE`] of them it was alone.
    pub(super) fn after(deaths: u8, most: u8) -> Self {
        if deaths >= most {
            return Self::Abandoned;
        }
        if deaths > 0 && deaths.saturating_add(ALONE) >= most { Self::Anew } else { Self::Elsewhere }
    }
}

#[derive(Debug)]
pub(super) struct ReassignQueue {
    moved: VecDeque<Reassignment>,
    waiting: Vec<VecDeque<Ticket>>,
    waits: usize,
}

impl ReassignQueue {
    pub(super) fn new() -> Self {
        let waiting = (0..Class::COUNT).map(|_| VecDeque::new()).collect();
        Self { moved: VecDeque::new(), waiting, waits: 0 }
    }

    pub(super) fn next(&mut self) -> Option<Reassignment> {
        self.moved.pop_front()
    }

    /// `fate` decides for each event of the node, by its tag.
    pub(super) fn lost(
        &mut self,
        dispatch: &mut Dispatch,
        nodes: &[Node],
        number: usize,
        now: Nanos,
        mut fate: impl FnMut(u32) -> Fate,
    ) {
        let mut from = 0;
        while let Some(ticket) = dispatch.next_orphan(number, from) {
            from = ticket.index() + 1;
            let Some((tag, class)) = dispatch.tag_of(ticket).zip(dispatch.class_of(ticket)) else { continue };
            match fate(tag) {
                Fate::Elsewhere => {
                    if let Some(waits) = self.reassign(dispatch, nodes, ticket, now) {
                        self.waiting[class.index()].push_back(waits);
                        self.waits += 1;
                    }
                }
                Fate::Anew => {
                    dispatch.complete(ticket, None);
                    self.moved.push_back(Reassignment::Again { tag });
                }
                Fate::Abandoned => {
                    dispatch.complete(ticket, None);
                    self.moved.push_back(Reassignment::Abandoned { tag });
                }
            }
        }
    }

    /// Tries to place the orphans. One without a node delays only its own class.
    pub(super) fn retry(&mut self, dispatch: &mut Dispatch, nodes: &[Node], now: Nanos) {
        if self.waits == 0 {
            return;
        }
        for class in 0..Class::COUNT {
            while let Some(ticket) = self.waiting[class].pop_front() {
                if let Some(waits) = self.reassign(dispatch, nodes, ticket, now) {
                    self.waiting[class].push_front(waits);
                    break;
                }
                self.waits -= 1;
            }
        }
    }

    fn reassign(&mut self, dispatch: &mut Dispatch, nodes: &[Node], ticket: Ticket, now: Nanos) -> Option<Ticket> {
        let tag = dispatch.tag_of(ticket)?;
        match dispatch.reassign(now, ticket)? {
            Reassigned::Wait(ticket) => return Some(ticket),
            Reassigned::Assigned(given) => {
                let member = nodes[given.device].member;
                self.moved.push_back(Reassignment::Assigned { tag, member, ticket: given.ticket });
            }
            // The caller has the event's bytes and keeps the event until a node joins.
            Reassigned::Abandoned(_) | Reassigned::Now(_) => self.moved.push_back(Reassignment::Again { tag }),
        }
        None
    }
}
