//! Saving and reverting settings, with a substitute for an interface.

use super::*;
use crate::net::links::Links;
use crate::net::space;
use crate::net::tune::location::Here;
use crate::net::tune::setting::KNOWN;
use nix::unistd::Uid;
use sidecore_testing::skipped;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::thread;
use tempfile::TempDir;

const NAMES: [&str; 2] = ["mtu", "gro"];
const IDENTITY: Identity = Identity { boot: String::new(), namespace: 1, index: 2, address: None };

#[derive(Debug, Default)]
struct Fake {
    values: BTreeMap<String, String>,
    refuses: Option<String>,
    fate: Option<Result<Fate, String>>,
    undoes: Option<(String, String)>,
    file: PathBuf,
    /// Whether the old settings were on disk at each write.
    was_kept: Vec<bool>,
}

impl Settings for Fake {
    fn read(&mut self, name: &str) -> Result<String, LabError> {
        self.values.get(name).cloned().ok_or(LabError::broken("there is none"))
    }

    fn write(&mut self, name: &str, value: &str) -> Result<(), LabError> {
        self.was_kept.push(self.file.exists());
        if self.refuses.as_deref() == Some(name) {
            return Err(LabError::broken("refused"));
        }
        self.values.insert(name.to_owned(), value.to_owned());
        if let Some((_, other)) = self.undoes.as_ref().filter(|(own, _)| own == name) {
            self.values.insert(other.clone(), String::new());
        }
        Ok(())
    }

    fn identity(&self) -> Result<Identity, LabError> {
        Ok(IDENTITY)
    }

    fn fate(&self, saved: &Identity) -> Result<Fate, LabError> {
        assert_eq!(*saved, IDENTITY);
        self.fate.clone().unwrap_or(Ok(Fate::Same)).map_err(LabError::Usage)
    }
}

fn keep(state: &mut SettingsStore, settings: &mut impl Settings, names: &[&str]) -> Result<(), LabError> {
    state.keep(settings, &names.iter().map(|name| (*name, &[][..])).collect::<Vec<_>>())
}

/// Others changed nothing.
fn revert(state: &mut SettingsStore, settings: &mut impl Settings) -> Result<(usize, Fate), LabError> {
    let Reverted { count, fate, others } = state.revert(settings)?;
    assert!(others.is_empty(), "{others:?}");
    Ok((count, fate))
}

fn values(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn start() -> (TempDir, SettingsStore, Fake) {
    let directory = tempfile::tempdir().unwrap();
    let state = SettingsStore::new(&directory.path().join("net"), "eth7").unwrap();
    let fake = Fake {
        values: values(&[("mtu", "1500"), ("gro", "off")]).into_iter().collect(),
        file: state.file(),
        ..Fake::default()
    };
    (directory, state, fake)
}

fn changes() -> Vec<(String, String)> {
    values(&[("mtu", "9000"), ("gro", "on")])
}

#[test]
fn old_settings_are_on_the_disk_before_the_first_change_and_come_back() {
    let (_directory, mut state, mut fake) = start();
    let before = fake.values.clone();
    keep(&mut state, &mut fake, &NAMES).unwrap();
    state.apply(&mut fake, &changes(), || Ok(())).unwrap();
    assert_eq!(fake.was_kept, [true, true]);
    assert_eq!(fake.values, changes().into_iter().collect());
    assert_eq!(revert(&mut state, &mut fake).unwrap(), (2, Fate::Same));
    assert_eq!(fake.values, before);
    assert!(
        !fake.file.exists() && revert(&mut state, &mut fake).unwrap_err().to_string().contains("nothing to take back")
    );
}

#[test]
fn without_confirmation_or_with_a_refusal_all_is_as_before() {
    let (_directory, mut state, mut fake) = start();
    let before = fake.values.clone();
    keep(&mut state, &mut fake, &NAMES).unwrap();
    let why = state.apply(&mut fake, &changes(), || Err(LabError::broken("nobody confirmed"))).unwrap_err().to_string();
    assert!(why.contains("nobody confirmed") && why.contains("as it was before"), "{why}");
    assert!(fake.values == before && !fake.file.exists());
    fake.refuses = Some("gro".to_owned());
    keep(&mut state, &mut fake, &NAMES).unwrap();
    let why = state.apply(&mut fake, &changes(), || unreachable!()).unwrap_err().to_string();
    assert!(why.contains("gro on: refused") && fake.values == before && !fake.file.exists(), "{why}");
}

#[test]
fn what_cannot_be_set_back_stays_kept() {
    let (_directory, mut state, mut fake) = start();
    let before = fake.values.clone();
    keep(&mut state, &mut fake, &NAMES).unwrap();
    state.apply(&mut fake, &changes(), || Ok(())).unwrap();
    fake.refuses = Some("mtu".to_owned());
    assert!(revert(&mut state, &mut fake).unwrap_err().to_string().contains("mtu 1500: refused"));
    assert_eq!(fake.values["gro"], "off", "the others are set back");
    fake.refuses = None;
    assert_eq!(revert(&mut state, &mut fake).unwrap(), (2, Fate::Same));
    assert_eq!(fake.values, before);
}

#[test]
fn a_run_that_was_killed_in_the_middle_is_taken_back_later() {
    let (_directory, mut state, mut fake) = start();
    let before = fake.values.clone();
    keep(&mut state, &mut fake, &NAMES).unwrap();
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        state.apply(&mut fake, &changes(), || panic!("killed")).unwrap();
    }));
    assert!(killed.is_err() && fake.values != before);
    let refused = keep(&mut state, &mut fake, &NAMES).unwrap_err().to_string();
    assert!(refused.contains("--revert"), "what was kept is not lost: {refused}");
    let directory = state.directory.clone();
    drop(state);
    assert_eq!(revert(&mut SettingsStore::new(&directory, "eth7").unwrap(), &mut fake).unwrap(), (2, Fate::Same));
    assert_eq!(fake.values, before);
}

#[test]
fn a_damaged_file_or_one_of_another_interface_changes_nothing() {
    let (_directory, mut state, mut fake) = start();
    let other = r#"{"interface":"eth8","identity":{"boot":"","namespace":1,"index":2},"values":[["mtu","9"]]}"#;
    for (text, said) in [("{\"interf", "damaged"), (other, "eth8")] {
        fs::write(&fake.file, text).unwrap();
        assert!(revert(&mut state, &mut fake).unwrap_err().to_string().contains(said));
    }
    assert!(fake.was_kept.is_empty());
}

#[test]
fn of_an_interface_that_is_gone_what_is_the_machines_is_set_back() {
    let (_directory, mut state, mut fake) = start();
    fake.values.insert("rmem".to_owned(), "1".to_owned());
    keep(&mut state, &mut fake, &["mtu", "rmem"]).unwrap();
    state.apply(&mut fake, &values(&[("mtu", "9000"), ("rmem", "2")]), || Ok(())).unwrap();
    fake.fate = Some(Ok(Fate::Gone));
    assert_eq!(revert(&mut state, &mut fake).unwrap(), (1, Fate::Gone));
    assert_eq!((&*fake.values["rmem"], &*fake.values["mtu"]), ("1", "9000"));
    assert!(!fake.file.exists());
}

#[test]
fn what_another_setting_undoes_on_the_way_back_is_set_again() {
    let (_directory, mut state, mut fake) = start();
    keep(&mut state, &mut fake, &NAMES).unwrap();
    state.apply(&mut fake, &changes(), || Ok(())).unwrap();
    // Like new queues, which lose their settings.
    fake.undoes = Some(("mtu".to_owned(), "gro".to_owned()));
    assert_eq!(revert(&mut state, &mut fake).unwrap(), (2, Fate::Same));
    assert_eq!((&*fake.values["gro"], &*fake.values["mtu"]), ("off", "1500"));
}

#[test]
fn one_process_at_a_time_changes_settings_or_takes_them_back() {
    let (_directory, state, mut fake) = start();
    for other in ["eth7", "eth8"] {
        let refused = SettingsStore::new(&state.directory, other).unwrap_err().to_string();
        assert!(refused.contains("another net tune changes settings"), "{refused}");
    }
    assert!(SettingsStore::saved_in(&state.directory, "eth7").is_err());
    let directory = state.directory.clone();
    drop(state);
    let nothing = SettingsStore::saved_in(&directory, "eth7").unwrap().revert(&mut fake).unwrap_err().to_string();
    assert!(nothing.contains("nothing to take back"), "{nothing}");
    assert!(
        SettingsStore::saved_in(&directory.join("none"), "eth7")
            .unwrap_err()
            .to_string()
            .contains("nothing to take back")
    );
    assert!(SettingsStore::new(&directory, "../eth7").is_err());
}

#[test]
fn what_was_kept_is_set_back_also_where_the_file_was_removed_meanwhile() {
    let (_directory, mut state, mut fake) = start();
    let before = fake.values.clone();
    keep(&mut state, &mut fake, &NAMES).unwrap();
    let file = fake.file.clone();
    let lost = || {
        fs::remove_file(file).unwrap();
        Err(LabError::broken("the peer is lost"))
    };
    let why = state.apply(&mut fake, &changes(), lost).unwrap_err().to_string();
    assert!(why.contains("as it was before"), "{why}");
    assert!(fake.values == before && !state.is_saved());
}

#[test]
fn what_interfaces_share_is_kept_with_one_of_them_only() {
    let (_directory, mut state, mut fake) = start();
    fake.values.insert("rmem".to_owned(), "1".to_owned());
    let names = ["mtu", "rmem"];
    keep(&mut state, &mut fake, &names).unwrap();
    state.apply(&mut fake, &values(&[("rmem", "2")]), || Ok(())).unwrap();
    let directory = state.directory.clone();
    drop(state);
    let mut other = SettingsStore::new(&directory, "eth8").unwrap();
    let refused = keep(&mut other, &mut fake, &names).unwrap_err().to_string();
    assert!(refused.contains("rmem") && refused.contains("--revert --interface eth7"), "{refused}");
    assert!(!other.is_saved() && !other.file().exists());
    keep(&mut other, &mut fake, &["mtu"]).unwrap();
    revert(&mut other, &mut fake).unwrap();
    drop(other);
    // A saved setting that was not changed is free.
    let mut state = SettingsStore::saved_in(&directory, "eth7").unwrap();
    assert_eq!(revert(&mut state, &mut fake).unwrap(), (2, Fate::Same));
    assert_eq!(fake.values["rmem"], "1");
    keep(&mut state, &mut fake, &names).unwrap();
    state.apply(&mut fake, &values(&[("mtu", "9000")]), || Ok(())).unwrap();
    drop(state);
    keep(&mut SettingsStore::new(&directory, "eth8").unwrap(), &mut fake, &names).unwrap();
}

#[test]
fn what_others_set_meanwhile_stays_and_is_named() {
    let (_directory, mut state, mut fake) = start();
    fake.values.insert("rps".to_owned(), "3".to_owned());
    keep(&mut state, &mut fake, &["mtu", "gro", "rps"]).unwrap();
    // Like new queues, which lose their settings.
    fake.undoes = Some(("mtu".to_owned(), "rps".to_owned()));
    state.apply(&mut fake, &changes(), || Ok(())).unwrap();
    fake.undoes = None;
    fake.values.insert("mtu".to_owned(), "1400".to_owned());
    let Reverted { count, others, .. } = state.revert(&mut fake).unwrap();
    assert_eq!((count, fake.values["gro"].as_str(), fake.values["rps"].as_str()), (2, "off", "3"));
    assert_eq!(others, ["mtu was set to 1400 meanwhile, and stays so; it was 1500 before"]);
    assert!(fake.values["mtu"] == "1400" && !fake.file.exists());
}

#[test]
fn of_a_killed_run_only_values_that_it_tried_are_taken_back() {
    let (_directory, mut state, mut fake) = start();
    fake.values.insert("rps".to_owned(), "0".to_owned());
    let tried = [["9000", "4000"], ["on", "off"], ["3", "2"]].map(|values| values.map(str::to_owned));
    let tried: Vec<_> = ["mtu", "gro", "rps"].into_iter().zip(tried.iter().map(<[String; 2]>::as_slice)).collect();
    for (mtu, gro, rps, left) in [("4000", "on requested", "0 2", 0), ("1400", "on", "3 1", 2)] {
        state.keep(&mut fake, &tried).unwrap();
        state.saved = None;
        fake.values.extend(values(&[("mtu", mtu), ("gro", gro), ("rps", rps)]));
        assert_eq!(state.revert(&mut fake).unwrap().others.len(), left);
        assert_eq!(fake.values["gro"], "off");
        assert_eq!(fake.values["mtu"] == "1500" && fake.values["rps"] == "0", left == 0);
    }
}

#[test]
fn what_new_queues_of_a_killed_run_lost_is_set_again() {
    // The number of queues at the kill: tried, set back, and set by others.
    for channels in ["1", "4", "2"] {
        let (_directory, mut state, mut fake) = start();
        fake.values.extend(values(&[("channels", "4"), ("rps", "3 3"), ("coalesce-rx-usecs", "8")]));
        let tried = [["1", "8"], ["0", "f"], ["50", "200"]].map(|values| values.map(str::to_owned));
        let names = ["channels", "rps", "coalesce-rx-usecs"];
        let tried: Vec<_> = names.into_iter().zip(tried.iter().map(<[String; 2]>::as_slice)).collect();
        state.keep(&mut fake, &tried).unwrap();
        state.saved = None;
        // The driver's own values, which the run did not try.
        fake.values.extend(values(&[("channels", channels), ("rps", "0 1"), ("coalesce-rx-usecs", "3")]));
        let Reverted { others, .. } = state.revert(&mut fake).unwrap();
        assert_eq!((&*fake.values["rps"], &*fake.values["coalesce-rx-usecs"]), ("3 3", "8"), "{channels}");
        assert_eq!(others.len(), usize::from(channels == "2"), "{others:?}");
    }
}

#[test]
fn what_others_set_on_queues_stays_where_a_run_that_ended_made_no_new_ones() {
    let (_directory, mut state, mut fake) = start();
    fake.values.extend(values(&[("channels", "4"), ("rps", "3 3")]));
    let tried = [["1".to_owned()], ["0".to_owned()]];
    let tried: Vec<_> = ["channels", "rps"].into_iter().zip(tried.iter().map(<[String; 1]>::as_slice)).collect();
    for (channels, stays) in [("4", true), ("1", false)] {
        state.keep(&mut fake, &tried).unwrap();
        state.apply(&mut fake, &values(&[("channels", channels), ("rps", "0 0")]), || Ok(())).unwrap();
        state.saved = None;
        fake.values.insert("rps".to_owned(), "5 5".to_owned());
        let Reverted { others, .. } = state.revert(&mut fake).unwrap();
        assert_eq!((others.len(), fake.values["rps"] == "5 5"), (usize::from(stays), stays), "{channels}");
        fake.values.insert("rps".to_owned(), "3 3".to_owned());
    }
}

#[test]
fn after_another_start_of_the_machine_nothing_is_set_and_another_interface_is_never_touched() {
    let (_directory, mut state, mut fake) = start();
    fake.values.insert("rmem".to_owned(), "1".to_owned());
    keep(&mut state, &mut fake, &["mtu", "rmem"]).unwrap();
    state.apply(&mut fake, &values(&[("mtu", "9000"), ("rmem", "2")]), || Ok(())).unwrap();
    let (changed, writes) = (fake.values.clone(), fake.was_kept.len());
    fake.fate = Some(Err("eth7 is another one".to_owned()));
    let refused = revert(&mut state, &mut fake).unwrap_err().to_string();
    assert!(refused.contains("eth7 is another one") && fake.file.exists(), "{refused}");
    fake.fate = Some(Ok(Fate::Restarted));
    assert_eq!(revert(&mut state, &mut fake).unwrap(), (0, Fate::Restarted));
    assert!(fake.values == changed && fake.was_kept.len() == writes && !fake.file.exists());
}

fn every_setting_of_a_virtual_interface_is_taken_back() {
    space::enter_own().unwrap();
    let links = Links::here().unwrap();
    links.add_veth("near", "far").unwrap();
    links.up("near").unwrap();
    links.up("far").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (mut state, mut here) = (SettingsStore::new(directory.path(), "near").unwrap(), Here::of("near").unwrap());
    let free: Vec<_> = KNOWN.iter().filter(|setting| here.read(setting).is_ok()).collect();
    let read = |here: &mut Here| free.iter().map(|setting| here.read(setting).unwrap()).collect::<Vec<_>>();
    let before = read(&mut here);
    keep(&mut state, &mut here, &free.iter().map(|setting| setting.name).collect::<Vec<_>>()).unwrap();
    // From here on this simulates a killed run: no cleanup, and another process continues from the saved file.
    drop(state);
    let mut changed = BTreeSet::new();
    let mut kinds = Vec::new();
    for (setting, value) in free.iter().zip(&before) {
        if setting.others(value, 2).iter().any(|other| here.write(setting, other).is_ok()) {
            changed.insert(setting.name);
            kinds.push(discriminant(&setting.location));
        }
    }
    kinds.dedup();
    // The kernel would look for a module of that name.
    let unknown = here.write(by_name("congestion-control").unwrap(), "none").unwrap_err().to_string();
    assert!(unknown.contains("is not loaded"), "{unknown}");
    assert!(changed.contains("mtu") && changed.contains("gro") && changed.contains("rps"), "{changed:?}");
    assert!(changed.contains("gro-flush-timeout") && changed.contains("rmem"), "{changed:?}");
    assert!(kinds.len() >= 4 && read(&mut here) != before, "{changed:?}");
    let mut another = Here::of("near").unwrap();
    let mut state = SettingsStore::new(directory.path(), "near").unwrap();
    assert_eq!(revert(&mut state, &mut another).unwrap(), (free.len(), Fate::Same));
    assert_eq!(read(&mut another), before);
    // For an interface that was removed meanwhile, the machine's settings are reverted.
    keep(&mut state, &mut here, &["mtu", "rmem"]).unwrap();
    here.write(by_name("rmem").unwrap(), "4096 8192 8192").unwrap();
    links.remove("near").unwrap();
    assert!(here.write(by_name("mtu").unwrap(), "9000").is_err());
    let mut gone = Here::of_any("near").unwrap();
    assert_eq!(revert(&mut state, &mut gone).unwrap(), (1, Fate::Gone));
    let rmem = free.iter().position(|setting| setting.name == "rmem").unwrap();
    assert_eq!(gone.read(free[rmem]).unwrap(), before[rmem]);
}

#[test]
fn after_a_kill_all_kinds_of_settings_are_taken_back_and_of_a_lost_interface_what_is_left() {
    if !Uid::effective().is_root() {
        return skipped("only root mounts the attributes of interfaces in a namespace of its own");
    }
    thread::spawn(every_setting_of_a_virtual_interface_is_taken_back).join().unwrap();
}
