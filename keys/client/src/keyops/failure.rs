//! Reasons for a failed operation, as the interfaces report them to programs.

use crate::client::ConnectError;
use crate::control::{RefusalCode, Refused};
use sidecore_core::session::Refusal;
use sidecore_ipc::sys::verified_fd::closed;
use std::ffi::CStr;
use std::io;
use std::time::Duration;

/// The kind of failure. Programs see the numbers, so they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// The service failed or refused, for a reason that has no kind of its own.
    Service = 1,
    /// The key cannot be used.
    Key = 2,
    /// The operation is not supported, or does not fit the key.
    Unsupported = 3,
    /// The input does not fit the operation.
    Input = 4,
    /// The program asked for the private part of a key.
    Private = 5,
    /// An error of this library or its environment.
    Internal = 6,
    /// No service answers at the socket.
    Absent = 7,
    /// The service has no key of this name.
    NoKey = 8,
    /// This user may not use the key.
    NotAllowed = 9,
    /// The key differs from the one that the program loaded.
    Replaced = 10,
    /// A limit of the service is reached.
    Limit = 11,
    /// The service did not answer in time.
    Late = 12,
    /// This program cannot reach the service's socket, even if a service runs.
    Hidden = 13,
    /// Program and service are of versions that do not work together.
    OtherVersion = 14,
}

impl Reason {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::Service,
        Self::Key,
        Self::Unsupported,
        Self::Input,
        Self::Private,
        Self::Internal,
        Self::Absent,
        Self::NoKey,
        Self::NotAllowed,
        Self::Replaced,
        Self::Limit,
        Self::Late,
        Self::Hidden,
        Self::OtherVersion,
    ];

    /// One line for users. Many programs show it without the details, so it names a remedy.
    pub const fn text(self) -> &'static CStr {
        match self {
            Self::Service => c"the sidecore service did not do it",
            Self::Key => c"the key cannot be used",
            Self::Unsupported => c"not supported by the sidecore service",
            Self::Input => c"unfit input",
            Self::Private => c"a private key does not leave the sidecore service: use the key by its URI, and export the public part only",
            Self::Internal => c"internal error",
            Self::Absent => c"no sidecore service answers at its socket: start it, e.g. systemctl start sidecore",
            Self::NoKey => c"the sidecore service has no key of this name: see sidecore keys list",
            Self::NotAllowed => {
                c"this user may not use the key, or the service at all: see sidecore keys acl and the socket's mode"
            }
            Self::Replaced => c"the key in the sidecore service was replaced: reload or restart this program",
            Self::Limit => {
                c"a limit of the sidecore service is reached: see its log, and [limits] in its configuration"
            }
            Self::Hidden => {
                c"this program cannot see the sidecore service's socket: look for a chroot, RestrictAddressFamilies= or a container"
            }
            Self::OtherVersion => {
                c"this program's library and the sidecore service are of different versions: restart this program, or install both from one version"
            }
            Self::Late => c"the sidecore service did not answer in time: see sidecore top, or raise timeout_ms",
        }
    }
}

/// Kind and details: the error and its remedy.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", words(*.reason, text))]
pub struct Failure {
    /// The kind.
    pub reason: Reason,
    /// The details, with a remedy of their own. Empty: that of the kind.
    pub text: String,
    pub(super) starting: bool,
    key_limit: bool,
}

/// The fault of the kind and the details, or where there are none, fault and remedy of the kind: a text with both remedies
/// would tell its reader the same twice.
fn words(reason: Reason, text: &str) -> String {
    let kind = reason.text().to_string_lossy();
    match kind.split_once(": ") {
        _ if text.is_empty() => kind.into_owned(),
        Some((fault, _)) => format!("{fault}: {text}"),
        None => format!("{kind}: {text}"),
    }
}

impl Failure {
    /// A failure with its details.
    pub fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into(), starting: false, key_limit: false }
    }

    /// The limit of the key with this name is reached.
    pub fn key_limit(name: &str) -> Self {
        let text = format!("key {name:?}: {}", Refusal::KeyLimit.message());
        Self { key_limit: true, ..Self::new(Reason::Limit, text) }
    }

    /// Whether it is the limit of the key that is reached, and none of the service's.
    pub fn is_of_key_limit(&self) -> bool {
        self.key_limit
    }

    /// The service ended before its answer, as the text says.
    pub fn ended(text: &str) -> Self {
        Self::new(Reason::Absent, format!("{text}; see `systemctl status sidecore`, or start it"))
    }

    /// The service did not answer in time.
    pub fn late(timeout: Duration) -> Self {
        let text = format!(
            "no answer within {} ms: see whether the service was stopped or has too much to do (`sidecore top`), or allow more \
             with the setting timeout_ms",
            timeout.as_millis()
        );
        Self::new(Reason::Late, text)
    }

    /// The service refused. `reason` is the kind, unless the refusal has a more exact one.
    pub fn refused(reason: Reason, refused: &Refused) -> Self {
        let reason = match refused.code {
            RefusalCode::Other => reason,
            RefusalCode::OtherVersion | RefusalCode::UnknownRequest | RefusalCode::NoRequest => Reason::OtherVersion,
            // Its opening is of a channel that ended.
            RefusalCode::NoChannel => Reason::Replaced,
            RefusalCode::NoKey => Reason::NoKey,
            RefusalCode::NotAllowed => Reason::NotAllowed,
            RefusalCode::Limit => Reason::Limit,
        };
        Self::new(reason, refused.to_string())
    }

    /// The key with this name is no longer the one that was loaded.
    pub fn replaced(name: &str) -> Self {
        let text = format!("the key {name} was replaced by another: load it again, e.g. restart the server");
        Self::new(Reason::Replaced, text)
    }

    /// An operation that is not supported.
    pub fn unsupported(text: impl Into<String>) -> Self {
        Self::new(Reason::Unsupported, text)
    }

    /// An input that does not fit.
    pub fn input(text: impl Into<String>) -> Self {
        Self::new(Reason::Input, text)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        use io::ErrorKind as Kind;
        match &error {
            ConnectError::NoService(..) => Self::new(Reason::Absent, error.to_string()),
            ConnectError::OutOfSight(..) | ConnectError::NoSockets(..) => Self::new(Reason::Hidden, error.to_string()),
            ConnectError::Starting(_) => Self { starting: true, ..Self::new(Reason::Absent, error.to_string()) },
            ConnectError::NoPermission(_) => Self::new(Reason::NotAllowed, error.to_string()),
            ConnectError::Protocol(_) => Self::new(Reason::OtherVersion, error.to_string()),
            ConnectError::Refused(refused) | ConnectError::TooLarge(refused) => {
                Self { text: error.to_string(), ..Self::refused(Reason::Service, refused) }
            }
            // The service ended during the connect.
            ConnectError::System(why)
                if matches!(why.kind(), Kind::ConnectionReset | Kind::BrokenPipe | Kind::UnexpectedEof) =>
            {
                Self::ended(&error.to_string())
            }
            _ => Self::new(Reason::Service, error.to_string()),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(Reason::Service, refusal.message())
    }
}

/// Reason why a request was not carried out.
pub enum FailureKind {
    /// The session or the lane ended, for the reason in the text: another one may work.
    Stale(String),
    /// No answer in time.
    Late,
    /// A permanent failure.
    Failure(Failure),
}

impl From<Failure> for FailureKind {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<io::Error> for FailureKind {
    fn from(error: io::Error) -> Self {
        if error.kind() == closed().kind() {
            return Self::Stale(error.to_string());
        }
        Self::Failure(Failure::new(Reason::Internal, format!("{error}; raise the limits on files and memory")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Numbers as C's programs, OpenSSL's error queue and clients of the agent know them. A new one comes behind; none of these
    /// changes.
    #[test]
    fn the_numbers_of_kinds_are_frozen() {
        let frozen = [
            (1, "Service"),
            (2, "Key"),
            (3, "Unsupported"),
            (4, "Input"),
            (5, "Private"),
            (6, "Internal"),
            (7, "Absent"),
            (8, "NoKey"),
            (9, "NotAllowed"),
            (10, "Replaced"),
            (11, "Limit"),
            (12, "Late"),
            (13, "Hidden"),
            (14, "OtherVersion"),
        ];
        let page = include_str!("../../../../docs/guide/ssh.md");
        assert_eq!(Reason::ALL.map(|reason| reason as u32), frozen.map(|(number, _)| number));
        for (reason, (number, name)) in Reason::ALL.into_iter().zip(frozen) {
            assert_eq!(format!("{reason:?}"), name);
            assert!(page.contains(&format!("| {number} | {name} |")), "{number}");
        }
    }

    #[test]
    fn a_failure_names_its_fault_and_one_remedy() {
        for reason in Reason::ALL {
            let alone = reason.text().to_str().unwrap();
            assert_eq!(Failure::new(reason, "").to_string(), alone);
            let (fault, remedy) = alone.split_once(": ").unwrap_or((alone, "no remedy"));
            let said = Failure::new(reason, "key \"www\": do this").to_string();
            assert_eq!(said, format!("{fault}: key \"www\": do this"));
            assert!(!said.contains(remedy));
        }
        let absent = ConnectError::NoService(PathBuf::from("/run/s"), io::ErrorKind::NotFound.into());
        let ended = ConnectError::System(io::ErrorKind::ConnectionReset.into());
        for failure in [Failure::from(absent), Failure::from(ended), Failure::ended("the service closed the lane")] {
            let said = failure.to_string();
            assert_eq!(said.matches("systemctl").count(), 1, "{said}");
        }
    }
}
