//! Events of the control thread: changes with their author, and refusals at a bounded rate. See [`crate::events`].

use super::complaints::Complaint;
use super::settings::NotSet;
use super::state::Listener;
use crate::control::{Refused, Reply};
use crate::device::Blame;
use crate::events::{self, Settings};
use crate::keys::{KeyCommand, VaultError};
use crate::service::command::{ClientKey, LaneKey};
use crate::service::key_change::Change;
use sidecore_core::session::Refusal;
use sidecore_core::time::Nanos;
use sidecore_daemon::events::{Source, refused, suppressed};
use sidecore_daemon::sys::peer::Credentials;
use sidecore_ipc::sys::clock;

impl Listener {
    pub(super) fn who(&self, key: LaneKey) -> Credentials {
        let connection = self.connections.get(&key);
        let nobody = Credentials { pid: 0, uid: u32::MAX, gid: u32::MAX };
        connection.and_then(|connection| connection.speaker).unwrap_or(nobody)
    }

    pub(super) fn set_and_tell(&mut self, key: LaneKey, texts: &[String]) -> Result<Reply, Refused> {
        let before = Settings::of(&self.setup.config);
        let done = self.set(key, texts);
        let doubt = match &done {
            Ok(_) => None,
            Err(why @ NotSet::InPart(_)) => Some(why.to_string()),
            Err(_) => return Ok(done?),
        };
        let (before, after) = (&before, &Settings::of(&self.setup.config));
        events::set(self.who(key), &texts.join(" "), (before, after), doubt.as_deref());
        Ok(done?)
    }

    pub(super) fn change(&self, event: &'static str, key: LaneKey, name: &str) -> Change {
        let (name, before) = (name.to_owned(), self.setup.store.describe(name));
        Change { event, who: self.who(key), name, before, peer: None }
    }

    pub(super) fn change_of(&self, key: LaneKey, command: &KeyCommand) -> Option<Change> {
        let (event, name) = match command {
            KeyCommand::Share { name, .. } => ("key-site-changed", name),
            KeyCommand::Delete { name } | KeyCommand::Confirm { name, delete: true, .. } => ("key-deleted", name),
            KeyCommand::SetAcl { name, .. } | KeyCommand::ChangeAcl { name, .. } => ("key-users-changed", name),
            KeyCommand::SetUsage { name, .. } => ("key-usage-changed", name),
            KeyCommand::SetRate { name, .. } => ("key-limit-changed", name),
            KeyCommand::AddCertificate { name, .. }
            | KeyCommand::AddCertificateOfAnyDate { name, .. }
            | KeyCommand::RemoveCertificates { name } => ("key-certificates-changed", name),
            _ => return None,
        };
        Some(self.change(event, key, name))
    }

    pub(super) fn changed(&self, change: &Change, doubt: Option<&VaultError>) {
        let Change { event, who, name, before, peer } = change;
        let now = self.setup.store.describe(name);
        // A deleted key is reported with its last state.
        if let Some(key) = now.as_ref().or(before.as_ref()) {
            let doubt = doubt.map(VaultError::to_string);
            events::key_changed(event, *who, key, before.as_ref(), *peer, doubt.as_deref());
        }
    }

    pub(super) fn tell_refusal(&mut self, key: LaneKey, reply: &Reply) {
        let (Reply::Refused(why) | Reply::TooLarge(why)) = reply else { return };
        if let Some(client) = self.connections.get(&key).map(|connection| connection.client) {
            self.tell_refused(client, why);
        }
    }

    pub(super) fn tell_refused(&mut self, (uid, pid): ClientKey, why: &Refused) {
        let what = Complaint::Refused(why.code);
        if let Some(suppressed) = self.complains(what, uid) {
            refused(uid, pid, what.name(), &why.text, suppressed);
        }
    }

    /// A request in a lane, as opposed to a message.
    pub(super) fn tell_refused_request(&mut self, key: LaneKey, place: Option<u16>, refusal: Refusal, quiet: u64) {
        let Some((uid, pid)) = self.connections.get(&key).map(|connection| connection.client) else { return };
        let Some(suppressed) = self.complains(Complaint::Request, uid) else { return };
        let named = place.and_then(|place| self.setup.store.places().find(|(at, _)| *at == place));
        let with = named.map_or_else(String::new, |(_, name)| format!(" with the key {name}"));
        let text = format!("a request{with} was refused: {}", refusal.message());
        refused(uid, pid, Complaint::Request.name(), &text, suppressed + quiet);
    }

    pub(super) fn tell_fault(&mut self, key: LaneKey, why: &str) {
        let Some((uid, pid)) = self.connections.get(&key).map(|connection| connection.client) else { return };
        if let Some(suppressed) = self.complains(Complaint::Fault, uid) {
            events::client_fault(uid, pid, why, suppressed);
        }
    }

    pub(super) fn tell_blame(&mut self, device: &str, Blame { owner, key }: Blame) {
        let uid = owner.map_or(u32::MAX, |(uid, _)| uid);
        if let Some(suppressed) = self.complains(Complaint::WrongResult, uid) {
            let key =
                key.and_then(|place| self.setup.store.places().find(|(at, _)| *at == place)).map(|(_, name)| name);
            events::wrong_result(device, owner, key, suppressed);
        }
    }

    /// `Some`: report one more of this user, with the number of suppressed ones before it.
    pub(super) fn complains(&mut self, what: Complaint, uid: u32) -> Option<u64> {
        let tenant = self.quotas.tenant_of(uid);
        self.complaints.tell(clock::now(), Source { what, uid, tenant })
    }

    /// Reports the numbers of suppressed ones whose time has come, without a new occurrence.
    pub(super) fn tell_overdue(&mut self, now: Nanos) {
        while let Some(quiet) = self.complaints.overdue(now) {
            suppressed(&quiet, Complaint::name, None);
        }
    }

    /// The same at the end, without a wait.
    pub(super) fn tell_rest(&mut self) {
        while let Some(quiet) = self.complaints.rest() {
            suppressed(&quiet, Complaint::name, None);
        }
    }
}
