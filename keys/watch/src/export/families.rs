//! The exported metrics: the tables of the counters, and single values about the service.

use super::account::Accounts;
use super::family::{Family, Labels, Value};
use crate::users::Users;
use sidecore_core::dispatch::DeviceState;
use sidecore_core::policy::notify::in_force;
use sidecore_counters::{
    ClassStats, Counter, DeviceStats, Kind, LaneCounter, LimitUse, SidecoreStats, Snapshot, Stats,
};

type Labelled<'a, C> = Vec<(Labels, &'a Stats<C>)>;

/// Label values of the hops. `client_hop`, because `client` is the label of a client.
const HOPS: [&str; 4] = ["service", "to_device", "from_device", "client_hop"];

pub(super) fn up(is_up: bool) -> Family {
    single("up", "Whether the service runs: 1 or 0.", Kind::Level, is_up.into())
}

pub(super) fn build() -> Family {
    let help = "Always 1, labelled with the version of the exporter.";
    let labels = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    Family::new("build_info", help, Kind::Level, [(labels, Value::Number(1))])
}

pub(super) fn service(now: &Snapshot) -> Vec<Family> {
    let every = now.start.sample_every.into();
    let info = "Always 1, labelled with the policies asked for: hops and choice of devices.";
    let parks = "Whether the policy of a hop would spin and parks instead, and why: 1 or 0.";
    let may_spin = "Whether clients are told that they may spin: 1 or 0.";
    vec![
        single("uptime", "Time since the service started.", Kind::TimeLevel, now.uptime()),
        single("sample_every_requests", "One request in so many carries stage times; 0: none.", Kind::Level, every),
        Family::new("policies_info", info, Kind::Level, [(policies(now), Value::Number(1))]),
        Family::new("policy_parks", parks, Kind::Level, parked(now)),
        single("clients_may_spin", may_spin, Kind::Level, now.clients_may_spin.into()),
    ]
}

/// Use of each limit. The label `user` is empty where a limit is of the whole service.
pub(super) fn limits(all: &[LimitUse], users: &Users) -> [Family; 2] {
    let labels = |of: &LimitUse| {
        let user = of.uid.map(|uid| users.name(uid)).unwrap_or_default();
        vec![("limit", of.limit.key().to_owned()), ("user", user)]
    };
    let samples = |value: fn(&LimitUse) -> u64| all.iter().map(move |of| (labels(of), Value::Number(value(of))));
    let used = "Use of the limit: the service's, or that of the fullest lane, process, user or sidecore.";
    [
        Family::new("limit", "The limit in force.", Kind::Level, samples(|of| of.most)),
        Family::new("limit_used", used, Kind::Level, samples(|of| of.used)),
    ]
}

pub(super) fn sidecores(all: &[SidecoreStats]) -> Vec<Family> {
    let all = labelled(all, |stats| vec![("sidecore", stats.index.to_string())]);
    let mut families = table(&all);
    let help = "Whether the sidecore owns its core, so that it may spin: 1 or 0.";
    families.push(flags("may_spin", help, &all, |stats| Some(stats.place.may_spin)));
    families
}

pub(super) fn devices(all: &[DeviceStats]) -> Vec<Family> {
    let all: Vec<_> = all.iter().filter(|stats| is_shown(stats, all)).collect();
    let all = labelled(all, |stats| {
        vec![("device", stats.name.clone()), ("kind", stats.kind.clone()), ("sidecore", stats.sidecore.to_string())]
    });
    let mut families = table(&all);
    let help = "Whether the device is given requests: 0 while it is drained, and after its death until another of its name is there.";
    families.push(flags("device_active", help, &all, |stats| Some(stats.state() == Some(DeviceState::Active))));
    let help = "Whether the worker owns its core, so that it may spin: 1 or 0.";
    families.push(flags("device_may_spin", help, &all, |stats| Some(stats.worker?.may_spin)));
    families
}

pub(super) fn classes(all: &[ClassStats]) -> Vec<Family> {
    table(&labelled(all, |stats| vec![("class", stats.class.name().to_owned())]))
}

pub(super) fn clients(all: &Accounts<LaneCounter>) -> Vec<Family> {
    let members = all.all().map(|(labels, account)| (labels.clone(), Value::Number(account.members)));
    let mut families = sums(all);
    families.push(Family::new("client_lanes", "Open lanes of the client.", Kind::Level, members));
    families
}

pub(super) fn sums<C: Counter<About: Default>>(all: &Accounts<C>) -> Vec<Family> {
    table(&all.all().map(|(labels, account)| (labels.clone(), &account.sum)).collect())
}

fn policies(now: &Snapshot) -> Labels {
    let mut labels: Labels = HOPS.into_iter().zip(now.notify.map(|notify| in_force(notify, None))).collect();
    labels.extend([("balance", now.balance.map_or("unknown", |balance| balance.name()).to_owned())]);
    labels
}

fn parked(now: &Snapshot) -> impl Iterator<Item = (Labels, Value)> {
    let hops = HOPS.into_iter().zip(now.notify).zip(now.parked());
    hops.map(|((hop, notify), why)| {
        let parks = Value::Number(why.is_some().into());
        let labels = [("hop", hop.to_owned()), ("policy", in_force(notify, None)), ("why", why.unwrap_or_default())];
        (labels.to_vec(), parks)
    })
}

/// A dead device is hidden once another of its name replaces it: both would have the same labels.
fn is_shown(device: &DeviceStats, all: &[DeviceStats]) -> bool {
    let is_gone = |device: &DeviceStats| device.state() == Some(DeviceState::Gone);
    let same = |other: &&DeviceStats| other.name == device.name && other.sidecore == device.sidecore;
    let mut others = all.iter().filter(same).filter(|other| other.index != device.index && !other.is_removed());
    !device.is_removed() && (!is_gone(device) || others.all(|other| is_gone(other) && other.index > device.index))
}

fn labelled<'s, C: Counter>(
    all: impl IntoIterator<Item = &'s Stats<C>>,
    labels: impl Fn(&Stats<C>) -> Labels,
) -> Labelled<'s, C> {
    all.into_iter().map(|stats| (labels(stats), stats)).collect()
}

pub(super) fn single(name: &str, help: &'static str, kind: Kind, value: u64) -> Family {
    Family::new(name, help, kind, [(Labels::new(), Value::Number(value))])
}

fn flags<C: Counter>(
    name: &str,
    help: &'static str,
    all: &Labelled<'_, C>,
    is_so: impl Fn(&Stats<C>) -> Option<bool>,
) -> Family {
    let sample = |(labels, stats): &(Labels, &Stats<C>)| Some((labels.clone(), Value::Number(is_so(stats)?.into())));
    Family::new(name, help, Kind::Level, all.iter().filter_map(sample))
}

fn table<C: Counter>(all: &Labelled<'_, C>) -> Vec<Family> {
    let named = |name: &str| format!("{}{name}", C::PREFIX);
    let rows = C::ROWS.iter().enumerate().filter(|(_, row)| !row.metric.is_empty());
    let metrics = rows.map(|(i, row)| {
        let samples = all.iter().map(|(labels, stats)| (labels.clone(), Value::Number(stats.counters()[i])));
        Family::new(named(row.metric), row.help, row.kind, samples)
    });
    let (name, help) = C::TIMES;
    let times = all.iter().flat_map(|(labels, stats)| staged(labels, stats));
    metrics.chain([Family::new(named(name), help, Kind::Times, times)]).collect()
}

/// A histogram for each stage. The label `stage` is left out if there is only one.
fn staged<C: Counter>(labels: &Labels, stats: &Stats<C>) -> impl Iterator<Item = (Labels, Value)> {
    C::STAGES.iter().zip(&stats.stages).map(|(stage, times)| {
        let stage = (C::STAGES.len() > 1).then(|| ("stage", stage.name().to_owned()));
        (labels.iter().cloned().chain(stage).collect(), Value::Times(Box::new(times.clone())))
    })
}
