//! `sidecore keys send` and `keys move`: keys go to another machine's service, sealed, by a command of the operator.
//!
//! The running service keeps what it needs to check the receipts, bound to this connection. A key is deleted by the service
//! alone, after its receipt, and only unchanged: a failure or a kill at any point leaves it here, and running the command
//! again finishes the work.

mod courier;

use crate::args::keys::{Moving, Sending, Way};
use crate::error::{CliError, failed, unusable};
use courier::{Carried, carry};
use nix::unistd::{Gid, Group, Uid, User};
use sidecore::client::{Admin, Error};
use sidecore::control::RefusalCode;
use sidecore::keys::transfer::{AclNames, Address, MAX_ADDRESS_FILE, sealed_to_pem};
use sidecore::keys::{KeyEntry, Site};
use sidecore_ipc::named_file::NamedFile;
use sidecore_terminal::output;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::mem;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// Limit of keys in one command, which is that of a service.
pub(super) const MAX_KEYS: usize = 4096;
/// Longest text with sealed keys, bytes.
pub(super) const MAX_TEXT: usize = 64 << 20;

/// The sealed keys, their names, and what is to be moved and is not here, as after an earlier run.
#[derive(Default)]
struct Load {
    names: BTreeSet<String>,
    text: String,
    gone: Vec<String>,
}

pub(super) fn send(service: &mut Admin, sending: Sending) -> Result<(), CliError> {
    let Sending { names, all, again, output: file, way } = sending;
    let names = if all { sendable(service)? } else { names };
    let load = seal(service, &names, all && !again && file.is_none(), &way)?;
    if let Some(file) = file {
        write(&file, &load.text).map_err(unusable(file.display(), "name a file that can be written"))?;
        return if load.gone.is_empty() { Ok(()) } else { Err(CliError::NotSent(load.gone.join("; "))) };
    }
    if load.names.is_empty() {
        return Ok(output::print("nothing to send: there is a receipt for each key as it is now\n")?);
    }
    bring(service, load, &way, false)
}

pub(super) fn move_away(service: &mut Admin, moving: &Moving) -> Result<(), CliError> {
    let Moving { names, way } = moving;
    if way.by.is_none() {
        return Err(CliError::usage("--by COMMAND: a key moves only where receipts come back: name the command"));
    }
    let load = seal(service, names, false, way)?;
    bring(service, load, way, true)
}

/// For this user alone: the recipient's master key opens it, also later.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let mut file = NamedFile::create(file, 0o600)?;
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    file.write_all(text.as_bytes())
}

/// The keys that can be sent.
fn sendable(service: &mut Admin) -> Result<Vec<String>, CliError> {
    let keys = service.my_keys(None)?.map(|listed| listed.keys).unwrap_or_default();
    let sendable = keys.into_iter().filter(|key| key.owner.is_none() && key.site != Site::Elsewhere);
    Ok(sendable.map(|key| key.name).collect())
}

fn seal(service: &mut Admin, names: &[String], if_changed: bool, way: &Way) -> Result<Load, CliError> {
    let to = address(&way.to)?;
    if names.len() > MAX_KEYS {
        return Err(CliError::Usage(format!("at most {MAX_KEYS} keys are sent at a time: name fewer")));
    }
    let of_here = acl_names(service)?;
    let mut load = Load::default();
    for name in names.iter().collect::<BTreeSet<_>>() {
        let sealed = match service.seal(name, to, if_changed, of_here.get(name).cloned().unwrap_or_default()) {
            Ok(Some(sealed)) => sealed,
            Ok(None) => continue,
            Err(Error::Service(why)) if why.code == RefusalCode::NoKey && names.len() > 1 => {
                load.gone.push(why.text);
                continue;
            }
            Err(why) => return Err(failed(way.to.display())(why)),
        };
        load.text += &sealed_to_pem(&sealed);
        load.names.insert(name.clone());
        if load.text.len() > MAX_TEXT {
            return Err(CliError::Usage(format!("at most {MAX_TEXT} bytes are sent at a time: name fewer keys")));
        }
    }
    if load.names.is_empty() && !load.gone.is_empty() {
        return Err(CliError::NotSent(load.gone.join("; ")));
    }
    Ok(load)
}

/// For each key, the names of its users and groups on this machine: numbers mean others on another one.
fn acl_names(service: &mut Admin) -> Result<BTreeMap<String, AclNames>, CliError> {
    let user = |uid| Ok::<_, nix::Error>(User::from_uid(Uid::from_raw(uid))?.map(|user| user.name));
    let group = |gid| Ok::<_, nix::Error>(Group::from_gid(Gid::from_raw(gid))?.map(|group| group.name));
    let (mut users, mut groups) = (BTreeMap::new(), BTreeMap::new());
    let mut names = BTreeMap::new();
    for KeyEntry { name, acl, .. } in super::all(service)? {
        let of_key = AclNames {
            users: named(&acl.uids, &mut users, user).map_err(CliError::library)?,
            groups: named(&acl.gids, &mut groups, group).map_err(CliError::library)?,
        };
        names.insert(name, of_key);
    }
    Ok(names)
}

/// Each name is looked up once: the database may be on another machine.
fn named(
    ids: &[u32],
    known: &mut BTreeMap<u32, Option<String>>,
    look_up: impl Fn(u32) -> nix::Result<Option<String>>,
) -> nix::Result<Vec<(u32, String)>> {
    for id in ids {
        if !known.contains_key(id) {
            known.insert(*id, look_up(*id)?);
        }
    }
    Ok(ids.iter().filter_map(|id| Some((*id, known.get(id)?.clone()?))).collect())
}

fn address(path: &Path) -> Result<Address, CliError> {
    let mut text = Vec::new();
    let read = NamedFile::open(path).and_then(|file| file.take(MAX_ADDRESS_FILE).read_to_end(&mut text));
    read.map_err(unusable(
        path.display(),
        "name a file with the output of `sidecore keys address` on the other machine",
    ))?;
    Address::from_pem(&text).map_err(failed(path.display()))
}

/// Has the command bring the keys, and has the service check each receipt.
fn bring(service: &mut Admin, load: Load, way: &Way, delete: bool) -> Result<(), CliError> {
    let Load { mut names, text, gone } = load;
    let command = way.by.as_deref().unwrap_or_default();
    let carried = carry(command, text, Duration::from_secs(way.timeout.into())).map_err(failed("sh"))?;
    let Carried { received, failure } = carried;
    let (done, mut wrong) = (if delete { "moved" } else { "sent" }, gone);
    for received in received {
        if !names.remove(&received.name) {
            continue;
        }
        match service.confirm(&received.name, received.receipt, delete) {
            // The receipt counts even if nobody reads this line.
            Ok(()) => drop(output::written(&format!("{}: {done} ({})\n", received.name, received.outcome.name()))),
            Err(Error::Service(why)) => wrong.push(why.text),
            Err(other) => {
                names.insert(received.name);
                let unsure = mem::take(&mut names).into_iter().collect::<Vec<_>>().join(", ");
                wrong.push(format!("{unsure}: `sidecore keys list` says what is still here: {other}"));
                break;
            }
        }
    }
    if !names.is_empty() {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let how = failure.map_or_else(String::new, |failure| format!("; {failure}"));
        wrong.push(format!("no receipt came for {names}, which stay here{how}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(CliError::NotSent(wrong.join("; "))) }
}
