//! Memory that no other process reads: no debugger, no core dump, no swap.

use super::error::{Lack, SandboxError};
use super::{cannot, user};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, set_no_new_privs};

const UNLIMITED: Rlimit = Rlimit { current: None, maximum: None };

pub(super) fn raise_limit() {
    if setrlimit(Resource::Memlock, UNLIMITED).is_err() {
        // Without root: as far as possible. `lock` checks the result.
        let maximum = getrlimit(Resource::Memlock).maximum;
        let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    }
}

/// The capability for locking: to ignore a limit that could not be raised.
pub(super) fn capability() -> CapabilitySet {
    match getrlimit(Resource::Memlock).current {
        Some(_) => CapabilitySet::IPC_LOCK,
        None => CapabilitySet::empty(),
    }
}

/// No debugger of the same user, no core dump, no more rights by executing files. Called after the change of user,
/// which resets the first.
pub(super) fn deny_inspection() -> Result<(), SandboxError> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(cannot("shut out debuggers"))?;
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).map_err(cannot("switch core dumps off"))?;
    set_no_new_privs(true).map_err(cannot("give up new privileges"))
}

/// Keeps all memory of the process, present and future, out of swap, each page from its first use on.
pub(super) fn lock() -> Option<Lack> {
    if let Some(bytes) = getrlimit(Resource::Memlock).current
        && !user::permitted().contains(CapabilitySet::IPC_LOCK)
    {
        return Some(Lack::LockLimit(bytes / 1024));
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    let locked = mlockall(flags);
    locked.err().map(|error| Lack::Lock(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_says_what_to_do() {
        let message = Lack::LockLimit(8192).to_string();
        assert!(message.contains("8192 KiB") && message.contains("LimitMEMLOCK=infinity"), "{message}");
    }
}
