//! Keys of users who may have keys made for themselves.

use super::state::Listener;
use crate::control::Refused;
use crate::keys::{Acl, Attributes, KeyCommand, Kind};
use crate::service::command::LaneKey;
use crate::sys::peer::Asker;

/// Most keys that are being made when another one of a creator begins: some more are for administrators.
const MAX_GENERATIONS: usize = 32;

impl Listener {
    /// The user whose own key this command makes or deletes, if that user may. `None`: it is for administrators.
    pub(super) fn creator(&self, key: LaneKey, command: &KeyCommand) -> Option<u32> {
        let has_lane = self.connections.get(&key).is_none_or(|connection| connection.attached.is_some());
        let asker = self.asker(key).ok().filter(|_| !has_lane)?;
        let user = only_user(&asker)?;
        let gids = &self.setup.config.keys.creators.gids;
        let permitted = match command {
            KeyCommand::Generate { .. } => asker.peers().all(|peer| peer.gids.iter().any(|gid| gids.contains(gid))),
            KeyCommand::Delete { name } => self.setup.store.owner(name) == Some(user),
            _ => false,
        };
        permitted.then_some(user)
    }

    /// What is stored with a key that this user has made for itself.
    pub(super) fn own_attributes(&self, user: u32, kind: Kind, acl: &Acl) -> Result<Attributes, Refused> {
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
        Ok(attributes)
    }

    /// Checked when the key is asked for, and when it is stored: several may be in the making.
    pub(super) fn check_quota(&self, attributes: &Attributes) -> Result<(), Refused> {
        let Some(owner) = attributes.owner else { return Ok(()) };
        let (has, most) = (self.setup.store.owned_by(owner), self.setup.config.keys.creators.per_user);
        ensure_limit!(
            has < usize::from(most),
            "user {owner} has {has} keys already (keys.creators.per_user): delete one with `sidecore keys delete NAME`"
        );
        Ok(())
    }
}

/// Who became another user is none of both.
fn only_user(asker: &Asker) -> Option<u32> {
    let mut users = asker.peers().map(|peer| peer.uid);
    let first = users.next()?;
    users.all(|user| user == first).then_some(first)
}
