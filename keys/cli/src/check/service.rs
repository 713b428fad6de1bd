//! The running service, if there is one, and its directories.

use super::finding::{Finding, FindingState, topics};
use crate::error::CliError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) uid: u32,
    pub(super) mode: u32,
}

impl Owned {
    fn allows(self, bits: u32) -> bool {
        self.mode & bits > 0
    }
}

#[derive(Debug, Default)]
pub(super) struct Service {
    pub(super) answer: Option<Result<(), CliError>>,
    pub(super) status: Option<String>,
    pub(super) directory: Option<Owned>,
    /// The directory of stored keys, if the configuration names one and it exists.
    pub(super) keys: Option<Owned>,
}

topics! {
    DIRECTORY: "socket directory",
        breaks "clients reach the service and not somebody who put a socket in its place",
        do "a directory of its own that only its user may write: chmod 755, as RuntimeDirectory= makes it";
    ANSWERS: "service",
        for "clients find one",
        do "sidecore serve, or systemctl start sidecore; see --socket and limits";
    SANDBOXED: "sandbox",
        breaks "who breaks into the service finds nothing to use",
        do "sandbox.seccomp = true; the service's warnings at start say what it lacks";
    USER: "service's user",
        for "the service has no files in reach but its own",
        do "sandbox.user = \"sidecore\", or User=sidecore in the unit";
    LOCKED: "service's memory",
        for "keys never reach a disk, whatever swap is added later",
        do "LimitMEMLOCK=infinity in the unit, sandbox.lock_memory = true";
    KEYS: "key directory",
        breaks "sealed keys are the service's alone",
        do "chmod 700, and chown to the service's user";
}

pub(super) fn judge(service: &Service) -> Vec<Finding> {
    let status = service.status.as_deref();
    let value = |key| status.and_then(|status| value(status, key));
    vec![
        DIRECTORY.of(service.directory, |found| (!found.allows(0o022), in_words(found))),
        match &service.answer {
            None => ANSWERS.is(FindingState::Unknown, "not asked"),
            Some(Ok(())) => ANSWERS.is(FindingState::Ok, "one answers"),
            Some(Err(why)) => ANSWERS.is(FindingState::Lacks, why.to_string()),
        },
        SANDBOXED.of(value("Seccomp").zip(value("NoNewPrivs")), |(seccomp, privileges)| {
            ((seccomp, privileges) == ("2", "1"), format!("Seccomp {seccomp}, NoNewPrivs {privileges}"))
        }),
        USER.of(value("Uid"), |uids| {
            let uid = uids.split_whitespace().next().unwrap_or(uids);
            (uid != "0", format!("user {uid}"))
        }),
        LOCKED.of(value("VmLck"), |locked| (!locked.starts_with("0 "), format!("{locked} locked"))),
        KEYS.of(service.keys, |found| (!found.allows(0o077), in_words(found))),
    ]
}

fn in_words(found: Owned) -> String {
    format!("mode {:03o}, of user {}", found.mode & 0o777, found.uid)
}

fn value<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState::{Lacks, Ok, Unknown};
    use super::*;

    const STATUS: &str =
        "Name:\tsidecore\nUid:\t997\t997\t997\t997\nVmLck:\t   41232 kB\nNoNewPrivs:\t1\nSeccomp:\t2\n";

    fn service(status: &str, mode: u32) -> Service {
        let owned = Some(Owned { uid: 997, mode });
        let answer = Some(Result::Ok(()));
        Service { answer, status: Some(status.to_owned()), directory: owned, keys: owned }
    }

    #[test]
    fn one_that_is_shut_in_is_fine() {
        assert!(judge(&service(STATUS, 0o700)).iter().all(|finding| finding.state == Ok));
    }

    #[test]
    fn one_that_is_not_breaks_promises() {
        let status = STATUS.replace("Seccomp:\t2", "Seccomp:\t0").replace("997", "0").replace("41232", "0");
        let findings = judge(&service(&status, 0o777));
        let broken: Vec<usize> = (0..findings.len()).filter(|index| findings[*index].breaks_a_promise()).collect();
        assert_eq!(broken, [0, 2, 5]);
        assert_eq!((findings[3].state, findings[4].state), (Lacks, Lacks));
        assert_eq!(findings[0].found, "mode 777, of user 997");
    }

    #[test]
    fn without_a_service_little_is_known_and_nothing_is_broken() {
        let none = CliError::library("no service");
        let findings = judge(&Service { answer: Some(Err(none)), ..Service::default() });
        assert!(findings.iter().all(|finding| !finding.breaks_a_promise()));
        assert_eq!((findings[1].state, findings[2].state, findings[5].state), (Lacks, Unknown, Unknown));
    }
}
