//! The kernel features that lanes and the sandbox need.

use super::finding::{Finding, Text, topics};

#[derive(Debug, Default)]
pub(super) struct Kernel {
    pub(super) sealing: bool,
    pub(super) process_descriptors: bool,
    /// Version of landlock's interface. `None`: there is no landlock.
    pub(super) landlock: Option<u32>,
}

/// First kernel that wipes memory in forked children (`MADV_WIPEONFORK`).
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

pub(super) fn judge(kernel: &Kernel, text: Text) -> Vec<Finding> {
    let [seccomp, scope] = ["/proc/sys/kernel/seccomp/actions_avail", "/proc/sys/kernel/yama/ptrace_scope"].map(text);
    let here = |found: bool| if found { "there" } else { "not there" };
    vec![
        RELEASE.of(text("/proc/sys/kernel/osrelease").as_deref().and_then(version), |version| {
            (version >= WIPE_ON_FORK, format!("Linux {}.{}", version.0, version.1))
        }),
        SEALING.ok_if(kernel.sealing, here(kernel.sealing)),
        PROCESSES.ok_if(kernel.process_descriptors, here(kernel.process_descriptors)),
        LANDLOCK.ok_if(kernel.landlock.is_some(), landlock(kernel.landlock)),
        SECCOMP.ok_if(seccomp.as_deref().is_some_and(filters), here(seccomp.is_some())),
        PTRACE.of(Some(scope.as_deref().unwrap_or("none").trim()), |scope| {
            (["1", "2", "3"].contains(&scope), format!("yama.ptrace_scope {scope}"))
        }),
        CORE.of(text("/proc/sys/kernel/core_pattern").as_deref(), |pattern| {
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

fn filters(actions: &str) -> bool {
    ["kill_process", "errno"].iter().all(|needed| actions.split_whitespace().any(|action| action == *needed))
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState::{Lacks, Ok, Unknown};
    use super::super::finding::system;
    use super::*;

    #[test]
    fn a_new_kernel_has_all_that_is_promised() {
        let text = system(&[
            ("/proc/sys/kernel/osrelease", "6.1.0-25-amd64\n"),
            (
                "/proc/sys/kernel/seccomp/actions_avail",
                "kill_process kill_thread trap errno user_notif trace log allow\n",
            ),
            ("/proc/sys/kernel/yama/ptrace_scope", "0\n"),
            ("/proc/sys/kernel/core_pattern", "core\n"),
        ]);
        let findings = judge(&Kernel { sealing: true, process_descriptors: true, landlock: Some(2) }, &text);
        assert!(findings.iter().all(|finding| !finding.breaks_a_promise()));
        assert!(findings[..5].iter().all(|finding| finding.state == Ok));
        assert_eq!((findings[3].found.as_str(), findings[5].state), ("version 2: files, but not signals", Lacks));
    }

    #[test]
    fn an_old_one_breaks_promises() {
        let release = "/proc/sys/kernel/osrelease";
        let text = system(&[(release, "4.9.0"), ("/proc/sys/kernel/seccomp/actions_avail", "kill trap errno")]);
        let findings = judge(&Kernel::default(), &text);
        assert!(findings[..5].iter().all(Finding::breaks_a_promise));
        assert_eq!(judge(&Kernel::default(), &system(&[(release, "odd")]))[0].state, Unknown);
    }

    #[test]
    fn releases_are_read() {
        assert_eq!(version("6.18.44-x"), Some((6, 18)));
        assert_eq!(version("5.13"), Some((5, 13)));
        assert_eq!(version("5"), None);
    }
}
