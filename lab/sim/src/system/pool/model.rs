//! The typed settings of a pool, and what contradicts itself in them.

use super::device::{Kind, Time};
use super::parameters::{fields, list, pairs};
use super::tape::Tape;
use crate::engine::Random;
use crate::settings::Settings;
use crate::system::Impossible;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::gather::{BatchPolicy, MAX_BATCH};
use sidecore_core::policy::notify::Notify;
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;
use std::fmt::Display;

/// As in the service.
const MAX_DEVICES: u32 = sidecore_core::dispatch::MAX_DEVICES as u32;

/// One operation of the mix.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) name: String,
    pub(super) class: Class,
    pub(super) share: f64,
    pub(super) share_after: f64,
    /// Sizes in order, bytes, each with its weight.
    pub(super) sizes: Vec<(f64, f64)>,
}

impl Operation {
    /// The size of a request, bytes.
    pub(super) fn draw(&self, random: &mut Random) -> u32 {
        let at = if self.sizes.len() > 1 {
            pick(&self.sizes.iter().map(|(_, weight)| *weight), random.uniform())
        } else {
            0
        };
        self.sizes[at].0 as u32
    }
}

/// The place of a weight that is drawn. `uniform`: from 0 to 1.
pub(super) fn pick<W>(weights: &W, uniform: f64) -> usize
where
    W: DoubleEndedIterator<Item = f64> + ExactSizeIterator + Clone,
{
    let mut left = uniform * weights.clone().sum::<f64>();
    let found = weights.clone().position(|weight| {
        left -= weight;
        left < 0.0
    });
    // Rounding can leave a rest.
    found.or_else(|| weights.clone().rposition(|weight| weight > 0.0)).unwrap_or(0)
}

/// The typed settings.
#[derive(Clone, Debug)]
pub(in crate::system) struct Pool {
    pub(super) rate_per_s: f64,
    pub(super) burst: u32,
    pub(super) clients: u32,
    pub(super) in_flight: u32,
    pub(super) think: Nanos,
    pub(super) count: u32,
    pub(super) measure_from: Nanos,
    /// Number of the first requests, which are not counted.
    pub(super) warm_up: u32,
    pub(super) surge: u32,
    pub(super) overflow: usize,
    pub(super) change_at: f64,
    pub(super) cores: usize,
    pub(super) submit: Nanos,
    pub(super) complete: Nanos,
    pub(super) interrupt: Nanos,
    pub(super) wake: Nanos,
    pub(super) notify: Notify,
    pub(super) balance: Balance,
    /// Bytes per ns; `None`: no bus.
    pub(super) bus: Option<f64>,
    pub(super) operations: Vec<Operation>,
    pub(super) kinds: Vec<Kind>,
    pub(super) tape: Option<Tape>,
    /// Why the record cannot be used.
    refused: Option<String>,
    /// A part with several times of one operation.
    ambiguous: Option<String>,
}

struct Reader<'a>(&'a Settings);

impl Reader<'_> {
    fn text(&self, part: &str, name: &str) -> &str {
        let given = self.0.text(&format!("{part}.{name}"));
        let default = || fields(part)?.iter().find(|field| field.name == name).map(|field| field.default);
        given.or_else(default).unwrap_or_default()
    }

    /// 0 for a text that is no number, which [`check`] has refused.
    fn number(&self, part: &str, name: &str) -> f64 {
        self.text(part, name).parse().unwrap_or_default()
    }

    fn ns(&self, part: &str, name: &str) -> Nanos {
        let scale = if name.ends_with("_ms") { 1e6 } else { 1e3 };
        (self.number(part, name) * scale).round() as Nanos
    }

    /// Names directly under a part, in order.
    fn names(&self, under: &str) -> Vec<String> {
        let inside = |name: &str| {
            let rest = name.strip_prefix(under)?.strip_prefix('.')?;
            rest.split_once('.').map(|(first, _)| first.to_owned())
        };
        let mut names: Vec<String> = self.0.iter().filter_map(|(parameter, _)| inside(&parameter.name)).collect();
        // Those of `card.rsa` stand behind those of `card-2`.
        names.sort_unstable();
        names.dedup();
        names
    }

    fn kind(&self, name: &str, operations: &[String]) -> Kind {
        let part = &format!("device.{name}");
        let mut times: Vec<_> = operations.iter().map(|operation| self.time(part, operation)).collect();
        let like_service = self.text(part, "batch") == "service";
        let gather = if like_service { gather(&mut times) } else { None };
        let batch = (self.number(part, "batch_min") as usize, self.number(part, "batch_max") as usize);
        Kind {
            name: name.to_owned(),
            count: self.number(part, "count") as u32,
            engines: self.number(part, "engines") as u32,
            ring: self.number(part, "ring") as u32,
            latency: self.ns(part, "latency_us"),
            on_bus: self.text(part, "bus") == "yes",
            exponential: self.text(part, "work") == "exponential",
            reports: self.number(part, "reports"),
            like_service,
            batch: gather.as_ref().map_or(batch, |policy| (1, policy.full())),
            gather,
            linger: self.ns(part, "linger_us"),
            launch: self.number(part, "launch_us") * 1e3,
            slow: (self.ns(part, "slow_from_ms"), self.ns(part, "slow_until_ms"), self.number(part, "slow_factor")),
            fails: (self.ns(part, "fails_at_ms"), self.ns(part, "returns_at_ms")),
            times,
        }
    }

    /// Whether more than one of the times is stated that exclude each other.
    fn is_ambiguous(&self, part: &str) -> bool {
        let stated = |name: &&str| !["", "0"].contains(&self.text(part, name));
        ["us", "rate_per_s", "us_by_bytes", "us_by_fill"].iter().filter(|name| stated(name)).count() > 1
    }

    fn tape(&self, operations: &[String]) -> Result<Option<Tape>, String> {
        let name = self.text("requests", "tape");
        if name.is_empty() {
            return Ok(None);
        }
        let traffic = self.0.records().traffic(name).map_err(|error| error.to_string())?;
        let tape = Tape::new(&traffic, operations, self.number("requests", "rate_per_s"));
        tape.map(Some).map_err(|error| format!("{name}: {error}"))
    }

    /// `None`: the kind does not do the operation.
    fn time(&self, kind: &str, operation: &str) -> Option<Time> {
        let part = &format!("{kind}.{operation}");
        let (fixed, rate) = (self.number(part, "us") * 1e3, self.number(part, "rate_per_s"));
        let per_byte = self.number(part, "ns_per_byte");
        let by_fill = list(self.text(part, "us_by_fill"));
        if let Some(us) = by_fill {
            return Some(Time::ByFill(us.into_iter().map(|us| us * 1e3).collect()));
        }
        if let Some(pairs) = pairs(self.text(part, "us_by_bytes")) {
            return Some(Time::BySize(pairs.into_iter().map(|(bytes, us)| (bytes, us * 1e3)).collect()));
        }
        let fixed = if rate > 0.0 { self.number(kind, "engines") * 1e9 / rate } else { fixed };
        (fixed > 0.0 || per_byte > 0.0).then_some(Time::Linear { fixed, per_byte })
    }
}

/// The policy of a batch device, if it does one operation with a time of each fill. The times become the policy's.
fn gather(times: &mut [Option<Time>]) -> Option<BatchPolicy> {
    let mut done = times.iter_mut().flatten();
    let (Some(Time::ByFill(of)), None) = (done.next(), done.next()) else { return None };
    let measured: [f64; MAX_BATCH] = of.as_slice().try_into().ok()?;
    let measured = measured.map(|time| time.round() as Nanos);
    let policy = BatchPolicy::new(measured, measured[0]);
    *of = (1..=MAX_BATCH).map(|fill| policy.time(fill) as f64).collect();
    Some(policy)
}

impl Pool {
    /// The settings, which have been checked one by one.
    pub(in crate::system) fn read(settings: &Settings) -> Self {
        let reader = Reader(settings);
        let number = |part: &str, name: &str| reader.number(part, name);
        let names = reader.names("work");
        let (tape, refused) = match reader.tape(&names) {
            Ok(tape) => (tape, None),
            Err(refused) => (None, Some(refused)),
        };
        let operation = |(index, name): (usize, &String)| {
            let part = &format!("work.{name}");
            let (share, after) = match &tape {
                Some(tape) => (f64::from(tape.recorded[index].count), -1.0),
                None => (number(part, "share"), number(part, "share_after")),
            };
            // A tape says how often; an operation that it lacks keeps the plan's size.
            let recorded = tape.as_ref().map(|tape| &tape.recorded[index].sizes).filter(|sizes| !sizes.is_empty());
            let recorded = recorded.map(|sizes| sizes.iter().map(|bytes| (f64::from(*bytes), 1.0)).collect());
            let class = Class::from_index(index.min(Class::COUNT - 1)).unwrap_or(Class::NOOP);
            Operation {
                name: name.clone(),
                class,
                share,
                share_after: if after < 0.0 { share } else { after },
                sizes: recorded
                    .or_else(|| pairs(reader.text(part, "shares_by_bytes")))
                    .unwrap_or_else(|| vec![(number(part, "bytes"), 1.0)]),
            }
        };
        let count = tape.as_ref().map_or(number("requests", "count") as u32, |tape| tape.arrivals.len() as u32);
        let bus = number("bus", "mbit_per_s");
        let kinds = reader.names("device");
        let parts = kinds.iter().flat_map(|kind| names.iter().map(move |name| format!("device.{kind}.{name}")));
        Self {
            ambiguous: parts.into_iter().find(|part| reader.is_ambiguous(part)),
            rate_per_s: number("requests", "rate_per_s"),
            burst: number("requests", "burst") as u32,
            clients: number("requests", "clients") as u32,
            in_flight: number("requests", "in_flight") as u32,
            think: reader.ns("requests", "think_us"),
            count,
            measure_from: reader.ns("requests", "measure_from_ms"),
            warm_up: (f64::from(count) * number("requests", "warm_up")) as u32,
            surge: number("requests", "surge") as u32,
            overflow: number("requests", "overflow") as usize,
            change_at: number("requests", "change_at"),
            cores: number("host", "cores") as usize,
            submit: reader.ns("host", "submit_us"),
            complete: reader.ns("host", "complete_us"),
            interrupt: reader.ns("host", "interrupt_us"),
            wake: reader.ns("host", "wake_us"),
            notify: Notify::parse(reader.text("host", "notify")).unwrap_or(Notify::Spin),
            balance: Balance::parse(reader.text("host", "balance")).unwrap_or(Balance::Eft),
            bus: (bus > 0.0).then_some(bus / 8e3),
            operations: names.iter().enumerate().map(operation).collect(),
            kinds: kinds.iter().map(|name| reader.kind(name, &names)).collect(),
            tape,
            refused,
        }
    }

    /// The contradictions, before any run, without those that follow from another one.
    pub(super) fn contradictions(&self) -> Vec<Impossible> {
        if let Some(part) = &self.ambiguous {
            return wrong(part, "several times: keep one of us, rate_per_s, us_by_bytes and us_by_fill")
                .err()
                .into_iter()
                .collect();
        }
        let requests = self.possible_requests().err();
        let devices = self.possible_devices().err();
        let kinds = self.kinds.iter().filter_map(|kind| possible_kind(kind).err());
        let follow = devices.is_some() || self.operations.is_empty();
        requests.into_iter().chain(devices).chain(kinds.filter(|_| !follow)).collect()
    }

    /// Whether the mix changes during a run.
    pub(super) fn is_changing(&self) -> bool {
        self.change_at < 1.0
    }

    fn possible_requests(&self) -> Result<(), Impossible> {
        let operations = self.operations.len();
        if operations == 0 {
            return wrong("work", "the plan has no work: add [work.NAME], with the name of an operation");
        }
        if operations > Class::COUNT {
            return wrong(
                "work",
                format!("the plan has {operations} operations: at most {} are possible", Class::COUNT),
            );
        }
        if self.operations.iter().all(|operation| operation.share <= 0.0) {
            return wrong("work", "all shares are 0: give one operation a share");
        }
        if self.is_changing() && self.operations.iter().all(|operation| operation.share_after <= 0.0) {
            return wrong("requests.change_at", "all shares after the change are 0: give one operation a share_after");
        }
        if let Some(refused) = &self.refused {
            return wrong("requests.tape", refused);
        }
        if self.tape.is_some() && (self.clients > 0 || self.burst > 1 || self.is_changing()) {
            return wrong("requests.tape", "a record has all requests: leave out clients, burst and change_at");
        }
        if self.rate_per_s <= 0.0 && self.clients == 0 && self.tape.is_none() {
            return wrong("requests.rate_per_s", "neither arrivals nor clients send requests: set one of them");
        }
        let requests = self.clients as usize * self.in_flight as usize;
        let overflow = self.overflow;
        if requests >= overflow {
            let message = format!("clients keep {requests} requests in flight: fewer than {overflow} are possible");
            return wrong("requests.in_flight", message);
        }
        Ok(())
    }

    fn possible_devices(&self) -> Result<(), Impossible> {
        let devices: u32 = self.kinds.iter().map(|kind| kind.count).sum();
        if devices == 0 || devices > MAX_DEVICES {
            return wrong("device", format!("the pool has {devices} devices: 1 to {MAX_DEVICES} are possible"));
        }
        for (number, operation) in self.operations.iter().enumerate() {
            let is_needed = operation.share > 0.0 || (self.is_changing() && operation.share_after > 0.0);
            let is_done = self.kinds.iter().any(|kind| kind.count > 0 && kind.times[number].is_some());
            if is_needed && !is_done {
                let name = &operation.name;
                let message = format!("no device does it: give one {name} = {{ us = TIME }}, or `rate_per_s`");
                return wrong(&format!("work.{name}"), message);
            }
        }
        Ok(())
    }
}

fn possible_kind(kind: &Kind) -> Result<(), Impossible> {
    let part = format!("device.{}", kind.name);
    let of = |name: &str| format!("{part}.{name}");
    if kind.count > 0 && kind.times.iter().all(Option::is_none) {
        return wrong(&part, "it does no operation of [work]: give it the time of one, or count = 0");
    }
    let (least, most) = kind.batch;
    if least > most || most > kind.ring as usize {
        return wrong(&of("batch_max"), "batch_min is at most batch_max, and batch_max at most ring");
    }
    if kind.like_service && (kind.gather.is_none() || kind.engines != 1) {
        let message = format!("service needs one engine, and one operation with us_by_fill of {MAX_BATCH} times");
        return wrong(&of("batch"), message);
    }
    let (slow, fast, _) = kind.slow;
    if fast > 0 && fast <= slow {
        return wrong(&of("slow_until_ms"), "it is not after slow_from_ms: write a later time, or 0");
    }
    let (dies, returns) = kind.fails;
    if returns > 0 && (dies == 0 || returns <= dies) {
        return wrong(&of("returns_at_ms"), "it is not after fails_at_ms: write a later time, or 0");
    }
    Ok(())
}

fn wrong(parameter: &str, message: impl Display) -> Result<(), Impossible> {
    Err(Impossible { parameter: parameter.to_owned(), message: format!("{parameter}: {message}") })
}
