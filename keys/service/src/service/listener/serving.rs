//! Requests of other services: their set-ups and questions. Those on keys come on lanes.

use super::complaints::Complaint;
use super::state::Listener;
use crate::control::{Refused, Reply};
use crate::events;
use crate::keys::Limiter;
use crate::service::command::LaneKey;
use sidecore_core::time::Nanos;
use sidecore_daemon::tenants::Tenant;
use sidecore_ipc::sys::clock;
use std::collections::HashMap;

/// Most messages of a user a second: a set-up takes the control thread four operations on X25519.
const MOST_A_SECOND: u32 = 20;
/// Users whose messages are counted one by one. All others share a count.
const MAX_USERS: usize = 256;

/// Messages of each user, with its subordinate users.
#[derive(Debug)]
pub(super) struct Messages {
    users: HashMap<Tenant, Limiter>,
    others: Limiter,
}

impl Default for Messages {
    fn default() -> Self {
        Self { users: HashMap::new(), others: Limiter::new(Some(MOST_A_SECOND)) }
    }
}

impl Messages {
    fn admits(&mut self, user: Tenant, now: Nanos) -> bool {
        if self.users.len() >= MAX_USERS && !self.users.contains_key(&user) {
            return self.others.admits(now);
        }
        self.users.entry(user).or_insert_with(|| Limiter::new(Some(MOST_A_SECOND))).admits(now)
    }
}

impl Listener {
    pub(super) fn serve_other(&mut self, key: LaneKey, message: &[u8]) -> Result<Reply, Refused> {
        let (tenant, now) = (self.tenant(key), clock::now());
        ensure_limit!(
            self.messages.admits(tenant, now),
            "{tenant} gives more than {MOST_A_SECOND} messages of other services a second: wait a moment"
        );
        let (answer, set_up) = self.setup.store.serve(message, now)?;
        let client = self.connections.get(&key).map_or((0, 0), |connection| connection.client);
        if let Some(address) = set_up
            && let Some(suppressed) = self.complains(Complaint::Gateway, client.0)
        {
            events::served_set_up(&address.to_string(), client, suppressed);
        }
        Ok(Reply::Served(answer))
    }

    pub(super) fn serving_address(&self) -> Result<Reply, Refused> {
        Ok(Reply::Address(self.setup.store.serving_address()?))
    }

    pub(super) fn look_at_channels(&mut self, now: Nanos) {
        for limited in self.setup.store.look_at_channels(now) {
            events::served_limited(&limited.address.to_string(), limited.user, limited.count);
        }
    }
}
