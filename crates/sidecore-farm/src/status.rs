//! The state of a farm, published by its dispatcher four times a second and shown by `status`, `top` and `export`.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) farm: String,
    pub(crate) balance: String,
    /// Its id; a later one's is larger.
    pub(crate) dispatcher: u64,
    pub(crate) active: bool,
    pub(crate) connected: bool,
    /// Why it does not go on, as text; empty: it does.
    pub(crate) holds: String,
    /// Events in the events stream, and those of them that a dispatcher has; `null`: the server does not answer.
    pub(crate) queued: Option<u64>,
    pub(crate) unacknowledged: Option<u64>,
    /// Events that wait in the stream until they are due, as far as this dispatcher has met them.
    pub(crate) delayed: u64,
    /// Results committed in a second, over half a minute at most, and seconds until the queue is empty at that pace;
    /// `null`: it is not known.
    pub(crate) rate: f64,
    pub(crate) left_s: Option<f64>,
    pub(crate) held: u64,
    pub(crate) held_bytes: u64,
    pub(crate) waiting: u64,
    pub(crate) committing: u64,
    pub(crate) totals: Totals,
    pub(crate) nodes: Vec<Node>,
}

/// Since the dispatcher became active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Totals {
    pub(crate) seen: u64,
    pub(crate) committed: u64,
    /// Results that the stream already had, from another dispatcher or from a node taken for lost.
    pub(crate) already_committed: u64,
    /// Events that were assigned again because their node was lost or failed.
    pub(crate) redone: u64,
    /// Answers that came after their event was with another node, or done.
    pub(crate) late: u64,
    pub(crate) dead: u64,
    pub(crate) duplicates: u64,
    pub(crate) garbage: u64,
    /// Nodes that were refused because the dispatcher has its maximum.
    pub(crate) turned_away: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) state: NodeState,
    pub(crate) slots: u16,
    /// Work until it stops asking; below 0: it has more.
    pub(crate) credit_ns: i64,
    pub(crate) window_ns: u64,
    /// Round trip of an event and its answer, without the work.
    pub(crate) way_us: u64,
    pub(crate) in_flight: u32,
    pub(crate) rate: f64,
    /// From feeding to the answer, of the last event; by the clocks of the feeder and of the dispatcher.
    pub(crate) lag_ms: f64,
    pub(crate) done: u64,
    pub(crate) redone: u64,
    pub(crate) refused: u64,
    pub(crate) late: u64,
    pub(crate) failed: u64,
    pub(crate) stages: Stages,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum NodeState {
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
pub(crate) struct Stages {
    /// At the dispatcher and at the node, before work begins.
    pub(crate) queue: Quantiles,
    /// On the way to the node and back.
    pub(crate) network: Quantiles,
    pub(crate) work: Quantiles,
    /// From the answer's arrival until the result is committed.
    #[serde(rename = "return")]
    pub(crate) back: Quantiles,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Quantiles {
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
}
