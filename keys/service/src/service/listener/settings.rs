//! Changes of the running service by `sidecore set`.

use super::state::Listener;
use crate::config::{ConfigError, DeviceAction, DeviceConfig, DeviceKind, HOPS, Setting, SettingError};
use crate::control::{Refused, Reply};
use crate::service::command::{LaneKey, SidecoreHandle};
use crate::service::reactor::error::DeviceError;
use crate::service::reactor::thread::{Reactor, write_record};
use rustix::process::geteuid;
use sidecore_core::policy::notify::in_force;
use sidecore_daemon::start::{StartError, check_cpus};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Longest time for a sidecore to carry out a change.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);

type Outcome = Result<(), SetError>;
type Request<'t> = (Setting, &'t str);

#[derive(Debug, thiserror::Error)]
pub(super) enum SetError {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Limit(#[from] ConfigError),
    #[error(transparent)]
    Core(#[from] StartError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("{0}: {1}")]
    OneOf(String, Box<Self>),
    #[error("nothing is recorded: start the service with `record`")]
    NoRecord,
    #[error("the record was ended before: see {}; for another, start the service again", .0.display())]
    RecordEnded(PathBuf),
    #[error("{}: {error}", path.display())]
    Record { path: PathBuf, error: io::Error },
    #[error("no such sidecore: there are {0}")]
    NoSidecore(usize),
    #[error(
        "a sidecore did not answer within {} s: see in `sidecore top` whether it works, and start the service again if \
         it does not",
        CHANGE_TIMEOUT.as_secs()
    )]
    Silent,
    #[error("a sidecore has ended: start the service again")]
    Ended,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum NotSet {
    #[error("{0}")]
    Refused(Refused),
    #[error("{0}; nothing was changed")]
    Nothing(SetError),
    /// This one may be, in part.
    #[error("{0}; nothing else was changed")]
    NothingElse(SetError),
    #[error("{0}; what was asked for beside it is in force in part")]
    InPart(SetError),
}

impl From<NotSet> for Refused {
    fn from(why: NotSet) -> Self {
        match why {
            NotSet::Refused(refused) => refused,
            other => Self::other(other),
        }
    }
}

impl Listener {
    /// Applies settings, all of them or none. Refusals are checked before any change. Steps that may fail for lack of
    /// memory or disk come first and are undone.
    pub(super) fn set(&mut self, key: LaneKey, texts: &[String]) -> Result<Reply, NotSet> {
        self.administers(key, "change the service").map_err(NotSet::Refused)?;
        let note = self.checked(texts).map_err(NotSet::Nothing).and_then(|settings| self.apply_all(&settings));
        self.publish_policies();
        note.map(|note| note.map_or(Reply::Done, Reply::Noted))
    }

    fn checked<'t>(&self, texts: &'t [String]) -> Result<Vec<Request<'t>>, SetError> {
        let parsed = texts.iter().map(|text| Ok((Setting::parse(text)?, text.as_str())));
        let mut settings = parsed.collect::<Result<Vec<_>, SetError>>()?;
        settings.sort_by_key(|(setting, _)| rank(setting));
        for (setting, text) in &settings {
            self.check(setting, &settings).map_err(|why| match settings.len() {
                1 => why,
                _ => SetError::OneOf((*text).to_owned(), Box::new(why)),
            })?;
        }
        Ok(settings)
    }

    fn apply_all(&mut self, settings: &[Request<'_>]) -> Result<Option<String>, NotSet> {
        let (mut notes, mut kept) = (Vec::new(), false);
        for (place, (setting, _)) in settings.iter().enumerate() {
            match self.apply(setting) {
                Ok(note) => notes.extend(note),
                Err(why) if kept => return Err(NotSet::InPart(why)),
                Err(why) => {
                    settings[..=place].iter().for_each(|(setting, _)| self.undo(setting));
                    return Err(if can_be_undone(setting) { NotSet::Nothing(why) } else { NotSet::NothingElse(why) });
                }
            }
            kept |= !can_be_undone(setting);
        }
        Ok((!notes.is_empty()).then(|| notes.join("; ")))
    }

    fn check(&self, setting: &Setting, beside: &[Request<'_>]) -> Outcome {
        match setting {
            Setting::AddDevice(device) => {
                let same =
                    |(other, _): &&Request<'_>| matches!(other, Setting::AddDevice(other) if other.name == device.name);
                // A remote device keeps its name while it has no gateway.
                let taken = self.is_remote(&device.name) || beside.iter().filter(same).count() > 1;
                let name = device.name.clone();
                if taken {
                    return Err(DeviceError::Exists(name).into());
                }
                check_cpus(device.cpu)?;
                self.ask(of(device), move |reactor| reactor.place_for(&name).map(drop), |refused| refused == 0)
            }
            Setting::Device(name, _) if beside.iter().any(|(other, _)| adds(other, name)) => Ok(()),
            // A remote device exists only while its gateway is connected.
            Setting::Device(name, DeviceAction::Remove) if self.is_remote(name) => Ok(()),
            Setting::Device(name, action) => {
                let (name, action) = (name.clone(), *action);
                self.ask_any(move |reactor| reactor.find(&name, action).map(drop))
            }
            _ => Ok(()),
        }
    }

    fn apply(&mut self, setting: &Setting) -> Result<Option<String>, SetError> {
        match setting.clone() {
            Setting::Notify(hop, notify) => {
                self.setup.config.notify.set(hop, notify);
                let hops = self.setup.config.notify;
                self.have_all(move |reactor| reactor.set_notify(hops));
                return Ok(self.parking(hop));
            }
            Setting::Balance(balance) => {
                self.setup.config.balance = balance;
                self.have_all(move |reactor| reactor.set_balance(balance));
            }
            Setting::Order(order) => self.setup.config.order = order,
            Setting::Subordinates(users) => self.quotas.set_subordinates(users.of_service(geteuid().as_raw())),
            Setting::Limit(limit, value) => self.setup.config.limits.set(limit, value)?,
            // A remote device starts when its gateway connects.
            Setting::AddDevice(device) if device.kind == DeviceKind::Remote => self.setup.config.devices.push(device),
            Setting::AddDevice(device) => {
                self.ask(of(&device), move |reactor| reactor.add_device(&device), |refused| refused == 0)?;
            }
            Setting::EndRecord => self.end_record()?,
            Setting::Device(name, DeviceAction::Remove) if self.is_remote(&name) => {
                // From now on no gateway is admitted for it.
                self.setup.config.devices.retain(|device| device.name != name);
                let _ = self.ask_any(move |reactor| reactor.device_action(&name, DeviceAction::Remove));
            }
            Setting::Device(name, action) => self.ask_any(move |reactor| reactor.device_action(&name, action))?,
        }
        Ok(None)
    }

    fn is_remote(&self, name: &str) -> bool {
        self.setup.config.devices.iter().any(|device| device.kind == DeviceKind::Remote && device.name == name)
    }

    fn undo(&mut self, setting: &Setting) {
        let Setting::AddDevice(device) = setting else { return };
        if device.kind == DeviceKind::Remote {
            self.setup.config.devices.retain(|other| other.name != device.name);
        } else {
            let name = device.name.clone();
            // A sidecore that had no room for it does not know it.
            let _ = self.ask_any(move |reactor| reactor.device_action(&name, DeviceAction::Remove));
        }
    }

    fn have_all(&self, act: impl Fn(&mut Reactor) + Clone + Send + 'static) {
        self.setup.sidecores.iter().for_each(|sidecore| sidecore.send(act.clone()));
    }

    /// A device of one sidecore is unknown to the others: one that knows it is enough.
    fn ask_any(&self, act: impl Fn(&mut Reactor) -> Result<(), DeviceError> + Clone + Send + 'static) -> Outcome {
        let sidecores = self.setup.sidecores.len();
        self.ask(|_| true, act, |refused| refused < sidecores)
    }

    fn parking(&self, hop: Option<usize>) -> Option<String> {
        let waiters = self.setup.counters.waiters();
        let notify = self.setup.config.notify.hops().map(Some);
        // Hops that park for the same reason are listed together.
        let mut told: Vec<(Vec<&str>, String)> = Vec::new();
        for (((of, name), policy), why) in HOPS.into_iter().enumerate().zip(notify).zip(waiters.parked(notify)) {
            let Some(why) = why.filter(|_| hop.is_none_or(|hop| hop == of)) else { continue };
            let force = in_force(policy, Some(&why));
            match told.iter_mut().find(|(_, other)| *other == force) {
                Some((names, _)) => names.push(name),
                None => told.push((vec![name], force)),
            }
        }
        let parts: Vec<String> = told.iter().map(|(names, force)| format!("{}: {force}", names.join(", "))).collect();
        (!parts.is_empty()).then(|| {
            let shared = waiters.sidecores.iter().chain(&waiters.workers).any(|place| !place.may_spin);
            let advice = if shared {
                "; only what owns its core spins: see sidecores.owned, or owned of the worker"
            } else {
                ""
            };
            parts.join("; ") + advice
        })
    }

    fn end_record(&self) -> Outcome {
        for (index, sidecore) in self.setup.sidecores.iter().enumerate() {
            let path = self.setup.config.record_path(index);
            let path = path.ok_or(SetError::NoRecord)?;
            let tape = answer(sidecore, Reactor::end_record)?;
            let tape = tape.ok_or_else(|| SetError::RecordEnded(path.clone()))?;
            write_record(&path, *tape).map_err(|error| SetError::Record { path, error })?;
        }
        Ok(())
    }

    pub(super) fn publish_policies(&self) {
        self.setup.counters.set_policies(self.setup.config.notify.hops(), self.setup.config.balance);
        self.setup.counters.set_clients_may_spin(self.setup.advice.may_spin);
    }

    fn ask(
        &self,
        on: impl Fn(usize) -> bool,
        act: impl Fn(&mut Reactor) -> Result<(), DeviceError> + Clone + Send + 'static,
        fine: impl Fn(usize) -> bool,
    ) -> Outcome {
        let sidecores = self.setup.sidecores.iter().enumerate();
        let outcomes: Vec<Outcome> = sidecores
            .filter(|(index, _)| on(*index))
            .map(|(_, sidecore)| Ok(answer(sidecore, act.clone())??))
            .collect();
        if outcomes.is_empty() {
            return Err(SetError::NoSidecore(self.setup.sidecores.len()));
        }
        let mut refusals: Vec<SetError> = outcomes.into_iter().filter_map(Result::err).collect();
        if fine(refusals.len()) { Ok(()) } else { Err(refusals.swap_remove(0)) }
    }
}

/// Order of application: changes that may fail, then irreversible ones, then certain ones.
fn rank(setting: &Setting) -> u32 {
    match setting {
        Setting::AddDevice(_) => 0,
        Setting::EndRecord => 1,
        Setting::Device(..) => 2,
        Setting::Notify(..)
        | Setting::Balance(_)
        | Setting::Order(_)
        | Setting::Limit(..)
        | Setting::Subordinates(_) => 3,
    }
}

fn can_be_undone(setting: &Setting) -> bool {
    matches!(setting, Setting::AddDevice(_))
}

fn of(device: &DeviceConfig) -> impl Fn(usize) -> bool + use<> {
    let only = device.sidecore;
    move |index| only.is_none_or(|sidecore| sidecore == index)
}

fn adds(setting: &Setting, name: &str) -> bool {
    matches!(setting, Setting::AddDevice(device) if device.name == name && device.kind != DeviceKind::Remote)
}

fn answer<T: Send + 'static>(
    sidecore: &SidecoreHandle<Reactor>,
    act: impl FnOnce(&mut Reactor) -> T + Send + 'static,
) -> Result<T, SetError> {
    let (tell, answer) = sync_channel(1);
    sidecore.send(move |reactor| {
        // The caller may have stopped waiting; the change is done all the same.
        let _ = tell.send(act(reactor));
    });
    answer.recv_timeout(CHANGE_TIMEOUT).map_err(|error| match error {
        RecvTimeoutError::Timeout => SetError::Silent,
        RecvTimeoutError::Disconnected => SetError::Ended,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::command::mailbox;
    use sidecore_daemon::sys::wake;
    use std::sync::Arc;

    #[test]
    fn that_a_sidecore_has_ended_is_told_at_once_with_what_to_do() {
        let (handle, mailbox) = mailbox(Arc::new(wake::event().unwrap()));
        drop(mailbox);
        let said = answer(&handle, |_| ()).unwrap_err().to_string();
        assert!(said.contains("has ended: start the service again"), "{said}");
    }
}
