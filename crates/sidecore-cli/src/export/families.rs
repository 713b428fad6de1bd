//! What is exported: name, meaning and kind of each metric.

use super::account::Account;
use super::family::{Family, Kind, Labels, Value};
use Kind::{Bytes, Count, Level, Time, TimeLevel};
use sidecore::config::in_force;
use sidecore::core::dispatch::DeviceState;
use sidecore::core::stage::Stage;
use sidecore::counters::{
    ClassStats, DeviceCounter as D, DeviceStats, Histogram, KeyCounter as K, LaneCounter as L, SidecoreCounter as S,
    SidecoreStats, Snapshot,
};

/// A counter of the file, the name and meaning of its metric, and its kind.
type Metric<C> = (C, &'static str, &'static str, Kind);

const SIDECORE: [Metric<S>; 16] = [
    (S::Requests, "requests", "Requests taken from lanes.", Count),
    (S::Refused, "refused_requests", "Requests refused with a reason.", Count),
    (S::Replayed, "replayed_requests", "Requests done again on another device because theirs died.", Count),
    (S::Faults, "protocol_faults", "Lanes that ended because their client broke the protocol.", Count),
    (S::WakeupsReceived, "wakeups_received", "Wake-ups received from clients and devices.", Count),
    (S::Waits, "waits", "Finished waits of the sidecore.", Count),
    (S::EmptyPolls, "empty_polls", "Rounds that found nothing and were answered with another.", Count),
    (S::Parks, "parks", "Sleeps until woken.", Count),
    (S::Naps, "naps", "Sleeps to a given time.", Count),
    (S::SpunNs, "spin", "Time spent polling.", Time),
    (S::SleptNs, "sleep", "Time spent asleep.", Time),
    (S::CostNs, "wait_cost", "CPU time that the waits cost.", Time),
    (S::OptimumNs, "wait_optimum", "CPU time that the waits would have cost had their lengths been known.", Time),
    (S::CpuNs, "cpu", "CPU time of the sidecore's thread.", Time),
    (S::Lanes, "lanes", "Open lanes.", Level),
    (S::DormantLanes, "dormant_lanes", "Open lanes that are not looked at until they ring.", Level),
];

const DEVICE: [Metric<D>; 6] = [
    (D::Requests, "device_requests", "Requests handed to the device.", Count),
    (D::Bytes, "device_input", "Input of the requests handed to the device.", Bytes),
    (D::Failed, "device_failed_requests", "Requests lost with the device and given up.", Count),
    (D::Replayed, "device_replayed_requests", "Requests lost with the device and done again elsewhere.", Count),
    (D::InFlight, "device_in_flight", "Requests that the device has now.", Level),
    (D::BacklogNs, "device_backlog", "Estimated work given to the device and not done.", TimeLevel),
];

const CLIENT: [Metric<L>; 19] = [
    (L::Submitted, "client_requests", "Requests taken from the client.", Count),
    (L::Done, "client_done_requests", "Requests done.", Count),
    (L::Refused, "client_refused_requests", "Requests refused with a reason.", Count),
    (L::Failed, "client_failed_requests", "Requests given up because their devices died.", Count),
    (L::BytesIn, "client_input", "Input of the requests taken.", Bytes),
    (L::BytesOut, "client_output", "Results written.", Bytes),
    (L::InFlight, "client_in_flight", "Requests that devices have now.", Level),
    (L::WakeupsSent, "client_wakeups_sent", "Wake-ups sent to the client.", Count),
    (L::WakeupsSaved, "client_wakeups_saved", "Completions announced without a wake-up.", Count),
    (L::ClientReceived, "client_received", "Completions received, as the client says.", Count),
    (L::ClientWaits, "client_waits", "Finished waits, as the client says.", Count),
    (L::ClientEmptyPolls, "client_empty_polls", "Looks that found nothing, as the client says.", Count),
    (L::ClientParks, "client_parks", "Sleeps until woken, as the client says.", Count),
    (L::ClientNaps, "client_naps", "Sleeps to a given time, as the client says.", Count),
    (L::ClientSpunNs, "client_spin", "Time spent polling, as the client says.", Time),
    (L::ClientSleptNs, "client_sleep", "Time spent asleep, as the client says.", Time),
    (L::ClientCostNs, "client_wait_cost", "CPU time that the waits cost, as the client says.", Time),
    (
        L::ClientOptimumNs,
        "client_wait_optimum",
        "CPU time that the waits would have cost had their lengths been known, as the client says.",
        Time,
    ),
    (L::ClientCpuNs, "client_cpu", "CPU time of the client, as it says.", Time),
];

const KEY: [Metric<K>; 9] = [
    (K::Submitted, "key_requests", "Requests for the key.", Count),
    (K::Done, "key_done_requests", "Requests done.", Count),
    (K::Refused, "key_refused_requests", "Requests refused with a reason.", Count),
    (K::Failed, "key_failed_requests", "Requests given up because their devices died.", Count),
    (K::InFlight, "key_in_flight", "Requests that devices have now.", Level),
    (K::Sign, "key_signatures", "Signatures asked for.", Count),
    (K::Decrypt, "key_decryptions", "Decryptions asked for.", Count),
    (K::Derive, "key_derivations", "Shared secrets asked for: key agreement and decapsulation.", Count),
    (K::Public, "key_public_operations", "Verifications and encapsulations asked for.", Count),
];

/// The hops as labels; `client` names a client.
const HOPS: [&str; 4] = ["service", "to_device", "from_device", "client_hop"];

/// Whether the service runs.
pub(super) fn up(is_up: bool) -> Family {
    single("up", "Whether the service runs: 1 or 0.", Level, u64::from(is_up))
}

/// What concerns the service as a whole.
pub(super) fn service(now: &Snapshot) -> Vec<Family> {
    let every = u64::from(now.start.sample_every);
    vec![
        single("uptime", "Time since the service started.", TimeLevel, now.uptime()),
        single("sample_every_requests", "One request in so many carries stage times; 0: none.", Level, every),
        Family {
            name: "policies_info",
            help: "Always 1, labelled with the policies asked for: hops, choice of devices, order of their work.",
            kind: Level,
            samples: vec![(policies(now), Value::Number(1))],
        },
        Family {
            name: "policy_parks",
            help: "Whether the policy of a hop would spin and parks instead, and why: 1 or 0.",
            kind: Level,
            samples: parked(now),
        },
        single(
            "clients_may_spin",
            "Whether clients are told that they may spin: 1 or 0.",
            Level,
            now.clients_may_spin.into(),
        ),
    ]
}

/// Sidecores.
pub(super) fn sidecores(all: &[SidecoreStats]) -> Vec<Family> {
    let labels = |stats: &SidecoreStats| vec![("sidecore", stats.index.to_string())];
    let mut families = table(&SIDECORE, all, labels, SidecoreStats::get);
    families.push(Family {
        name: "may_spin",
        help: "Whether the sidecore owns its core, so that it may spin: 1 or 0.",
        kind: Level,
        samples: all.iter().map(|stats| (labels(stats), Value::Number(stats.place.may_spin.into()))).collect(),
    });
    families
}

/// Devices.
pub(super) fn devices(all: &[DeviceStats]) -> Vec<Family> {
    let mut families = table(&DEVICE, all, device, DeviceStats::get);
    let active = |stats: &DeviceStats| Value::Number(u64::from(stats.state == Some(DeviceState::Active)));
    families.push(Family {
        name: "device_active",
        help: "Whether the device is given requests: 0 while it is drained and after its death.",
        kind: Level,
        samples: all.iter().map(|stats| (device(stats), active(stats))).collect(),
    });
    let may_spin = |stats: &DeviceStats| Some((device(stats), Value::Number(stats.worker?.may_spin.into())));
    families.push(Family {
        name: "device_may_spin",
        help: "Whether the worker owns its core, so that it may spin: 1 or 0.",
        kind: Level,
        samples: all.iter().filter_map(may_spin).collect(),
    });
    families.push(Family {
        name: "device_time",
        help: "Time that the device needed for sampled requests.",
        kind: Kind::Times,
        samples: all.iter().map(|stats| (device(stats), times(&stats.time))).collect(),
    });
    families
}

/// Classes of requests.
pub(super) fn classes(all: &[ClassStats]) -> Vec<Family> {
    let labels = |stats: &ClassStats| vec![("class", stats.class.name().to_owned())];
    let counts = |value: fn(&ClassStats) -> u64| {
        all.iter().map(|stats| (labels(stats), Value::Number(value(stats)))).collect::<Vec<_>>()
    };
    let requests = counts(|stats| stats.requests);
    let input = counts(|stats| stats.bytes);
    let stages = all.iter().flat_map(|stats| staged(&labels(stats), &stats.stages[..=Stage::Host as usize]));
    vec![
        Family { name: "class_requests", help: "Requests of the class.", kind: Count, samples: requests },
        Family { name: "class_input", help: "Input of these requests.", kind: Bytes, samples: input },
        Family {
            name: "class_stage",
            help: "Time of sampled requests in each stage.",
            kind: Kind::Times,
            samples: stages.collect(),
        },
    ]
}

/// Clients, by their labels.
pub(super) fn clients(all: &[(Labels, &Account)]) -> Vec<Family> {
    let mut families = accounts(&CLIENT, all, |account, counter| account.counters[counter as usize]);
    families.push(members("client_lanes", "Open lanes of the client.", all));
    families.push(stages(
        "client_stage",
        "Time in each stage; deliver and total as the client says.",
        all,
        Stage::COUNT,
    ));
    families
}

/// Stored keys, by their labels.
pub(super) fn keys(all: &[(Labels, &Account)]) -> Vec<Family> {
    let mut families = accounts(&KEY, all, |account, counter| account.counters[counter as usize]);
    families.push(stages("key_stage", "Time in each stage.", all, Stage::Host as usize + 1));
    families
}

fn policies(now: &Snapshot) -> Labels {
    let mut labels: Labels = HOPS.into_iter().zip(now.notify.map(|notify| in_force(notify, None))).collect();
    labels.extend([
        ("balance", now.balance.map_or_else(unknown, |balance| balance.name().to_owned())),
        ("order", now.order.map_or_else(unknown, |order| order.name().to_owned())),
    ]);
    labels
}

/// Of each hop its policy, and why it parks if it would spin.
fn parked(now: &Snapshot) -> Vec<(Labels, Value)> {
    let hops = HOPS.into_iter().zip(now.notify).zip(now.parked());
    let sample = |((hop, notify), why): ((&str, _), Option<String>)| {
        let parks = Value::Number(why.is_some().into());
        let labels = [("hop", hop.to_owned()), ("policy", in_force(notify, None)), ("why", why.unwrap_or_default())];
        (labels.to_vec(), parks)
    };
    hops.map(sample).collect()
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn device(stats: &DeviceStats) -> Labels {
    vec![("device", stats.name.clone()), ("kind", stats.kind.clone()), ("sidecore", stats.sidecore.to_string())]
}

fn single(name: &'static str, help: &'static str, kind: Kind, value: u64) -> Family {
    Family { name, help, kind, samples: vec![(Labels::new(), Value::Number(value))] }
}

/// A family for each counter, with a sample for each of `all`.
fn table<C: Copy, T>(
    metrics: &[Metric<C>],
    all: &[T],
    labels: impl Fn(&T) -> Labels,
    value: impl Fn(&T, C) -> u64,
) -> Vec<Family> {
    let family = |(counter, name, help, kind): &Metric<C>| {
        let samples = all.iter().map(|one| (labels(one), Value::Number(value(one, *counter)))).collect();
        Family { name, help, kind: *kind, samples }
    };
    metrics.iter().map(family).collect()
}

fn accounts<C: Copy>(
    metrics: &[Metric<C>],
    all: &[(Labels, &Account)],
    value: impl Fn(&Account, C) -> u64,
) -> Vec<Family> {
    table(metrics, all, |(labels, _)| labels.clone(), |(_, account), counter| value(account, counter))
}

fn members(name: &'static str, help: &'static str, all: &[(Labels, &Account)]) -> Family {
    let samples = all.iter().map(|(labels, account)| (labels.clone(), Value::Number(account.members))).collect();
    Family { name, help, kind: Level, samples }
}

fn stages(name: &'static str, help: &'static str, all: &[(Labels, &Account)], count: usize) -> Family {
    let samples = all.iter().flat_map(|(labels, account)| staged(labels, &account.stages[..count])).collect();
    Family { name, help, kind: Kind::Times, samples }
}

/// A histogram for each stage, from the first on.
fn staged(labels: &Labels, stages: &[Histogram]) -> Vec<(Labels, Value)> {
    let one = |(stage, histogram): (Stage, &Histogram)| {
        let mut labels = labels.clone();
        labels.push(("stage", stage.name().to_owned()));
        (labels, times(histogram))
    };
    Stage::ALL.into_iter().zip(stages).map(one).collect()
}

fn times(histogram: &Histogram) -> Value {
    Value::Times(Box::new(histogram.clone()))
}
