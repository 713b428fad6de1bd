//! The tables of both views, as text.

use super::units::{NONE, age, amount, count, percent, quantiles, time};
use crate::users::Users;
use sidecore::core::dispatch::DeviceState;
use sidecore::core::policy::notify::Audit;
use sidecore::core::stage::Stage;
use sidecore::counters::{DeviceCounter, SidecoreCounter, Snapshot};

mod clients;
mod keys;

pub(super) use clients::{Sort, clients};
pub(super) use keys::keys;

/// Under the clients: what the star in their headings means.
pub(super) const ALLEGED: &str = "* as the client itself says";

/// A heading, and whether its column holds numbers, which stand at the right.
pub(super) type Column = (&'static str, bool);

/// One table.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) columns: &'static [Column],
    pub(super) cells: Vec<Vec<String>>,
}

/// What there is to show, seen three ways. The latter two come from the first, so they have the same blocks.
#[derive(Debug)]
pub(super) struct View {
    /// For counts: since the start.
    pub(super) total: Snapshot,
    /// For rates.
    pub(super) recent: Snapshot,
    /// Whether quantiles are those of the rates' interval too, or since the start.
    pub(super) recent_times: bool,
    /// Of the clients.
    pub(super) users: Users,
}

impl View {
    /// Rates are those since `earlier`, if there is one.
    pub(super) fn new(total: Snapshot, earlier: Option<&Snapshot>, recent_times: bool) -> Self {
        let recent = earlier.map_or_else(|| total.clone(), |earlier| total.since(earlier));
        Self { total, recent, recent_times, users: Users::default() }
    }

    fn times(&self) -> &Snapshot {
        if self.recent_times { &self.recent } else { &self.total }
    }

    fn rate(&self, count: u64) -> String {
        amount(self.recent.per_second(count))
    }

    /// Nanoseconds, as a part of the interval.
    fn part(&self, nanos: u64) -> String {
        percent(self.recent.per_second(nanos))
    }
}

/// What the service is and how it is set, line by line.
pub(super) fn header(view: &View) -> Vec<String> {
    let now = &view.total;
    let mut lines = vec![alive(now), set(now)];
    if !now.is_alive() {
        let age =
            if now.heartbeat > now.taken { "before this machine started".into() } else { ago(now.heartbeat_age()) };
        lines.push(format!("the service is not running: last heartbeat {age}; these are its last numbers"));
    }
    lines
}

/// Sidecores: what they did and what their waiting cost.
pub(super) fn sidecores(view: &View) -> Rows {
    let cells = view.total.sidecores.iter().zip(&view.recent.sidecores).map(|(total, recent)| {
        let rate = |counter| view.rate(recent.get(counter));
        let sum = |counter| count(total.get(counter));
        vec![
            total.index.to_string(),
            total.place.cpu.map_or_else(|| NONE.to_owned(), |cpu| cpu.to_string()),
            rate(SidecoreCounter::Requests),
            view.part(recent.get(SidecoreCounter::CpuNs)),
            rate(SidecoreCounter::EmptyPolls),
            rate(SidecoreCounter::Parks),
            rate(SidecoreCounter::Naps),
            ratio(&recent.audit()),
            format!("{}/{}", sum(SidecoreCounter::DormantLanes), sum(SidecoreCounter::Lanes)),
            sum(SidecoreCounter::Requests),
            sum(SidecoreCounter::Refused),
            sum(SidecoreCounter::Replayed),
            sum(SidecoreCounter::Faults),
        ]
    });
    Rows {
        columns: &[
            ("SIDECORE", false),
            ("CORE", true),
            ("REQ/S", true),
            ("CPU", true),
            ("EMPTY/S", true),
            ("PARKS/S", true),
            ("NAPS/S", true),
            ("WAIT/OPT", true),
            ("DORMANT", true),
            ("REQUESTS", true),
            ("REFUSED", true),
            ("REPLAYED", true),
            ("FAULTS", true),
        ],
        cells: cells.collect(),
    }
}

/// Devices: what they have and how long they need.
pub(super) fn devices(view: &View) -> Rows {
    let devices = view.total.devices.iter().zip(&view.recent.devices).zip(&view.times().devices);
    let cells = devices.map(|((total, recent), times)| {
        let sum = |counter| count(total.get(counter));
        vec![
            total.name.clone(),
            total.kind.clone(),
            state(total.state).to_owned(),
            view.rate(recent.get(DeviceCounter::Requests)),
            view.rate(recent.get(DeviceCounter::Bytes)),
            sum(DeviceCounter::InFlight),
            time(total.get(DeviceCounter::BacklogNs) as f64),
            quantiles(&times.time.summary()),
            total.sidecore.to_string(),
            sum(DeviceCounter::Requests),
            sum(DeviceCounter::Failed),
            sum(DeviceCounter::Replayed),
        ]
    });
    Rows {
        columns: &[
            ("DEVICE", false),
            ("KIND", false),
            ("STATE", false),
            ("REQ/S", true),
            ("BYTES/S", true),
            ("FLIGHT", true),
            ("BACKLOG", true),
            ("TIME p50/p99", true),
            ("SIDECORE", true),
            ("REQUESTS", true),
            ("FAILED", true),
            ("REPLAYED", true),
        ],
        cells: cells.collect(),
    }
}

/// Classes of requests: what is asked for and where its time goes.
pub(super) fn classes(view: &View) -> Rows {
    let classes = view.total.classes.iter().zip(&view.recent.classes).zip(&view.times().classes);
    let cells = classes.map(|((total, recent), times)| {
        let stage = |stage: Stage| quantiles(&times.stages[stage as usize].summary());
        vec![
            total.class.name().to_owned(),
            view.rate(recent.requests),
            view.rate(recent.bytes),
            stage(Stage::Queue),
            stage(Stage::Device),
            stage(Stage::Host),
            count(total.requests),
        ]
    });
    Rows {
        columns: &[
            ("CLASS", false),
            ("REQ/S", true),
            ("BYTES/S", true),
            ("QUEUE p50/p99", true),
            ("DEVICE p50/p99", true),
            ("HOST p50/p99", true),
            ("REQUESTS", true),
        ],
        cells: cells.collect(),
    }
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

fn set(now: &Snapshot) -> String {
    let balance = now.balance.map_or("unknown", |balance| balance.name());
    let order = now.order.map_or("unknown", |order| order.name());
    format!("notify: {}; balance: {balance}; order: {order}", now.waiters().in_words(now.notify))
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

/// What waiting cost, as a multiple of what it would have cost had the waits' lengths been known.
fn ratio(audit: &Audit) -> String {
    if audit.waits == 0 { NONE.to_owned() } else { format!("{:.2}", audit.ratio()) }
}
