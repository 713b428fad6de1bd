//! What `sidecore serve` denies itself.

use serde::Deserialize;

/// The section `[sandbox]`.
///
/// A key that is left out is carried out where this machine can, with a warning where it cannot; `true` refuses to start
/// without it; `false` leaves it out.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxConfig {
    /// The user that the service becomes, with its group and no other; default: the user that started it.
    pub user: Option<String>,
    /// Only the system calls that serving takes.
    pub seccomp: Option<bool>,
    /// Only the directories of socket, counter file and record.
    pub landlock: Option<bool>,
    /// Memory is never written to swap.
    pub lock_memory: Option<bool>,
}

impl SandboxConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        match self.user.as_deref() {
            Some("" | "root" | "0") => {
                Err("sandbox.user: name an unprivileged user, or leave it out to stay who starts the service"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }
}
