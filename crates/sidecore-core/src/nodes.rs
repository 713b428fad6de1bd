//! Decides which node of a farm gets the next event, and where the events of a lost node go.
//!
//! A farm hands events to nodes on other machines, which do several at a time and answer. It is the sub-farm
//! controller of the `LHCb` experiment's data acquisition with core's policies. Under `tokens` a node is given work
//! while it has credit. Credit is counted in nanoseconds of expected work, since no number of events fits where their
//! sizes are mixed. [`Dispatch`] does everything else: a node is a device, an event a request, and a ticket names one
//! attempt at it. So the late answer of an abandoned node matches nothing.
//!
//! | Input | Decision |
//! |---|---|
//! | [`NodePool::place`] | the node for an event, or that it waits; a node without experience of its kind gets one to try |
//! | [`NodePool::answered`], [`NodePool::failed`] | whether an answer counts, and whether a failed event is tried again |
//! | [`NodePool::beat`], [`NodePool::silent`] | which node is lost: a silent one, or one that messages did not reach |
//! | [`NodePool::lose`], [`NodePool::next_reassignment`] | where the events of a lost node go |
//!
//! The caller has a clock, the network and the events' bytes, which it knows by their tags. Only durations cross
//! between machines, so that their clocks need not agree. Limits: [`MAX_NODES`] nodes, and [`Settings::in_flight`]
//! events with nodes.

mod node;
mod reassign;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::dispatch::{Capability, Dispatch, KeyLocation, LaneId, Limits, MAX_DEVICES, Work};
use crate::inflight::Ticket;
use crate::policy::balance::{Balance, Rates};
use crate::policy::notify::Notify;
use crate::session::{Class, Classes};
use crate::time::Nanos;
use alloc::vec;
use alloc::vec::Vec;
use node::Node;
pub use node::{BeatOutcome, View};
use reassign::ReassignQueue;
pub use reassign::Reassignment;

/// Nodes that a farm may have at a time.
pub const MAX_NODES: usize = MAX_DEVICES;
/// Expected time of an event of an unknown kind on a node, ns. Long enough that a node gets one such event, and the
/// next one after its answer.
const PRIOR: Nanos = 1_000_000_000;

/// Delay, ns, before an event returns to the node where it failed, as no other has room. Never for its last try.
const RETURN: Nanos = 10_000_000_000;
/// A node is lost after this number of missed beats.
const BEATS: Nanos = 4;

/// Parameters of a farm.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Which node gets the next event.
    pub balance: Balance,
    /// Most events with nodes at a time; tags are below it.
    pub in_flight: u32,
    /// Most events with one node.
    pub depth: u32,
    /// A node is lost after this time without a message, ns, or after four of its beats if that is longer.
    pub silence: Nanos,
    /// How long a message to a node may be under way before it counts as lost, ns.
    pub grace: Nanos,
    /// Failures after which an event is abandoned, at least 1.
    pub tries: u8,
    /// A node that has events and answers none for this time is lost, ns, even if it beats.
    pub stall: Nanos,
}

/// Name of one node for as long as it belongs to the farm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId {
    number: u8,
    generation: u32,
}

impl NodeId {
    /// Its number, below [`MAX_NODES`]; assigned to another node once this one is gone.
    pub fn number(self) -> usize {
        usize::from(self.number)
    }
}

/// Where an event goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// To this node, under this name.
    Assigned {
        /// The node.
        member: NodeId,
        /// Name of the attempt: the node's answer bears it.
        ticket: Ticket,
    },
    /// No node has credit or room: try again after an answer.
    Full,
    /// Only the node where this event failed has credit: others of its class may go there meanwhile.
    Avoided,
    /// No node can do it.
    NoNode,
}

/// An event that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The caller's name for it.
    pub tag: u32,
    /// Time of the handover to the node that did it, ns.
    pub handed: Nanos,
    /// How long it and its answer were under way, ns.
    pub way: Nanos,
}

/// The fate of an event that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Place it again.
    Again {
        /// The caller's name for it.
        tag: u32,
    },
    /// It failed as often as it may and is abandoned.
    Dead {
        /// The caller's name for it.
        tag: u32,
        /// How often it was tried.
        tries: u8,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    failures: u8,
    losses: u8,
    at: Option<NodeId>,
    returns: Option<Nanos>,
}

/// The state machine. One for each dispatcher.
#[derive(Debug)]
pub struct NodePool {
    settings: Settings,
    dispatch: Dispatch,
    lane: LaneId,
    nodes: Vec<Node>,
    tried: Vec<Tried>,
    reassign: ReassignQueue,
}

impl NodePool {
    /// A farm without nodes. Its tables are allocated here; joining allocates a node's rates.
    pub fn new(settings: Settings) -> Self {
        let limits = Limits { lanes: 1, clients: 1, in_flight: settings.in_flight, quantum: 0, deferred: 0 };
        let mut dispatch = Dispatch::new(limits, settings.balance);
        let lane = dispatch.add_client(1, u32::MAX).and_then(|client| dispatch.add_lane(client, Notify::Spin));
        let tried = vec![Tried::default(); settings.in_flight as usize];
        let lane = lane.expect("the tables have room for one");
        Self { settings, dispatch, lane, nodes: Vec::with_capacity(MAX_NODES), tried, reassign: ReassignQueue::new() }
    }

    /// A node joins that does `slots` events at a time (at least 1), of those kinds, and beats every `beat` ns. It is
    /// lost after four missed beats, but not before [`Settings::silence`]. `None`: all [`MAX_NODES`] numbers are
    /// taken.
    pub fn join(&mut self, now: Nanos, slots: u16, offers: Classes, beat: Nanos) -> Option<NodeId> {
        let depth = self.settings.depth;
        let rates = Rates::with_prior(PRIOR);
        let capability = Capability {
            classes: offers,
            immediate: false,
            remote_keys: false,
            depth,
            weight: slots.clamp(1, 1000).into(),
            rates,
        };
        let number = self.dispatch.add_device(capability)?;
        let generation = self.nodes.get(number).map_or(0, |node| node.member.generation.wrapping_add(1));
        let member = NodeId { number: number as u8, generation };
        let silence = beat.saturating_mul(BEATS).max(self.settings.silence);
        let node = Node::new(member, slots.max(1), silence, now);
        self.dispatch.set_window(number, node.window());
        match self.nodes.get_mut(number) {
            Some(place) => *place = node,
            None => self.nodes.push(node),
        }
        self.reassign.retry(&mut self.dispatch, &self.nodes, now);
        Some(member)
    }

    /// A node's beat, with its counts of received events and sent answers since it joined.
    pub fn beat(&mut self, now: Nanos, member: NodeId, received: u64, answered: u64) -> BeatOutcome {
        let grace = self.settings.grace;
        self.node_mut(member).map_or(BeatOutcome::Unknown, |node| node.beat(now, received, answered, grace))
    }

    /// Chooses the node for an event and counts it as handed over. An idle node without experience of this kind comes
    /// first: its prior alone would keep it idle until all others have a second of work. `tag` is the caller's name
    /// for the event, below [`Settings::in_flight`] and of no other event in progress.
    pub fn place(&mut self, now: Nanos, tag: u32, class: Class, size: u32) -> Placement {
        let work = Work {
            lane: self.lane,
            tag,
            class,
            size,
            key_location: KeyLocation::LOCAL,
            urgent: false,
            submitted: None,
        };
        // The last try goes to another node, if there is one.
        let Tried { at, returns, .. } = self.tried[tag as usize];
        let shunned = at.filter(|at| returns.is_none_or(|time| now < time) && self.has_other(*at, class));
        let untried = self.untried(class, shunned).and_then(|node| self.dispatch.place_on(now, node, work));
        let placed = match (untried, shunned) {
            (Some(given), _) => crate::dispatch::Placement::Assigned(given),
            (None, Some(at)) => self.dispatch.place_not_on(now, at.number(), work),
            (None, None) => self.dispatch.place(now, work),
        };
        match placed {
            crate::dispatch::Placement::Assigned(given) => {
                let has_others = self.dispatch.device_load(given.device).in_flight > 1;
                let node = &mut self.nodes[given.device];
                node.gave(now, has_others);
                Placement::Assigned { member: node.member, ticket: given.ticket }
            }
            crate::dispatch::Placement::NoDevice => Placement::NoNode,
            crate::dispatch::Placement::Full
                if shunned.is_some() && self.dispatch.would_place(class, size, KeyLocation::LOCAL) =>
            {
                Placement::Avoided
            }
            crate::dispatch::Placement::Full | crate::dispatch::Placement::Now { .. } => Placement::Full,
        }
    }

    /// A node did an event. `held` is its time on the node and `work` the time worked on it, both by the node's
    /// clock, ns. `None`: drop the answer. Its ticket is void or of another node, or the event was answered or moved
    /// before.
    pub fn answered(&mut self, now: Nanos, from: NodeId, ticket: Ticket, held: Nanos, work: Nanos) -> Option<Answered> {
        let node = self.answer_of(now, from, ticket)?;
        let took = work / Nanos::from(node.slots);
        let done = self.dispatch.complete(ticket, Some(took))?;
        let way = now.saturating_sub(done.handed).saturating_sub(held);
        let node = &mut self.nodes[from.number()];
        node.did(now, way, work);
        self.dispatch.set_window(from.number(), node.window());
        self.dispatch.announce(now, self.lane);
        self.tried[done.work.tag as usize] = Tried::default();
        self.reassign.retry(&mut self.dispatch, &self.nodes, now);
        Some(Answered { tag: done.work.tag, handed: done.handed, way })
    }

    /// A node could not do an event. `None`: as for [`NodePool::answered`].
    ///
    /// A node with many failures in a row is paused, longer each time. Failing is quick, so it would otherwise take
    /// the most events.
    pub fn failed(&mut self, now: Nanos, from: NodeId, ticket: Ticket) -> Option<Failed> {
        let tag = self.take_back(now, from, ticket)?;
        let event = &mut self.tried[tag as usize];
        event.failures = event.failures.saturating_add(1);
        let tries = event.failures;
        if tries < self.settings.tries {
            event.returns = (tries + 1 < self.settings.tries).then(|| now.saturating_add(RETURN));
            return Some(Failed::Again { tag });
        }
        self.tried[tag as usize] = Tried::default();
        Some(Failed::Dead { tag, tries })
    }

    /// A node does not do an event that another may do; this does not count as a try. Returns the tag of the event,
    /// to be placed again. `None`: as for [`NodePool::answered`]. A node that refuses many in a row is paused like one
    /// with many failures.
    pub fn refused(&mut self, now: Nanos, from: NodeId, ticket: Ticket) -> Option<u32> {
        self.take_back(now, from, ticket)
    }

    /// The next node that is silent for too long, or has events and answers none. Give it to [`NodePool::lose`].
    pub fn silent(&mut self, now: Nanos) -> Option<NodeId> {
        for node in &mut self.nodes {
            if node.resumes(now) {
                self.dispatch.set_paused(node.member.number(), false);
            }
        }
        let stall = self.settings.stall;
        let has_events = |node: &Node| self.dispatch.device_load(node.member.number()).in_flight > 0;
        let is_stuck = |node: &Node| now.saturating_sub(node.progress) > stall && has_events(node);
        let lost = |node: &&Node| node.is_silent(now) || is_stuck(node);
        self.nodes.iter().filter(|node| node.present).find(lost).map(|node| node.member)
    }

    /// The time of the next check by [`NodePool::silent`].
    pub fn due(&self) -> Option<Nanos> {
        let next = |node: &Node| node.pause_ends().map_or(node.silent_at(), |at| at.min(node.silent_at()));
        self.nodes.iter().filter(|node| node.present).map(next).min()
    }

    /// The caller did not run, or had no connection, for `away` ns before `now`. Only this time does not count as
    /// silence: a caller with repeated delays still loses dead nodes.
    pub fn was_away(&mut self, now: Nanos, away: Nanos) {
        for node in &mut self.nodes {
            node.was_away(now, away);
        }
    }

    /// A node is lost. It gets no more events, its answers do not count, and [`NodePool::next_reassignment`] reports where
    /// its events go.
    ///
    /// An event is abandoned after too many lost nodes. Loss of a node with a recent message does not count
    /// against its events: the node lives, and a server of the network lost messages, often those of all nodes.
    pub fn lose(&mut self, now: Nanos, member: NodeId) {
        let Some(node) = self.node_mut(member) else { return };
        let was_silent = node.is_silent(now);
        node.present = false;
        self.dispatch.lose(member.number());
        self.reassign.lost(&mut self.dispatch, &self.nodes, member.number(), now);
        for tag in self.reassign.take_lost().into_iter().filter(|_| was_silent) {
            self.tried[tag as usize].losses = self.tried[tag as usize].losses.saturating_add(1);
        }
    }

    /// An event of a lost node that has another node now, is to be placed anew, or was abandoned. Call it until
    /// `None` after [`NodePool::lose`], [`NodePool::join`], [`NodePool::answered`] and [`NodePool::failed`].
    pub fn next_reassignment(&mut self, now: Nanos) -> Option<Reassignment> {
        loop {
            match self.reassign.next()? {
                // Its new node was lost before this call: it moved again.
                Reassignment::Assigned { ticket, .. } if self.dispatch.latest(ticket) != Some(ticket) => {}
                Reassignment::Again { tag } if self.tried[tag as usize].losses > reassign::MAX_NODE_LOSSES => {
                    self.tried[tag as usize] = Tried::default();
                    return Some(Reassignment::Abandoned { tag });
                }
                moved => {
                    if let Reassignment::Assigned { member, .. } = moved {
                        let has_others = self.dispatch.device_load(member.number()).in_flight > 1;
                        self.nodes[member.number()].gave(now, has_others);
                    }
                    return Some(moved);
                }
            }
        }
    }

    /// A node leaves: it gets no more events, and finishes those it has.
    pub fn leave(&mut self, member: NodeId) {
        if self.node_mut(member).is_some() {
            self.dispatch.drain(member.number());
        }
    }

    /// The caller abandoned an event that no node has: the next event of this tag begins anew.
    pub fn forget(&mut self, tag: u32) {
        self.tried[tag as usize] = Tried::default();
    }

    /// Whether a node would take an event of some kind now.
    pub fn has_room(&self) -> bool {
        self.dispatch.has_room()
    }

    /// Changes which node gets the next event.
    pub fn set_balance(&mut self, balance: Balance) {
        self.dispatch.set_balance(balance);
    }

    /// Brings prices up to date. Cheap: call it often.
    pub fn reprice(&mut self, now: Nanos) {
        self.dispatch.reprice(now);
    }

    /// Events with nodes, and those of lost nodes that wait for another.
    pub fn in_flight(&self) -> usize {
        self.dispatch.total_in_flight()
    }

    /// State of a node for display. `None`: it does not belong to the farm any more.
    pub fn view(&self, member: NodeId) -> Option<View> {
        let node = self.node(member)?;
        Some(View::new(node, self.dispatch.device_load(member.number())))
    }

    /// The nodes of the farm.
    pub fn members(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().filter(|node| node.present).map(|node| node.member)
    }

    /// Expected work of an event on a node of the farm, ns.
    pub fn estimate(&self, member: NodeId, class: Class, size: u32) -> Option<Nanos> {
        let node = self.node(member)?;
        Some(self.dispatch.estimate(member.number(), class, size) * Nanos::from(node.slots))
    }

    fn untried(&self, class: Class, shunned: Option<NodeId>) -> Option<usize> {
        let is_fresh = |node: &&Node| node.present && !node.has_failed() && Some(node.member) != shunned;
        let fresh = self.nodes.iter().filter(is_fresh);
        fresh.map(|node| node.member.number()).find(|number| {
            let is_idle = self.dispatch.device_load(*number).in_flight == 0;
            is_idle && !self.dispatch.knows(*number, class) && self.dispatch.can_take(*number, class)
        })
    }

    fn node(&self, member: NodeId) -> Option<&Node> {
        self.nodes.get(member.number()).filter(|node| node.present && node.member == member)
    }

    fn node_mut(&mut self, member: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(member.number()).filter(|node| node.present && node.member == member)
    }

    fn take_back(&mut self, now: Nanos, from: NodeId, ticket: Ticket) -> Option<u32> {
        self.answer_of(now, from, ticket)?;
        let done = self.dispatch.complete(ticket, None)?;
        self.dispatch.announce(now, self.lane);
        if self.nodes[from.number()].failed(now) {
            self.dispatch.set_paused(from.number(), true);
        }
        let tried = &mut self.tried[done.work.tag as usize];
        (tried.at, tried.returns) = (Some(from), None);
        self.reassign.retry(&mut self.dispatch, &self.nodes, now);
        Some(done.work.tag)
    }

    /// The node of an answer, which is counted as received. `None`: the node does not belong to the farm, or never
    /// had the event.
    fn answer_of(&mut self, now: Nanos, from: NodeId, ticket: Ticket) -> Option<&Node> {
        let is_its =
            self.dispatch.latest(ticket) == Some(ticket) && self.dispatch.device_of(ticket) == Some(from.number());
        let node = self.node_mut(from)?;
        node.answers += 1;
        node.progress = if is_its { now } else { node.progress };
        is_its.then_some(node)
    }

    fn has_other(&self, than: NodeId, class: Class) -> bool {
        let other = |node: &Node| node.present && node.member != than && node.offers(&self.dispatch, class);
        self.node(than).is_some() && self.nodes.iter().any(other)
    }
}
