//! Requests for nodes: the waiting ones, and the ones at a node.
//!
//! [`NodePool`] decides. Here is the caller's data for each request, under a tag while it is held. A dispatcher
//! holds events, and a gateway holds requests on keys.

mod waiting;

use crate::{NodeId, NodePool, Placement, Settings};
use alloc::vec::Vec;
use sidecore_core::inflight::Ticket;
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;
use waiting::{PlaceOutcome, Waiting};

/// Urgent requests go first. Of eight that are placed while both wait, one is a normal one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// After urgent ones.
    #[default]
    Normal,
    /// Before normal ones.
    Urgent,
}

impl Priority {
    /// In the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Normal, Self::Urgent];
}

/// Requests that wait or are with a node, each with the caller's data `T`.
#[derive(Debug)]
pub struct Pending<T> {
    /// The nodes. Answers and losses of nodes go to it directly.
    pub pool: NodePool,
    /// By tag.
    held: Vec<Option<Held<T>>>,
    free: Vec<u32>,
    waiting: Waiting,
}

#[derive(Debug)]
struct Held<T> {
    class: Class,
    priority: Priority,
    waits: bool,
    request: T,
}

/// What [`Pending::place`] did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It goes to this node, under this name of the attempt.
    Assigned(NodeId, Ticket),
    /// No node can do it.
    NoNode,
}

impl<T> Pending<T> {
    /// No nodes and no requests, with room for [`Settings::in_flight`] of these.
    pub fn new(settings: Settings) -> Self {
        let most = settings.in_flight;
        Self {
            pool: NodePool::new(settings),
            held: (0..most).map(|_| None).collect(),
            free: (0..most).rev().collect(),
            waiting: Waiting::default(),
        }
    }

    /// How many more requests it can hold.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// How many requests it can hold at all; tags are below it.
    pub fn capacity(&self) -> usize {
        self.held.len()
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a request of this class waits that is neither passed over nor from a lost node.
    pub fn has_fresh(&self, class: Class) -> bool {
        self.waiting.has_fresh(class)
    }

    /// Adds a request, which waits behind those of its class and priority. Returns its tag.
    ///
    /// # Errors
    /// There is no room: the request comes back.
    pub fn add(&mut self, class: Class, priority: Priority, request: T) -> Result<u32, T> {
        let Some(tag) = self.free.pop() else { return Err(request) };
        self.held[tag as usize] = Some(Held { class, priority, waits: true, request });
        self.waiting.last(class, priority, tag);
        Ok(tag)
    }

    /// The data of the request under that tag.
    pub fn get(&self, tag: u32) -> Option<&T> {
        Some(&self.held.get(tag as usize)?.as_ref()?.request)
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, tag: u32) -> Option<&mut T> {
        Some(&mut self.held.get_mut(tag as usize)?.as_mut()?.request)
    }

    /// Its class.
    pub fn class(&self, tag: u32) -> Option<Class> {
        Some(self.held.get(tag as usize)?.as_ref()?.class)
    }

    /// All requests by tag; `None` for tags without one.
    pub fn slots(&self) -> impl Iterator<Item = Option<&T>> {
        self.held.iter().map(|held| held.as_ref().map(|held| &held.request))
    }

    /// Tags of the requests that wait and are so.
    pub fn waiting_tags(&self, is_so: impl Fn(&T) -> bool) -> impl Iterator<Item = u32> {
        let is_it = move |held: &&Option<Held<T>>| held.as_ref().is_some_and(|held| held.waits && is_so(&held.request));
        (0..).zip(&self.held).filter(move |(_, held)| is_it(held)).map(|(tag, _)| tag)
    }

    /// A request waits again after a node had it, before requests of its class without a node so far.
    pub fn again(&mut self, tag: u32) {
        if let Some(held) = self.held.get_mut(tag as usize).and_then(Option::as_mut) {
            held.waits = true;
            self.waiting.again(held.class, held.priority, tag);
        }
    }

    /// A request waits again from that time on, behind all of its class.
    pub fn again_later(&mut self, tag: u32, from: Nanos) {
        if let Some(held) = self.held.get_mut(tag as usize).and_then(Option::as_mut) {
            held.waits = true;
            self.waiting.later(held.class, held.priority, tag, from);
        }
    }

    /// Ends a request. No node may have it.
    pub fn remove(&mut self, tag: u32) -> Option<(Class, T)> {
        let Held { class, priority, waits, request } = self.held.get_mut(tag as usize)?.take()?;
        if waits {
            self.waiting.remove(class, priority, tag);
        }
        self.pool.forget(tag);
        self.free.push(tag);
        Some((class, request))
    }

    /// Tries to place the requests that wait; `only`: those of this class. `size`: octets of one, for estimates.
    /// `placed`: whether it waits on; the answer counts for [`Placed::NoNode`] only.
    pub fn place(
        &mut self,
        now: Nanos,
        only: Option<Class>,
        size: impl Fn(&T) -> usize,
        mut placed: impl FnMut(u32, Class, &mut T, Placed) -> bool,
    ) {
        let Self { pool, held, waiting, .. } = self;
        waiting.place(now, only, |class, tag| {
            let Some(Held { waits, request, .. }) = &mut held[tag as usize] else { return PlaceOutcome::Leaves };
            let size = u32::try_from(size(request)).unwrap_or(u32::MAX);
            let outcome = match pool.place(now, tag, class, size) {
                Placement::Assigned { member, ticket } => {
                    placed(tag, class, request, Placed::Assigned(member, ticket));
                    PlaceOutcome::Leaves
                }
                Placement::Avoided => PlaceOutcome::Passed,
                Placement::NoNode if !placed(tag, class, request, Placed::NoNode) => PlaceOutcome::Leaves,
                Placement::Full | Placement::NoNode => PlaceOutcome::Waits,
            };
            *waits = outcome != PlaceOutcome::Leaves;
            outcome
        });
    }
}
