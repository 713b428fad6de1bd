//! Tests of old files and old directories.

use super::*;

fn put(path: &Path, file: &str, bytes: &[u8]) {
    fs::write(path.join(file), bytes).unwrap();
    fs::set_permissions(path.join(file), Permissions::from_mode(0o600)).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let file = entry.unwrap().path();
        fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

fn counted(scratch: &TempDir) -> KeysConfig {
    KeysConfig { changes_file: Some(scratch.path().join("number")), ..KeysConfig::default() }
}

fn open_with(path: &Path, config: &KeysConfig) -> Result<(Vault, Vec<Found>), VaultError> {
    open_as(path, config, "open sesame", Box::new(System))
}

fn said(path: &Path, config: &KeysConfig) -> String {
    open_with(path, config).map(|(_, found)| found).unwrap_err().to_string()
}

#[test]
fn a_directory_of_the_first_version_is_told_as_a_whole_and_left_as_it_is() {
    let (_scratch, path) = directory();
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    put(&path, "www.key", b"sidecore key v1\nwww");
    put(&path, "master", b"sidecore master key v1\n");
    refused(&path, "master: it is of another version of sidecore");
    refused(&path, "name another directory in keys.directory and import the keys there");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 2);
}

#[test]
fn an_old_file_in_the_place_of_a_new_one_is_found() {
    let (_scratch, path) = filled();
    let old = fs::read(path.join("www@1.key")).unwrap();
    let (mut vault, _) = open(&path).unwrap();
    vault.write("www", &acl(8), &secret("www")).unwrap();
    vault.delete("mail").unwrap();
    drop(vault);
    let new = fs::read(path.join("www@3.key")).unwrap();
    put(&path, "www@3.key", &old);
    refused(&path, "it is the file of change 1");
    put(&path, "www@3.key", &new);
    // Next to the new file it would be void, and it is reported all the same.
    put(&path, "www@1.key", &old);
    refused(&path, "does not count: move it away");
    fs::remove_file(path.join("www@1.key")).unwrap();
    assert_eq!(names(&path), ["www"]);
}

#[test]
fn a_deleted_key_that_is_brought_back_does_not_count() {
    let (_scratch, path) = filled();
    let mail = fs::read(path.join("mail@2.key")).unwrap();
    let (mut vault, _) = open(&path).unwrap();
    vault.delete("mail").unwrap();
    drop(vault);
    // It might as well be left from an interrupted deletion.
    put(&path, "mail@2.key", &mail);
    assert_eq!(names(&path), ["www"]);
    assert!(!path.join("mail@2.key").exists());
    let (mut vault, _) = open(&path).unwrap();
    vault.write("www", &acl(8), &secret("www")).unwrap();
    drop(vault);
    put(&path, "mail@2.key", &mail);
    refused(&path, "mail@2.key: it is an old file");
}

#[test]
fn a_missing_key_is_found_and_given_up_only_by_name() {
    let (_scratch, path) = filled();
    fs::remove_file(path.join("www@1.key")).unwrap();
    refused(&path, "keys.accept_missing = [\"www\"]");
    let other = KeysConfig { accept_missing: vec!["mail".to_owned()], ..KeysConfig::default() };
    assert!(said(&path, &other).contains("www@1.key: it is missing"));
    let accepted = KeysConfig { accept_missing: vec!["www".to_owned()], ..KeysConfig::default() };
    let (vault, found) = open_with(&path, &accepted).unwrap();
    assert_eq!((found.len(), vault.changes()), (1, 3));
    drop(vault);
    // The acceptance is permanent and need not be repeated.
    assert_eq!(names(&path), ["mail"]);
}

#[test]
fn an_old_list_under_new_files_is_found() {
    let (_scratch, path) = filled();
    let master = fs::read(path.join("master")).unwrap();
    let (mut vault, _) = open(&path).unwrap();
    vault.write("new", &acl(1), &secret("new")).unwrap();
    drop(vault);
    put(&path, "master", &master);
    refused(&path, "new@3.key: it is newer than the list");
    assert!(path.join("new@3.key").exists());
}

#[test]
fn an_old_directory_is_found_where_the_number_lies_elsewhere() {
    let (scratch, path) = filled();
    let config = counted(&scratch);
    let old = scratch.path().join("old");
    copy(&path, &old);
    let (mut vault, _) = open_with(&path, &config).unwrap();
    assert!(vault.delete("mail").unwrap().is_none());
    drop(vault);
    assert_eq!(fs::read_to_string(scratch.path().join("number")).unwrap(), "3\n");
    assert_eq!(open_with(&path, &config).unwrap().1.len(), 1);
    let refused = said(&old, &config);
    let number = scratch.path().join("number");
    assert!(refused.contains("an old copy, of change 2") && refused.contains(number.to_str().unwrap()), "{refused}");
    // An empty directory is old, too.
    assert!(said(&scratch.path().join("empty"), &config).contains("of change 0"));
    // An operator that wants the old directory removes the number.
    fs::remove_file(&number).unwrap();
    assert_eq!(open_with(&old, &config).unwrap().1.len(), 2);
    assert_eq!(fs::read_to_string(&number).unwrap(), "2\n");
    fs::write(&number, "two").unwrap();
    assert!(said(&old, &config).contains("it holds no number"));
}

#[test]
fn a_number_that_cannot_be_noted_is_told_and_caught_up_with_at_the_next_start() {
    let (scratch, path) = filled();
    let config = counted(&scratch);
    let (mut vault, _) = open_with(&path, &config).unwrap();
    // A directory stands at the place of the number's file.
    fs::create_dir(scratch.path().join("number.tmp")).unwrap();
    let doubt = vault.delete("mail").unwrap().unwrap().to_string();
    assert!(doubt.contains("was not noted"), "{doubt}");
    drop(vault);
    fs::remove_dir(scratch.path().join("number.tmp")).unwrap();
    assert_eq!(open_with(&path, &config).unwrap().1.len(), 1);
    assert_eq!(fs::read_to_string(scratch.path().join("number")).unwrap(), "3\n");
}

#[test]
fn after_a_change_of_the_passphrase_neither_the_old_one_nor_old_files_open_anything() {
    let (_scratch, path) = filled();
    let old: Vec<_> =
        ["master", "www@1.key", "mail@2.key"].map(|file| (file, fs::read(path.join(file)).unwrap())).into();
    let (mut vault, _) = open(&path).unwrap();
    assert!(vault.change_passphrase(&secret("open simsim")).unwrap().is_none());
    // The vault continues with the new list.
    assert!(vault.write("new", &acl(1), &secret("new")).unwrap().is_none());
    drop(vault);
    refused(&path, "the passphrase is not the one");
    let with_new = |passphrase| open_as(&path, &KeysConfig::default(), passphrase, Box::new(System));
    assert_eq!(with_new("open simsim").unwrap().1.len(), 3);
    assert!(old.iter().skip(1).all(|(file, _)| !path.join(file).exists()));
    put(&path, "www@1.key", &old[1].1);
    assert!(with_new("open simsim").unwrap_err().to_string().contains("it is an old file"));
    fs::remove_file(path.join("www@1.key")).unwrap();
    // With the old list and the old passphrase, the new files do not open.
    put(&path, "master", &old[0].1);
    assert!(with_new("open sesame").unwrap_err().to_string().contains("newer than the list"));
}
