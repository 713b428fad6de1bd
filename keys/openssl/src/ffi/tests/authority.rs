//! Tests of authority: an operation has that of its calling thread, not that of the loader or of an earlier caller.
//!
//! Only root can become another user; for other users these tests print a note and pass.

use super::{in_child, succeeded};
use sidecore::client::{Admin, Options};
use sidecore::config::Config;
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore::service::Service;
use sidecore_client::keyops::ask::find;
use sidecore_client::keyops::failure::Failure;
use sidecore_client::keyops::key::Key;
use sidecore_client::keyops::lanes::{Take, pool};
use sidecore_client::keyops::sign::Settings;
use sidecore_client::keyops::wait::Caller;
use sidecore_testing::skipped;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// A user number that nothing else here has.
const USER: libc::uid_t = 64_021;

/// A service for every user, with a key for root only.
struct Site {
    options: Options,
    _service: Service,
    _directory: tempfile::TempDir,
}

impl Site {
    /// `None`: not root.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skipped("only root can play another user");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let socket = directory.path().join("socket");
        let config = Config { socket: socket.clone(), socket_mode: 0o666, ..Config::default() };
        let service = Service::start(config).unwrap();
        let options = Options { socket, ..Options::default() };
        let command = KeyCommand::Generate { name: "www".to_owned(), kind: Kind::P256, acl: Acl::default() };
        Admin::connect(&options).unwrap().keys(command).unwrap();
        Some(Self { options, _service: service, _directory: directory })
    }

    fn key(&self) -> Arc<Key> {
        Arc::new(find(&self.options, "www").unwrap())
    }

    fn sign(&self, key: &Arc<Key>) -> Result<Vec<u8>, Failure> {
        Settings::default().sign(Caller::thread(&self.options), key, &[7; 32])
    }

    fn refuses(&self, key: &Arc<Key>) -> bool {
        self.sign(key).is_err_and(|failure| failure.text.contains("user 64021 may not use key \"www\""))
    }

    fn connections(&self) -> usize {
        let numbers = fs::read_dir("/proc/self/fd").unwrap();
        let numbers = numbers.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        numbers.filter(|number| peer_of(*number).as_deref() == Some(&self.options.socket)).count()
    }
}

fn peer_of(number: libc::c_int) -> Option<std::path::PathBuf> {
    // SAFETY: all zeros are an address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: there is room for an address of this length; any number may be queried.
    if unsafe { libc::getpeername(number, (&raw mut address).cast(), &raw mut len) } != 0 {
        return None;
    }
    let path: Vec<u8> =
        address.sun_path.iter().take_while(|byte| **byte != 0).map(|byte| byte.to_ne_bytes()[0]).collect();
    Some(Path::new(std::str::from_utf8(&path).ok()?).to_owned())
}

fn become_user() {
    // SAFETY: no memory is involved; the calling process is a child with one thread.
    let codes = unsafe { (libc::setgroups(0, std::ptr::null()), libc::setgid(USER), libc::setuid(USER)) };
    assert_eq!(codes, (0, 0, 0));
}

#[test]
fn who_gives_root_up_signs_no_more_with_what_root_may_use() {
    let Some(site) = Site::new() else { return };
    assert!(succeeded(in_child(|| {
        let key = site.key();
        let before = site.sign(&key).is_ok();
        become_user();
        before && site.refuses(&key) && site.refuses(&key)
    })));
}

#[test]
fn a_child_that_becomes_another_user_signs_with_its_own_rights() {
    let Some(site) = Site::new() else { return };
    assert!(succeeded(in_child(|| {
        let key = site.key();
        let before = site.sign(&key).is_ok();
        let child = in_child(|| {
            become_user();
            site.refuses(&key)
        });
        let after_its_first_call = in_child(|| {
            let first = site.sign(&key).is_ok();
            become_user();
            first && site.refuses(&key)
        });
        before && succeeded(child) && succeeded(after_its_first_call) && site.sign(&key).is_ok()
    })));
}

#[test]
fn a_lane_that_loaded_a_key_is_closed() {
    let Some(site) = Site::new() else { return };
    assert!(succeeded(in_child(|| {
        let key = site.key();
        let loaded = site.connections();
        let signed = site.sign(&key).is_ok();
        let used = site.connections();
        let _ = site.key();
        signed && (loaded, used) == (0, 1)
    })));
}

#[test]
fn the_lanes_of_whoever_gave_root_up_are_closed_with_the_next_call() {
    let Some(site) = Site::new() else { return };
    assert!(succeeded(in_child(|| {
        let key = site.key();
        let _ = site.sign(&key);
        become_user();
        // The refused call had a lane of its own, which stays open.
        site.refuses(&key) && site.connections() == 1
    })));
}

#[test]
fn a_child_keeps_no_connection_of_its_parent() {
    let Some(site) = Site::new() else { return };
    assert!(succeeded(in_child(|| {
        let key = site.key();
        let pool = pool().unwrap();
        // Lanes of threads that do not exist in the child, which never returns them.
        let in_use: Vec<_> = (0..3)
            .map(|_| match pool.take(&site.options, None, 0, None, Instant::now() + site.options.timeout).unwrap() {
                Take::Lane(lane) => lane,
                Take::Full(_) => panic!("a new pool"),
            })
            .collect();
        let of_parent = site.connections();
        let child = in_child(|| site.connections() == 3 && site.sign(&key).is_ok() && site.connections() == 1);
        // The parent's lanes still work.
        let done = succeeded(child) && of_parent == 3 && site.connections() == 3;
        drop(in_use);
        done && site.connections() == 0
    })));
}

#[test]
fn what_a_child_has_opened_under_the_number_of_a_connection_is_left_alone() {
    let Some(site) = Site::new() else { return };
    assert!(succeeded(in_child(|| {
        let key = site.key();
        let pool = pool().unwrap();
        let Take::Lane(lane) = pool.take(&site.options, None, 0, None, Instant::now() + site.options.timeout).unwrap()
        else {
            return false;
        };
        let number = std::os::fd::AsRawFd::as_raw_fd(&lane.client.connection().unwrap());
        let child = in_child(|| {
            let file = tempfile::tempfile().unwrap();
            // SAFETY: like a daemon that closes all inherited files: the number now refers to another file.
            assert_eq!(unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&file), number) }, number);
            let signed = site.sign(&key).is_ok();
            let still = fs::read_link(format!("/proc/self/fd/{number}")).unwrap();
            signed
                && still == fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file))).unwrap()
        });
        let done = succeeded(child);
        drop(lane);
        done
    })));
}
