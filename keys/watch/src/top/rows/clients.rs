//! The clients: all lanes of a process are one row.

use super::table::{Seen, Table};
use super::{View, ratio};
use sidecore_core::stage::Stage;
use sidecore_counters::{LaneCounter as L, LaneStats, Snapshot};
use sidecore_terminal::table::Rows;
use std::cmp::Reverse;
use std::collections::BTreeMap;

type Number = fn(&Seen<'_, L>) -> u64;

/// Orders of the clients: the column's heading, and its number. The largest number is first.
pub(in crate::top) const SORTS: [(&str, Number); 5] = [
    ("REQ/S", |client| client.recent.get(L::Submitted)),
    ("FLIGHT", |client| client.total.get(L::InFlight)),
    ("TOTAL* p50/p99", |client| client.times.stage(Stage::Total).summary().p99 as u64),
    ("SPIN*", |client| client.recent.get(L::ClientSpunNs)),
    // Equal numbers: the smallest process id is first.
    ("PID", |_| 0),
];

pub(in crate::top) fn clients(view: &View, sort: usize) -> Rows {
    let [total, recent, times] = [&view.total, &view.recent, view.times()].map(by_pid);
    let all = total.values().zip(recent.values()).zip(times.values());
    let mut clients: Vec<Seen<'_, L>> =
        all.map(|((total, recent), times)| Seen { total: &total.0, recent: &recent.0, times: &times.0 }).collect();
    clients.sort_by_cached_key(|client| (Reverse(SORTS[sort].1(client)), client.total.pid));
    Table::new(view, clients)
        .text("CLIENT", |one| name(one.total))
        .number("PID", |one| one.total.pid.to_string())
        .text("USER", |one| view.users.name(one.total.uid))
        .counters(&[L::Submitted, L::Refused, L::Failed, L::Done])
        .times("QUEUE", Stage::Queue)
        .times("DEVICE", Stage::Device)
        .times("DELIVER*", Stage::Deliver)
        .times("TOTAL*", Stage::Total)
        .counters(&[L::InFlight, L::WakeupsSent, L::WakeupsSaved])
        .counters(&[L::ClientSpunNs, L::ClientWaits, L::ClientEmptyPolls, L::ClientParks])
        .number("WAIT/OPT*", |one| ratio(&one.recent.audit()))
        .number("LANES", |one| total[&one.total.pid].1.to_string())
        .rows
}

/// Counts of all lanes of each process, and the number of lanes. A view's snapshots have the same lanes.
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

fn name(lane: &LaneStats) -> String {
    match lane.fault() {
        Some(fault) => format!("{} ({})", lane.name, fault.name()),
        None => lane.name.clone(),
    }
}
