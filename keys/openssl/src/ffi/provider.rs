//! A loaded provider: its settings, and where its failures are told.

use super::legacy_builder::LegacyBuilder;
use super::upcalls::Core;
use crate::jobs::Jobs;
use rustix::rand::{GetRandomFlags, getrandom};
use sidecore_client::client::Options;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::Key;
use sidecore_client::keyops::lanes;
use sidecore_client::keyops::large_stack::on_large_stack;
use sidecore_client::keyops::notice::{self, Remark};
use sidecore_client::keyops::wait::Caller;
use sidecore_core::policy::notify::Notify;
use sidecore_ipc::environment::named_users;
use std::ffi::CStr;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

const MAX_PROVIDERS: usize = 1024;

/// Random number of a loaded provider, unique in all processes except forked children, which keep it.
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ProviderNumber(u64);

impl ProviderNumber {
    pub(super) fn get(self) -> Option<Arc<Provider>> {
        let loaded = LOADED.read().unwrap_or_else(PoisonError::into_inner);
        loaded.iter().find(|(number, _)| *number == self)?.1.upgrade()
    }
}

pub(crate) struct Provider {
    pub(super) number: ProviderNumber,
    pub(crate) core: Core,
    /// Options of lanes; or the error in the configuration, which OpenSSL would not show during loading.
    options: Result<Options, Failure>,
    pub(super) legacy: LegacyBuilder,
    syslog: bool,
    /// The options after looking up names of users. That happens after OpenSSL has loaded its configuration: the
    /// lookup may use OpenSSL itself.
    known: OnceLock<Options>,
}

/// Loaded providers. Written during load and unload, when libcrypto holds locks of its own, under which no child may
/// be forked.
static LOADED: RwLock<Vec<(ProviderNumber, Weak<Provider>)>> = RwLock::new(Vec::new());

pub(super) fn random<const LEN: usize>() -> Result<[u8; LEN], Failure> {
    let mut bytes = [0; LEN];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(len) if len == LEN => Ok(bytes),
        _ => Err(Failure::new(Reason::Internal, "the kernel gives no random bytes")),
    }
}

/// Passes a result on; a failure goes into OpenSSL's error queue. Without `provider`, any loaded one reports it.
pub(super) fn tell<T>(provider: Option<Arc<Provider>>, doing: &'static CStr, done: Result<T, Failure>) -> Option<T> {
    done.inspect_err(|failure| {
        let any = || LOADED.read().unwrap_or_else(PoisonError::into_inner).iter().find_map(|(_, one)| one.upgrade());
        if let Some(provider) = provider.or_else(any) {
            provider.core.error(doing, failure);
        }
    })
    .ok()
}

impl Provider {
    /// `None`: too many are loaded.
    pub(super) fn load(core: Core, legacy: LegacyBuilder) -> Option<Arc<Self>> {
        let number = ProviderNumber(u64::from_ne_bytes(random().ok()?));
        let options = read(|name| core.setting(name));
        let old = core.setting(c"legacy").map(|text| old_setting(&text)).transpose();
        let (options, old) = match old {
            Ok(old) => (options, old),
            Err(wrong) => (Err(wrong), None),
        };
        let (options, syslog) = match yes_or_no("syslog", core.setting(c"syslog").as_deref()) {
            Ok(syslog) => (options, syslog),
            Err(wrong) => (Err(wrong), true),
        };
        notice::begin();
        let provider = Arc::new(Self { number, core, options, syslog, legacy, known: OnceLock::new() });
        let mut loaded = LOADED.write().unwrap_or_else(PoisonError::into_inner);
        if loaded.len() >= MAX_PROVIDERS {
            drop(loaded);
            return None;
        }
        loaded.push((number, Arc::downgrade(&provider)));
        drop(loaded);
        if let Some(old) = old {
            provider.remark(Remark::OldSetting, None, &old);
        }
        Some(provider)
    }

    pub(crate) fn options(&self) -> Result<&Options, Failure> {
        let options = self.options.as_ref().map_err(Clone::clone)?;
        if self.known.get().is_none() {
            // Looked up before the short `set`, which a child forked during it must not have to wait for.
            let _ = self.known.set(on_large_stack(|| looked_up(options)));
        }
        Ok(self.known.get().unwrap_or(options))
    }

    pub(crate) fn caller(&self) -> Result<Caller<'_>, Failure> {
        Ok(Caller { options: self.options()?, wait: &Jobs })
    }

    /// Passes a result on; a failure goes into OpenSSL's error queue.
    pub(crate) fn tell<T>(&self, doing: &'static CStr, done: Result<T, Failure>) -> Option<T> {
        self.tell_of(None, doing, done)
    }

    /// As `tell`, for an operation with this key; the failure also goes to the system's log.
    pub(crate) fn tell_of<T>(&self, key: Option<&Key>, doing: &'static CStr, done: Result<T, Failure>) -> Option<T> {
        let told = |failure: &Failure| {
            self.core.error(doing, failure);
            if self.syslog {
                on_large_stack(|| notice::tell(failure, key));
            }
        };
        done.inspect_err(told).ok()
    }

    /// Tells the system's log once what its reader should know though nothing failed.
    pub(super) fn remark(&self, remark: Remark, key: Option<&Key>, text: &str) {
        if self.syslog {
            on_large_stack(|| notice::remark(remark, key, text));
        }
    }
}

fn read(setting: impl Fn(&'static CStr) -> Option<String>) -> Result<Options, Failure> {
    let mut options = Options::default();
    if let Some(socket) = setting(c"socket") {
        options.socket = socket.into();
    }
    if let Some(users) = setting(c"service_user") {
        options.service_users = named_users(&users);
    }
    if let Some(policy) = setting(c"notify") {
        let policy = Notify::parse(&policy).map_err(|error| Failure::input(format!("notify = {policy}: {error}")))?;
        options.notify = Some(policy);
    }
    if let Some(text) = setting(c"timeout_ms") {
        options.timeout = milliseconds("timeout_ms", &text, 1)?;
    }
    if let Some(text) = setting(c"restart_wait_ms") {
        options.restart_wait = milliseconds("restart_wait_ms", &text, 0)?;
    }
    Ok(options)
}

fn looked_up(options: &Options) -> Options {
    let mut options = options.clone();
    options.look_up_users();
    options
}

/// A switch; on by default.
fn yes_or_no(name: &str, text: Option<&str>) -> Result<bool, Failure> {
    match text.map(str::trim) {
        None | Some("yes") => Ok(true),
        Some("no") => Ok(false),
        Some(text) => Err(Failure::input(format!("{name} = {text}: write yes or no"))),
    }
}

fn milliseconds(name: &str, text: &str, least: u64) -> Result<Duration, Failure> {
    let allowed = least..=600_000;
    let given = text.trim().parse().ok().filter(|given| allowed.contains(given));
    given.map(Duration::from_millis).ok_or_else(|| {
        let most = allowed.end();
        Failure::input(format!("{name} = {text}: give a whole number of milliseconds from {least} to {most}"))
    })
}

impl Drop for Provider {
    fn drop(&mut self) {
        let mut loaded = LOADED.write().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|(number, _)| *number != self.number);
        let last = loaded.is_empty();
        drop(loaded);
        if last {
            lanes::close_idle();
        }
    }
}

/// Checks the setting `legacy`, which earlier versions had. Returns the line that says what replaces its value.
///
/// # Errors
/// The value is none that those versions knew.
fn old_setting(text: &str) -> Result<String, Failure> {
    let value = text.trim();
    match value {
        "none" | "public" | "placeholder" => Ok(format!(
            "legacy = {value} has no effect any more: an RSA or EC_KEY of a stored key now signs and decrypts in the \
             service. Remove the line from the configuration of OpenSSL"
        )),
        other => Err(Failure::input(format!("legacy = {other}: this setting is gone, remove the line"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_names_socket_and_users_of_the_service() {
        let options = read(|name| match name.to_str() {
            Ok("socket") => Some("/run/other".to_owned()),
            Ok("service_user") => Some("root, 64031".to_owned()),
            _ => None,
        });
        let options = looked_up(&options.unwrap());
        assert_eq!(options.socket.to_str(), Some("/run/other"));
        assert_eq!(options.service_users, ["0", "64031"]);
        assert_eq!(looked_up(&read(|_| None).unwrap()).service_users.len(), 1);
    }

    #[test]
    fn a_timeout_is_a_number_of_milliseconds() {
        let read_timeout = |text| milliseconds("timeout_ms", text, 1);
        assert_eq!(read_timeout("250").unwrap(), Duration::from_millis(250));
        assert_eq!(read_timeout(" 600000 ").unwrap(), Duration::from_mins(10));
        assert_eq!(milliseconds("restart_wait_ms", "0", 0).unwrap(), Duration::ZERO);
        for text in ["", "0", "-1", "2s", "1.5", "600001", "99999999999999999999"] {
            let failure = read_timeout(text).unwrap_err();
            assert!(failure.text.contains(&format!("timeout_ms = {text}: give")), "{}", failure.text);
        }
    }

    #[test]
    fn each_value_of_the_old_setting_is_answered_with_what_replaces_it() {
        for value in ["none", " public ", "placeholder"] {
            let line = old_setting(value).unwrap();
            assert!(line.starts_with(&format!("legacy = {} has no effect", value.trim())) && line.contains("Remove"));
        }
        assert!(old_setting("all").unwrap_err().text.contains("legacy = all: this setting is gone, remove the line"));
    }
}
