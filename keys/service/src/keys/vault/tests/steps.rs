//! Changes with one failing step, or with a stop after it: the next start finds the reported state.

use super::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Mutex};

pub(in crate::keys) const STEPS: usize = 24;

#[derive(Clone, Copy, Debug)]
struct Fault {
    step: usize,
    was_done: bool,
    /// All following steps fail as well: the disk is gone, or the process.
    lasts: bool,
}

#[derive(Debug)]
struct Faulty {
    path: PathBuf,
    fault: Fault,
    state: Arc<Mutex<DiskState>>,
}

#[derive(Debug, Default)]
struct DiskState {
    steps: usize,
    durable: BTreeMap<String, Vec<u8>>,
}

impl Faulty {
    fn step<T>(&self, act: impl FnOnce() -> io::Result<T>, half: impl FnOnce()) -> io::Result<T> {
        let step = {
            let mut state = self.state.lock().unwrap();
            state.steps += 1;
            state.steps - 1
        };
        let fails = step == self.fault.step || self.fault.lasts && step > self.fault.step;
        if !fails {
            return act();
        }
        if step == self.fault.step {
            if self.fault.was_done { drop(act()) } else { half() }
        }
        Err(io::Error::from_raw_os_error(5))
    }
}

fn content(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    files.map(|file| (file.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(file).unwrap())).collect()
}

fn restore(path: &Path, content: &BTreeMap<String, Vec<u8>>) {
    fs::remove_dir_all(path).unwrap();
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
    for (name, bytes) in content {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(path.join(name)).unwrap();
        io::Write::write_all(&mut file, bytes).unwrap();
    }
}

impl Disk for Faulty {
    fn write(&self, directory: &OwnedFd, file: &str, bytes: &[u8]) -> io::Result<File> {
        let half = || drop(System.write(directory, file, &bytes[..bytes.len() / 2]));
        self.step(|| System.write(directory, file, bytes), half)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        self.step(|| System.sync_file(file), || ())
    }

    fn sync(&self, directory: &OwnedFd) -> io::Result<()> {
        let bring = || {
            System.sync(directory)?;
            self.state.lock().unwrap().durable = content(&self.path);
            Ok(())
        };
        self.step(bring, || ())
    }

    fn rename(&self, directory: &OwnedFd, from: &str, to: &str) -> io::Result<()> {
        self.step(|| System.rename(directory, from, to), || ())
    }

    fn remove(&self, directory: &OwnedFd, file: &str) -> io::Result<()> {
        self.step(|| System.remove(directory, file), || ())
    }
}

pub(in crate::keys) fn failing(path: &Path, step: usize) -> (Vault, Vec<Found>) {
    let (vault, found, _) = faulty(path, Fault { step, was_done: false, lasts: false });
    (vault, found)
}

fn faulty(path: &Path, fault: Fault) -> (Vault, Vec<Found>, Arc<Mutex<DiskState>>) {
    let (opened, state) = opened(path, fault);
    let (vault, found) = opened.unwrap();
    // An unchanged directory is opened without a step.
    assert_eq!(state.lock().unwrap().steps, 0);
    (vault, found, state)
}

type Opened = Result<(Vault, Vec<Found>), VaultError>;

fn opened(path: &Path, fault: Fault) -> (Opened, Arc<Mutex<DiskState>>) {
    let state = Arc::new(Mutex::new(DiskState { steps: 0, durable: content(path) }));
    let open = || {
        let disk = Faulty { path: path.to_owned(), fault, state: state.clone() };
        open_as(path, &KeysConfig::default(), OLD, Box::new(disk))
    };
    (patiently(open), state)
}

/// A thread or a child of another test may have a copy of the lock's descriptor until it ends or executes its program.
fn patiently(open: impl Fn() -> Opened) -> Opened {
    let is_copied =
        |opened: &Opened| opened.as_ref().is_err_and(|why| why.to_string().contains("another service has it"));
    let mut opened = open();
    for _ in 0..1000 {
        if !is_copied(&opened) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        opened = open();
    }
    opened
}

const OLD: &str = "open sesame";
const NEW: &str = "open simsim";

type Seen = (&'static str, Vec<(String, u32)>);

fn seen(path: &Path) -> Seen {
    let opened = |passphrase| patiently(|| open_as(path, &KeysConfig::default(), passphrase, Box::new(System)));
    let (passphrase, (_, found)) = match opened(OLD) {
        Err(said) if said.to_string().contains("the passphrase is not") => (NEW, opened(NEW).unwrap()),
        other => (OLD, other.unwrap()),
    };
    assert_eq!(fs::read_dir(path).unwrap().count(), 1 + found.len(), "something is left over");
    for key in &found {
        assert_eq!(key.pkcs8.expose(), key.name.as_bytes());
    }
    (passphrase, found.into_iter().map(|key| (key.name, key.attributes.acl.uids[0])).collect())
}

type Change = fn(&mut Vault) -> Result<VaultWarning, VaultError>;

const CHANGES: [(&str, Change); 5] = [
    ("write", |vault| vault.write("new", &acl(9), &secret("new"))),
    ("users", |vault| vault.write("www", &acl(9), &secret("www"))),
    ("delete", |vault| vault.delete("mail")),
    ("rename", |vault| vault.rename("mail", "post", &acl(7), &secret("post"))),
    ("passphrase", |vault| vault.change_passphrase(&secret(NEW))),
];

fn as_seen(what: &str) -> Seen {
    let keys = |keys: &[(&str, u32)]| keys.iter().map(|(name, uid)| ((*name).to_owned(), *uid)).collect();
    match what {
        "write" => (OLD, keys(&[("mail", 7), ("new", 9), ("www", 7)])),
        "users" => (OLD, keys(&[("mail", 7), ("www", 9)])),
        "delete" => (OLD, keys(&[("www", 7)])),
        "rename" => (OLD, keys(&[("post", 7), ("www", 7)])),
        "passphrase" => (NEW, keys(&[("mail", 7), ("www", 7)])),
        _ => (OLD, keys(&[("mail", 7), ("www", 7)])),
    }
}

fn promised(said: &Result<VaultWarning, VaultError>, old: &Seen, new: &Seen) -> (Vec<Seen>, Vec<Seen>) {
    let either = || vec![old.clone(), new.clone()];
    let text = |error: &VaultError| error.to_string();
    match said.as_ref().map(|doubt| doubt.as_ref().map(text)).map_err(text) {
        Err(said) if said.contains("nothing was changed") => (vec![old.clone()], vec![old.clone()]),
        Err(said) if said.contains("the change was taken back") => (vec![old.clone()], either()),
        Err(said) => panic!("{said}"),
        Ok(Some(doubt)) if doubt.contains("could not be taken back") => (vec![new.clone()], either()),
        Ok(Some(doubt)) => {
            assert!(doubt.contains("the change was made"), "{doubt}");
            (vec![new.clone()], vec![new.clone()])
        }
        Ok(None) => (vec![new.clone()], vec![new.clone()]),
    }
}

fn walk(what: &str, change: Change, fault: Fault) -> bool {
    let (_scratch, path) = filled();
    let (mut vault, _, state) = faulty(&path, fault);
    let said = change(&mut vault);
    drop(vault);
    let (after_kill, after_power) = promised(&said, &as_seen("nothing"), &as_seen(what));
    let durable = std::mem::take(&mut state.lock().unwrap().durable);
    let found = seen(&path);
    assert!(after_kill.contains(&found), "{what} {fault:?}: said {said:?}, found {found:?}");
    restore(&path, &durable);
    let found = seen(&path);
    assert!(after_power.contains(&found), "{what} {fault:?}, power failed: said {said:?}, found {found:?}");
    let steps = state.lock().unwrap().steps;
    steps > fault.step
}

#[test]
fn whatever_step_of_a_change_fails_what_is_said_is_what_a_start_finds() {
    for (what, change) in CHANGES {
        for (was_done, lasts) in [(false, false), (true, false), (false, true), (true, true)] {
            let steps =
                (0..STEPS).take_while(|step| walk(what, change, Fault { step: *step, was_done, lasts })).count();
            assert!((8..STEPS).contains(&steps), "{what}: {steps} steps");
        }
    }
}

#[test]
fn a_disk_that_confirms_nothing_after_a_rename_is_told_from_one_that_took_it_back() {
    let mut kinds: Vec<&str> = Vec::new();
    for step in 0..STEPS {
        for (was_done, lasts) in [(false, false), (false, true)] {
            let (_scratch, path) = filled();
            let (mut vault, ..) = faulty(&path, Fault { step, was_done, lasts });
            let said = vault.write("www", &acl(9), &secret("www"));
            let said = match &said {
                Ok(None) => "done".to_owned(),
                Ok(Some(said)) | Err(said) => said.to_string(),
            };
            let known =
                ["done", "nothing was changed", "could not be taken back", "confirms neither", "could not be removed"];
            kinds.extend(known.into_iter().filter(|kind| said.contains(kind)));
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(
        kinds,
        ["confirms neither", "could not be removed", "could not be taken back", "done", "nothing was changed"]
    );
}

#[test]
fn after_a_change_that_failed_the_next_one_is_made() {
    for (what, change) in CHANGES {
        for step in 0..STEPS {
            let (_scratch, path) = filled();
            let (mut vault, _, state) = faulty(&path, Fault { step, was_done: false, lasts: false });
            let first = change(&mut vault);
            if state.lock().unwrap().steps <= step {
                break;
            }
            assert!(vault.write("www", &acl(11), &secret("www")).unwrap().is_none(), "{what} {step}: {first:?}");
            drop(vault);
            let (_, keys) = seen(&path);
            assert!(keys.contains(&("www".to_owned(), 11)), "{what} {step}: {keys:?}");
        }
    }
}

#[test]
fn a_start_that_is_interrupted_anywhere_is_followed_by_one_that_succeeds() {
    for step in 0.. {
        // A start that completes a change.
        let (_scratch, path) = filled();
        let (mut vault, ..) = faulty(&path, Fault { step: 9, was_done: false, lasts: true });
        assert!(vault.write("www", &acl(7), &secret("www")).unwrap().is_some());
        drop(vault);
        assert!(path.join("www@3.key.tmp").exists());
        let (opened, state) = opened(&path, Fault { step, was_done: step % 2 == 0, lasts: true });
        let steps = state.lock().unwrap().steps;
        if steps <= step {
            assert!(opened.is_ok() && step >= 3, "{step} steps");
            break;
        }
        drop(opened);
        let durable = std::mem::take(&mut state.lock().unwrap().durable);
        assert_eq!(seen(&path), as_seen("nothing"), "{step}");
        restore(&path, &durable);
        assert_eq!(seen(&path), as_seen("nothing"), "{step}, power failed");
    }
}
