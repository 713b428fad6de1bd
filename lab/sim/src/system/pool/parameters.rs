//! Parameters of a pool. The plan names the operations and the kinds of devices; each has the same parameters.

use crate::settings::Parameter;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;
use std::collections::BTreeSet;

/// A parameter before its part has a name.
pub(super) struct Field {
    pub(super) name: &'static str,
    unit: &'static str,
    /// Value without an entry in the plan.
    pub(super) default: &'static str,
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

pub(super) fn list(text: &str) -> Option<Vec<f64>> {
    let number = |part: &str| part.trim().parse().ok().filter(|us: &f64| is_time(*us));
    text.split(',').map(number).collect()
}

pub(super) fn pairs(text: &str) -> Option<Vec<(f64, f64)>> {
    let pair = |part: &str| {
        let (bytes, us) = part.split_once(':')?;
        let (bytes, us): (u32, f64) = (bytes.trim().parse().ok()?, us.trim().parse().ok()?);
        is_time(us).then_some((f64::from(bytes), us))
    };
    let all: Vec<_> = text.split(',').map(pair).collect::<Option<_>>()?;
    all.is_sorted_by(|a, b| a.0 < b.0).then_some(all)
}

/// The fields of a part by its name in a plan: `host`, `device.card`, `device.card.rsa-2048`, `work.rsa-2048`.
pub(super) fn fields(part: &str) -> Option<&'static [Field]> {
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

/// Most requests in the pool before a run ends.
const OVERFLOW: usize = 200_000;
