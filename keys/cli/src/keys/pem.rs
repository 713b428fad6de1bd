//! `sidecore keys pem`: the file that replaces a server's private key file, printed or written to the server's path.

use super::key_file::{Access, KeyFile};
use crate::args::keys::number;
use crate::error::{CliError, failed, unusable};
use nix::unistd::{Group, User};
use sidecore::client::Admin;
use sidecore::keys::uri::Uri;
use sidecore_terminal::output;
use std::path::Path;

/// User and group of the file. `None`: as for any new file.
type Owner = (Option<u32>, Option<u32>);

/// Prints the file, or replaces an existing one in one step, so that a server never reads half of it.
pub(super) fn run(
    service: &mut Admin,
    name: &str,
    pkcs8: bool,
    file: Option<&Path>,
    mode: u32,
    owner: Option<&str>,
) -> Result<(), CliError> {
    let (uid, gid) = owner.map(find).transpose()?.unwrap_or_default();
    let uri = uri(service, name)?;
    let text = if pkcs8 { uri.to_pkcs8_pem().map_err(CliError::library)? } else { uri.to_pem() };
    let Some(file) = file else { return Ok(output::print(&text)?) };
    let put = || KeyFile::open(file)?.draft(&text, Access { mode, uid, gid })?.put();
    put().map(drop).map_err(unusable(file.display(), "nothing was changed there"))
}

/// Holds the key's public part too, so that a server can load it while no service runs.
pub(super) fn text(service: &mut Admin, name: &str) -> Result<String, CliError> {
    uri(service, name).map(|uri| uri.to_pem())
}

fn uri(service: &mut Admin, name: &str) -> Result<Uri, CliError> {
    let uri = Uri::new(name).map_err(CliError::library)?;
    let info = service.key_info(name)?;
    uri.with_public(info.public).map_err(CliError::library)
}

fn find(owner: &str) -> Result<Owner, CliError> {
    let (user, group) = owner.split_once(':').unwrap_or((owner, ""));
    let uid = id(user, "passwd", |name| Some(User::from_name(name).ok()??.uid.as_raw()))?;
    let gid = id(group, "group", |name| Some(Group::from_name(name).ok()??.gid.as_raw()))?;
    Ok((uid, gid))
}

/// A number, or the number of a name in the system's database. `None` for an empty text.
fn id(text: &str, database: &str, by_name: impl Fn(&str) -> Option<u32>) -> Result<Option<u32>, CliError> {
    if text.is_empty() {
        return Ok(None);
    }
    let found = number(text).map_err(failed("--owner"))?.or_else(|| by_name(text));
    found
        .map(Some)
        .ok_or_else(|| CliError::Usage(format!("--owner: there is no {text:?} here: name one of `getent {database}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_names_or_numbers() {
        assert_eq!(find("root").unwrap(), (Some(0), None));
        assert_eq!(find("7:root").unwrap(), (Some(7), Some(0)));
        assert_eq!(find(":9").unwrap(), (None, Some(9)));
        assert!(find("nobody-of-this-name").unwrap_err().to_string().contains("getent passwd"));
        assert!(find("4294967295").unwrap_err().to_string().contains("stands for no user"));
        assert!(find("root:none-of-this-name").unwrap_err().to_string().contains("getent group"));
    }
}
