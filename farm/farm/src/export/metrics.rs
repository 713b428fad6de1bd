//! The exported metrics of a farm.

use crate::status::{Node, NodeState, Quantiles, Stages, Status};
use crate::status_watch::View;
use sidecore_terminal::metrics::{Family, Kind, Labels, Value, encode};

use Kind::{BytesLevel, Count, Level, TimeLevel};

const PREFIX: &str = "sidecore_farm";

type Row<T> = (&'static str, &'static str, Kind, fn(&T) -> f64);

const FARM: [Row<Status>; 15] = [
    ("connected", "Whether the dispatcher has a connection to JetStream: 1 or 0.", Level, |farm| flag(farm.connected)),
    (
        "delayed_events",
        "Events in the events stream that are not due yet, as far as the dispatcher has met them.",
        Level,
        |farm| farm.delayed as f64,
    ),
    ("held_up", "Whether the dispatcher does not go on, as where a stream is full: 1 or 0.", Level, |farm| {
        flag(!farm.holds.is_empty())
    }),
    ("held_events", "Events that wait for a node or are with one.", Level, |farm| farm.held as f64),
    ("held", "Bytes of these events.", BytesLevel, |farm| farm.held_bytes as f64),
    ("waiting_events", "Events that no node has yet.", Level, |farm| farm.waiting as f64),
    ("committing_results", "Results under way to the result stream.", Level, |farm| farm.committing as f64),
    ("events", "Events taken from the work queue.", Count, |farm| farm.totals.seen as f64),
    ("committed", "Results committed.", Count, |farm| farm.totals.committed as f64),
    ("committed_before", "Results that were in the stream already.", Count, |farm| {
        farm.totals.already_committed as f64
    }),
    ("redone", "Events handed out once more.", Count, |farm| farm.totals.redone as f64),
    ("late", "Answers that came when their event was another's or done.", Count, |farm| farm.totals.late as f64),
    ("dead", "Events that were given up.", Count, |farm| farm.totals.dead as f64),
    ("came_again", "Events that the work queue gave again.", Count, |farm| farm.totals.duplicates as f64),
    ("rubbish", "Messages that nobody of the farm sends.", Count, |farm| farm.totals.garbage as f64),
];

type Known = (&'static str, &'static str, fn(&Status) -> Option<u64>);

const QUEUE: [Known; 2] = [
    ("queued_events", "Events in the events stream, those handed out among them.", |farm| farm.queued),
    ("unacknowledged_events", "Events that the dispatcher took from the stream and has not acknowledged.", |farm| {
        farm.unacknowledged
    }),
];

const NODE: [Row<Node>; 12] = [
    ("node_up", "Whether the node gets events: 0 while it is paused or leaves.", Level, |node| {
        flag(matches!(node.state, NodeState::Up | NodeState::Suspect))
    }),
    ("node_slots", "Events that the node does at a time.", Level, |node| node.slots.into()),
    ("node_credit", "Work that the node still asks for; below 0 it has more.", TimeLevel, |node| {
        node.credit_ns as f64 / 1e9
    }),
    ("node_window", "Work that the node is to have.", TimeLevel, |node| node.window_ns as f64 / 1e9),
    ("node_way", "Time that an event and its answer take on their way.", TimeLevel, |node| node.way_us as f64 / 1e6),
    ("node_in_flight", "Events that the node has.", Level, |node| node.in_flight.into()),
    ("node_lag", "From being fed until the answer, of the last event, by two clocks.", TimeLevel, |node| {
        node.lag_ms / 1e3
    }),
    ("node_done", "Events that the node has done.", Count, |node| node.done as f64),
    ("node_redone", "Events that were taken from the node.", Count, |node| node.redone as f64),
    ("node_refused", "Events that the node could not do.", Count, |node| node.refused as f64),
    ("node_failed", "Events that failed at the node.", Count, |node| node.failed as f64),
    ("node_late", "Answers of the node that came too late.", Count, |node| node.late as f64),
];

type Stage = (&'static str, fn(&Stages) -> Quantiles);

const STAGES: [Stage; 4] = [
    ("queue", |stages| stages.queue),
    ("network", |stages| stages.network),
    ("work", |stages| stages.work),
    ("return", |stages| stages.back),
];

pub(super) fn page(view: &View) -> String {
    let others = Value::Decimal(view.standing_by as f64);
    let mut all = vec![
        Family::single(
            "up",
            "Whether a dispatcher hands out: 1 or 0.",
            Level,
            Value::Decimal(flag(view.active.is_some())),
        ),
        Family::single("standing_by", "Dispatchers that stand by.", Level, others),
    ];
    if let Some(status) = &view.active {
        all.extend(farm(status));
    }
    encode(PREFIX, all)
}

fn farm(status: &Status) -> Vec<Family> {
    let info = vec![("farm", status.farm.clone()), ("balance", status.balance.clone())];
    let help = "Always 1, labelled with the farm's name and policy.";
    let mut all = vec![Family::new("info", help, Level, [(info, Value::Decimal(1.0))])];
    let number = |(name, help, kind, of): &Row<Status>| Family::single(*name, help, *kind, Value::Decimal(of(status)));
    all.extend(FARM.iter().map(number));
    all.extend(QUEUE.iter().map(|(name, help, of)| {
        Family::new(*name, help, Level, of(status).map(|number| (Labels::new(), Value::Decimal(number as f64))))
    }));
    let turned_away = Value::Decimal(status.totals.turned_away as f64);
    all.push(Family::single("nodes_turned_away", "Nodes that found no room.", Count, turned_away));
    all.extend(NODE.iter().map(|(name, help, kind, of)| {
        Family::new(*name, help, *kind, status.nodes.iter().map(|node| (named(node), Value::Decimal(of(node)))))
    }));
    let help = "Time of events in each stage, of the last seconds.";
    all.push(Family::new("node_stage", help, TimeLevel, status.nodes.iter().flat_map(stages)));
    all
}

fn stages(node: &Node) -> impl Iterator<Item = (Labels, Value)> + '_ {
    STAGES.into_iter().flat_map(|(stage, of)| {
        let times = of(&node.stages);
        [("0.5", times.p50_us), ("0.99", times.p99_us)].map(|(quantile, micros)| {
            let mut labels = named(node);
            labels.extend([("stage", stage.to_owned()), ("quantile", quantile.to_owned())]);
            (labels, Value::Decimal(micros as f64 / 1e6))
        })
    })
}

fn named(node: &Node) -> Labels {
    vec![("node", node.name.clone())]
}

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}
