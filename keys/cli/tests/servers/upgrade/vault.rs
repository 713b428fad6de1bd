//! Keys at rest that one version changed, opened by the other, and the command of each version with each service.

use super::version::{Version, versions};
use crate::material::{Kind, Material};
use crate::programs::{Done, run};
use crate::secrets::directory;
use crate::service::Service;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn sidecore(version: &Version, arguments: &[&str], service: &Service) -> Done {
    run(Command::new(version.file("sidecore")).args(arguments).arg("--socket").arg(service.socket()))
}

fn listed(version: &Version, service: &Service) -> String {
    sidecore(version, &["keys", "list"], service).expect("keys list")
}

fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.map(|file| (file.clone(), std::fs::read(&file).unwrap())).collect()
}

/// Each service reads keys that the other one stored. One that does not read a key's terms refuses the directory
/// unchanged.
#[test]
fn keys_of_a_later_service_are_read_by_the_earlier_one_or_refused_unchanged() {
    let [old, new] = versions();
    let directory = directory();
    let keys = Kind::ALL.map(|kind| Material::make(directory.path(), kind));
    let mut service = Service::managed_by(directory.path(), &old.file("sidecore"));
    service.import_for(&keys[0], &[]);
    service.replace_by(&new.file("sidecore"));
    service.import_for(&keys[1], &[]);
    service.replace(&keys[0], &keys[0]);
    service.replace_by(&old.file("sidecore"));
    service.import_for(&keys[2], &[]);
    for (name, serves) in [("old", &old), ("new", &new)] {
        service.replace_by(&serves.file("sidecore"));
        for version in [&old, &new] {
            let all = listed(version, &service);
            assert!(
                keys.iter().all(|key| all.contains(key.kind.name())),
                "service {name}, command {}: {all}",
                version.name
            );
            let top = sidecore(version, &["top", "--once"], &service);
            println!(
                "service {name}, command {}: {}",
                version.name,
                if top.ok() { "works" } else { top.stderr.trim() }
            );
            assert!(top.ok() || top.stderr.contains("counter layout"), "{top:?}");
        }
    }
    sidecore(&new, &["keys", "usage", keys[0].kind.name(), "sign"], &service).expect("keys usage");
    let kept = directory.path().join("keys");
    let (before, refusal) = (files(&kept), service.refusal_of(&old.file("sidecore")));
    if let Some(refusal) = refusal {
        println!("a key with terms: the old service says {}", refusal.trim());
        assert!(refusal.contains("of another version of sidecore"), "{refusal}");
        assert_eq!(files(&kept), before, "a directory that is refused stays as it is");
        service.replace_by(&new.file("sidecore"));
    }
    let all = listed(&new, &service);
    assert!(keys.iter().all(|key| all.contains(key.kind.name())), "{all}");
}
