//! The tables of both views, as text.

use super::units::{NONE, age, count, known, time};
use sidecore_core::dispatch::DeviceState;
use sidecore_core::policy::notify::{Audit, Notify};
use sidecore_core::stage::Stage;
use sidecore_counters::{ClassCounter as C, DeviceCounter as D, KeyCounter as K, SidecoreCounter as S, Snapshot};
use std::cmp::Reverse;
use table::{Seen, Table, seen};

mod clients;
mod table;

pub(super) use clients::{SORTS, clients};
use sidecore_terminal::table::Rows;
use sidecore_terminal::users::Users;

/// The line below the clients, which explains the star in their headings.
pub(super) const ALLEGED: &str = "* as the client itself says";

/// The counters in three forms. `recent` derives from `total`, so both have the same blocks.
#[derive(Debug)]
pub(super) struct View {
    pub(super) total: Snapshot,
    /// For rates.
    pub(super) recent: Snapshot,
    /// `true`: quantiles are those of the rates' interval. `false`: since the start.
    pub(super) recent_times: bool,
    pub(super) users: Users,
}

impl View {
    /// Rates are those since `earlier`, or since the start without it.
    pub(super) fn new(total: Snapshot, earlier: Option<&Snapshot>, recent_times: bool) -> Self {
        let recent = earlier.map_or_else(|| total.clone(), |earlier| total.since(earlier));
        Self { total, recent, recent_times, users: Users::default() }
    }

    fn times(&self) -> &Snapshot {
        if self.recent_times { &self.recent } else { &self.total }
    }
}

pub(super) fn header(view: &View) -> Vec<String> {
    let now = &view.total;
    let mut lines = vec![alive(now), now.policies()];
    lines.extend(failures(view));
    lines.extend(bound_of_learn(now));
    if !now.is_alive() {
        let age =
            if now.heartbeat > now.taken { "before this machine started".into() } else { ago(now.heartbeat_age()) };
        lines.push(format!("the service is not running: last heartbeat {age}; these are its last numbers"));
    }
    lines
}

pub(super) fn sidecores(view: &View) -> Rows {
    Table::new(view, seen(view, |snapshot| &snapshot.sidecores))
        .text("SIDECORE", |one| one.total.index.to_string())
        .number("CORE", |one| known(one.total.place.cpu, |cpu| cpu.to_string()))
        .counters(&[S::Requests, S::CpuNs, S::EmptyPolls, S::Parks, S::Naps])
        .number("WAIT/OPT", |one| ratio(&one.recent.audit()))
        .number("DORMANT", |one| {
            format!("{}/{}", count(one.total.get(S::DormantLanes)), count(one.total.get(S::Lanes)))
        })
        .number("REQUESTS", |one| count(one.total.get(S::Requests)))
        .counters(&[S::Refused, S::Replayed, S::Faults])
        .rows
}

pub(super) fn devices(view: &View) -> Rows {
    Table::new(view, seen(view, |snapshot| &snapshot.devices))
        .text("DEVICE", |one| one.total.name.clone())
        .text("KIND", |one| one.total.kind.clone())
        .text("STATE", |one| state(one.total.state()).to_owned())
        .counters(&[D::Requests, D::Bytes, D::InFlight, D::BacklogNs])
        .times("TIME", Stage::Device)
        .number("SIDECORE", |one| one.total.sidecore.to_string())
        .number("REQUESTS", |one| count(one.total.get(D::Requests)))
        .counters(&[D::Failed, D::Replayed])
        .rows
}

/// Keys with failures in the interval are first, then those in use.
pub(super) fn keys(view: &View) -> Rows {
    let mut keys = seen(view, |snapshot| &snapshot.keys);
    let failed = |key: &Seen<'_, K>| key.recent.get(K::Refused) + key.recent.get(K::Failed);
    keys.sort_by_key(|key| (Reverse(failed(key)), Reverse(key.recent.get(K::Submitted)), key.total.index));
    Table::new(view, keys)
        .text("KEY", |one| one.total.name.clone())
        .counters(&[K::Sign, K::Refused, K::Failed, K::Done])
        .times("QUEUE", Stage::Queue)
        .times("DEVICE", Stage::Device)
        .times("HOST", Stage::Host)
        .counters(&[K::InFlight, K::Submitted, K::Decrypt, K::Derive, K::Public])
        .rows
}

pub(super) fn classes(view: &View) -> Rows {
    Table::new(view, seen(view, |snapshot| &snapshot.classes))
        .text("CLASS", |one| one.total.class.name().to_owned())
        .counters(&[C::Requests, C::Bytes])
        .times("QUEUE", Stage::Queue)
        .times("DEVICE", Stage::Device)
        .times("HOST", Stage::Host)
        .number("REQUESTS", |one| count(one.total.get(C::Requests)))
        .rows
}

fn alive(now: &Snapshot) -> String {
    let heartbeat = if now.is_alive() { format!(", heartbeat {}", ago(now.heartbeat_age())) } else { String::new() };
    format!(
        "sidecore {}, {} {}{heartbeat}; {} of {} lanes, stage times of {}",
        now.start.pid,
        if now.is_alive() { "up" } else { "ran" },
        age(now.uptime()),
        now.lanes.len(),
        now.shape.lanes,
        match now.start.sample_every {
            0 => "no requests".to_owned(),
            1 => "all requests".to_owned(),
            every => format!("1 request in {every}"),
        },
    )
}

pub(super) fn short_header(view: &View) -> Vec<String> {
    let mut lines = header(view);
    if let Some(end) = lines[0].find(", stage times") {
        lines[0].truncate(end);
    }
    let mut parts = lines[1].split("(parks: ");
    let first = parts.next().unwrap_or_default().to_owned();
    lines[1] = parts.fold(first, |line, part| line + "(parks" + part.find(')').map_or("", |end| &part[end..]));
    lines
}

/// Requests that failed, and programs that broke the protocol. `None`: none since the start.
fn failures(view: &View) -> Option<String> {
    let of = |snapshot: &Snapshot| {
        let sidecores = |counter| snapshot.sidecores.iter().map(|one| one.get(counter)).sum::<u64>();
        let lost = snapshot.devices.iter().map(|device| device.get(D::Failed)).sum();
        [sidecores(S::Refused), lost, sidecores(S::Faults)]
    };
    let words = ["requests refused", "requests lost with a device", "lanes ended for a broken protocol"];
    let [total, recent] = [&view.total, &view.recent].map(of);
    let told = total.into_iter().zip(recent).zip(words).filter(|((total, _), _)| *total > 0).map(
        |((total, recent), words)| match recent {
            0 => format!("{words} {}", count(total)),
            recent => format!("{words} {} ({} lately)", count(total), count(recent)),
        },
    );
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| format!("failures since the start: {}", told.join(", ")))
}

/// If a wake-up takes longer than its CPU time, the bound of `learn` differs from WAIT/OPT: gaps that end while a
/// thread wakes are measured too long.
fn bound_of_learn(now: &Snapshot) -> Option<String> {
    let of = |counter| now.sidecores.iter().map(|sidecore| sidecore.get(counter)).max();
    let (cost, wake) = (of(S::ParkCostNs)?, of(S::WakeTimeNs)?);
    let learns = now.notify.contains(&Some(Notify::Learn));
    (learns && wake > cost).then(|| {
        format!(
            "learn: a wake-up takes {} and a park costs {}; the bound of 3 x is kept in the former, and WAIT/OPT is too low",
            time(wake as f64),
            time(cost as f64)
        )
    })
}

fn ago(nanos: u64) -> String {
    format!("{} ago", age(nanos))
}

fn state(state: Option<DeviceState>) -> &'static str {
    match state {
        Some(DeviceState::Active) => "active",
        Some(DeviceState::Draining) => "draining",
        Some(DeviceState::Gone) => "gone",
        None => "unknown",
    }
}

/// Cost of waiting, as a multiple of the optimal cost with known wait lengths. The true ratio is at least 1. An
/// interval that ends between a wait's two numbers can make the quotient smaller.
fn ratio(audit: &Audit) -> String {
    if audit.waits == 0 { NONE.to_owned() } else { format!("{:.2}", audit.ratio().max(1.0)) }
}
