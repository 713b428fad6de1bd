//! Events of a service of keys alone. Those of any service are in `sidecore_daemon::events`.
//!
//! Clients' texts, such as names, stand in fields unchanged: a subscriber that writes lines escapes them. No event
//! holds a key, a passphrase or a request's data.

use crate::config::Config;
use crate::keys::{Acl, Described};
use sidecore_client::keys::transfer::Address;
use sidecore_daemon::events::{Level, inside, some};
use sidecore_daemon::say;
use sidecore_daemon::sys::peer::Credentials;
use std::path::Path;

/// Events of a service of keys, beside those of any service.
pub const EVENTS: [(Level, &str); 37] = [
    (Level::Notice, "start"),
    (Level::Notice, "keys-at-rest"),
    (Level::Notice, "took-over"),
    (Level::Warning, "former-stays"),
    (Level::Notice, "next-service"),
    (Level::Warning, "next-service-gone"),
    (Level::Notice, "set"),
    (Level::Notice, "key-imported"),
    (Level::Notice, "key-generated"),
    (Level::Notice, "key-kept"),
    (Level::Notice, "key-replaced"),
    (Level::Notice, "key-renamed"),
    (Level::Notice, "key-deleted"),
    (Level::Notice, "key-users-changed"),
    (Level::Notice, "key-site-changed"),
    (Level::Notice, "key-usage-changed"),
    (Level::Notice, "key-limit-changed"),
    (Level::Notice, "key-certificates-changed"),
    (Level::Notice, "key-sealed"),
    (Level::Notice, "key-sent"),
    (Level::Notice, "key-received"),
    (Level::Notice, "passphrase-changed"),
    (Level::Info, "key-limited"),
    (Level::Warning, "client-fault"),
    (Level::Debug, "client-attached"),
    (Level::Debug, "client-left"),
    (Level::Debug, "lane-taken-back"),
    (Level::Error, "device-died"),
    (Level::Notice, "device-removed"),
    (Level::Notice, "gateway-connected"),
    (Level::Warning, "gateway-lost"),
    (Level::Warning, "gateway-doubted"),
    (Level::Warning, "gateway-wrong"),
    (Level::Info, "served-set-up"),
    (Level::Info, "served-limited"),
    (Level::Warning, "wrong-result"),
    (Level::Error, "record-not-written"),
];

/// A service of keys of this version starts with this configuration.
pub fn start(version: &str, config: &Config) {
    let Config { limits, sandbox, sidecores, .. } = config;
    let devices = config.devices.iter().map(|device| format!("{} ({})", device.name, device.kind.name()));
    let devices = devices.collect::<Vec<_>>().join(", ");
    let keys = &config.keys;
    say!(Notice "start",
        version,
        pid = std::process::id(),
        socket = %config.socket.display(),
        cores = ?sidecores.cpus,
        owned = sidecores.owned,
        devices,
        balance = config.balance.to_string(),
        keys_directory = keys.directory.as_ref().map(|path| path.display().to_string()),
        passphrase_file = keys.passphrase_file.as_ref().map(|path| path.display().to_string()),
        limits = inside(&format!("{limits:?}")),
        sandbox = %inside(&format!("{sandbox:?}")),
        "the service starts"
    );
}

/// The number of the last change of the keys at rest. A comparison with an earlier number shows an old copy of the
/// directory.
pub fn keys_at_rest(changes: u64) {
    say!(Notice "keys-at-rest", changes, "keys at rest are of change {changes}");
}

/// The service takes the place of another one, which ends now.
pub fn took_over() {
    say!(Notice "took-over", "the former service hands over and ends");
}

/// The former service should have ended.
pub fn former_stays() {
    say!(Warning "former-stays", "the former service has handed over and does not end: end its process");
}

pub(crate) fn next_service_reads(uid: u32, pid: u32) {
    say!(Notice "next-service", uid, pid, "another service takes this one's place: no key can be changed until it serves");
}

pub(crate) fn next_service_gone() {
    say!(Warning "next-service-gone", "the service that was to take this one's place has ended: this one goes on");
}

pub(crate) fn record_not_written(path: &Path, error: &std::io::Error) {
    say!(Error "record-not-written", path = %path.display(), error = %error, "the record could not be written");
}

#[derive(Debug, PartialEq)]
pub(crate) struct Settings(Vec<(String, String)>);

impl Settings {
    pub(crate) fn of(config: &Config) -> Self {
        Self(config.settings())
    }

    fn unlike(&self, other: &Self) -> String {
        let unlike = self.0.iter().zip(&other.0).filter(|(own, other)| own != other);
        unlike.map(|((key, value), _)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }
}

/// A user changed the running service by this setting, from these settings to those. `doubt`: it was carried out in
/// part.
pub(crate) fn set(who: Credentials, setting: &str, (before, now): (&Settings, &Settings), doubt: Option<&str>) {
    let Credentials { uid, gid, pid } = who;
    let (was, is) = (before.unlike(now), now.unlike(before));
    let changed = !is.is_empty();
    say!(Notice "set",
        setting,
        before = changed.then_some(was),
        now = changed.then_some(is),
        doubt,
        uid, gid, pid, from = FROM,
        "the service was changed"
    );
}

/// The origin of changes: the service's socket. A gateway's connection changes nothing.
const FROM: &str = "socket";

/// A stored key was changed, or is new. `key` is its present state, or the last one before its deletion.
pub(crate) fn key_changed(
    event: &'static str,
    who: Credentials,
    key: &Described,
    before: Option<&Described>,
    peer: Option<Address>,
    doubt: Option<&str>,
) {
    let Credentials { uid, gid, pid } = who;
    let before = |field: fn(&Described) -> String| before.map(field).filter(|old| *old != field(key));
    say!(Notice event,
        key = key.entry.name,
        key_before = before(|key| key.entry.name.clone()),
        kind = key.entry.kind.name(),
        fingerprint = key.fingerprint,
        fingerprint_before = before(|key| key.fingerprint.clone()),
        site = key.entry.site.name(),
        site_before = before(|key| key.entry.site.name().to_owned()),
        users = users(&key.entry.acl),
        users_before = before(|key| users(&key.entry.acl)),
        usage = key.usage.to_string(),
        usage_before = before(|key| key.usage.to_string()),
        limit = key.rate,
        limit_before = before(|key| key.rate.map_or_else(|| "none".to_owned(), |rate| rate.to_string())),
        certificates = key.certificates,
        certificates_before = before(|key| key.certificates.to_string()),
        owner = key.owner,
        peer = peer.map(|peer| peer.to_string()),
        at_rest = key.entry.at_rest,
        doubt,
        uid, gid, pid, from = FROM,
        "{}", done_to_key(event)
    );
}

/// At most once a second for each key.
pub(crate) fn key_limited(key: &str, limit: u32) {
    say!(Info "key-limited", key, limit, "requests for a stored key exceed its limit");
}

fn done_to_key(event: &str) -> &'static str {
    match event {
        "key-imported" => "a key was imported",
        "key-generated" => "a key was made",
        "key-kept" => "a program's key was stored",
        "key-replaced" => "another key was put in a stored key's place",
        "key-renamed" => "a stored key has another name",
        "key-deleted" => "a stored key was deleted",
        "key-users-changed" => "others may use a stored key",
        "key-usage-changed" => "a stored key may do other operations",
        "key-limit-changed" => "a stored key has another limit of requests",
        "key-certificates-changed" => "a stored key has other certificates",
        "key-sealed" => "a stored key was sealed to another service",
        "key-sent" => "another service has a stored key, by its receipt",
        "key-received" => "a key of another service was stored",
        _ => "a stored key is used at other places",
    }
}

pub(crate) fn passphrase_changed(who: Credentials, doubt: Option<&str>) {
    let Credentials { uid, gid, pid } = who;
    say!(Notice "passphrase-changed",
        doubt, uid, gid, pid, from = FROM,
        "the keys at rest are sealed under another passphrase"
    );
}

/// A client broke the protocol, and its connection ends. `suppressed`: as for [`refused`].
pub(crate) fn client_fault(uid: u32, pid: u32, text: &str, suppressed: u64) {
    say!(Warning "client-fault", uid, pid, suppressed = some(suppressed), "a connection ends: {text}");
}

pub(crate) fn client_attached(uid: u32, pid: u32, name: &str, sidecore: usize) {
    say!(Debug "client-attached", uid, pid, name, sidecore, "a client has a lane");
}

pub(crate) fn client_left(uid: u32, pid: u32, sidecore: usize) {
    say!(Debug "client-left", uid, pid, sidecore, "a client's lane is closed");
}

pub(crate) fn lane_taken_back(uid: u32, pid: u32) {
    say!(Debug "lane-taken-back", uid, pid, "a client's idle lane was taken back for another process of its user");
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Loss {
    #[default]
    Died,
    Late,
    Removed,
}

pub(crate) fn device_lost(device: &str, sidecore: usize, loss: Loss) {
    match loss {
        Loss::Removed => say!(Notice "device-removed", device, sidecore, "a device was removed"),
        Loss::Died => say!(Error "device-died", device, sidecore, why = "its thread ended", "a device died"),
        Loss::Late => say!(Error "device-died", device, sidecore, why = "it did not answer in time", "a device died"),
    }
}

pub(crate) fn gateway_connected(device: &str, (uid, pid): (u32, u32), suppressed: u64) {
    say!(Notice "gateway-connected", device, uid, pid, suppressed = some(suppressed), "a remote device has a gateway");
}

pub(crate) fn gateway_lost(device: &str, (uid, pid): (u32, u32), why: &str, suppressed: u64) {
    say!(Warning "gateway-lost",
        device, uid, pid, why, suppressed = some(suppressed),
        "a remote device has no gateway any more"
    );
}

pub(crate) fn gateway_wrong(device: &str, (uid, pid): (u32, u32), key: &str, suppressed: u64) {
    say!(Warning "gateway-wrong",
        device, uid, pid, key, suppressed = some(suppressed),
        "a key server answers with what the key has not made: the gateway asks it no more, and its log names it"
    );
}

pub(crate) fn served_set_up(address: &str, (uid, pid): (u32, u32), suppressed: u64) {
    say!(Info "served-set-up",
        address, uid, pid, suppressed = some(suppressed),
        "another service has requests done here, which this process carries"
    );
}

pub(crate) fn served_limited(address: &str, user: u32, count: u64) {
    say!(Info "served-limited",
        address, user, count,
        "requests of another service were refused for its limit (serve_to in the configuration): user is the last one who asked there"
    );
}

pub(crate) fn wrong_result(device: &str, owner: Option<(u32, u32)>, key: Option<&str>, suppressed: u64) {
    say!(Warning "wrong-result",
        device, uid = owner.map(|(uid, _)| uid), pid = owner.map(|(_, pid)| pid), key, suppressed = some(suppressed),
        "a result of a batch did not verify and was made again: the key of one user alone is none, that of several is a broken machine"
    );
}

pub(crate) fn gateway_doubted(device: &str, key: &str) {
    say!(Warning "gateway-doubted",
        device, key,
        "the gateway offers a key which is another key here or is here only: it is not asked for it; see `sidecore keys list`"
    );
}

fn users(acl: &Acl) -> String {
    let uids = acl.uids.iter().map(|uid| format!("uid:{uid}"));
    let all: Vec<String> = uids.chain(acl.gids.iter().map(|gid| format!("gid:{gid}"))).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NotifyConfig;
    use sidecore_core::policy::balance::Balance;
    use sidecore_core::policy::notify::Notify;
    use sidecore_daemon::events;
    use std::collections::BTreeSet;

    #[test]
    fn each_event_that_is_said_is_listed() {
        let said = include_str!("events.rs").split("say!(").filter_map(|rest| {
            let (level, rest) = rest.split_once(" \"")?;
            let name = rest.split('"').next()?;
            level.chars().all(char::is_alphabetic).then_some((level, name))
        });
        let listed =
            |level: &str, name: &str| EVENTS.iter().any(|(at, known)| format!("{at:?}") == level && *known == name);
        let missing: Vec<_> = said.filter(|(level, name)| !listed(level, name)).collect();
        assert_eq!(missing, []);
    }

    #[test]
    fn each_event_has_a_name_of_its_own() {
        let all = EVENTS.iter().chain(&events::EVENTS);
        assert_eq!(all.map(|(_, name)| name).collect::<BTreeSet<_>>().len(), EVENTS.len() + events::EVENTS.len());
    }

    #[test]
    fn of_policies_those_are_told_that_changed() {
        let before = Config::default();
        let mut now = Config { balance: Balance::Sed, ..Config::default() };
        now.notify = NotifyConfig { client: Notify::Park, ..now.notify };
        let (before, now) = (Settings::of(&before), Settings::of(&now));
        assert_eq!(before.unlike(&now), "notify.client=break-even balance=eft");
        assert_eq!(now.unlike(&before), "notify.client=park balance=sed");
        assert_eq!(now.unlike(&now), "");
    }

    #[test]
    fn users_are_in_words() {
        assert_eq!(users(&Acl::default()), "none");
        assert_eq!(users(&Acl { uids: vec![33, 0], gids: vec![7] }), "uid:33,uid:0,gid:7");
    }
}
