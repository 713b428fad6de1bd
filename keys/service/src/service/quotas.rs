//! Resources of clients and their users, and their limits. A user's limits are for all its subordinate users, too.
//!
//! Ended objects count until they are closed and freed: a client that delays closing has less, not more.

use super::command::ClientKey;
use super::listener::limits::Fullest;
use crate::config::{Config, LimitsConfig};
use crate::control::Refused;
use sidecore_core::layout::Layout;
use sidecore_counters::Limit;
use sidecore_daemon::tenants::{Subordinates, Tenant};
use std::collections::HashMap;

/// Most connections without a lane, of one process and of one user. A client asks for its lane right after it
/// connects, so there are few at a time.
const LANELESS_PER_CLIENT: u32 = 64;
const LANELESS_PER_UID: u32 = 1024;
/// Most keys made for one process, and for the processes of one user, at a time: each has a connection.
const KEYS_PER_CLIENT: u32 = 256;
const KEYS_PER_UID: u32 = 1024;
/// One lane in this number is reserved for root and the service's own user.
const RESERVED: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holding {
    laneless: u32,
    keys: u32,
    lanes: u32,
    arena_bytes: u64,
    /// Shared memory of its lanes, including arenas.
    lane_bytes: u64,
    session_bytes: u64,
}

#[derive(Debug)]
pub(super) struct NoRoom {
    pub(super) short: Short,
    pub(super) why: Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Short {
    Clients,
    Lanes,
    /// A resource of its own, which it must free itself.
    Own,
}

impl From<Refused> for NoRoom {
    fn from(why: Refused) -> Self {
        Self { short: Short::Own, why }
    }
}

#[derive(Debug, Default)]
pub(super) struct Quotas {
    subordinates: Subordinates,
    /// With the tenant of each, which stays as long as the client holds something.
    clients: HashMap<ClientKey, (Tenant, Holding)>,
    users: HashMap<Tenant, Holding>,
}

impl Quotas {
    pub(super) fn new(subordinates: Subordinates) -> Self {
        Self { subordinates, ..Self::default() }
    }

    /// From now on new clients belong to users by these.
    pub(super) fn set_subordinates(&mut self, subordinates: Subordinates) {
        self.subordinates = subordinates;
    }

    pub(super) fn tenant(&self, client: ClientKey) -> Tenant {
        self.clients.get(&client).map_or_else(|| self.tenant_of(client.0), |(tenant, _)| *tenant)
    }

    pub(super) fn tenant_of(&self, uid: u32) -> Tenant {
        self.subordinates.tenant(uid)
    }

    pub(super) fn connect(&mut self, client: ClientKey) -> Result<(), Refused> {
        let own = self.client(client).laneless;
        ensure_limit!(
            own < LANELESS_PER_CLIENT,
            "this process has {own} connections without a lane: attach or close them"
        );
        let tenant = self.tenant(client);
        let of_user = self.user(tenant).laneless;
        ensure_limit!(
            of_user < LANELESS_PER_UID,
            "{tenant} has {of_user} connections without a lane: attach or close them"
        );
        self.change(client, |holding| holding.laneless += 1);
        Ok(())
    }

    pub(super) fn disconnect(&mut self, client: ClientKey) {
        self.change(client, |holding| holding.laneless -= 1);
    }

    pub(super) fn keep_key(&mut self, client: ClientKey, bytes: u64, limits: &LimitsConfig) -> Result<(), Refused> {
        let own = self.client(client).keys;
        ensure_limit!(own < KEYS_PER_CLIENT, "this process had {own} keys made: free some");
        let tenant = self.tenant(client);
        let of_user = self.user(tenant).keys;
        ensure_limit!(of_user < KEYS_PER_UID, "{tenant} had {of_user} keys made: free some");
        self.open(client, bytes, limits)?;
        self.change(client, |holding| {
            holding.laneless -= 1;
            holding.keys += 1;
        });
        Ok(())
    }

    /// The connection of the key is about to be closed.
    pub(super) fn forget_key(&mut self, client: ClientKey, bytes: u64) {
        self.change(client, |holding| {
            holding.laneless += 1;
            holding.keys -= 1;
            holding.session_bytes -= bytes;
        });
    }

    /// Checks a lane of this layout, with this number left. `reserve`: reserved lanes may be used.
    pub(super) fn check_lane(
        &self,
        client: ClientKey,
        config: &Config,
        layout: Layout,
        free: usize,
        reserve: bool,
    ) -> Result<(), NoRoom> {
        let limits = &config.limits;
        self.check_own(client, config, layout)?;
        self.check_clients(client, limits).map_err(|why| NoRoom { short: Short::Clients, why })?;
        let kept_back = if reserve { 0 } else { limits.lanes as usize / RESERVED };
        self.check_user(self.tenant(client), limits, layout)
            .and_then(|()| check_free(free, kept_back))
            .map_err(|why| NoRoom { short: Short::Lanes, why })
    }

    fn check_own(&self, client: ClientKey, config: &Config, layout: Layout) -> Result<(), Refused> {
        let (own, limits) = (self.client(client), config.limits_of(client.0));
        ensure_limit!(
            own.lanes < limits.lanes,
            "this process has {} lanes already (limits.lanes_per_client)",
            own.lanes
        );
        let (arena, _) = sizes(layout);
        let left = u64::from(limits.arena_bytes).saturating_sub(own.arena_bytes);
        ensure_limit!(arena <= left, "{arena} arena bytes: {left} are left (limits.arena_bytes_per_client)");
        Ok(())
    }

    /// Only for a client's first lane, since it reads all clients.
    fn check_clients(&self, client: ClientKey, limits: &LimitsConfig) -> Result<(), Refused> {
        if self.client(client).lanes > 0 {
            return Ok(());
        }
        let tenant = self.tenant(client);
        let others = self.clients.values().filter(|(of, holding)| *of == tenant && holding.lanes > 0).count() as u32;
        let room = others < limits.clients_per_uid;
        ensure_limit!(room, "{tenant} has {others} clients already (limits.clients_per_uid)");
        Ok(())
    }

    fn check_user(&self, tenant: Tenant, limits: &LimitsConfig, layout: Layout) -> Result<(), Refused> {
        let user = self.user(tenant);
        ensure_limit!(
            user.lanes < limits.lanes_per_uid,
            "{tenant} has {} lanes already (limits.lanes_per_uid)",
            user.lanes
        );
        let (_, bytes) = sizes(layout);
        let left = limits.lane_bytes_per_uid.saturating_sub(user.lane_bytes);
        ensure_limit!(bytes <= left, "{bytes} bytes: {left} are left to {tenant} (limits.lane_bytes_per_uid)");
        Ok(())
    }

    pub(super) fn attach(&mut self, client: ClientKey, layout: Layout) {
        let (arena_bytes, lane_bytes) = sizes(layout);
        self.change(client, |holding| {
            holding.laneless -= 1;
            holding.lanes += 1;
            holding.arena_bytes += arena_bytes;
            holding.lane_bytes += lane_bytes;
        });
    }

    pub(super) fn detach(&mut self, client: ClientKey, layout: Layout) {
        let (arena_bytes, lane_bytes) = sizes(layout);
        self.change(client, |holding| {
            holding.lanes -= 1;
            holding.arena_bytes -= arena_bytes;
            holding.lane_bytes -= lane_bytes;
        });
    }

    pub(super) fn open(&mut self, client: ClientKey, bytes: u64, limits: &LimitsConfig) -> Result<(), Refused> {
        let own = self.client(client).session_bytes;
        ensure_limit!(
            own + bytes <= limits.session_bytes_per_client,
            "this process's sessions take {own} bytes: close some (limits.session_bytes_per_client)"
        );
        let tenant = self.tenant(client);
        let of_user = self.user(tenant).session_bytes;
        ensure_limit!(
            of_user + bytes <= limits.session_bytes_per_uid,
            "the sessions of {tenant} take {of_user} bytes: close some (limits.session_bytes_per_uid)"
        );
        self.change(client, |holding| holding.session_bytes += bytes);
        Ok(())
    }

    pub(super) fn close(&mut self, client: ClientKey, bytes: u64) {
        self.change(client, |holding| holding.session_bytes -= bytes);
    }

    /// Use of the limits of processes and users.
    pub(super) fn fill(&self, config: &Config, fullest: &mut Fullest) {
        let limits = &config.limits;
        let mut with_lanes: HashMap<Tenant, u64> = HashMap::new();
        for ((uid, _), (tenant, own)) in &self.clients {
            let most = config.limits_of(*uid);
            fullest.of_user(Limit::LanesPerClient, *uid, own.lanes.into(), most.lanes.into());
            fullest.of_user(Limit::ArenaBytesPerClient, *uid, own.arena_bytes, most.arena_bytes.into());
            fullest.of_user(Limit::SessionBytesPerClient, *uid, own.session_bytes, limits.session_bytes_per_client);
            *with_lanes.entry(*tenant).or_default() += u64::from(own.lanes > 0);
        }
        for (tenant, clients) in with_lanes {
            fullest.of_user(Limit::ClientsPerUid, tenant.uid(), clients, limits.clients_per_uid.into());
        }
        for (tenant, user) in &self.users {
            let uid = tenant.uid();
            fullest.of_user(Limit::LanesPerUid, uid, user.lanes.into(), limits.lanes_per_uid.into());
            fullest.of_user(Limit::LaneBytesPerUid, uid, user.lane_bytes, limits.lane_bytes_per_uid);
            fullest.of_user(Limit::SessionBytesPerUid, uid, user.session_bytes, limits.session_bytes_per_uid);
        }
    }

    pub(super) fn is_gone(&self, client: ClientKey) -> bool {
        !self.clients.contains_key(&client)
    }

    fn client(&self, client: ClientKey) -> Holding {
        self.clients.get(&client).map_or_else(Holding::default, |(_, own)| *own)
    }

    fn user(&self, tenant: Tenant) -> Holding {
        self.users.get(&tenant).copied().unwrap_or_default()
    }

    fn change(&mut self, client: ClientKey, change: impl Fn(&mut Holding)) {
        let tenant = self.tenant(client);
        let (_, own) = self.clients.entry(client).or_insert((tenant, Holding::default()));
        let of_user = self.users.entry(tenant).or_default();
        change(own);
        change(of_user);
        if *own == Holding::default() {
            self.clients.remove(&client);
        }
        if *of_user == Holding::default() {
            self.users.remove(&tenant);
        }
    }
}

fn check_free(free: usize, kept_back: usize) -> Result<(), Refused> {
    ensure_limit!(free > kept_back, "the service has as many lanes as limits.lanes allows");
    Ok(())
}

/// Bytes of a lane's arena, and of the whole lane.
fn sizes(layout: Layout) -> (u64, u64) {
    (layout.arena_bytes().into(), layout.total_bytes() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ClientKey = (7, 100);
    const TWO: ClientKey = (7, 101);

    fn layout() -> Layout {
        Layout::new(8, 8192).unwrap()
    }

    fn config(limits: LimitsConfig) -> Config {
        Config { limits, ..Config::default() }
    }

    fn attach(quotas: &mut Quotas, client: ClientKey, config: &Config) -> Result<(), Refused> {
        quotas.connect(client)?;
        let checked = quotas.check_lane(client, config, layout(), 100, false);
        match &checked {
            Ok(()) => quotas.attach(client, layout()),
            Err(_) => quotas.disconnect(client),
        }
        checked.map_err(|no_room| no_room.why)
    }

    #[test]
    fn each_limit_is_named_and_others_are_not_meant() {
        let limits =
            LimitsConfig { lanes_per_client: 2, lanes_per_uid: 3, clients_per_uid: 2, ..LimitsConfig::default() };
        let config = config(limits);
        let mut quotas = Quotas::default();
        for _ in 0..2 {
            attach(&mut quotas, ONE, &config).unwrap();
        }
        assert!(attach(&mut quotas, ONE, &config).unwrap_err().contains("limits.lanes_per_client"));
        attach(&mut quotas, TWO, &config).unwrap();
        assert!(attach(&mut quotas, TWO, &config).unwrap_err().contains("limits.lanes_per_uid"));
        assert!(attach(&mut quotas, (7, 102), &config).unwrap_err().contains("limits.clients_per_uid"));
        attach(&mut quotas, (8, 100), &config).unwrap();
    }

    #[test]
    fn bytes_of_lanes_and_sessions_are_limited_by_user() {
        let size = layout().total_bytes() as u64;
        let limits = LimitsConfig {
            lane_bytes_per_uid: 2 * size,
            session_bytes_per_client: 100,
            session_bytes_per_uid: 150,
            ..LimitsConfig::default()
        };
        let config = config(limits);
        let mut quotas = Quotas::default();
        attach(&mut quotas, ONE, &config).unwrap();
        attach(&mut quotas, TWO, &config).unwrap();
        assert!(attach(&mut quotas, TWO, &config).unwrap_err().contains("limits.lane_bytes_per_uid"));
        quotas.open(ONE, 100, &config.limits).unwrap();
        assert!(quotas.open(ONE, 1, &config.limits).unwrap_err().contains("limits.session_bytes_per_client"));
        quotas.open(TWO, 50, &config.limits).unwrap();
        assert!(quotas.open(TWO, 1, &config.limits).unwrap_err().contains("limits.session_bytes_per_uid"));
        quotas.close(ONE, 100);
        quotas.open(TWO, 50, &config.limits).unwrap();
    }

    #[test]
    fn keys_made_for_a_program_are_limited_by_process_and_user_and_are_no_idle_connections() {
        let limits = config(LimitsConfig::default()).limits;
        let mut quotas = Quotas::default();
        let mut keep = |client: ClientKey| {
            quotas.connect(client)?;
            quotas.keep_key(client, 10, &limits).inspect_err(|_| quotas.disconnect(client))
        };
        for process in 0..4 {
            for _ in 0..KEYS_PER_CLIENT {
                keep((7, process)).unwrap();
            }
            assert!(keep((7, process)).unwrap_err().contains("this process had 256 keys made"));
        }
        assert!(keep((7, 4)).unwrap_err().contains("user 7 had 1024 keys made"));
        keep((8, 4)).unwrap();
        quotas.forget_key((8, 4), 10);
        quotas.disconnect((8, 4));
        assert!(quotas.is_gone((8, 4)) && !quotas.is_gone((7, 0)));
    }

    #[test]
    fn some_lanes_are_kept_back_for_administration() {
        let config = config(LimitsConfig { lanes: 128, ..LimitsConfig::default() });
        let quotas = Quotas::default();
        let check = |free, reserve| quotas.check_lane(ONE, &config, layout(), free, reserve);
        assert!(check(3, false).is_ok() && check(1, true).is_ok());
        assert!(check(2, false).unwrap_err().why.contains("limits.lanes") && check(0, true).is_err());
    }

    #[test]
    fn who_holds_nothing_is_forgotten() {
        let config = config(LimitsConfig::default());
        let mut quotas = Quotas::default();
        attach(&mut quotas, ONE, &config).unwrap();
        quotas.open(ONE, 10, &config.limits).unwrap();
        quotas.close(ONE, 10);
        assert!(!quotas.is_gone(ONE));
        quotas.detach(ONE, layout());
        assert!(quotas.is_gone(ONE) && quotas.users.is_empty());
    }

    #[test]
    fn the_limits_of_a_user_are_those_of_all_its_subordinate_users_together() {
        let limits = LimitsConfig { lanes_per_uid: 3, clients_per_uid: 2, ..LimitsConfig::default() };
        let config = config(limits);
        let subordinates: Subordinates = "7:100000:65536".parse().unwrap();
        let mut quotas = Quotas::new(subordinates);
        let [own, container, other] = [(7, 1), (100_033, 2), (165_535, 3)];
        attach(&mut quotas, own, &config).unwrap();
        attach(&mut quotas, container, &config).unwrap();
        let refused = attach(&mut quotas, other, &config).unwrap_err();
        assert!(refused.contains("user 7 has 2 clients already (limits.clients_per_uid)"), "{refused:?}");
        attach(&mut quotas, container, &config).unwrap();
        assert!(attach(&mut quotas, own, &config).unwrap_err().contains("user 7 has 3 lanes already"));
        attach(&mut quotas, (165_536, 4), &config).unwrap();
        // Who is here stays what it was, until it holds nothing any more.
        quotas.set_subordinates(Subordinates::default());
        assert!(attach(&mut quotas, container, &config).unwrap_err().contains("user 7 has 3 lanes already"));
        attach(&mut quotas, other, &config).unwrap();
        (0..2).for_each(|_| quotas.detach(container, layout()));
        attach(&mut quotas, container, &config).unwrap();
        assert_eq!(quotas.tenant(container).to_string(), "user 100033");
        quotas.detach(own, layout());
        assert!(quotas.users.keys().all(|tenant| tenant.uid() != 7));
    }

    #[test]
    fn connections_without_a_lane_are_few() {
        let mut quotas = Quotas::default();
        (0..LANELESS_PER_CLIENT).for_each(|_| quotas.connect(ONE).unwrap());
        assert!(quotas.connect(ONE).unwrap_err().contains("this process has 64 connections without a lane"));
        for process in 0..LANELESS_PER_UID / LANELESS_PER_CLIENT - 1 {
            (0..LANELESS_PER_CLIENT).for_each(|_| quotas.connect((7, 1000 + process)).unwrap());
        }
        assert!(quotas.connect(TWO).unwrap_err().contains("user 7 has 1024 connections"));
        quotas.connect((8, 1)).unwrap();
    }
}
