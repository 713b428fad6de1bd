//! Why an operation failed: what a face tells its programs.

use crate::sys::own::closed;
use sidecore_core::session::Refusal;
use std::ffi::CStr;
use std::io;
use std::time::Duration;

/// The kind of failure. The numbers stay what they are: programs see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// No service, or none that answers.
    Service = 1,
    /// The key is not there, may not be used, or is another than it was.
    Key = 2,
    /// What was asked for is not supported, or does not fit the key.
    Unsupported = 3,
    /// What was given does not fit the operation.
    Input = 4,
    /// The private part of a key was asked for.
    Private = 5,
    /// An error of this library, or of what it runs on.
    Internal = 6,
}

impl Reason {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Service, Self::Key, Self::Unsupported, Self::Input, Self::Private, Self::Internal];

    /// One line for people.
    pub const fn text(self) -> &'static CStr {
        match self {
            Self::Service => c"the sidecore service did not do it",
            Self::Key => c"the key cannot be used",
            Self::Unsupported => c"not supported by the sidecore service",
            Self::Input => c"unfit input",
            Self::Private => c"a private key does not leave the sidecore service",
            Self::Internal => c"internal error",
        }
    }
}

/// Kind and details: what is wrong and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {text}", .reason.text().to_string_lossy())]
pub struct Failure {
    /// The kind.
    pub reason: Reason,
    /// The details.
    pub text: String,
}

impl Failure {
    /// A failure with its details.
    pub fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }

    /// The service does not answer, or not in time.
    pub fn late(patience: Duration) -> Self {
        let text = format!(
            "no answer within {} ms: see whether the service was stopped or has too much to do (`sidecore top`), or allow more \
             with the setting timeout_ms",
            patience.as_millis()
        );
        Self::new(Reason::Service, text)
    }

    /// Something that is not supported.
    pub fn unsupported(text: impl Into<String>) -> Self {
        Self::new(Reason::Unsupported, text)
    }

    /// An input that does not fit.
    pub fn input(text: impl Into<String>) -> Self {
        Self::new(Reason::Input, text)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(Reason::Service, refusal.message())
    }
}

/// Why a request was not done.
pub enum Trouble {
    /// The session or the lane ended, as the text says: with another it may be done.
    Stale(String),
    /// It was not done in time.
    Late,
    /// It will not be done.
    Failure(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        if error.kind() == closed().kind() {
            return Self::Stale(error.to_string());
        }
        Self::Failure(Failure::new(Reason::Internal, format!("{error}; raise the limits on files and memory")))
    }
}
