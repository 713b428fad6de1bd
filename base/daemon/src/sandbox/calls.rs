//! The permitted system calls of a service, by its duty.
//!
//! There are three filters; the strictest answer counts:
//!
//! - A list of permitted calls, some only with certain arguments. All others fail with `EPERM`: a C library that
//!   tries a new call then falls back, where killing would turn its update into an outage.
//! - Calls that only an intruder would make kill the process immediately, so it gets one attempt and the log
//!   shows it.
//! - `clone3` does not exist: its flags are in memory, where a filter cannot see them, and C libraries then use
//!   `clone`.

use super::Duty;
use super::error::Lack;
use libc::{c_long, c_ulong};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};
use sidecore_core::policy::intake;
use std::collections::BTreeMap;
use std::os::fd::RawFd;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

macro_rules! numbers {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// Permitted with any arguments, for each duty. The open descriptors limit their effect.
const ALLOWED: &[c_long] = numbers! {
    // Waiting and waking.
    SYS_futex SYS_ppoll SYS_epoll_pwait SYS_epoll_pwait2 SYS_epoll_ctl SYS_epoll_create1
    SYS_eventfd2 SYS_pipe2 SYS_nanosleep SYS_clock_nanosleep SYS_clock_gettime SYS_clock_getres
    SYS_gettimeofday SYS_sched_yield SYS_restart_syscall SYS_pidfd_open
    // Clients that connect to the listening socket.
    SYS_accept4 SYS_recvmsg SYS_recvfrom SYS_sendmsg SYS_sendto SYS_getsockopt SYS_shutdown
    // Memory, lanes and banks among it.
    SYS_brk SYS_munmap SYS_mremap SYS_madvise SYS_mlock SYS_mlock2 SYS_munlock SYS_memfd_create
    SYS_ftruncate SYS_getrandom SYS_membarrier
    // Open descriptors, and at the end the service's own files.
    SYS_close SYS_read SYS_write SYS_readv SYS_writev SYS_fstat SYS_newfstatat SYS_flock SYS_unlinkat
    // Threads that come and go, signals, the end.
    SYS_set_robust_list SYS_rseq SYS_sigaltstack SYS_rt_sigaction SYS_rt_sigprocmask
    SYS_rt_sigreturn SYS_getpid SYS_gettid SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getcpu
    SYS_getrusage SYS_sched_getaffinity SYS_exit SYS_exit_group
    // See `NEVER_THERE`.
    SYS_clone3
};

/// For a duty with files: those below the service's directories.
const WITH_FILES: &[c_long] = numbers! {
    SYS_openat SYS_fallocate SYS_pread64 SYS_pwrite64 SYS_lseek SYS_statx SYS_getdents64 SYS_fchmod SYS_fsync SYS_fdatasync
    SYS_renameat SYS_renameat2 SYS_faccessat SYS_faccessat2
};

/// Older names of the same, where the architecture has them.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[c_long] = numbers! { SYS_poll SYS_epoll_wait SYS_stat SYS_lstat SYS_unlink SYS_time };
#[cfg(target_arch = "x86_64")]
const WITH_FILES_HERE: &[c_long] = numbers! { SYS_access SYS_rename };
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[c_long] = &[];
#[cfg(not(target_arch = "x86_64"))]
const WITH_FILES_HERE: &[c_long] = &[];

/// Calls that no service and no library in it ever makes.
const DEADLY: &[c_long] = numbers! {
    SYS_execve SYS_execveat SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_pidfd_getfd
    SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_io_uring_setup SYS_unshare SYS_setns SYS_mount
    SYS_pivot_root SYS_chroot SYS_init_module SYS_finit_module SYS_kexec_load SYS_reboot
};

const NEVER_THERE: &[c_long] = &[libc::SYS_clone3];

/// A filter for all present and future threads. `door` is the number of the listening socket, for the process's whole
/// life.
pub(super) fn filter(duty: Duty, door: RawFd) -> Option<Lack> {
    install(duty, door).err().map(Lack::Seccomp)
}

fn install(duty: Duty, door: RawFd) -> Result<(), seccompiler::Error> {
    let any = |calls: &[c_long]| -> Rules { calls.iter().map(|call| (*call, Vec::new())).collect() };
    let (yes, no) = (SeccompAction::Allow, |errno| SeccompAction::Errno(errno as u32));
    // The last one installed forbids further filters.
    for (rules, otherwise, matched) in [
        (any(NEVER_THERE), yes.clone(), no(libc::ENOSYS)),
        (any(DEADLY), yes.clone(), SeccompAction::KillProcess),
        (allowed(duty, std::process::id(), door)?, no(libc::EPERM), yes),
    ] {
        apply_filter_all_threads(&compile(rules, otherwise, matched)?)?;
    }
    Ok(())
}

fn compile(rules: Rules, otherwise: SeccompAction, matched: SeccompAction) -> Result<BpfProgram, seccompiler::Error> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, otherwise, matched, architecture)?.try_into()?)
}

pub(super) fn permits(duty: Duty, call: c_long) -> bool {
    let is_none = DEADLY.contains(&call) || NEVER_THERE.contains(&call);
    !is_none && allowed(duty, std::process::id(), 0).is_ok_and(|rules| rules.contains_key(&call))
}

fn allowed(duty: Duty, pid: u32, door: RawFd) -> Result<Rules, BackendError> {
    let files: &[&[c_long]] = if duty.files { &[WITH_FILES, WITH_FILES_HERE] } else { &[] };
    let any = [ALLOWED, ALLOWED_HERE, duty.calls].into_iter().chain(files.iter().copied()).flatten();
    let mut rules: Rules = any.map(|call| (*call, Vec::new())).collect();
    for (call, conditions) in conditional(duty, u64::from(pid), door) {
        let conditions =
            conditions.into_iter().map(|(argument, len, op, value)| SeccompCondition::new(argument, len, op, value));
        rules.entry(call).or_default().push(SeccompRule::new(conditions.collect::<Result<_, _>>()?)?);
    }
    Ok(rules)
}

type Condition = (u8, SeccompCmpArgLen, SeccompCmpOp, u64);

/// Calls that are allowed only with these arguments; several rows for one call are alternatives.
fn conditional(duty: Duty, pid: u64, door: RawFd) -> Vec<(c_long, Vec<Condition>)> {
    let mut rows = vec![
        // Threads, not processes, and no other namespaces.
        (libc::SYS_clone, vec![bits(0, flags(libc::CLONE_THREAD | NAMESPACES), flags(libc::CLONE_THREAD))]),
        // No memory that is executable.
        (libc::SYS_mmap, vec![bits(2, flags(libc::PROT_EXEC), 0)]),
        (libc::SYS_mprotect, vec![bits(2, flags(libc::PROT_EXEC), 0)]),
        // A table of descriptors of a thread's own, to close something as it ends.
        (libc::SYS_close_range, vec![equal(0, NO_DESCRIPTOR), equal(1, NO_DESCRIPTOR), equal(2, UNSHARE)]),
        // Signals to itself: how a panic in a panic ends.
        (libc::SYS_tgkill, vec![equal(0, pid)]),
        // Its own threads' cores, and its own limits without changing them.
        (libc::SYS_sched_setaffinity, vec![equal(0, 0)]),
        (libc::SYS_prlimit64, vec![equal(0, 0), wide(2, 0)]),
        (libc::SYS_ioctl, vec![wide(1, c_ulong::from(libc::FIONBIO))]),
    ];
    rows.extend(
        [libc::PR_SET_NAME, libc::PR_SET_TIMERSLACK].map(|option| (libc::SYS_prctl, vec![equal(0, flags(option))])),
    );
    // Length of the queue of the listening socket.
    let of_door = |backlog: &u32| vec![equal(0, flags(door)), equal(1, u64::from(*backlog))];
    rows.extend([intake::WIDE, intake::NARROW].iter().map(|backlog| (libc::SYS_listen, of_door(backlog))));
    rows.extend(duty.requests.iter().map(|request| (libc::SYS_ioctl, vec![wide(1, *request)])));
    let of_socket = |option: &i32| vec![equal(1, flags(libc::SOL_SOCKET)), equal(2, flags(*option))];
    rows.extend(duty.options.iter().map(|option| (libc::SYS_setsockopt, of_socket(option))));
    rows.extend(DESCRIPTOR_COMMANDS.iter().map(|command| (libc::SYS_fcntl, vec![equal(1, flags(*command))])));
    rows
}

const NO_DESCRIPTOR: u64 = u32::MAX as u64;
const UNSHARE: u64 = libc::CLOSE_RANGE_UNSHARE as u64;

const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Without the commands that send signals.
const DESCRIPTOR_COMMANDS: &[i32] = numbers! {
    F_DUPFD_CLOEXEC F_GETFD F_SETFD F_GETFL F_SETFL F_ADD_SEALS F_GET_SEALS F_SETPIPE_SZ F_OFD_SETLK F_OFD_GETLK
};

fn equal(argument: u8, value: u64) -> Condition {
    (argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn wide(argument: u8, value: u64) -> Condition {
    (argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, value)
}

fn bits(argument: u8, mask: u64, value: u64) -> Condition {
    (argument, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(mask), value)
}

/// Flags as the kernel sees them: 32 bits that stand for themselves.
fn flags(flags: i32) -> u64 {
    u64::from(flags.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MORE: Duty = Duty {
        calls: &[libc::SYS_getpeername],
        options: &[libc::SO_LINGER],
        requests: &[libc::TIOCOUTQ],
        ..Duty::NONE
    };
    const FILES: Duty = Duty { secrets: true, files: true, ..Duty::NONE };
    const DUTIES: [Duty; 3] = [FILES, Duty::NONE, MORE];

    #[test]
    fn nothing_is_both_allowed_and_deadly() {
        for rules in DUTIES.map(|duty| allowed(duty, 1, 3).unwrap()) {
            assert!(DEADLY.iter().all(|call| !rules.contains_key(call)));
            let network = [libc::SYS_socket, libc::SYS_connect, libc::SYS_bind, libc::SYS_socketpair];
            assert!(network.iter().all(|call| !rules.contains_key(call)));
            assert!(NEVER_THERE.iter().all(|call| rules.contains_key(call)), "the other filter answers");
        }
    }

    #[test]
    fn a_duty_without_files_opens_none() {
        let files = [libc::SYS_openat, libc::SYS_openat2, libc::SYS_open_by_handle_at, libc::SYS_renameat2];
        assert!(files.iter().chain(WITH_FILES_HERE).all(|call| !MORE.permits(*call)));
        assert!(FILES.permits(libc::SYS_openat));
    }

    #[test]
    fn a_duty_permits_its_own_calls_and_options() {
        for call in [libc::SYS_getpeername, libc::SYS_setsockopt] {
            assert_eq!(DUTIES.map(|duty| duty.permits(call)), [false, false, true]);
        }
        let requests = |duty| allowed(duty, 1, 3).unwrap()[&libc::SYS_ioctl].len();
        assert_eq!(DUTIES.map(requests), [1, 1, 2]);
    }

    #[test]
    fn the_filters_compile() {
        for duty in DUTIES {
            let rules = allowed(duty, 1, 3).unwrap();
            let program = compile(rules, SeccompAction::Errno(1), SeccompAction::Allow).unwrap();
            assert!(program.len() > ALLOWED.len() && program.len() < 4096, "{}", program.len());
        }
    }
}
