//! `sidecore keys pem`: the file that a server takes in the place of a private key, printed or put where the server looks for it.

use crate::output;
use nix::unistd::{Gid, Group, Uid, User, fchown};
use sidecore::client::Admin;
use sidecore::keys::uri::Uri;
use std::error::Error;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::Builder;

/// Who is to have a file.
type Owner = (Option<Uid>, Option<Gid>);

/// Prints the file, or replaces one in one step, so that a server never reads half of it.
pub(super) fn run(
    service: &mut Admin,
    name: &str,
    file: Option<&Path>,
    mode: u32,
    owner: Option<&str>,
) -> Result<(), Box<dyn Error>> {
    let owner = owner.map(find).transpose()?;
    let text = text(service, name)?;
    match file {
        None => Ok(output::print(&text)?),
        Some(file) => put(file, &text, mode, owner)
            .map_err(|error| format!("{}: {error}; nothing was changed there", file.display()).into()),
    }
}

/// With the key's public part, so that the server loads it also while no service runs.
fn text(service: &mut Admin, name: &str) -> Result<String, Box<dyn Error>> {
    let uri = Uri::new(name)?;
    let info = service.key_info(name)?;
    Ok(uri.with_public(info.public)?.to_pem())
}

/// `USER`, `USER:GROUP` or `:GROUP`, by names or numbers.
fn find(owner: &str) -> Result<Owner, String> {
    let (user, group) = owner.split_once(':').unwrap_or((owner, ""));
    let uid = id(user, "passwd", |name| Some(User::from_name(name).ok()??.uid.as_raw()))?;
    let gid = id(group, "group", |name| Some(Group::from_name(name).ok()??.gid.as_raw()))?;
    Ok((uid.map(Uid::from_raw), gid.map(Gid::from_raw)))
}

/// The number that this is, or that a name has in that database of the system's; none of nothing.
fn id(text: &str, database: &str, by_name: impl Fn(&str) -> Option<u32>) -> Result<Option<u32>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let found = text.parse().ok().or_else(|| by_name(text));
    found.map(Some).ok_or_else(|| format!("--owner: there is no {text:?} here: name one of `getent {database}`"))
}

/// Beside its place first: owner and mode are right before anybody finds it. They are given to the file that is open, whatever its name
/// leads to by then.
fn put(file: &Path, text: &str, mode: u32, owner: Option<Owner>) -> Result<(), Box<dyn Error>> {
    if file.is_dir() {
        return Err("it is a directory: name a file".into());
    }
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        return Err("there is no such directory: make it, or name another file".into());
    }
    let mut beside =
        Builder::new().prefix(".sidecore-").permissions(Permissions::from_mode(0o600)).tempfile_in(directory)?;
    beside.write_all(text.as_bytes())?;
    if let Some((uid, gid)) = owner {
        fchown(beside.as_file(), uid, gid)
            .map_err(|error| format!("cannot give it to that owner: {}", error.desc()))?;
    }
    beside.as_file().set_permissions(Permissions::from_mode(mode))?;
    beside.as_file().sync_all()?;
    beside.persist(file).map_err(|unplaced| unplaced.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn owners_are_names_or_numbers() {
        assert_eq!(find("root"), Ok((Some(Uid::from_raw(0)), None)));
        assert_eq!(find("7:root"), Ok((Some(Uid::from_raw(7)), Some(Gid::from_raw(0)))));
        assert_eq!(find(":9"), Ok((None, Some(Gid::from_raw(9)))));
        assert!(find("nobody-of-this-name").unwrap_err().contains("getent passwd"));
        assert!(find("root:none-of-this-name").unwrap_err().contains("getent group"));
    }

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("www.key");
        fs::write(&file, "what was there, and longer than what comes").unwrap();
        put(&file, "new", 0o640, None).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
        assert!(put(&folder.path().join("none/www.key"), "new", 0o640, None).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }
}
