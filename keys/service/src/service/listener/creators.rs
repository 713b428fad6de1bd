//! Keys of users who may have keys made for themselves.

use super::state::Listener;
use crate::config::CreatorsConfig;
use crate::control::Refused;
use crate::keys::{Acl, Attributes, KeyCommand, Kind, renewal_of};
use crate::service::command::LaneKey;
use sidecore_core::policy::rate::{Origin, Pace, RateLimit};
use sidecore_core::time::Nanos;
use sidecore_daemon::events::PACE;
use sidecore_daemon::sys::peer::Asker;
use sidecore_daemon::tenants::Tenant;
use sidecore_ipc::sys::clock;

/// Bounds of a creator's changes a minute. Between them the quota of keys is that number.
const FEWEST_A_MINUTE: u32 = 16;
const MOST_A_MINUTE: u32 = 60;
const MINUTE: Nanos = 60_000_000_000;

/// Most keys that are being made when another one of a creator begins: some more are for administrators.
const MAX_GENERATIONS: usize = 32;

impl Listener {
    /// The user whose own key this command makes, changes or deletes, if that user may. `None`: it is for administrators.
    pub(super) fn creator(&self, key: LaneKey, command: &KeyCommand) -> Option<u32> {
        let has_lane = self.connections.get(&key).is_none_or(|connection| connection.attached.is_some());
        let asker = self.asker(key).ok().filter(|_| !has_lane)?;
        let user = only_user(&asker)?;
        let gids = &self.setup.config.keys.creators.gids;
        let permitted = match command {
            KeyCommand::Generate { .. }
            | KeyCommand::KeepMade { .. }
            | KeyCommand::GenerateWith { .. }
            | KeyCommand::KeepMadeWith { .. } => {
                asker.peers().all(|peer| peer.gids.iter().any(|gid| gids.contains(gid)))
            }
            KeyCommand::Delete { name }
            | KeyCommand::AddCertificate { name, .. }
            | KeyCommand::AddCertificateOfAnyDate { name, .. }
            | KeyCommand::RemoveCertificates { name } => self.setup.store.owner(name) == Some(user),
            _ => false,
        };
        permitted.then_some(user)
    }

    /// Takes one of the changes that a creator may make in this time. Each takes the control thread several writes to the
    /// disk.
    pub(super) fn take_change(&mut self, user: u32) -> Result<(), Refused> {
        let tenant = self.quotas.tenant_of(user);
        let taken = self.changes.tell(clock::now(), Creator(tenant));
        // The log has refusals in counts of its own.
        while self.changes.rest().is_some() {}
        let most = a_minute(&self.setup.config.keys.creators);
        ensure_limit!(
            taken.is_some(),
            "{tenant} has asked for too many changes of keys, {most} a minute are permitted: wait a minute"
        );
        Ok(())
    }

    /// Attributes of a creator's new key.
    pub(super) fn own_attributes(&self, user: u32, name: &str, kind: Kind, acl: &Acl) -> Result<Attributes, Refused> {
        ensure!(
            name.rsplit_once('.').is_none_or(|(base, _)| renewal_of(base, name).is_none()),
            "{name}: names that end in a dot and ten digits are for renewals of administrators' keys (`sidecore keys renew`): choose \
             another"
        );
        let own = Acl { uids: vec![user], gids: Vec::new() };
        ensure!(
            *acl == Acl::default() || *acl == own,
            "only root and the service's own user name the users of a key: leave them out, and the key is yours"
        );
        let long = matches!(kind, Kind::Rsa6144 | Kind::Rsa8192);
        ensure!(
            !long,
            "RSA keys of more than 4096 bits take minutes to make: only root and the service's own user may"
        );
        let wanted = self.jobs.generations();
        ensure_limit!(wanted < MAX_GENERATIONS, "{wanted} keys are being made already: wait for some of them");
        let attributes = Attributes { owner: Some(user), ..own.into() };
        self.check_quota(&attributes)?;
        let tenant = self.quotas.tenant_of(user);
        let (has, made) = (self.keys_of(tenant), self.jobs.generations_of(tenant));
        ensure_limit!(
            has + made < usize::from(self.setup.config.keys.creators.per_user),
            "{tenant} has {has} keys, and {made} are being made (keys.creators.per_user): wait for them"
        );
        Ok(attributes)
    }

    fn keys_of(&self, tenant: Tenant) -> usize {
        self.setup.store.owners().filter(|owner| self.quotas.tenant_of(*owner) == tenant).count()
    }

    /// For a new key, once at its request and again before it is stored.
    pub(super) fn check_quota(&self, attributes: &Attributes) -> Result<(), Refused> {
        let Some(owner) = attributes.owner else { return Ok(()) };
        let tenant = self.quotas.tenant_of(owner);
        let (has, most) = (self.keys_of(tenant), self.setup.config.keys.creators.per_user);
        ensure_limit!(
            has < usize::from(most),
            "{tenant} has {has} keys already (keys.creators.per_user): delete one with `sidecore keys delete NAME`"
        );
        let (reserve, has_more) = self.setup.store.reserve();
        ensure_limit!(
            has_more,
            "the last {reserve} places for keys are for root and the service's own user: they raise limits.keys in the \
             configuration and restart the service"
        );
        Ok(())
    }
}

/// Changes of one creator, by time.
pub(super) type Changes = RateLimit<Creator>;

/// A creator with all its subordinate users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Creator(Tenant);

impl Origin for Creator {
    type Group = Tenant;

    fn group(self) -> Tenant {
        self.0
    }

    fn is_trusted(self) -> bool {
        self.0.uid() == 0
    }
}

pub(super) fn changes(config: &CreatorsConfig) -> Changes {
    let burst = a_minute(config);
    RateLimit::new(Pace { burst, every: MINUTE / Nanos::from(burst), ..PACE })
}

fn a_minute(config: &CreatorsConfig) -> u32 {
    u32::from(config.per_user).clamp(FEWEST_A_MINUTE, MOST_A_MINUTE)
}

/// A process that became another user has none.
fn only_user(asker: &Asker) -> Option<u32> {
    let mut users = asker.peers().map(|peer| peer.uid);
    let first = users.next()?;
    users.all(|user| user == first).then_some(first)
}
