//! The state of a farm, published by its dispatcher four times a second and shown by `status`, `top` and `export`.

use serde::{Deserialize, Serialize};

/// The state of a farm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Its name.
    pub farm: String,
    /// The policy by which nodes are chosen.
    pub balance: String,
    /// Its id; a later one's is larger.
    pub dispatcher: u64,
    /// It assigns events; otherwise it stands by.
    pub active: bool,
    /// It is connected to NATS.
    pub connected: bool,
    /// Why it does not go on, as text; empty: it does.
    pub holds: String,
    /// Events in the events stream, and those of them that a dispatcher has; `null`: the server does not answer.
    pub queued: Option<u64>,
    /// See `queued`.
    pub unacknowledged: Option<u64>,
    /// Events that wait in the stream until they are due, as far as this dispatcher has met them.
    pub delayed: u64,
    /// Results committed in a second, over half a minute at most, and seconds until the queue is empty at that pace;
    /// `null`: it is not known.
    pub rate: f64,
    /// See `rate`.
    pub left_s: Option<f64>,
    /// Events in the dispatcher and at nodes.
    pub held: u64,
    /// Octets of these.
    pub held_bytes: u64,
    /// Of these, events that wait for a node.
    pub waiting: u64,
    /// Results whose commit is not confirmed yet.
    pub committing: u64,
    /// Counts so far.
    pub totals: Totals,
    /// The nodes that have joined.
    pub nodes: Vec<Node>,
}

/// Since the dispatcher became active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Events that it received.
    pub seen: u64,
    /// Results that it committed.
    pub committed: u64,
    /// Results that the stream already had, from another dispatcher or from a node taken for lost.
    pub already_committed: u64,
    /// Events that were assigned again because their node was lost or failed.
    pub redone: u64,
    /// Answers that came after their event was with another node, or done.
    pub late: u64,
    /// Events that became dead letters.
    pub dead: u64,
    /// Events that it received once more while it had them.
    pub duplicates: u64,
    /// Messages under the nodes' subject that no node sends.
    pub garbage: u64,
    /// Nodes that were refused because the dispatcher has its maximum.
    pub turned_away: u64,
}

/// A node, as its dispatcher sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it gets.
    pub state: NodeState,
    /// Events that it does at a time.
    pub slots: u16,
    /// Work until it stops asking; below 0: it has more.
    pub credit_ns: i64,
    /// Work that it may have at a time, ns.
    pub window_ns: u64,
    /// Round trip of an event and its answer, without the work.
    pub way_us: u64,
    /// Events that it has.
    pub in_flight: u32,
    /// Events done in a second, since the last status.
    pub rate: f64,
    /// From feeding to the answer, of the last event; by the clocks of the feeder and of the dispatcher.
    pub lag_ms: f64,
    /// Events that it did.
    pub done: u64,
    /// Events that others got since it was lost.
    pub redone: u64,
    /// Events that it could not do.
    pub refused: u64,
    /// Answers that came too late to count.
    pub late: u64,
    /// Events that failed there.
    pub failed: u64,
    /// Times of its events.
    pub stages: Stages,
}

/// What a node gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// It receives events.
    #[default]
    Up,
    /// It receives one event at a time: everything failed there of late.
    Suspect,
    /// It receives no events for a while: others did what it could not do.
    Paused,
    /// It completes its events.
    Leaving,
}

/// Times of an event's stages. Their sum is the time from its arrival at the dispatcher until its result is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stages {
    /// At the dispatcher and at the node, before work begins.
    pub queue: Quantiles,
    /// On the way to the node and back.
    pub network: Quantiles,
    /// Of the work itself.
    pub work: Quantiles,
    /// From the answer's arrival until the result is committed.
    #[serde(rename = "return")]
    pub back: Quantiles,
}

/// Times of the last seconds, microseconds; 0: there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantiles {
    /// The median.
    pub p50_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
}
