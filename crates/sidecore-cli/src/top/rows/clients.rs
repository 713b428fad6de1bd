//! The clients: all lanes of a process are one row.

use super::{Rows, View};
use crate::top::units::{amount, count, quantiles};
use sidecore::core::histogram::Summary;
use sidecore::core::policy::notify::Audit;
use sidecore::core::stage::Stage;
use sidecore::counters::{Histogram, LaneCounter, LaneStats, Snapshot};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What the clients are sorted by; the largest is first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::top) enum Sort {
    /// Requests a second.
    #[default]
    Rate,
    /// Requests in flight.
    InFlight,
    /// 99th percentile of the time from submission to reception.
    Total,
    /// Time spent polling.
    Spin,
    /// Process id, smallest first.
    Pid,
}

impl Sort {
    /// The next one, and after the last one the first.
    pub(in crate::top) fn next(self) -> Self {
        match self {
            Self::Rate => Self::InFlight,
            Self::InFlight => Self::Total,
            Self::Total => Self::Spin,
            Self::Spin => Self::Pid,
            Self::Pid => Self::Rate,
        }
    }

    /// Heading of its column.
    pub(in crate::top) fn column(self) -> &'static str {
        match self {
            Self::Rate => "REQ/S",
            Self::InFlight => "FLIGHT",
            Self::Total => "TOTAL* p50/p99",
            Self::Spin => "SPIN*",
            Self::Pid => "PID",
        }
    }
}

/// Indices into the lists of lanes, which the snapshots of a view have in common.
struct Client {
    pid: u32,
    lanes: Vec<usize>,
    stages: [Summary; Stage::COUNT],
}

/// Clients: who they are, what they ask for, where the time goes, and how they are woken.
pub(in crate::top) fn clients(view: &View, sort: Sort) -> Rows {
    let mut clients = grouped(view);
    clients.sort_by_cached_key(|client| (Reverse(key(view, client, sort)), client.pid));
    Rows {
        columns: &[
            ("CLIENT", false),
            ("PID", true),
            ("USER", false),
            ("REQ/S", true),
            ("FLIGHT", true),
            ("QUEUE p50/p99", true),
            ("DEVICE p50/p99", true),
            ("DELIVER* p50/p99", true),
            ("TOTAL* p50/p99", true),
            ("REFUSED", true),
            ("FAILED", true),
            ("DONE", true),
            ("WAKES/S", true),
            ("SAVED/S", true),
            ("SPIN*", true),
            ("WAITS*/S", true),
            ("EMPTY*/S", true),
            ("PARKS*/S", true),
            ("WAIT/OPT*", true),
            ("LANES", true),
        ],
        cells: clients.iter().map(|client| cells(view, client)).collect(),
    }
}

fn cells(view: &View, client: &Client) -> Vec<String> {
    let now = &view.total;
    let first = &now.lanes[client.lanes[0]];
    let rate = |counter| amount(view.recent.per_second(sum(&view.recent, client, counter)));
    let total = |counter| count(sum(now, client, counter));
    let stage = |stage: Stage| quantiles(&client.stages[stage as usize]);
    vec![
        name(first),
        client.pid.to_string(),
        view.users.name(first.uid),
        rate(LaneCounter::Submitted),
        total(LaneCounter::InFlight),
        stage(Stage::Queue),
        stage(Stage::Device),
        stage(Stage::Deliver),
        stage(Stage::Total),
        total(LaneCounter::Refused),
        total(LaneCounter::Failed),
        total(LaneCounter::Done),
        rate(LaneCounter::WakeupsSent),
        rate(LaneCounter::WakeupsSaved),
        view.part(sum(&view.recent, client, LaneCounter::ClientSpunNs)),
        rate(LaneCounter::ClientWaits),
        rate(LaneCounter::ClientEmptyPolls),
        rate(LaneCounter::ClientParks),
        ratio(view, client),
        client.lanes.len().to_string(),
    ]
}

/// The lanes by their process, in order of the process ids.
fn grouped(view: &View) -> Vec<Client> {
    let mut by_pid: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, lane) in view.total.lanes.iter().enumerate() {
        by_pid.entry(lane.pid).or_default().push(index);
    }
    let client = |(pid, lanes): (u32, Vec<usize>)| {
        let stages = Stage::ALL.map(|stage| merged(view.times(), &lanes, stage));
        Client { pid, lanes, stages }
    };
    by_pid.into_iter().map(client).collect()
}

/// What the client's waits cost, as a multiple of what they would have cost had their lengths been known.
fn ratio(view: &View, client: &Client) -> String {
    let audit = Audit {
        waits: sum(&view.recent, client, LaneCounter::ClientWaits),
        cost_ns: sum(&view.recent, client, LaneCounter::ClientCostNs),
        optimum_ns: sum(&view.recent, client, LaneCounter::ClientOptimumNs),
        ..Audit::default()
    };
    super::ratio(&audit)
}

fn merged(times: &Snapshot, lanes: &[usize], stage: Stage) -> Summary {
    let mut sum = Histogram::default();
    for lane in lanes {
        sum.merge(&times.lanes[*lane].stages[stage as usize]);
    }
    sum.summary()
}

fn sum(snapshot: &Snapshot, client: &Client, counter: LaneCounter) -> u64 {
    client.lanes.iter().fold(0, |sum, lane| sum.saturating_add(snapshot.lanes[*lane].get(counter)))
}

fn key(view: &View, client: &Client, sort: Sort) -> u64 {
    match sort {
        Sort::Rate => sum(&view.recent, client, LaneCounter::Submitted),
        Sort::InFlight => sum(&view.total, client, LaneCounter::InFlight),
        Sort::Total => client.stages[Stage::Total as usize].p99 as u64,
        Sort::Spin => sum(&view.recent, client, LaneCounter::ClientSpunNs),
        Sort::Pid => 0,
    }
}

/// The name, and how the client broke the protocol, if it did.
fn name(lane: &LaneStats) -> String {
    match lane.fault() {
        Some(fault) => format!("{} ({})", lane.name, fault.name()),
        None => lane.name.clone(),
    }
}
