//! `sidecore keys renew`: stores the key of a renewed certificate in the service and gives its name to the server, both
//! or neither.
//!
//! Each key of NAME is stored as `NAME.SECONDS`, the time of its import, so the list of keys shows the former keys and
//! their age. A key that the service already has is used again: after a kill, running the command again completes it.

use super::key_file::{Access, Id, KeyFile, KeyFileError};
use super::terms::Terms;
use super::{all, called, key_of, list, new_key, pem, read, requests, terms};
use crate::args::keys::Renewal;
use crate::error::{CliError, failed, unusable};
use crate::set::connect;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use sidecore::client::Admin;
use sidecore::engine::crypto::Secret;
use sidecore::keys::{
    Acl, Certificate, KeyCommand, KeyEntry, Moment, RENEWAL_DIGITS, Site, UsableKey, Usage, check_dates, check_name,
    first_certificate, read_certificates, read_public_key, renewal_of,
};
use sidecore_ipc::named_file::NamedFile;
use sidecore_terminal::output;
use std::collections::HashSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const DAY_SECONDS: u64 = 24 * 60 * 60;
/// Time between two checks whether the reload command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const NEW_FILE: Access = Access { mode: 0o644, uid: None, gid: None };

/// Why the server was not switched to the new key.
#[derive(Debug, thiserror::Error)]
enum NotSwitched {
    /// Before its file was changed.
    #[error(transparent)]
    Unready(#[from] CliError),
    /// Its file was not changed.
    #[error(transparent)]
    Unwritten(#[from] KeyFileError),
    /// Its file, if it has one, is as it was.
    #[error("{reload}{}", file.as_ref().map_or_else(String::new, |file| format!("; {file} is as it was")))]
    Undone { reload: NotReloaded, file: Option<String> },
    /// As before, too late.
    #[error("{reload}; {}programs use the new key", file.as_ref().map_or_else(String::new, |file| format!("{file} is as it was, but ")))]
    InUse { reload: NotReloaded, file: Option<String> },
    #[error("{reload}; {file} names the new key still: {why}")]
    NotUndone { reload: NotReloaded, file: String, why: KeyFileError },
}

impl NotSwitched {
    /// Whether the server may use the new key, which is kept then.
    fn needs_new_key(&self) -> bool {
        matches!(self, Self::InUse { .. } | Self::NotUndone { .. })
    }
}

/// Why the server did not read its files anew.
#[derive(Debug, thiserror::Error)]
enum NotReloaded {
    #[error("`{command}` failed ({status})")]
    Failed { command: String, status: ExitStatus },
    #[error("`{command}` took more than {seconds} s and was ended")]
    Late { command: String, seconds: u16 },
    #[error("`{command}`: sh: {why}")]
    Shell { command: String, why: io::Error },
}

pub(super) fn run(socket: &Path, renewal: &Renewal) -> Result<(), CliError> {
    let name = &renewal.name;
    check_name(&format!("{name}.{:0RENEWAL_DIGITS$}", 0)).map_err(CliError::library)?;
    if let Some(base) = name.rsplit_once('.').and_then(|(base, _)| renewal_of(base, name).and(Some(base))) {
        let why = format!("{name} is a key of {base}: give the name that they have in common, {base}");
        return Err(CliError::Usage(why));
    }
    let _alone = alone(&renewal.file)?;
    let (pkcs8, public) = key_of(name, &renewal.file, renewal.passphrase_file.as_deref())?;
    let certificate = read(&renewal.certificate)?;
    if read_public_key(&certificate).map_err(failed(called(&renewal.certificate)))? != public {
        let (certificate, file) = (called(&renewal.certificate), called(&renewal.file));
        let why =
            format!("{certificate} is of another key than {file}: give those of one renewal; nothing was changed");
        return Err(CliError::Usage(why));
    }
    let key_file = renewal.output.as_deref().map(|output| key_file(name, output)).transpose()?;
    let in_use = key_file.as_ref().and_then(KeyFile::present).map(|present| present.key.as_str());
    let mut service = connect(socket)?;
    let mut terms = terms::all(socket)?;
    let keys = family(&mut service, name, terms.as_ref())?;
    let known = keys.iter().find(|key| service.key_info(&key.name).is_ok_and(|info| info.public == public));
    let former = former(name, in_use, &keys, known);
    let acl = users(renewal, former);
    let terms = former.and_then(|former| terms.as_mut()?.remove(&former.name));
    let chain = chain(renewal, &certificate, &mut service, terms.as_ref())?;
    if let Some(known) = known.filter(|_| !renewal.allow_expired) {
        check_later(name, known, in_use, &keys)?;
    }
    let restrictions = |key: &str| restrictions(key, &acl, terms.as_ref(), (&chain, renewal.allow_expired));
    let key = if let Some(known) = known {
        if known.acl == Acl::default() && in_use.is_none_or(|in_use| in_use != known.name) {
            // An import that was killed has no users yet.
            for command in restrictions(&known.name) {
                service.keys(command)?;
            }
        }
        known.name.clone()
    } else {
        let taken = all(&mut service)?.into_iter().map(|key| key.name).collect();
        let key = new_name(name, now(), &keys, &taken);
        import(&mut service, &key, pkcs8, &acl, restrictions(&key))?;
        key
    };
    if let Err(failure) = switch(socket, renewal, key_file.as_ref(), &mut service, &key) {
        let kept = known.is_some() || failure.needs_new_key();
        let key = match (!kept).then(|| delete(&mut service, &key)) {
            None => format!("the key {key} is kept"),
            Some(Ok(())) => format!("the key {key} is deleted again"),
            Some(Err(error)) => error.to_string(),
        };
        return Err(CliError::NotRenewed { why: failure.into(), key });
    }
    tell(socket, &mut service, renewal, &key)
}

/// Checks the dates of the new certificate. Its chain, where the former key has certificates in the service: programs
/// that look for them find the new key only with its own.
fn chain(
    renewal: &Renewal,
    file: &[u8],
    service: &mut Admin,
    former: Option<&UsableKey>,
) -> Result<Vec<Vec<u8>>, CliError> {
    let unusable = |error| unusable(called(&renewal.certificate), "nothing was changed")(error);
    let is_der = Certificate::read(file).is_some();
    let former = former.filter(|former| former.certificates > 0);
    if !renewal.allow_expired {
        let present = former.map(|former| service.certificate(&former.name, 0)).transpose()?;
        let leaf = if is_der { Ok(file.to_vec()) } else { first_certificate(file) };
        leaf.and_then(|leaf| check_dates(&leaf, present.as_deref(), Moment(now()))).map_err(unusable)?;
    }
    match former {
        Some(_) if is_der => Ok(vec![file.to_vec()]),
        Some(_) => read_certificates(file).map_err(unusable),
        None => Ok(Vec::new()),
    }
}

/// The service may have the key already because another run stored it, or because it is a former one that comes back.
fn check_later(name: &str, known: &KeyEntry, in_use: Option<&str>, keys: &[KeyEntry]) -> Result<(), CliError> {
    let stamped = keys.iter().map(|key| key.name.as_str());
    let present = in_use.or_else(|| stamped.max_by_key(|key| renewal_of(name, key)));
    match present.filter(|present| renewal_of(name, &known.name) < renewal_of(name, present)) {
        Some(present) => Err(CliError::Usage(format!(
            "the certificate is of the former key {}, and {present} came after it: give the later certificate, or go back to this \
             one with --allow-expired; nothing was changed",
            known.name
        ))),
        None => Ok(()),
    }
}

/// Writes the key's name to the server's file and reloads the server. Restores the file if the reload fails.
fn switch(
    socket: &Path,
    renewal: &Renewal,
    key_file: Option<&KeyFile>,
    service: &mut Admin,
    key: &str,
) -> Result<(), NotSwitched> {
    let mut put = None;
    if let Some(key_file) = key_file {
        let text = pem::text(service, key)?;
        let draft = key_file.draft(&text, key_file.present().map_or(NEW_FILE, |present| present.access))?;
        test(socket, renewal, &draft.path(), key_file)?;
        put = Some((key_file, draft.put()?));
    }
    let Some(command) = &renewal.reload else { return Ok(()) };
    let before = requests(socket, key);
    let seconds = renewal.reload_timeout;
    let shown = command.clone();
    let failed = match reload(command, Duration::from_secs(seconds.into())) {
        Ok(Some(status)) if status.success() => return Ok(()),
        Ok(Some(status)) => NotReloaded::Failed { command: shown, status },
        Ok(None) => NotReloaded::Late { command: shown, seconds },
        Err(why) => NotReloaded::Shell { command: shown, why },
    };
    Err(undone(put, failed, requests(socket, key) != before))
}

/// Exit status of the reload command. `None`: it exceeded the timeout, and its process group was killed.
fn reload(command: &str, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let mut child = Command::new("sh").arg("-c").arg(command).stdin(Stdio::null()).process_group(0).spawn()?;
    let until = Instant::now() + timeout;
    while Instant::now() < until {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(LOOK_EVERY);
    }
    // The process may end in this instant.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    child.wait().map(|_| None)
}

/// A server may use the new key although its reload failed. It then keeps the key.
fn undone(put: Option<(&KeyFile, Id)>, reload: NotReloaded, asked: bool) -> NotSwitched {
    let file = put.map(|(key_file, _)| key_file.shown().to_string());
    if let Some((key_file, put)) = put
        && let Err(why) = key_file.undo(put)
    {
        return NotSwitched::NotUndone { reload, file: key_file.shown().to_string(), why };
    }
    if asked { NotSwitched::InUse { reload, file } } else { NotSwitched::Undone { reload, file } }
}

/// Locks the file: two simultaneous renewals of one key would undo each other's changes.
fn alone(file: &Path) -> Result<Option<NamedFile>, CliError> {
    if file == Path::new("-") {
        return Ok(None);
    }
    // The later read reports a file that cannot be opened.
    let Ok(opened) = NamedFile::open(file) else { return Ok(None) };
    match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(CliError::Usage(format!(
            "{}: another renewal with this file is at work: wait until it has ended",
            file.display()
        ))),
        // Some file systems have no locks.
        _ => Ok(Some(opened)),
    }
}

fn key_file(name: &str, file: &Path) -> Result<KeyFile, CliError> {
    let output = file.display();
    let key_file = KeyFile::open(file).map_err(unusable(&output, "nothing was changed"))?;
    match key_file.present() {
        Some(present) if renewal_of(name, &present.key).is_none() => Err(CliError::Usage(format!(
            "{output} names the key {:?}, which is none of {:?}: give its own name, or another file; nothing was changed",
            present.key, name
        ))),
        _ => Ok(key_file),
    }
}

/// Without keys that users had made for themselves, also just now: those users chose the names. `terms`: of all keys.
fn family(service: &mut Admin, name: &str, terms: Option<&Terms>) -> Result<Vec<KeyEntry>, CliError> {
    let has_no_owner =
        |key: &KeyEntry| terms.is_none_or(|terms| terms.get(&key.name).is_some_and(|key| key.owner.is_none()));
    Ok(all(service)?.into_iter().filter(|key| renewal_of(name, &key.name).is_some() && has_no_owner(key)).collect())
}

/// The present time as the name of a new key, or the first later one that is free: creators may have some from before
/// such names were reserved.
fn new_name(name: &str, now: u64, family: &[KeyEntry], taken: &HashSet<String>) -> String {
    let last = family.iter().filter_map(|key| renewal_of(name, &key.name)).max().unwrap_or(0);
    let mut names = (now.max(last + 1)..).map(|seconds| format!("{name}.{seconds:0RENEWAL_DIGITS$}"));
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

/// The users named on the command line, else those of the former key.
fn users(renewal: &Renewal, former: Option<&KeyEntry>) -> Acl {
    let named = renewal.users.acl();
    if named != Acl::default() {
        return named;
    }
    former.map(|key| key.acl.clone()).unwrap_or_default()
}

/// The server's current key, else the last one, apart from the `new` one.
fn former<'k>(name: &str, in_use: Option<&str>, keys: &'k [KeyEntry], new: Option<&KeyEntry>) -> Option<&'k KeyEntry> {
    let others = || keys.iter().filter(|key| new.is_none_or(|new| new.name != key.name));
    let in_use = in_use.and_then(|in_use| others().find(|key| key.name == in_use));
    in_use.or_else(|| others().max_by_key(|key| renewal_of(name, &key.name)))
}

/// Stores the key under the former one's restrictions.
fn import(
    service: &mut Admin,
    name: &str,
    pkcs8: Secret,
    acl: &Acl,
    restrictions: Vec<KeyCommand>,
) -> Result<(), CliError> {
    let acl = if restrictions.is_empty() { acl.clone() } else { Acl::default() };
    new_key(service, KeyCommand::Import { name: name.to_owned(), pkcs8, acl })?;
    for command in restrictions {
        if let Err(error) = service.keys(command) {
            delete(service, name)?;
            return Err(error.into());
        }
    }
    Ok(())
}

/// Commands for the former key's restrictions, and for the chain. Users are named after them: none of them uses the key
/// without. Empty: there are neither.
fn restrictions(
    name: &str,
    acl: &Acl,
    former: Option<&UsableKey>,
    (chain, any_date): (&[Vec<u8>], bool),
) -> Vec<KeyCommand> {
    let is_restricted = |former: &&UsableKey| former.usage != Usage::of_kind(former.kind);
    let usage = former.filter(is_restricted).map(|former| former.usage);
    let rate = former.and_then(|former| former.rate);
    if usage.is_none() && rate.is_none() && chain.is_empty() {
        return Vec::new();
    }
    let chain = terms::chain_commands(name, chain.to_vec(), any_date);
    let name = || name.to_owned();
    let usage = usage.map(|usage| KeyCommand::SetUsage { name: name(), usage });
    let rate = KeyCommand::SetRate { name: name(), rate };
    let users = KeyCommand::SetAcl { name: name(), acl: acl.clone() };
    usage.into_iter().chain([rate]).chain(chain).chain([users]).collect()
}

/// Runs `keys test` with that file as a separate process: it may change its user, who need not read the certificate.
fn test(socket: &Path, renewal: &Renewal, file: &Path, key_file: &KeyFile) -> Result<(), CliError> {
    let mut test = Command::new("/proc/self/exe");
    test.args(["keys", "test"]).arg(file).arg("--socket").arg(socket);
    if let Some(user) = &renewal.user {
        test.args(["--as", user]);
    }
    let done = test.output().map_err(failed("cannot run `sidecore keys test`"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = [done.stdout, done.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    let said = said.lines().last().unwrap_or("`sidecore keys test` was ended");
    Err(CliError::Trial(format!("{said}; {} is as it was", key_file.shown())))
}

fn delete(service: &mut Admin, key: &str) -> Result<(), CliError> {
    let deleted = service.keys(KeyCommand::Delete { name: key.to_owned() });
    deleted.map(drop).map_err(failed(format_args!("the key {key} could not be deleted")))
}

/// Deletes former keys after their grace and prints the state. The renewal is complete: a failure here is no error.
fn tell(socket: &Path, service: &mut Admin, renewal: &Renewal, key: &str) -> Result<(), CliError> {
    let (name, terms) = (&renewal.name, terms::all(socket)?);
    let keys = family(service, name, terms.as_ref())?;
    let in_use = keys.iter().find(|entry| entry.name == key).ok_or(CliError::KeyGone)?;
    let (kind, users) = (in_use.kind.name(), list::users(&in_use.acl));
    let mut lines = vec![match &renewal.output {
        Some(output) => format!("{} names the key {key} now, of kind {kind}; {users}", output.display()),
        None => format!("the key {key} is stored, of kind {kind}; {users}"),
    }];
    for (former, is_over) in formers(name, &keys, key, now(), u64::from(renewal.grace) * DAY_SECONDS) {
        lines.push(match is_over.then(|| delete(service, former)) {
            None => format!(
                "the former key {former} is kept: a renewal deletes it once it has been former for {} days, and had no request \
                 for as many",
                renewal.grace
            ),
            Some(Ok(())) => format!("the former key {former} is deleted"),
            Some(Err(error)) => error.to_string(),
        });
    }
    lines.push(format!("{} still holds the key: certbot renews nothing without this file", called(&renewal.file)));
    Ok(output::print(&(lines.join("\n") + "\n"))?)
}

/// The former keys that only the service has, and whether they were former and unused for the grace.
fn formers<'k>(name: &str, keys: &'k [KeyEntry], in_use: &str, now: u64, grace: u64) -> Vec<(&'k str, bool)> {
    let came = |key: &KeyEntry| renewal_of(name, &key.name).unwrap_or(u64::MAX);
    let former_since = |key: &KeyEntry| keys.iter().map(came).filter(|next| *next > came(key)).min().unwrap_or(now);
    let is_over = |key: &KeyEntry| now.saturating_sub(former_since(key)) >= grace && key.idle_seconds >= grace;
    let formers = keys.iter().filter(|key| key.name != in_use && key.site == Site::Here);
    formers.map(|key| (key.name.as_str(), is_over(key))).collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore::keys::Kind;

    const NOW: u64 = 1_800_000_000;
    const GRACE: u64 = 7 * DAY_SECONDS;

    fn key(name: &str, idle_seconds: u64) -> KeyEntry {
        let (acl, at_rest, site) = (Acl::default(), true, Site::Here);
        KeyEntry { name: name.to_owned(), kind: Kind::P256, acl, at_rest, site, idle_seconds }
    }

    fn over(keys: &[KeyEntry], in_use: &str) -> Vec<bool> {
        formers("www", keys, in_use, NOW, GRACE).into_iter().map(|(_, is_over)| is_over).collect()
    }

    #[test]
    fn a_new_name_is_later_than_the_familys_and_held_by_nobody() {
        let family = ["www", "www.1800000003"].map(|name| key(name, 0));
        let taken = ["www", "www.1800000003", "www.1800000004", "www.1800000005"].map(str::to_owned).into();
        assert_eq!(new_name("www", NOW, &family, &taken), "www.1800000006");
        assert_eq!(new_name("www", NOW, &family[..1], &taken), "www.1800000000");
        assert_eq!(new_name("www", NOW + 4, &[], &taken), "www.1800000006");
    }

    #[test]
    fn a_former_key_is_deleted_after_its_grace_without_a_request() {
        let keys = |since: u64, idle| [key("www", idle), key(&format!("www.{since}"), 0)];
        let since = NOW - GRACE;
        assert_eq!(over(&keys(since, GRACE), &format!("www.{since}")), [true]);
        assert_eq!(over(&keys(since, GRACE - 1), &format!("www.{since}")), [false], "a program asked for it");
        assert_eq!(
            over(&keys(since + 1, GRACE), &format!("www.{}", since + 1)),
            [false],
            "it was the server's until then"
        );
    }

    #[test]
    fn the_key_in_use_keys_on_other_machines_and_newer_ones_stay() {
        let (old, new) = ("www.1700000000", "www.1700000001");
        let keys = [key(old, GRACE), key(new, GRACE)];
        // The older key is in use again; the newer key's time begins now.
        assert_eq!(formers("www", &keys, old, NOW, GRACE), [(new, false)]);
        let mut remote = key("www", GRACE);
        remote.site = Site::Elsewhere;
        assert!(formers("www", &[remote, key(new, 0)], new, NOW, GRACE).is_empty());
    }
}
