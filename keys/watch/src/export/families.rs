//! The exported metrics: the tables of the counters, and single values about the service.

use sidecore_core::dispatch::DeviceState;
use sidecore_core::policy::notify::in_force;
use sidecore_counters::{ClassStats, Counter, DeviceStats, LaneCounter, LimitUse, SidecoreStats, Snapshot, Stats};
use sidecore_terminal::metrics::{Account, Accounts, Family, Kind, Labels, Value};
use sidecore_terminal::users::Users;

type Labelled<'a, C> = Vec<(Labels, &'a Stats<C>)>;

/// Label values of the hops. `client_hop`, because `client` is the label of a client.
const HOPS: [&str; 4] = ["service", "to_device", "from_device", "client_hop"];

/// The numbers of a client's lanes, or of a key.
#[derive(Debug)]
pub(super) struct Sum<C: Counter> {
    /// Counters add up; levels hold the current value.
    stats: Stats<C>,
    members: u64,
}

impl<C: Counter> Sum<C> {
    pub(super) fn add(&mut self, recent: &Stats<C>) {
        self.members += 1;
        self.stats.merge(recent);
    }
}

impl<C: Counter<About: Default>> Default for Sum<C> {
    fn default() -> Self {
        Self { stats: Stats::new(0, C::About::default()), members: 0 }
    }
}

impl<C: Counter<About: Default>> Account for Sum<C> {
    fn clear_levels(&mut self) {
        self.members = 0;
        self.stats.clear_levels();
    }

    fn is_empty(&self) -> bool {
        self.members == 0 && self.stats.counters().iter().all(|count| *count == 0)
    }
}

pub(super) fn up(is_up: bool) -> Family {
    flag("up", "Whether the service runs: 1 or 0.", is_up)
}

pub(super) fn service(now: &Snapshot) -> Vec<Family> {
    let every = now.start.sample_every.into();
    let sampled = "One request in so many carries stage times; 0: none.";
    let info = "Always 1, labelled with the policies asked for: hops and choice of devices.";
    let parks = "Whether the policy of a hop would spin and parks instead, and why: 1 or 0.";
    let may_spin = "Whether clients are told that they may spin: 1 or 0.";
    vec![
        Family::single("uptime", "Time since the service started.", Kind::TimeLevel, Value::time(now.uptime())),
        Family::single("sample_every_requests", sampled, Kind::Level, Value::Number(every)),
        Family::new("policies_info", info, Kind::Level, [(policies(now), Value::Number(1))]),
        Family::new("policy_parks", parks, Kind::Level, parked(now)),
        flag("clients_may_spin", may_spin, now.clients_may_spin),
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

pub(super) fn clients(all: &Accounts<Sum<LaneCounter>>) -> Vec<Family> {
    let members = all.all().map(|(labels, account)| (labels.clone(), Value::Number(account.members)));
    let mut families = sums(all);
    families.push(Family::new("client_lanes", "Open lanes of the client.", Kind::Level, members));
    families
}

pub(super) fn sums<C: Counter<About: Default>>(all: &Accounts<Sum<C>>) -> Vec<Family> {
    table(&all.all().map(|(labels, account)| (labels.clone(), &account.stats)).collect())
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

fn flag(name: &str, help: &'static str, is_so: bool) -> Family {
    Family::single(name, help, Kind::Level, Value::Number(is_so.into()))
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
        let samples = all.iter().map(|(labels, stats)| (labels.clone(), value(row.kind, stats.counters()[i])));
        Family::new(named(row.metric), row.help, exported(row.kind), samples)
    });
    let (name, help) = C::TIMES;
    let times = all.iter().flat_map(|(labels, stats)| staged(labels, stats));
    metrics.chain([Family::new(named(name), help, Kind::Times, times)]).collect()
}

fn exported(kind: sidecore_counters::Kind) -> Kind {
    use sidecore_counters::Kind as Counted;
    match kind {
        Counted::Count => Kind::Count,
        Counted::Bytes => Kind::Bytes,
        Counted::Time => Kind::Time,
        Counted::Level | Counted::Code => Kind::Level,
        Counted::TimeLevel => Kind::TimeLevel,
        Counted::Times => Kind::Times,
    }
}

fn value(kind: sidecore_counters::Kind, number: u64) -> Value {
    match exported(kind) {
        Kind::Time | Kind::TimeLevel => Value::time(number),
        _ => Value::Number(number),
    }
}

/// A histogram for each stage. The label `stage` is left out if there is only one.
fn staged<C: Counter>(labels: &Labels, stats: &Stats<C>) -> impl Iterator<Item = (Labels, Value)> {
    C::STAGES.iter().zip(&stats.stages).map(|(stage, times)| {
        let stage = (C::STAGES.len() > 1).then(|| ("stage", stage.name().to_owned()));
        (labels.iter().cloned().chain(stage).collect(), Value::times(times.sum(), times.counts()))
    })
}
