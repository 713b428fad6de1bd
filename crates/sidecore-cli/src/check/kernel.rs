//! The kernel: what lanes and the sandbox are made of.

use super::finding::{Finding, topics};

/// What the kernel says, and what it did when asked.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    /// `/proc/sys/kernel/osrelease`.
    pub(super) release: Option<String>,
    pub(super) sealing: bool,
    pub(super) process_descriptors: bool,
    /// Version of landlock's interface.
    pub(super) landlock: Option<u32>,
    /// `/proc/sys/kernel/seccomp/actions_avail`.
    pub(super) seccomp: Option<String>,
    /// `/proc/sys/kernel/yama/ptrace_scope`.
    pub(super) ptrace_scope: Option<String>,
    /// `/proc/sys/kernel/core_pattern`.
    pub(super) core_pattern: Option<String>,
}

/// Memory that is wiped in forked children.
const WIPE_ON_FORK: (u32, u32) = (4, 14);
/// The first version of landlock that also limits signals to other processes.
const SIGNALS: u32 = 6;

topics! {
    RELEASE: "kernel",
        breaks "a forked child never touches its parent's lane (memory wiped on fork, Linux 4.14)",
        do "use Linux 5.13 or later, which has all of it";
    SEALING: "sealed memory",
        breaks "no client can make the service fault by shrinking its lane",
        do "use a kernel with CONFIG_MEMFD_CREATE";
    PROCESSES: "process descriptors",
        breaks "a dead client's lane and sessions are gone though a child holds its sockets",
        do "use Linux 5.3 or later";
    LANDLOCK: "landlock",
        breaks "who breaks into the service finds no files but its own",
        do "use Linux 5.13 or later with landlock among its security modules (boot with lsm=landlock,...)";
    SECCOMP: "seccomp",
        breaks "who breaks into the service finds no sockets, no processes, few system calls",
        do "use a kernel with CONFIG_SECCOMP_FILTER";
    PTRACE: "tracing",
        for "programs of one user cannot read each other's memory; the service's own cannot be read in any case",
        do "sysctl kernel.yama.ptrace_scope=1, where the kernel has yama";
    CORE: "core dumps",
        for "what clients encrypt does not reach a file when one crashes; the service itself dumps none in any case",
        do "ulimit -c 0 for the clients, or sysctl kernel.core_pattern=|/bin/false";
}

pub(super) fn judge(kernel: &Kernel) -> Vec<Finding> {
    let here = |found: bool| if found { "there" } else { "not there" };
    vec![
        RELEASE.of(kernel.release.as_deref().and_then(version), |version| {
            (version >= WIPE_ON_FORK, format!("Linux {}.{}", version.0, version.1))
        }),
        SEALING.ok_if(kernel.sealing, here(kernel.sealing)),
        PROCESSES.ok_if(kernel.process_descriptors, here(kernel.process_descriptors)),
        LANDLOCK.ok_if(kernel.landlock.is_some(), landlock(kernel.landlock)),
        SECCOMP.ok_if(kernel.seccomp.as_deref().is_some_and(filters), here(kernel.seccomp.is_some())),
        PTRACE.of(Some(kernel.ptrace_scope.as_deref().unwrap_or("none").trim()), |scope| {
            (["1", "2", "3"].contains(&scope), format!("yama.ptrace_scope {scope}"))
        }),
        CORE.of(kernel.core_pattern.as_deref(), |pattern| {
            (pattern.trim().starts_with("|/bin/false"), format!("core_pattern {}", pattern.trim()))
        }),
    ]
}

fn landlock(version: Option<u32>) -> String {
    match version {
        None => "not there".to_owned(),
        Some(version) if version < SIGNALS => format!("version {version}: files, but not signals"),
        Some(version) => format!("version {version}"),
    }
}

/// Whether the actions that the service's filters take are among these.
fn filters(actions: &str) -> bool {
    ["kill_process", "errno"].iter().all(|needed| actions.split_whitespace().any(|action| action == *needed))
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::finding::State::{Lacks, Ok, Unknown};
    use super::*;

    #[test]
    fn a_new_kernel_has_all_that_is_promised() {
        let kernel = Kernel {
            release: Some("6.1.0-25-amd64\n".to_owned()),
            sealing: true,
            process_descriptors: true,
            landlock: Some(2),
            seccomp: Some("kill_process kill_thread trap errno user_notif trace log allow\n".to_owned()),
            ptrace_scope: Some("0\n".to_owned()),
            core_pattern: Some("core\n".to_owned()),
        };
        let findings = judge(&kernel);
        assert!(findings.iter().all(|finding| !finding.breaks_a_promise()));
        assert!(findings[..5].iter().all(|finding| finding.state == Ok));
        assert_eq!((findings[3].found.as_str(), findings[5].state), ("version 2: files, but not signals", Lacks));
    }

    #[test]
    fn an_old_one_breaks_promises() {
        let kernel = Kernel {
            release: Some("4.9.0".to_owned()),
            seccomp: Some("kill trap errno".to_owned()),
            ..Kernel::default()
        };
        let findings = judge(&kernel);
        assert!(findings[..5].iter().all(Finding::breaks_a_promise));
        assert_eq!(judge(&Kernel { release: Some("odd".to_owned()), ..Kernel::default() })[0].state, Unknown);
    }

    #[test]
    fn releases_are_read() {
        assert_eq!(version("6.18.44-x"), Some((6, 18)));
        assert_eq!(version("5.13"), Some((5, 13)));
        assert_eq!(version("5"), None);
    }
}
