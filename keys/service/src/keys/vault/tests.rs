//! Tests of the directory: its content after changes, and errors in it.

use super::*;
use sidecore_client::keys::Acl;
use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

mod old;
mod steps;

pub(in crate::keys) use steps::{STEPS, failing};

fn directory() -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("keys");
    (scratch, path)
}

#[derive(Clone, Debug, Default)]
struct Synced(Arc<Mutex<Vec<u64>>>);

impl Disk for Synced {
    fn sync(&self, directory: &OwnedFd) -> io::Result<()> {
        self.0.lock().unwrap().push(rustix::fs::fstat(directory)?.st_ino);
        System.sync(directory)
    }
}

#[test]
fn a_new_directory_is_on_the_disk_before_a_key_is_in_it() {
    let (scratch, path) = directory();
    let (outer, synced) = (scratch.path().join("a"), Synced::default());
    let path = outer.join(path.file_name().unwrap());
    drop(open_as(&path, &KeysConfig::default(), "open sesame", Box::new(synced.clone())).unwrap());
    let number = |path: &Path| fs::metadata(path).unwrap().ino();
    assert_eq!(synced.0.lock().unwrap()[..2], [number(scratch.path()), number(&outer)]);
}

/// Keeps a copy of the descriptor, as a child of the process does until it executes its program.
#[derive(Clone, Debug, Default)]
struct Inherited(Arc<Mutex<Vec<OwnedFd>>>);

impl Disk for Inherited {
    fn sync(&self, directory: &OwnedFd) -> io::Result<()> {
        self.0.lock().unwrap().push(directory.try_clone()?);
        System.sync(directory)
    }
}

#[test]
fn a_directory_is_free_once_its_service_has_ended_whatever_a_child_has_open() {
    let ((_scratch, path), inherited) = (directory(), Inherited::default());
    let vault = open_as(&path, &KeysConfig::default(), "open sesame", Box::new(inherited.clone())).unwrap();
    assert!(inherited.0.lock().unwrap().len() > 1, "the directory around it, and itself");
    assert!(matches!(open(&path), Err(VaultError::At { what: VaultErrorKind::Taken, .. })));
    drop(vault);
    open(&path).unwrap();
}

#[test]
fn a_directory_that_was_given_away_is_its_services_again_only_if_it_is_as_it_was() {
    let (_scratch, path) = filled();
    let (mut vault, _) = open(&path).unwrap();
    vault.release().unwrap();
    let (mut next, found) = open(&path).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(vault.regain(), succession::Found::Locked);
    drop(next);
    assert_eq!(vault.regain(), succession::Found::Same);
    assert!(matches!(open(&path), Err(VaultError::At { what: VaultErrorKind::Taken, .. })));
    assert!(vault.write("own", &acl(7), &secret("own")).unwrap().is_none());
    vault.release().unwrap();
    next = open(&path).unwrap().0;
    assert!(next.write("theirs", &acl(7), &secret("theirs")).unwrap().is_none());
    drop(next);
    assert_eq!(vault.regain(), succession::Found::Changed);
}

#[test]
fn what_was_computed_ahead_opens_the_same_keys_and_no_others() {
    let ((_scratch, one), (_other_scratch, other)) = (filled(), filled());
    let open = |path: &Path, ahead: &Stretched| {
        let config = KeysConfig::default();
        Vault::open_on(path, &config, &secret("open sesame"), Some(ahead), Cost::MIN, Box::new(System)).unwrap().1.len()
    };
    let ahead = Vault::stretch(&one, &secret("open sesame")).unwrap();
    assert_eq!((open(&one, &ahead), open(&other, &ahead)), (2, 2));
    // Computed of another passphrase it opens nothing, though the right one is beside it.
    let wrong = Vault::stretch(&one, &secret("open barley")).unwrap();
    let opened =
        Vault::open_on(&one, &KeysConfig::default(), &secret("open sesame"), Some(&wrong), Cost::MIN, Box::new(System));
    assert!(matches!(opened, Err(VaultError::At { what: VaultErrorKind::Master(Unsealing::Passphrase), .. })));
    assert!(Vault::stretch(&one.join("none"), &secret("open sesame")).is_none());
}

fn secret(text: &str) -> Secret {
    Secret::from(text.as_bytes())
}

fn open(path: &Path) -> Result<(Vault, Vec<Found>), VaultError> {
    open_as(path, &KeysConfig::default(), "open sesame", Box::new(System))
}

fn open_as(
    path: &Path,
    config: &KeysConfig,
    passphrase: &str,
    disk: Box<dyn Disk>,
) -> Result<(Vault, Vec<Found>), VaultError> {
    Vault::open_on(path, config, &secret(passphrase), None, Cost::MIN, disk)
}

pub(in crate::keys) fn fill(path: &Path, pkcs8: &[u8]) {
    let (mut vault, _) = open(path).unwrap();
    for name in ["www", "mail"] {
        assert!(vault.write(name, &acl(7), &pkcs8.into()).unwrap().is_none());
    }
}

pub(in crate::keys) fn found(path: &Path) -> Vec<Found> {
    open(path).unwrap().1
}

fn acl(uid: u32) -> Attributes {
    Acl { uids: vec![uid], gids: vec![] }.into()
}

fn filled() -> (TempDir, PathBuf) {
    let (scratch, path) = directory();
    let (mut vault, found) = open(&path).unwrap();
    assert!(found.is_empty());
    for name in ["www", "mail"] {
        assert!(vault.write(name, &acl(7), &secret(name)).unwrap().is_none());
    }
    (scratch, path)
}

fn names(path: &Path) -> Vec<String> {
    open(path).unwrap().1.into_iter().map(|found| found.name).collect()
}

fn refused(path: &Path, what: &str) {
    let said = open(path).map(|(_, found)| found).unwrap_err().to_string();
    assert!(said.contains(what) && said.contains(path.to_str().unwrap()), "{said}");
}

#[test]
fn keys_are_found_again_with_those_who_may_use_them() {
    let (_scratch, path) = filled();
    let (mut vault, found) = open(&path).unwrap();
    let found: Vec<_> =
        found.iter().map(|key| (key.name.as_str(), key.pkcs8.expose(), key.attributes.acl.uids[0])).collect();
    assert_eq!(found, [("mail", &b"mail"[..], 7), ("www", b"www", 7)]);
    vault.write("www", &acl(8), &secret("www")).unwrap();
    vault.delete("mail").unwrap();
    vault.delete("mail").unwrap();
    drop(vault);
    let (_, found) = open(&path).unwrap();
    assert_eq!(
        found.iter().map(|key| (key.name.as_str(), key.attributes.acl.uids[0])).collect::<Vec<_>>(),
        [("www", 8)]
    );
}

#[test]
fn nobody_else_may_read_what_is_written() {
    let (_scratch, path) = filled();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for file in ["master", "www@1.key", "mail@2.key"] {
        assert_eq!(mode(&path.join(file)), 0o600, "{file}");
    }
    assert_eq!(fs::read_dir(&path).unwrap().count(), 3);
}

#[test]
fn a_wrong_passphrase_is_told_from_damage() {
    let (_scratch, path) = filled();
    let wrong =
        open_as(&path, &KeysConfig::default(), "open simsim", Box::new(System)).map(|_| ()).unwrap_err().to_string();
    assert!(wrong.contains("passphrase"), "{wrong}");
    for (file, what) in [("master", "restore it from a backup"), ("www@1.key", "damaged")] {
        let good = fs::read(path.join(file)).unwrap();
        let mut bad = good.clone();
        bad[good.len() / 2] ^= 1;
        fs::write(path.join(file), bad).unwrap();
        refused(&path, what);
        fs::write(path.join(file), &good[..good.len() - 5]).unwrap();
        refused(&path, what);
        fs::write(path.join(file), good).unwrap();
    }
    assert_eq!(names(&path), ["mail", "www"]);
}

#[test]
fn files_that_changed_places_are_told_by_name() {
    let (_scratch, path) = filled();
    fs::rename(path.join("www@1.key"), path.join("away")).unwrap();
    fs::rename(path.join("mail@2.key"), path.join("www@1.key")).unwrap();
    fs::rename(path.join("away"), path.join("mail@2.key")).unwrap();
    refused(&path, "it holds the key");
}

#[test]
fn a_missing_master_key_is_not_replaced() {
    let (_scratch, path) = filled();
    fs::rename(path.join("master"), path.with_extension("away")).unwrap();
    refused(&path, "2 keys stay sealed");
    assert!(!path.join("master").exists());
    fs::rename(path.with_extension("away"), path.join("master")).unwrap();
    assert_eq!(names(&path), ["mail", "www"]);
}

#[test]
fn what_is_not_the_services_is_not_skipped() {
    let (scratch, path) = filled();
    for foreign in
        ["notes.txt", "www.key", "-x.key", ".hidden", "www@1.key~", "www@0.key", "www@01.key", "a b.key", "x.tmp"]
    {
        fs::write(path.join(foreign), "").unwrap();
        refused(&path, "none of the service's files");
        fs::remove_file(path.join(foreign)).unwrap();
    }
    let www = path.join("www@1.key");
    let good = fs::read(&www).unwrap();
    fs::write(&www, "-----BEGIN PRIVATE KEY-----").unwrap();
    refused(&path, "no key of sidecore");
    fs::write(&www, vec![0; MAX_FILE + 1]).unwrap();
    refused(&path, "larger than");
    fs::remove_file(&www).unwrap();
    fs::create_dir(&www).unwrap();
    refused(&path, "it is no file");
    fs::remove_dir(&www).unwrap();
    fs::write(scratch.path().join("elsewhere"), good).unwrap();
    symlink(scratch.path().join("elsewhere"), &www).unwrap();
    refused(&path, "it is a link");
}

#[test]
fn a_directory_or_a_file_that_others_may_use_is_refused() {
    let (_scratch, path) = filled();
    fs::set_permissions(&path, Permissions::from_mode(0o750)).unwrap();
    refused(&path, "chmod 700");
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(path.join("www@1.key"), Permissions::from_mode(0o640)).unwrap();
    refused(&path, "chmod 600");
}

#[test]
fn one_service_at_a_time_has_the_directory() {
    let (_scratch, path) = filled();
    let first = open(&path).unwrap();
    refused(&path, "another service");
    drop(first);
    assert_eq!(names(&path).len(), 2);
}

#[test]
fn an_interrupted_write_leaves_the_old_file() {
    let (_scratch, path) = filled();
    // The state after a kill of the service before the rename.
    fs::write(path.join("www@3.key.tmp"), "half").unwrap();
    fs::write(path.join("master.tmp"), "half").unwrap();
    let (mut vault, found) = open(&path).unwrap();
    assert_eq!(found.len(), 2);
    assert!(!path.join("www@3.key.tmp").exists() && !path.join("master.tmp").exists());
    fs::write(path.join("www@3.key.tmp"), "half").unwrap();
    vault.write("www", &acl(9), &secret("www")).unwrap();
    drop(vault);
    assert_eq!(open(&path).unwrap().1[1].attributes, acl(9));
}

#[test]
fn a_write_that_fails_changes_nothing() {
    let (_scratch, path) = filled();
    let (mut vault, _) = open(&path).unwrap();
    // A directory stands at the place of the file to be written.
    fs::create_dir_all(path.join("new@3.key.tmp")).unwrap();
    let said = vault.write("new", &acl(1), &secret("x")).unwrap_err().to_string();
    assert!(said.contains("nothing was changed"), "{said}");
    fs::remove_dir(path.join("new@3.key.tmp")).unwrap();
    drop(vault);
    assert_eq!(names(&path), ["mail", "www"]);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 3);
}
