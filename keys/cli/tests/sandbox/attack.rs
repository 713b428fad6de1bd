//! Other processes of the service's user can see none of its data.

use crate::root_or_skipped;
use crate::service::{Running, ServiceFolder, USER, USER_ID};
use nix::sys::ptrace;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use rustix::fs::{Gid, Uid};
use rustix::process::{Pid, Signal, geteuid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
use sidecore_testing::skipped;
use std::fs::{self, File};
use std::io::IoSliceMut;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::thread;

fn everything() -> String {
    if geteuid().is_root() { format!("user = '{USER}'\nlock_memory = true\n{DEMANDED}") } else { DEMANDED.to_owned() }
}

const DEMANDED: &str = "seccomp = true\nlandlock = true";

/// No capability; or `CAP_IPC_LOCK`, number 14, if the limit on locked memory could not be raised.
const NOTHING_OR_LOCKING: [&str; 2] = ["0000000000000000", "0000000000004000"];

fn start() -> (ServiceFolder, Running) {
    let folder = ServiceFolder::new("[[device]]\nname = 'w'\nkind = 'worker'", &everything());
    let running = folder.start();
    (folder, running)
}

#[test]
fn each_thread_is_filtered_and_can_gain_nothing() {
    let (_place, service) = start();
    let seccomp = service.status_of_threads("Seccomp");
    assert!(seccomp.len() >= 4, "main, control, sidecore, worker: {seccomp:?}");
    assert!(seccomp.iter().all(|mode| mode == "2"), "{seccomp:?}");
    assert!(service.status_of_threads("NoNewPrivs").iter().all(|value| value == "1"));
    for key in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        let found = service.status_of_threads(key);
        assert!(found.iter().all(|value| NOTHING_OR_LOCKING.contains(&value.as_str())), "{key}: {found:?}");
    }
    // The test's own process has no filter: the numbers show a difference.
    assert_eq!(fs::read_to_string("/proc/self/status").unwrap().matches("Seccomp:\t2").count(), 0);
}

#[test]
fn root_is_given_up_with_its_groups_and_capabilities() {
    if !root_or_skipped("becoming another user, sandbox.user") {
        return;
    }
    let (_place, service) = start();
    for key in ["Uid", "Gid"] {
        let found = service.status_of_threads(key);
        assert!(found.iter().all(|ids| ids.split_whitespace().all(|id| id == USER_ID.to_string())), "{found:?}");
    }
    assert_eq!(service.status("Groups"), "");
    assert_eq!(service.status("CapBnd"), "0000000000000000");
}

#[test]
fn memory_is_locked() {
    if !root_or_skipped("locking all memory") {
        return;
    }
    let (_place, service) = start();
    let kib = service.status("VmLck").trim_end_matches(" kB").parse::<u64>().unwrap();
    assert!(kib > 1000, "{kib} KiB");
}

/// Whether a process of that user can trace the victim, open its memory or environment, and read its memory.
fn reach(victim: Pid, uid: u32) -> [bool; 4] {
    let attacker = move || {
        if geteuid().is_root() {
            // Changes this thread only, and drops its capabilities. Tracing requires the same group too.
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(uid));
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
        }
        let pid = victim.as_raw_nonzero().get();
        let opens = |name: &str| File::open(format!("/proc/{pid}/{name}")).is_ok();
        let nix_pid = nix::unistd::Pid::from_raw(pid);
        let (mut byte, nowhere) = ([0], [RemoteIoVec { base: 0, len: 1 }]);
        let read = process_vm_readv(nix_pid, &mut [IoSliceMut::new(&mut byte)], &nowhere);
        // Nothing is mapped at that address: a process with the right to read gets `EFAULT`.
        let may_read = read == Err(nix::Error::EFAULT);
        let traces = ptrace::attach(nix_pid).is_ok();
        [traces, opens("mem"), opens("environ"), may_read]
    };
    thread::spawn(attacker).join().unwrap()
}

#[test]
fn another_process_of_the_same_user_can_neither_trace_it_nor_read_its_memory() {
    let uid = if geteuid().is_root() { USER_ID } else { geteuid().as_raw() };
    let mut command = Command::new("sleep");
    command.arg("60");
    if geteuid().is_root() {
        command.uid(uid).gid(uid);
    }
    let mut other = command.spawn().unwrap();
    let reached = reach(Pid::from_child(&other), uid);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(reached, [true; 4], "an ordinary process of that user is in reach");
    // A capability kept for locking memory would also keep other processes out.
    let folder = ServiceFolder::new("", &everything().replace("lock_memory = true", "lock_memory = false"));
    let service = folder.start();
    assert_eq!(reach(service.pid(), uid), [false; 4]);
}

#[test]
fn a_crash_leaves_no_core() {
    let directory = tempfile::tempdir().unwrap();
    let mut crash = Command::new("sh");
    crash.args(["-c", "ulimit -c unlimited && kill -ABRT $$"]).current_dir(directory.path());
    let control = crash.status().unwrap();
    if !control.core_dumped() {
        skipped("not compared: this machine dumps no core of an ordinary process either (ulimit -c, core_pattern)");
    }
    let (_place, service) = start();
    assert_eq!(service.status("CoreDumping"), "0");
    let ended = service.end(Signal::ABORT);
    assert_eq!((ended.signal(), ended.core_dumped()), (Some(Signal::ABORT.as_raw()), false));
}
