//! The clients: all lanes of a process are one row.

use super::table::{Rows, Seen, Table};
use super::{View, ratio};
use sidecore::core::stage::Stage;
use sidecore::counters::{LaneCounter as L, LaneStats, Snapshot};
use std::borrow::Cow;
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
    const ALL: [Self; 5] = [Self::Rate, Self::InFlight, Self::Total, Self::Spin, Self::Pid];

    /// The next one, and after the last one the first.
    pub(in crate::top) fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }

    /// Heading of its column.
    pub(in crate::top) fn column(self) -> &'static str {
        ["REQ/S", "FLIGHT", "TOTAL* p50/p99", "SPIN*", "PID"][self as usize]
    }

    fn key(self, client: &Seen<'_, L>) -> u64 {
        match self {
            Self::Rate => client.recent.get(L::Submitted),
            Self::InFlight => client.total.get(L::InFlight),
            Self::Total => client.times.stage(Stage::Total).summary().p99 as u64,
            Self::Spin => client.recent.get(L::ClientSpunNs),
            Self::Pid => 0,
        }
    }
}

/// Clients: who they are, what they ask for, where the time goes, and how they are woken.
pub(in crate::top) fn clients(view: &View, sort: Sort) -> Rows {
    let by_pid = by_pid(&view.total);
    let merged = |snapshot, lanes| Cow::Owned(merged(snapshot, lanes));
    let mut clients: Vec<Seen<'_, L>> = by_pid
        .values()
        .map(|lanes| Seen {
            total: merged(&view.total, lanes),
            recent: merged(&view.recent, lanes),
            times: merged(view.times(), lanes),
        })
        .collect();
    clients.sort_by_cached_key(|client| (Reverse(sort.key(client)), client.total.pid));
    Table::new(view, clients)
        .text("CLIENT", |one| name(&one.total))
        .number("PID", |one| one.total.pid.to_string())
        .text("USER", |one| view.users.name(one.total.uid))
        .counters(&[L::Submitted, L::InFlight])
        .times("QUEUE", Stage::Queue)
        .times("DEVICE", Stage::Device)
        .times("DELIVER*", Stage::Deliver)
        .times("TOTAL*", Stage::Total)
        .counters(&[L::Refused, L::Failed, L::Done, L::WakeupsSent, L::WakeupsSaved])
        .counters(&[L::ClientSpunNs, L::ClientWaits, L::ClientEmptyPolls, L::ClientParks])
        .number("WAIT/OPT*", |one| ratio(&one.recent.audit()))
        .number("LANES", |one| by_pid[&one.total.pid].len().to_string())
        .rows
}

/// Indices into the list of lanes, which the snapshots of a view have in common, by their process.
fn by_pid(snapshot: &Snapshot) -> BTreeMap<u32, Vec<usize>> {
    let mut by_pid: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (index, lane) in snapshot.lanes.iter().enumerate() {
        by_pid.entry(lane.pid).or_default().push(index);
    }
    by_pid
}

fn merged(snapshot: &Snapshot, lanes: &[usize]) -> LaneStats {
    let mut sum = snapshot.lanes[lanes[0]].clone();
    lanes[1..].iter().for_each(|lane| sum.merge(&snapshot.lanes[*lane]));
    sum
}

/// The name, and how the client broke the protocol, if it did.
fn name(lane: &LaneStats) -> String {
    match lane.fault() {
        Some(fault) => format!("{} ({})", lane.name, fault.name()),
        None => lane.name.clone(),
    }
}
