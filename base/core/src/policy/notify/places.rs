//! The waiting threads of each hop, and the reasons why a policy that spins parks there.

use super::Notify;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

/// The core of a thread of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCore {
    /// The core it is tied to.
    pub cpu: Option<usize>,
    /// Whether it may spin there: nothing else runs on that core.
    pub may_spin: bool,
}

/// The waiting threads. Clients are separate: they wait as advised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiters {
    /// Sidecores.
    pub sidecores: Vec<ThreadCore>,
    /// Workers among the devices.
    pub workers: Vec<ThreadCore>,
    /// Whether clients are advised that they may spin: a core is left for them, apart from those of sidecores and
    /// workers.
    pub clients_may_spin: bool,
}

/// Most cores that a reason names; further ones are counted.
const NAMED: usize = 4;
const HOPS: [&str; 4] = ["service", "to device", "from device", "client"];

impl ThreadCore {
    /// A thread without a core owns none.
    pub fn new(cpu: Option<usize>, owned: bool) -> Self {
        Self { cpu, may_spin: owned && cpu.is_some() }
    }
}

impl Waiters {
    /// The threads of a service that may use the cores `allowed`: a sidecore tied to each of `cpus`, which they may own, or
    /// one that is tied to none; and the workers at their places.
    pub fn of(cpus: &[usize], owned: bool, workers: Vec<ThreadCore>, allowed: &[usize]) -> Self {
        let sidecores: Vec<ThreadCore> = match cpus {
            [] => vec![ThreadCore::new(None, owned)],
            cpus => cpus.iter().map(|cpu| ThreadCore::new(Some(*cpu), owned)).collect(),
        };
        let is_tied = |cpu: &&usize| sidecores.iter().chain(&workers).any(|place| place.cpu == Some(**cpu));
        let left = allowed.len() - allowed.iter().filter(is_tied).count();
        let clients_may_spin = left > usize::from(cpus.is_empty());
        Self { sidecores, workers, clients_may_spin }
    }

    /// The cores among these that no thread owns; all, if every one is owned.
    pub fn free(&self, allowed: &[usize]) -> Vec<usize> {
        let owned =
            |cpu: usize| self.sidecores.iter().chain(&self.workers).any(|own| own.may_spin && own.cpu == Some(cpu));
        let free: Vec<usize> = allowed.iter().copied().filter(|cpu| !owned(*cpu)).collect();
        if free.is_empty() { allowed.to_vec() } else { free }
    }

    /// The hops' policies in force, e.g. `service spin (parks: core 1 is shared), to device park, …`.
    pub fn in_words(&self, notify: [Option<Notify>; 4]) -> String {
        let hops = HOPS.into_iter().zip(notify).zip(self.parked(notify));
        let hops = hops.map(|((hop, notify), why)| format!("{hop} {}", in_force(notify, why.as_deref())));
        hops.collect::<Vec<_>>().join(", ")
    }

    /// For each hop (service, to device, from device, client): the reason why its spinning policy parks. `None`: it
    /// works as configured, or no thread waits there.
    pub fn parked(&self, notify: [Option<Notify>; 4]) -> [Option<String>; 4] {
        let [service, to_device, from_device, client] = notify.map(|notify| notify.filter(|notify| notify.spins()));
        // The sidecore waits for answers, and it has one policy for all its waits.
        let sidecores = || match notify[0] {
            Some(policy) if !policy.spins() => Some(format!("waits as service: {policy}")),
            _ => reason(&self.sidecores),
        };
        [
            service.and_then(|_| reason(&self.sidecores)),
            to_device.and_then(|_| reason(&self.workers)),
            from_device.and_then(|_| sidecores()),
            client.filter(|_| !self.clients_may_spin).map(|_| "parks: no core is left for clients".to_owned()),
        ]
    }
}

/// A policy in force, e.g. `spin (parks: core 1 is shared)`.
pub fn in_force(notify: Option<Notify>, parked: Option<&str>) -> String {
    let policy = notify.map_or_else(|| "unknown".to_owned(), |notify| notify.to_string());
    parked.map_or_else(|| policy.clone(), |why| format!("{policy} ({why})"))
}

fn reason(places: &[ThreadCore]) -> Option<String> {
    let parking: Vec<&ThreadCore> = places.iter().filter(|place| !place.may_spin).collect();
    let mut shared: Vec<usize> = parking.iter().filter_map(|place| place.cpu).collect();
    shared.sort_unstable();
    shared.dedup();
    let shared = match shared.as_slice() {
        [] => None,
        [cpu] => Some(format!("core {cpu} is shared")),
        cpus if cpus.len() <= NAMED => {
            let names: Vec<String> = cpus.iter().map(usize::to_string).collect();
            Some(format!("cores {} are shared", names.join(", ")))
        }
        cpus => Some(format!("{} cores are shared", cpus.len())),
    };
    let untied = parking.iter().any(|place| place.cpu.is_none()).then(|| "tied to no core".to_owned());
    let causes: Vec<String> = shared.into_iter().chain(untied).collect();
    match parking.len() {
        0 => None,
        all if all == places.len() => Some(format!("parks: {}", causes.join("; "))),
        some => Some(format!("{some} of {} park: {}", places.len(), causes.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(count: usize) -> Vec<usize> {
        (0..count).collect()
    }

    fn parked(cpus: &[usize], count: usize, notify: Notify) -> [Option<String>; 4] {
        Waiters::of(cpus, false, Vec::new(), &cores(count)).parked([Some(notify); 4])
    }

    fn owned(allowed: &[usize]) -> Waiters {
        Waiters::of(&[1], true, Vec::new(), allowed)
    }

    #[test]
    fn a_policy_that_spins_says_why_it_parks() {
        let [service, to_device, from_device, client] = parked(&[1], 2, Notify::Spin);
        assert_eq!(service.as_deref(), Some("parks: core 1 is shared"));
        assert_eq!((to_device, client), (None, None), "there is no worker, and a core is left for clients");
        assert_eq!(from_device, service);
        assert_eq!(in_force(Some(Notify::Spin), service.as_deref()), "spin (parks: core 1 is shared)");
        let [service, ..] = parked(&[], 2, Notify::BreakEven);
        assert_eq!(service.as_deref(), Some("parks: tied to no core"));
        let [service, .., client] = parked(&[0, 1, 2], 3, Notify::Learn);
        assert_eq!(service.as_deref(), Some("parks: cores 0, 1, 2 are shared"));
        assert_eq!(client.as_deref(), Some("parks: no core is left for clients"));
        let [service, ..] = parked(&[0, 1, 2, 3, 4], 8, Notify::Learn);
        assert_eq!(service.as_deref(), Some("parks: 5 cores are shared"));
    }

    #[test]
    fn a_policy_that_does_as_it_says_is_shown_plainly() {
        assert_eq!(owned(&[0, 1]).parked([Some(Notify::Spin); 4]), [const { None }; 4]);
        for notify in [Notify::Park, Notify::Timer { period: 1_000 }, Notify::Coalesce { count: 2, delay: 1_000 }] {
            assert_eq!(parked(&[], 1, notify), [const { None }; 4]);
        }
        assert_eq!(in_force(Some(Notify::Park), None), "park");
        assert_eq!(in_force(None, None), "unknown");
        assert_eq!(Waiters::default().parked([None; 4]), [const { None }; 4]);
    }

    #[test]
    fn answers_of_devices_are_waited_for_as_the_sidecore_waits() {
        let policies = [Notify::Park, Notify::Spin, Notify::Spin, Notify::Spin].map(Some);
        let [service, _, from_device, _] = owned(&[0, 1]).parked(policies);
        assert_eq!((service, from_device.as_deref()), (None, Some("waits as service: park")));
    }

    #[test]
    fn cores_are_left_for_others_also_where_the_kernel_keeps_the_owned_one_free() {
        for allowed in [&[0, 1][..], &[0]] {
            let waiters = owned(allowed);
            assert_eq!((waiters.clients_may_spin, waiters.free(allowed)), (true, vec![0]), "{allowed:?}");
        }
        let waiters = owned(&[1]);
        assert_eq!((waiters.clients_may_spin, waiters.free(&[1])), (false, vec![1]), "there is no other");
        assert_eq!(Waiters::of(&[1], false, Vec::new(), &[0, 1]).free(&[0, 1]), [0, 1]);
    }

    #[test]
    fn workers_park_each_for_its_own_reason() {
        let workers =
            vec![ThreadCore::new(Some(1), true), ThreadCore::new(Some(2), false), ThreadCore::new(None, false)];
        let [_, to_device, ..] = Waiters::of(&[], false, workers, &cores(4)).parked([Some(Notify::Spin); 4]);
        assert_eq!(to_device.as_deref(), Some("2 of 3 park: core 2 is shared; tied to no core"));
    }
}
