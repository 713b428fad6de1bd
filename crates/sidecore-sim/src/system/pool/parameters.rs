//! Parameters of a pool. The plan names the operations and the kinds of devices; each has the same parameters.

use super::device::{Kind, Time};
use super::tape::Tape;
use crate::engine::Random;
use crate::settings::{Parameter, Settings};
use crate::system::Impossible;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::gather::{BatchPolicy, MAX_BATCH};
use sidecore_core::policy::notify::Notify;
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;
use std::collections::BTreeSet;
use std::fmt::Display;

/// A parameter before its part has a name.
struct Field {
    name: &'static str,
    unit: &'static str,
    /// Value without an entry in the plan.
    default: &'static str,
    is: Is,
    meaning: &'static str,
}

#[derive(Clone, Copy)]
enum Is {
    /// A number between these limits.
    Number(f64, f64),
    /// A whole number between these limits.
    Whole(f64, f64),
    /// Numbers with commas between them.
    List,
    /// Pairs `BYTES:US` with commas between them.
    Pairs,
    /// Pairs `BYTES:WEIGHT` with commas between them.
    Shares,
    Balance,
    Notify,
    Words(&'static [&'static str]),
    /// A path relative to the plan; empty: none.
    File,
}

const fn field(name: &'static str, unit: &'static str, default: &'static str, is: Is, meaning: &'static str) -> Field {
    Field { name, unit, default, is, meaning }
}

const DAY_MS: f64 = 86_400_000.0;
const HOUR_US: f64 = 3.6e9;

const REQUESTS: &[Field] = &[
    field("rate_per_s", "1/s", "0", Is::Number(0.0, 1e9), "requests that arrive in a second; 0: only clients send"),
    field(
        "tape",
        "1",
        "",
        Is::File,
        "record of a service whose requests arrive instead, at its times or, with rate_per_s, at that mean rate",
    ),
    field("burst", "1", "1", Is::Whole(1.0, 1e5), "requests that arrive together"),
    field("clients", "1", "0", Is::Whole(0.0, 1e5), "threads that send their next request after an answer"),
    field("in_flight", "1", "1", Is::Whole(1.0, 1e4), "requests that each thread keeps in flight"),
    field("think_us", "us", "0", Is::Number(0.0, HOUR_US), "time of a thread between an answer and its next request"),
    field("count", "1", "200000", Is::Whole(1e3, 1e8), "requests of a run"),
    field("warm_up", "1", "0.1", Is::Number(0.0, 0.9), "part of them that is not counted, the first ones"),
    field(
        "measure_from_ms",
        "ms",
        "0",
        Is::Number(0.0, DAY_MS),
        "time before which arriving requests are not counted either: later than the run, nothing is; 0: all are",
    ),
    field("surge", "1", "0", Is::Whole(0.0, 1e5), "requests that arrive together when counting begins"),
    field(
        "overflow",
        "1",
        "200000",
        Is::Whole(1e3, OVERFLOW as f64),
        "requests in the pool that end a run: it is not stable",
    ),
    field("change_at", "1", "1", Is::Number(0.0, 1.0), "part of the requests before the mix changes; 1: never"),
];

const WORK: &[Field] = &[
    field("share", "1", "1", Is::Number(0.0, 1e9), "weight of the operation among all"),
    field("share_after", "1", "-1", Is::Number(-1.0, 1e9), "weight after the change of the mix; -1: as before"),
    field("bytes", "B", "0", Is::Whole(0.0, 1e9), "size of a request"),
    field("shares_by_bytes", "1", "", Is::Shares, "instead of `bytes`: weights of sizes, as 256:95, 16384:5"),
];

const HOST: &[Field] = &[
    field("cores", "1", "1", Is::Whole(1.0, 1024.0), "cores of sidecores: they submit and complete requests"),
    field("submit_us", "us", "0", Is::Number(0.0, 1e6), "time of a core to take a request and hand it to a device"),
    field("complete_us", "us", "0", Is::Number(0.0, 1e6), "time of a core to take an answer and write a completion"),
    field(
        "interrupt_us",
        "us",
        "0",
        Is::Number(0.0, 1e6),
        "time of a core for a device's interrupt, once for all answers that wait",
    ),
    field(
        "wake_us",
        "us",
        "0",
        Is::Number(0.0, 1e6),
        "time until a sleeping client runs; with notify = spin it does not sleep",
    ),
    field("notify", "1", "spin", Is::Notify, "how clients wait, spelt as in the service"),
    field("balance", "1", "eft", Is::Balance, "how devices are chosen, spelt as in the service"),
];

const BUS: &[Field] = &[field(
    "mbit_per_s",
    "Mbit/s",
    "0",
    Is::Number(0.0, 1e9),
    "bus that all devices with bus = yes share; 0: it limits nothing",
)];

const DEVICE: &[Field] = &[
    field("count", "1", "1", Is::Whole(0.0, 64.0), "devices of this kind"),
    field("engines", "1", "1", Is::Whole(1.0, 4096.0), "requests or batches that one device does at a time"),
    field(
        "ring",
        "1",
        "64",
        Is::Whole(1.0, 16384.0),
        "requests that one device holds at a time, those in work included",
    ),
    field("latency_us", "us", "0", Is::Number(0.0, HOUR_US), "way to the device and back, beside the work"),
    field("bus", "1", "no", Is::Words(&["no", "yes"]), "whether a request's bytes cross the shared bus"),
    field("work", "1", "constant", Is::Words(&["constant", "exponential"]), "distribution of the time of a request"),
    field("reports", "1", "1", Is::Number(0.01, 100.0), "times that it reports, as a multiple of the true ones"),
    field(
        "batch",
        "1",
        "limits",
        Is::Words(&["limits", "service"]),
        "how batches begin: by these limits, or as on the service's batch device",
    ),
    field("batch_max", "1", "1", Is::Whole(1.0, 16384.0), "most requests of a batch"),
    field("batch_min", "1", "1", Is::Whole(1.0, 16384.0), "waiting requests that begin a batch"),
    field("linger_us", "us", "0", Is::Number(0.0, HOUR_US), "time after that a smaller batch begins"),
    field("launch_us", "us", "0", Is::Number(0.0, HOUR_US), "time of a batch beside its requests"),
    field("slow_from_ms", "ms", "0", Is::Number(0.0, DAY_MS), "time at that the first device of the kind becomes slow"),
    field("slow_until_ms", "ms", "0", Is::Number(0.0, DAY_MS), "time at that it recovers; 0: never"),
    field("slow_factor", "1", "1", Is::Number(0.01, 1e6), "factor on its times while it is slow"),
    field(
        "fails_at_ms",
        "ms",
        "0",
        Is::Number(0.0, DAY_MS),
        "time at that the first device of the kind dies; 0: never",
    ),
    field("returns_at_ms", "ms", "0", Is::Number(0.0, DAY_MS), "time at that it joins again; 0: never"),
];

const OPERATION: &[Field] = &[
    field("us", "us", "0", Is::Number(0.0, HOUR_US), "time of one request on an engine; in a batch: its addition"),
    field("ns_per_byte", "ns/B", "0", Is::Number(0.0, 1e9), "time of each byte of a request"),
    field(
        "rate_per_s",
        "1/s",
        "0",
        Is::Number(0.0, 1e12),
        "instead of `us`: requests in a second of one device with all engines",
    ),
    field(
        "us_by_bytes",
        "1",
        "",
        Is::Pairs,
        "instead of `us`: times by size, as 64:1.5, 16384:9; straight lines between",
    ),
    field("us_by_fill", "1", "", Is::List, "instead of `us`: times of batches of 1, 2, ... requests"),
];

const PARTS: [(&str, &[Field]); 3] = [("requests", REQUESTS), ("host", HOST), ("bus", BUS)];

/// A text is a value for this kind of parameter, or the accepted values.
fn accepted(is: Is, text: &str) -> Result<(), String> {
    let number = |least: f64, most: f64, whole: bool| {
        let value: Option<f64> = text.parse().ok();
        let fits = |value: &f64| (least..=most).contains(value) && (!whole || value.fract() == 0.0);
        let kind = if whole { "whole number" } else { "number" };
        value.filter(fits).map(drop).ok_or_else(|| format!("write a {kind} from {least} to {most}"))
    };
    match is {
        Is::Number(least, most) => number(least, most, false),
        Is::Whole(least, most) => number(least, most, true),
        Is::List if text.is_empty() || list(text).is_some() => Ok(()),
        Is::List => {
            Err(format!("write numbers above 0, at most {HOUR_US}, with commas between them, as 310, 310, 312"))
        }
        Is::Pairs | Is::Shares if text.is_empty() || pairs(text).is_some() => Ok(()),
        Is::Pairs => Err(format!(
            "write BYTES:US with commas between them, sizes in order, times above 0, at most {HOUR_US}, as 64:1.5, 16384:9"
        )),
        Is::Shares => {
            Err("write BYTES:WEIGHT with commas between them, sizes in order, weights above 0, as 256:95, 16384:5"
                .to_owned())
        }
        Is::Balance => Balance::parse(text).map(drop).map_err(|error| error.to_string()),
        Is::Notify => Notify::parse(text).map(drop).map_err(|error| error.to_string()),
        Is::File => Ok(()),
        Is::Words(words) if words.contains(&text) => Ok(()),
        Is::Words(words) => Err(format!("write {}", words.join(" or "))),
    }
}

fn is_time(us: f64) -> bool {
    us > 0.0 && us <= HOUR_US
}

fn list(text: &str) -> Option<Vec<f64>> {
    let number = |part: &str| part.trim().parse().ok().filter(|us: &f64| is_time(*us));
    text.split(',').map(number).collect()
}

fn pairs(text: &str) -> Option<Vec<(f64, f64)>> {
    let pair = |part: &str| {
        let (bytes, us) = part.split_once(':')?;
        let (bytes, us): (u32, f64) = (bytes.trim().parse().ok()?, us.trim().parse().ok()?);
        is_time(us).then_some((f64::from(bytes), us))
    };
    let all: Vec<_> = text.split(',').map(pair).collect::<Option<_>>()?;
    all.is_sorted_by(|a, b| a.0 < b.0).then_some(all)
}

/// The fields of a part by its name in a plan: `host`, `device.card`, `device.card.rsa-2048`, `work.rsa-2048`.
fn fields(part: &str) -> Option<&'static [Field]> {
    let mut names = part.split('.');
    match (names.next()?, names.next(), names.next(), names.next()) {
        ("work", Some(_), None, None) => Some(WORK),
        ("device", Some(_), None, None) => Some(DEVICE),
        ("device", Some(_), Some(_), None) => Some(OPERATION),
        (plain, None, ..) => PARTS.iter().find(|(name, _)| *name == plain).map(|(_, fields)| *fields),
        _ => None,
    }
}

/// The parameters of the plan with these parts.
pub(super) fn parameters(parts: &BTreeSet<String>) -> Vec<Parameter> {
    let fixed = PARTS.iter().map(|(name, _)| (*name).to_owned());
    let mut all: BTreeSet<String> = fixed.chain(parts.iter().filter(|part| fields(part).is_some()).cloned()).collect();
    // A device that is named by its operations only is a device too.
    let owners: Vec<String> = all
        .iter()
        .filter_map(|part| part.strip_prefix("device.")?.split_once('.'))
        .map(|(kind, _)| format!("device.{kind}"))
        .collect();
    all.extend(owners);
    let of_part = |part: &String| {
        let fields = fields(part).unwrap_or_default();
        let parameter = |field: &Field| Parameter {
            name: format!("{part}.{}", field.name),
            unit: field.unit,
            default: Some(field.default),
            meaning: field.meaning,
        };
        fields.iter().map(parameter).collect::<Vec<_>>()
    };
    all.iter().flat_map(of_part).collect()
}

/// Checks the text of the parameter with this full name.
pub(super) fn check(name: &str, text: &str) -> Result<(), String> {
    let (part, last) = name.rsplit_once('.').unwrap_or_default();
    let field = fields(part).and_then(|fields| fields.iter().find(|field| field.name == last));
    let Some(field) = field else { return Ok(()) };
    accepted(field.is, text).map_err(|accepted| {
        let unit = if field.unit == "1" { String::new() } else { format!(" ({})", field.unit) };
        format!("`{text}` is no value for {name}: {accepted}{unit}")
    })
}

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

/// Most requests in the pool before a run ends.
const OVERFLOW: usize = 200_000;
/// As in the service.
const MAX_DEVICES: u32 = sidecore_core::dispatch::MAX_DEVICES as u32;
