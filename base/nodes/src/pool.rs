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
//! | [`NodePool::lose`], [`NodePool::started`], [`NodePool::next_reassignment`] | where the events of a lost node go |
//!
//! A failure says little by itself: the event or the node may be at fault. Another node decides. If the event fails
//! there too, it is the event's fault, and no node is charged. If it is done there, the node where it failed is charged,
//! and pauses after many charges. Until then a node at which everything fails gets one event at a time. Likewise for
//! the death of a node: each of its events is under suspicion only. Of an event under suspicion nodes say when they
//! begin with it, and a further death counts only then: what waits at a node does not kill it, and may be thousands of
//! events. The event that several dying nodes had begun with runs alone on its next one. So an innocent event that was
//! next to it is not abandoned with it.
//!
//! The caller has a clock, the network and the events' bytes, which it knows by their tags. Only durations cross
//! between machines, so that their clocks need not agree. Limits: [`MAX_NODES`] nodes, and [`Settings::in_flight`]
//! events with nodes.

mod node;
mod reassign;
#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;
use node::Node;
pub use node::{BeatOutcome, View};
pub use reassign::Reassignment;
use reassign::{Fate, ReassignQueue};
use sidecore_core::dispatch::{
    self, Capability, DeviceState, Dispatch, KeyLocation, LaneId, Limits, MAX_DEVICES, Work,
};
use sidecore_core::inflight::Ticket;
use sidecore_core::policy::balance::{Balance, Rates};
use sidecore_core::policy::notify::Notify;
use sidecore_core::session::{Class, Classes};
use sidecore_core::time::Nanos;

/// Nodes that a farm may have at a time.
pub const MAX_NODES: usize = MAX_DEVICES;
/// [`Settings::deaths`] unless an operator wants another number.
pub const DEATHS: u8 = 5;
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
    /// A node is lost after this time without a message, ns, or after four of its beats if that is longer; and later by
    /// four round trips to it, at most half a second.
    pub silence: Nanos,
    /// How long a message to a node may be under way before it counts as lost, ns; longer by the same round trips.
    pub grace: Nanos,
    /// Failures after which an event is abandoned, at least 1.
    pub tries: u8,
    /// Nodes that may die while they have an event, at least 4; from the second on they had begun with it, and the last
    /// three of them have no other event meanwhile. Then the event is abandoned.
    pub deaths: u8,
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
    /// The nodes with credit are not for this event: it failed there, or has to run alone. Others of its class may go
    /// there meanwhile.
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

/// What happened to an event so far.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    failures: u8,
    /// Nodes that died with it.
    deaths: u8,
    /// Its present node has begun with it.
    started: bool,
    /// The last node that did not do it.
    at: Option<NodeId>,
    returns: Option<Nanos>,
    verdict: Verdict,
}

/// Whose fault an event's failures are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Verdict {
    /// It did not fail.
    #[default]
    None,
    /// It failed at this node only.
    Open(NodeId),
    /// It failed at two nodes.
    Event,
}

/// A node kept free for an event that may have killed others. One at a time: such events are rare.
#[derive(Clone, Copy, Debug)]
struct Quarantine {
    node: NodeId,
    tag: u32,
}

/// The state machine. One for each dispatcher.
#[derive(Debug)]
pub struct NodePool {
    settings: Settings,
    dispatch: Dispatch,
    lane: LaneId,
    nodes: Vec<Node>,
    tried: Vec<Tried>,
    quarantine: Option<Quarantine>,
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
        let (nodes, reassign) = (Vec::with_capacity(MAX_NODES), ReassignQueue::new());
        Self { settings, dispatch, lane, nodes, tried, quarantine: None, reassign }
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

    /// A message of a node shows that the way there and back took `way` ns. Where that is long, messages may be late by
    /// some round trips before the node counts as lost.
    pub fn observe_round_trip(&mut self, now: Nanos, member: NodeId, way: Nanos) {
        if let Some(node) = self.node_mut(member) {
            node.observe_round_trip(now, way);
        }
    }

    /// How much longer than the settings say a node's messages may be under way, ns: some round trips to it.
    pub fn allowed_delay(&self, member: NodeId) -> Nanos {
        self.nodes.get(member.number()).filter(|node| node.member == member).map_or(0, Node::allowed_delay)
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
        if self.runs_alone(tag) {
            return self.place_alone(now, work);
        }
        // The last try goes to another node, if there is one.
        let Tried { at, returns, .. } = self.tried[tag as usize];
        let shunned = at.filter(|at| returns.is_none_or(|time| now < time) && self.has_other(*at, class));
        let untried = self.untried(class, shunned).and_then(|node| self.dispatch.place_on(now, node, work));
        let placed = match (untried, shunned) {
            (Some(given), _) => dispatch::Placement::Assigned(given),
            (None, Some(at)) => self.dispatch.place_not_on(now, at.number(), work),
            (None, None) => self.dispatch.place(now, work),
        };
        match placed {
            dispatch::Placement::Assigned(given) => {
                let member = self.nodes[given.device].member;
                self.gave(now, member);
                Placement::Assigned { member, ticket: given.ticket }
            }
            dispatch::Placement::NoDevice => Placement::NoNode,
            dispatch::Placement::Full
                if shunned.is_some() && self.dispatch.would_place(class, size, KeyLocation::LOCAL) =>
            {
                Placement::Avoided
            }
            dispatch::Placement::Full | dispatch::Placement::Now { .. } => Placement::Full,
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
        if let Verdict::Open(at) = self.tried[done.work.tag as usize].verdict {
            self.judge(at, |node| if at == from { node.acquit() } else { node.charge(now) });
        }
        self.forget(done.work.tag);
        self.refresh_withheld(from);
        self.reassign.retry(&mut self.dispatch, &self.nodes, now);
        Some(Answered { tag: done.work.tag, handed: done.handed, way })
    }

    /// An event failed at a node. `None`: as for [`NodePool::answered`].
    pub fn failed(&mut self, now: Nanos, from: NodeId, ticket: Ticket) -> Option<Failed> {
        let tag = self.take_back(now, from, ticket)?;
        match self.tried[tag as usize].verdict {
            Verdict::Open(at) if at == from => {}
            Verdict::Open(at) => {
                self.tried[tag as usize].verdict = Verdict::Event;
                self.judge(at, Node::acquit);
            }
            Verdict::Event => {}
            Verdict::None => {
                self.tried[tag as usize].verdict = Verdict::Open(from);
                self.judge(from, Node::suspect);
            }
        }
        if let Some(node) = self.node_mut(from) {
            node.failures += 1;
        }
        Some(self.count_try(now, tag, from))
    }

    /// A node has not what an event needs, and says nothing against the node or the event. It counts as a try. `None`:
    /// as for [`NodePool::answered`].
    pub fn declined(&mut self, now: Nanos, from: NodeId, ticket: Ticket) -> Option<Failed> {
        let tag = self.take_back(now, from, ticket)?;
        Some(self.count_try(now, tag, from))
    }

    /// A node cannot do an event that another may do, and is charged. This does not count as a try. Returns the tag of
    /// the event, to be placed again. `None`: as for [`NodePool::answered`].
    pub fn refused(&mut self, now: Nanos, from: NodeId, ticket: Ticket) -> Option<u32> {
        let tag = self.take_back(now, from, ticket)?;
        self.judge(from, |node| node.charge(now));
        let tried = &mut self.tried[tag as usize];
        (tried.at, tried.returns) = (Some(from), None);
        Some(tag)
    }

    /// The next node that is silent for too long, or has events and answers none. Give it to [`NodePool::lose`].
    pub fn silent(&mut self, now: Nanos) -> Option<NodeId> {
        for number in 0..self.nodes.len() {
            if self.nodes[number].resumes(now) {
                self.refresh_withheld(self.nodes[number].member);
            }
        }
        let stall = self.settings.stall;
        let has_events = |node: &Node| !self.is_idle(node.member.number());
        let is_stuck = |node: &Node| now.saturating_sub(node.progress) > stall && has_events(node);
        let lost = |node: &&Node| node.is_silent(now) || is_stuck(node);
        self.nodes.iter().filter(|node| node.present).find(lost).map(|node| node.member)
    }

    /// The time of the next check by [`NodePool::silent`].
    pub fn due(&self) -> Option<Nanos> {
        let next = |node: &Node| node.pause_ends().map_or(node.silent_at(), |at| at.min(node.silent_at()));
        self.nodes.iter().filter(|node| node.present).map(next).min()
    }

    /// Whether nodes have to report when they begin with this event: a node died with it.
    pub fn reports_start(&self, tag: u32) -> bool {
        self.tried[tag as usize].deaths > 0
    }

    /// A node reports that it begins with an event. Nothing changes if the ticket is void or of another node.
    pub fn started(&mut self, from: NodeId, ticket: Ticket) {
        if self.node(from).is_some() && self.is_with(from, ticket) {
            self.dispatch.tag_of(ticket).into_iter().for_each(|tag| self.tried[tag as usize].started = true);
        }
    }

    /// The caller did not run, or had no connection, for `away` ns before `now`. Only this time does not count as
    /// silence: a caller with repeated delays still loses dead nodes.
    pub fn was_away(&mut self, now: Nanos, away: Nanos) {
        for node in &mut self.nodes {
            node.was_away(now, away);
        }
    }

    /// A node is lost. It gets no more events, its answers do not count, and [`NodePool::next_reassignment`] reports where
    /// its events go. `died`: its process ended, as the caller knows; a silent node counts as dead anyway.
    ///
    /// An event is abandoned after [`Settings::deaths`]. Loss of a node with a recent message does not count
    /// against its events: the node lives, and a server of the network lost messages, often those of all nodes.
    pub fn lose(&mut self, now: Nanos, member: NodeId, died: bool) {
        let deaths = self.settings.deaths;
        let Some(node) = self.node_mut(member) else { return };
        let died = died || node.is_silent(now);
        node.present = false;
        if self.quarantine.is_some_and(|quarantine| quarantine.node == member) {
            self.quarantine = None;
        }
        self.dispatch.lose(member.number());
        let was_idle: Vec<bool> = (0..self.nodes.len()).map(|number| self.is_idle(number)).collect();
        let Self { tried, dispatch, nodes, reassign, .. } = self;
        reassign.lost(dispatch, nodes, member.number(), now, |tag| {
            let tried = &mut tried[tag as usize];
            let may_have_killed = tried.deaths == 0 || tried.started || Fate::after(tried.deaths, deaths) == Fate::Anew;
            tried.deaths = tried.deaths.saturating_add((died && may_have_killed).into());
            tried.started = false;
            let fate = Fate::after(tried.deaths, deaths);
            if fate == Fate::Abandoned {
                *tried = Tried::default();
            }
            fate
        });
        // Several events may have moved to a node that had none: it was idle until now, and is not stuck.
        for (number, was_idle) in was_idle.into_iter().enumerate() {
            if was_idle && !self.is_idle(number) {
                self.nodes[number].progress = now;
            }
        }
    }

    fn is_idle(&self, number: usize) -> bool {
        self.dispatch.device_load(number).in_flight == 0
    }

    /// An event of a lost node that has another node now, is to be placed anew, or was abandoned. Call it until
    /// `None` after [`NodePool::lose`], [`NodePool::join`], [`NodePool::answered`] and [`NodePool::failed`].
    pub fn next_reassignment(&mut self, now: Nanos) -> Option<Reassignment> {
        loop {
            match self.reassign.next()? {
                // Its new node was lost before this call: it moved again.
                Reassignment::Assigned { ticket, .. } if self.dispatch.latest(ticket) != Some(ticket) => {}
                moved => {
                    if let Reassignment::Assigned { member, .. } = moved {
                        self.gave(now, member);
                    }
                    return Some(moved);
                }
            }
        }
    }

    /// A node leaves: it gets no more events, and finishes those it has.
    pub fn leave(&mut self, member: NodeId) {
        if self.node_mut(member).is_some() {
            // An event that waits to be alone there needs another node.
            self.quarantine.take_if(|quarantine| quarantine.node == member);
            self.dispatch.drain(member.number());
        }
    }

    /// The caller abandoned an event that no node has: the next event of this tag begins anew.
    pub fn forget(&mut self, tag: u32) {
        self.tried[tag as usize] = Tried::default();
        if let Some(Quarantine { node, .. }) = self.quarantine.take_if(|quarantine| quarantine.tag == tag) {
            self.refresh_withheld(node);
        }
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
        let leaving = self.dispatch.device_state(member.number()) == DeviceState::Draining;
        Some(View::new(node, self.dispatch.device_load(member.number()), leaving))
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
            self.is_idle(*number) && !self.dispatch.knows(*number, class) && self.dispatch.can_take(*number, class)
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
        let tag = done.work.tag;
        self.tried[tag as usize].started = false;
        if let Some(Quarantine { node, .. }) = self.quarantine.take_if(|quarantine| quarantine.tag == tag) {
            // It has answered, so it kills no node.
            self.tried[tag as usize].deaths = 0;
            self.refresh_withheld(node);
        }
        self.refresh_withheld(from);
        self.reassign.retry(&mut self.dispatch, &self.nodes, now);
        Some(tag)
    }

    fn count_try(&mut self, now: Nanos, tag: u32, from: NodeId) -> Failed {
        let most = self.settings.tries;
        let event = &mut self.tried[tag as usize];
        event.failures = event.failures.saturating_add(1);
        let tries = event.failures;
        if tries < most {
            event.at = Some(from);
            event.returns = (tries + 1 < most).then(|| now.saturating_add(RETURN));
            return Failed::Again { tag };
        }
        *event = Tried::default();
        Failed::Dead { tag, tries }
    }

    fn judge(&mut self, member: NodeId, verdict: impl FnOnce(&mut Node)) {
        if let Some(node) = self.node_mut(member) {
            verdict(node);
            self.refresh_withheld(member);
        }
    }

    /// Lets a node have events or none, after a change of what decides that.
    fn refresh_withheld(&mut self, member: NodeId) {
        let reserved = self.quarantine.is_some_and(|quarantine| quarantine.node == member);
        let number = member.number();
        let has_events = !self.is_idle(number);
        let Some(node) = self.node_mut(member) else { return };
        let withheld = reserved || node.is_paused() || (node.is_suspect() && has_events);
        if withheld != node.withheld {
            node.withheld = withheld;
            self.dispatch.set_paused(number, withheld);
        }
    }

    fn gave(&mut self, now: Nanos, member: NodeId) {
        let has_others = self.dispatch.device_load(member.number()).in_flight > 1;
        self.nodes[member.number()].gave(now, has_others);
        self.refresh_withheld(member);
    }

    /// Whether an event may be the one that killed its former nodes.
    fn runs_alone(&self, tag: u32) -> bool {
        Fate::after(self.tried[tag as usize].deaths, self.settings.deaths) == Fate::Anew
    }

    /// Gives an event to a node that has no other, or keeps the node with the fewest events free for it.
    fn place_alone(&mut self, now: Nanos, work: Work) -> Placement {
        let tag = work.tag;
        if self.quarantine.is_none() {
            let load = |node: &&Node| self.dispatch.device_load(node.member.number()).in_flight;
            let can = |node: &&Node| node.present && !node.is_paused() && node.offers(&self.dispatch, work.class);
            let Some(node) = self.nodes.iter().filter(can).min_by_key(load).map(|node| node.member) else {
                let any = self.nodes.iter().any(|node| node.present && node.offers(&self.dispatch, work.class));
                return if any { Placement::Avoided } else { Placement::NoNode };
            };
            self.quarantine = Some(Quarantine { node, tag });
            self.refresh_withheld(node);
        }
        let kept = self.quarantine.filter(|kept| kept.tag == tag).map(|kept| kept.node);
        let Some(node) = kept.filter(|node| self.dispatch.device_load(node.number()).in_flight == 0) else {
            return Placement::Avoided;
        };
        self.dispatch.set_paused(node.number(), false);
        let given = self.dispatch.place_on(now, node.number(), work);
        self.dispatch.set_paused(node.number(), true);
        let Some(given) = given else { return Placement::Avoided };
        self.gave(now, node);
        Placement::Assigned { member: node, ticket: given.ticket }
    }

    /// The node of an answer, which is counted as received. `None`: the node does not belong to the farm, or never
    /// had the event.
    fn answer_of(&mut self, now: Nanos, from: NodeId, ticket: Ticket) -> Option<&Node> {
        let is_its = self.is_with(from, ticket);
        let node = self.node_mut(from)?;
        node.answers += 1;
        node.progress = if is_its { now } else { node.progress };
        is_its.then_some(node)
    }

    fn is_with(&self, node: NodeId, ticket: Ticket) -> bool {
        self.dispatch.latest(ticket) == Some(ticket) && self.dispatch.device_of(ticket) == Some(node.number())
    }

    fn has_other(&self, than: NodeId, class: Class) -> bool {
        let other = |node: &Node| node.present && node.member != than && node.offers(&self.dispatch, class);
        self.node(than).is_some() && self.nodes.iter().any(other)
    }
}
