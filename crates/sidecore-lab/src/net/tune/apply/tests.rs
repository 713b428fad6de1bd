//! Settings that are kept, with what stands for an interface.

use super::*;
use std::collections::BTreeMap;
use tempfile::TempDir;

const NAMES: [&str; 2] = ["mtu", "gro"];

/// Settings in memory, one of which may be refused.
#[derive(Debug, Default)]
struct Fake {
    values: BTreeMap<String, String>,
    refuses: Option<String>,
    file: PathBuf,
    /// Whether the old settings were on the disk at each write.
    was_kept: Vec<bool>,
}

impl Settings for Fake {
    fn read(&mut self, name: &str) -> Result<String, String> {
        self.values.get(name).cloned().ok_or_else(|| "there is none".to_owned())
    }

    fn write(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.was_kept.push(self.file.exists());
        if self.refuses.as_deref() == Some(name) {
            return Err("refused".to_owned());
        }
        self.values.insert(name.to_owned(), value.to_owned());
        Ok(())
    }
}

fn values(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn start() -> (TempDir, State, Fake) {
    let directory = tempfile::tempdir().unwrap();
    let state = State::new(&directory.path().join("net"), "eth7");
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
    let (_directory, state, mut fake) = start();
    let before = fake.values.clone();
    state.keep(&mut fake, &NAMES).unwrap();
    state.apply(&mut fake, &changes(), || Ok(())).unwrap();
    assert_eq!(fake.was_kept, [true, true]);
    assert_eq!(fake.values, changes().into_iter().collect());
    assert_eq!(state.revert(&mut fake), Ok(2));
    assert_eq!(fake.values, before);
    assert!(!fake.file.exists() && state.revert(&mut fake).unwrap_err().contains("nothing to take back"));
}

#[test]
fn without_confirmation_or_with_a_refusal_all_is_as_before() {
    let (_directory, state, mut fake) = start();
    let before = fake.values.clone();
    state.keep(&mut fake, &NAMES).unwrap();
    let why = state.apply(&mut fake, &changes(), || Err("nobody confirmed".to_owned())).unwrap_err();
    assert!(why.contains("nobody confirmed") && why.contains("as it was before"), "{why}");
    assert!(fake.values == before && !fake.file.exists());
    fake.refuses = Some("gro".to_owned());
    state.keep(&mut fake, &NAMES).unwrap();
    let why = state.apply(&mut fake, &changes(), || unreachable!()).unwrap_err();
    assert!(why.contains("gro on: refused") && fake.values == before && !fake.file.exists(), "{why}");
}

#[test]
fn what_cannot_be_set_back_stays_kept() {
    let (_directory, state, mut fake) = start();
    let before = fake.values.clone();
    state.keep(&mut fake, &NAMES).unwrap();
    state.apply(&mut fake, &changes(), || Ok(())).unwrap();
    fake.refuses = Some("mtu".to_owned());
    assert!(state.revert(&mut fake).unwrap_err().contains("mtu 1500: refused"));
    assert_eq!(fake.values["gro"], "off", "the others are set back");
    fake.refuses = None;
    assert_eq!(state.revert(&mut fake), Ok(2));
    assert_eq!(fake.values, before);
}

#[test]
fn a_run_that_was_killed_in_the_middle_is_taken_back_later() {
    let (_directory, state, mut fake) = start();
    let before = fake.values.clone();
    state.keep(&mut fake, &NAMES).unwrap();
    let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        state.apply(&mut fake, &changes(), || panic!("killed")).unwrap();
    }));
    assert!(killed.is_err() && fake.values != before);
    let refused = state.keep(&mut fake, &NAMES).unwrap_err();
    assert!(refused.contains("--revert"), "what was kept is not lost: {refused}");
    assert_eq!(State::new(&state.directory, "eth7").revert(&mut fake), Ok(2));
    assert_eq!(fake.values, before);
}

#[test]
fn a_damaged_file_or_one_of_another_interface_changes_nothing() {
    let (_directory, state, mut fake) = start();
    fs::create_dir_all(&state.directory).unwrap();
    for (text, said) in [("{\"interf", "damaged"), (r#"{"interface":"eth8","values":[["mtu","9"]]}"#, "eth8")] {
        fs::write(&fake.file, text).unwrap();
        assert!(state.revert(&mut fake).unwrap_err().contains(said));
    }
    assert!(fake.was_kept.is_empty());
}
