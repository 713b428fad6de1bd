//! The state of the assigner, for display.

use super::Assigner;
use super::node::Node;
use crate::status::{self, NodeState, Status};
use sidecore_core::time::Nanos;
use sidecore_nodes::{NodePool, View};

impl<T> Assigner<T> {
    /// The state, as far as it is known here.
    pub fn show(&mut self, now: Nanos) -> Status {
        let Self { held, nodes, settings, .. } = self;
        Status {
            farm: settings.farm.clone(),
            balance: settings.balance.name().to_owned(),
            dispatcher: settings.dispatcher,
            held: (held.capacity() - held.room()) as u64,
            held_bytes: self.used.iter().map(|used| used.bytes as u64).sum(),
            waiting: held.waiting() as u64,
            totals: self.totals,
            nodes: nodes.iter_mut().filter_map(|node| show(now, &held.pool, node)).collect(),
            ..Status::default()
        }
    }
}

fn show(now: Nanos, farm: &NodePool, node: &mut Node) -> Option<status::Node> {
    let view = farm.view(node.member)?;
    let (since, done) = node.shown;
    let seconds = now.saturating_sub(since) as f64 / 1e9;
    node.shown = (now, node.done);
    Some(status::Node {
        name: node.name.to_string(),
        state: state(&view),
        slots: view.slots,
        credit_ns: view.credit,
        window_ns: view.window,
        way_us: view.way / 1000,
        in_flight: view.in_flight,
        rate: (node.done - done) as f64 / seconds.max(1e-9),
        lag_ms: node.lag as f64 / 1e6,
        done: node.done,
        redone: node.redone,
        refused: node.refused,
        late: node.late,
        failed: node.failed,
        stages: node.stages.show(now),
    })
}

fn state(view: &View) -> NodeState {
    match view {
        View { leaving: true, .. } => NodeState::Leaving,
        View { paused: true, .. } => NodeState::Paused,
        View { suspect: true, .. } => NodeState::Suspect,
        _ => NodeState::Up,
    }
}
