//! Use of the limits for the counter file, counted once a second from the tables that enforce them.

use super::connection::Attached;
use super::state::Listener;
use crate::service::command::ClientKey;
use sidecore_core::time::Nanos;
use sidecore_counters::{KeyCounter, LaneCounter, Limit, LimitUse};
use sidecore_daemon::tenants::Tenant;
use std::collections::HashMap;

/// Interval of the counts, ns.
pub(super) const LIMITS_INTERVAL_NS: Nanos = 1_000_000_000;

/// For each limit the use of the fullest lane, process, user or sidecore.
#[derive(Debug)]
pub(in crate::service) struct Fullest([LimitUse; Limit::COUNT]);

impl Fullest {
    fn new() -> Self {
        Self(Limit::ALL.map(|limit| LimitUse { limit, used: 0, most: 0, uid: None }))
    }

    /// Use by a user, process or lane.
    pub(in crate::service) fn of_user(&mut self, limit: Limit, uid: u32, used: u64, most: u64) {
        self.consider(LimitUse { limit, used, most, uid: Some(uid) });
    }

    fn of_all(&mut self, limit: Limit, used: u64, most: u64) {
        self.consider(LimitUse { limit, used, most, uid: None });
    }

    fn consider(&mut self, of: LimitUse) {
        let fullest = &mut self.0[of.limit as usize];
        if fullest.most == 0 || of.is_fuller(fullest) {
            *fullest = of;
        }
    }
}

impl Listener {
    pub(super) fn publish_limits(&self) {
        let mut fullest = Fullest::new();
        let limits = &self.setup.config.limits;
        fullest.of_all(Limit::Lanes, u64::from(limits.lanes) - self.blocks.len() as u64, limits.lanes.into());
        fullest.of_all(Limit::Keys, self.setup.store.places().count() as u64, limits.keys.into());
        self.quotas.fill(&self.setup.config, &mut fullest);
        self.fill_lanes(&mut fullest);
        self.fill_creators(&mut fullest);
        fullest.0.iter().for_each(|of| self.setup.counters.set_limit(of));
        self.publish_rates();
    }

    fn fill_lanes(&self, fullest: &mut Fullest) {
        let config = &self.setup.config;
        let mut in_flight = vec![0; self.setup.sidecores.len()];
        let mut of_clients: HashMap<(ClientKey, usize), u64> = HashMap::new();
        for (client, attached) in self.lanes() {
            let (used, most) = (attached.sessions.count() as u64, config.limits.sessions_per_lane.into());
            fullest.of_user(Limit::SessionsPerLane, client.0, used, most);
            let requests = attached.counters.get(LaneCounter::InFlight);
            in_flight[attached.sidecore] += requests;
            *of_clients.entry((client, attached.sidecore)).or_default() += requests;
        }
        for used in in_flight {
            fullest.of_all(Limit::InFlight, used, config.limits.in_flight.into());
        }
        for ((client, _), used) in of_clients {
            let most = config.limits_of(client.0).in_flight;
            fullest.of_user(Limit::InFlightPerClient, client.0, used, most.into());
        }
    }

    fn lanes(&self) -> impl Iterator<Item = (ClientKey, &Attached)> {
        self.connections.values().filter_map(|connection| Some((connection.client, connection.attached.as_ref()?)))
    }

    fn fill_creators(&self, fullest: &mut Fullest) {
        let mut of_creators: HashMap<Tenant, u64> = HashMap::new();
        let owners = self.setup.store.owners().map(|owner| self.quotas.tenant_of(owner));
        owners.for_each(|owner| *of_creators.entry(owner).or_default() += 1);
        for (owner, used) in of_creators {
            fullest.of_user(Limit::KeysPerCreator, owner.uid(), used, self.setup.config.keys.creators.per_user.into());
        }
    }

    /// All sidecores share a key's limit: only the first one's block has it.
    fn publish_rates(&self) {
        for (place, _) in self.setup.store.places() {
            let rate = self.setup.store.rate(place).map_or(0, |(_, rate)| rate);
            self.setup.counters.key(0, place.into()).set(KeyCounter::Limit, rate.into());
        }
    }
}
