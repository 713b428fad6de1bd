//! The state of a farm, as lines and a table.

use crate::status::{Node, NodeState, Quantiles, Status, Totals};
use crate::status_watch::View;
use sidecore_terminal::table::Rows;
use sidecore_terminal::units::{NONE, amount, signed_time, time};

/// A column: heading, whether it holds numbers, and cell.
type Column = (&'static str, bool, fn(&Node) -> String);

const COLUMNS: [Column; 18] = [
    ("NODE", false, |node| node.name.clone()),
    ("STATE", false, |node| state(node.state).to_owned()),
    ("SLOTS", true, |node| node.slots.to_string()),
    ("CREDIT", true, |node| signed_time(node.credit_ns)),
    ("WINDOW", true, |node| time(node.window_ns as f64)),
    ("WAY", true, |node| micros(node.way_us)),
    ("INFLIGHT", true, |node| node.in_flight.to_string()),
    ("DONE/S", true, |node| amount(node.rate)),
    ("LAG", true, |node| lag(node.lag_ms)),
    ("QUEUE p50/p99", true, |node| quantiles(node.stages.queue)),
    ("NETWORK p50/p99", true, |node| quantiles(node.stages.network)),
    ("WORK p50/p99", true, |node| quantiles(node.stages.work)),
    ("RETURN p50/p99", true, |node| quantiles(node.stages.back)),
    ("DONE", true, |node| node.done.to_string()),
    ("REDONE", true, |node| node.redone.to_string()),
    ("REFUSED", true, |node| node.refused.to_string()),
    ("FAILED", true, |node| node.failed.to_string()),
    ("LATE", true, |node| node.late.to_string()),
];

pub(super) fn header(farm: &str, view: &View) -> Vec<String> {
    let Some(status) = &view.active else { return vec![nobody(farm, view.standing_by)] };
    let mut lines = vec![who(status, view.standing_by), queue(status), held(status)];
    lines.extend(totals(&status.totals));
    lines
}

pub(super) fn trouble(view: &View) -> Option<String> {
    let status = view.active.as_ref()?;
    if !status.connected {
        return Some("the dispatcher has no connection to JetStream".to_owned());
    }
    (!status.holds.is_empty()).then(|| format!("it does not go on: {}", status.holds))
}

pub(super) fn nobody(farm: &str, standing_by: usize) -> String {
    if standing_by > 0 {
        return format!(
            "no dispatcher of farm {farm} hands out events now; standing by: {standing_by}. One of them takes over, or says in its log why it cannot"
        );
    }
    format!("nobody dispatches in farm {farm}: start one with `sidecore farm dispatch --farm {farm}`")
}

pub(super) fn nodes(status: &Status) -> Rows {
    let mut nodes: Vec<&Node> = status.nodes.iter().collect();
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    let columns = COLUMNS.map(|(heading, number, _)| (heading, number));
    Rows::new(columns, nodes.iter().map(|node| COLUMNS.map(|(_, _, cell)| cell(node))))
}

fn who(status: &Status, standing_by: usize) -> String {
    let (farm, balance, nodes) = (&status.farm, &status.balance, status.nodes.len());
    let slots: u32 = status.nodes.iter().map(|node| u32::from(node.slots)).sum();
    format!("farm {farm}, balance {balance}; nodes: {nodes}, slots: {slots}, dispatchers standing by: {standing_by}")
}

fn queue(status: &Status) -> String {
    let known = |number: Option<u64>| number.map_or_else(|| NONE.to_owned(), |number| number.to_string());
    let left = status.left_s.filter(|_| status.queued.is_some_and(|queued| queued > 0));
    let left =
        left.map_or_else(String::new, |left| format!("; done in {} at {}/s", time(left * 1e9), amount(status.rate)));
    let delayed = if status.delayed > 0 { format!(", not due: {}", status.delayed) } else { String::new() };
    format!(
        "queue, up to a second ago: {} events, not acknowledged: {}{delayed}{left}",
        known(status.queued),
        known(status.unacknowledged)
    )
}

fn held(status: &Status) -> String {
    format!(
        "held: {} events, {}B; without a node: {}; results being committed: {}",
        status.held,
        amount(status.held_bytes as f64),
        status.waiting,
        status.committing
    )
}

fn totals(totals: &Totals) -> [String; 2] {
    let Totals { seen, committed, already_committed, redone, late, dead, duplicates, garbage, turned_away } = *totals;
    let well = [("taken", seen), ("committed", committed), ("committed before", already_committed)];
    let badly = [
        ("redone", redone),
        ("late", late),
        ("dead", dead),
        ("came again", duplicates),
        ("rubbish", garbage),
        ("nodes turned away", turned_away),
    ];
    [listed(&well), listed(&badly)]
}

fn listed(numbers: &[(&str, u64)]) -> String {
    numbers.iter().map(|(name, number)| format!("{name}: {number}")).collect::<Vec<_>>().join(", ")
}

fn state(state: NodeState) -> &'static str {
    match state {
        NodeState::Up => "up",
        NodeState::Suspect => "suspect",
        NodeState::Paused => "paused",
        NodeState::Leaving => "leaving",
    }
}

fn quantiles(quantiles: Quantiles) -> String {
    if quantiles == Quantiles::default() {
        return NONE.to_owned();
    }
    format!("{}/{}", micros(quantiles.p50_us), micros(quantiles.p99_us))
}

fn micros(micros: u64) -> String {
    time(micros as f64 * 1e3)
}

/// The lag may be negative: clocks of two machines may differ by more.
fn lag(ms: f64) -> String {
    signed_time((ms * 1e6) as i64)
}
