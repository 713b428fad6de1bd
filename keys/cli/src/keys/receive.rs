//! `sidecore keys receive`: has the service open sealed keys, and prints its receipts for the sender.

use super::called;
use super::send::{MAX_KEYS, MAX_TEXT};
use crate::args::keys::Mapping;
use crate::error::{CliError, failed, unusable};
use crate::set::connect;
use nix::unistd::{Group, User};
use sidecore::client::Error;
use sidecore::keys::Acl;
use sidecore::keys::transfer::{Replace, sealed_from_pem};
use sidecore_ipc::named_file::NamedFile;
use sidecore_terminal::output;
use std::io::{self, Read};
use std::path::Path;

/// One refused key does not keep others out. A text that was cut off brings none.
pub(super) fn run(socket: &Path, file: &Path, replace: Replace, mapping: &Mapping) -> Result<(), CliError> {
    let text = text_of(file).map_err(unusable(called(file), "name a file with the output of `sidecore keys send`"))?;
    let keys = sealed_from_pem(&text).map_err(failed(called(file)))?;
    if keys.len() > MAX_KEYS {
        return Err(CliError::Usage(format!("there are more than {MAX_KEYS} sealed keys in it: send fewer at a time")));
    }
    let mut service = connect(socket)?;
    let mut refused = 0;
    for (index, sealed) in keys.iter().enumerate() {
        let numbers = |name: &str, users: &[String], groups: &[String]| mapping.numbers(name, users, groups);
        match service.receive::<CliError>(sealed, replace, numbers) {
            Ok(received) => output::written(&(received.to_line() + "\n"))?,
            Err(why @ (CliError::Service(Error::Service(_)) | CliError::NoSuchUsers(_))) => {
                refused += 1;
                output::tell(format_args!("sealed key {} of {}: {why}", index + 1, keys.len()));
            }
            Err(other) => return Err(other),
        }
    }
    if refused == 0 { Ok(()) } else { Err(CliError::NotReceived { refused, of: keys.len() }) }
}

impl Mapping {
    /// Numbers on this machine of users and groups of a key that comes from another one.
    fn numbers(&self, key: &str, users: &[String], groups: &[String]) -> Result<Acl, CliError> {
        let mut lacking = Vec::new();
        let uids = numbers(users, &self.map_user, ("user", "map-user"), &mut lacking, |name| {
            Ok(User::from_name(name)?.map(|user| user.uid.as_raw()))
        })?;
        let gids = numbers(groups, &self.map_group, ("group", "map-group"), &mut lacking, |name| {
            Ok(Group::from_name(name)?.map(|group| group.gid.as_raw()))
        })?;
        if lacking.is_empty() {
            return Ok(Acl { uids, gids });
        }
        let lacking = lacking.join(", ");
        Err(CliError::NoSuchUsers(format!("key {key:?} was not stored, since this machine has no {lacking}")))
    }
}

fn numbers(
    names: &[String],
    mapped: &[(String, u32)],
    (what, option): (&str, &str),
    lacking: &mut Vec<String>,
    look_up: impl Fn(&str) -> nix::Result<Option<u32>>,
) -> Result<Vec<u32>, CliError> {
    let mut numbers = Vec::new();
    for name in names {
        let given = mapped.iter().find(|(other, _)| other == name).map(|(_, here)| *here);
        match given.map_or_else(|| look_up(name), |here| Ok(Some(here))).map_err(CliError::library)? {
            Some(number) => numbers.push(number),
            None => lacking.push(format!("{what} {name:?} (create it, or name another by --{option} {name}=LOCAL)")),
        }
    }
    Ok(numbers)
}

fn text_of(file: &Path) -> io::Result<Vec<u8>> {
    let from: Box<dyn Read> =
        if file == Path::new("-") { Box::new(io::stdin().lock()) } else { Box::new(NamedFile::open(file)?) };
    let mut text = Vec::new();
    match from.take(MAX_TEXT as u64 + 1).read_to_end(&mut text)? {
        0..=MAX_TEXT => Ok(text),
        _ => Err(io::Error::other(format!("it has more than {MAX_TEXT} bytes"))),
    }
}
