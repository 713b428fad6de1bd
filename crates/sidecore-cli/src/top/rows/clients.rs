//! The clients: all lanes of a process are one row.

use super::table::{Rows, Seen, Table};
use super::{View, ratio};
use sidecore::core::stage::Stage;
use sidecore::counters::{LaneCounter as L, LaneStats, Snapshot};
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
    let [total, recent, times] = [&view.total, &view.recent, view.times()].map(by_pid);
    let all = total.values().zip(recent.values()).zip(times.values());
    let mut clients: Vec<Seen<'_, L>> =
        all.map(|((total, recent), times)| Seen { total: &total.0, recent: &recent.0, times: &times.0 }).collect();
    clients.sort_by_cached_key(|client| (Reverse(sort.key(client)), client.total.pid));
    Table::new(view, clients)
        .text("CLIENT", |one| name(one.total))
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
        .number("LANES", |one| total[&one.total.pid].1.to_string())
        .rows
}

/// What all lanes of each process counted, and how many there are. The snapshots of a view have the same lanes.
fn by_pid(snapshot: &Snapshot) -> BTreeMap<u32, (LaneStats, usize)> {
    let mut clients: BTreeMap<u32, (LaneStats, usize)> = BTreeMap::new();
    for lane in &snapshot.lanes {
        let more = |(sum, lanes): &mut (LaneStats, usize)| {
            sum.merge(lane);
            *lanes += 1;
        };
        clients.entry(lane.pid).and_modify(more).or_insert_with(|| (lane.clone(), 1));
    }
    clients
}

/// The name, and how the client broke the protocol, if it did.
fn name(lane: &LaneStats) -> String {
    match lane.fault() {
        Some(fault) => format!("{} ({})", lane.name, fault.name()),
        None => lane.name.clone(),
    }
}
