//! Numbers of failures as C programs see them, and the text of each thread's last one.

use sidecore_client::client::{ConnectError, Error};
use sidecore_client::keyops::failure::{Failure, FailureKind, Reason};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

pub(crate) const OK: c_int = 0;
/// Numbers below are those of [`Reason`].
pub(crate) const ARGUMENT: c_int = 32;
pub(crate) const TOO_SMALL: c_int = 33;
pub(crate) const FULL: c_int = 34;
pub(crate) const FORKED: c_int = 35;

/// Reason why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A null pointer, or a value that no call takes.
    #[error("argument {0}: see sidecore.h")]
    Argument(&'static str),
    /// The result needs this many bytes.
    #[error("the buffer is too small: {0} bytes are needed")]
    TooSmall(usize),
    #[error("all {0} slots of the queue are in use: take results first, or open a queue with more")]
    Full(u32),
    #[error("the queue belongs to the parent process: open another one in the child")]
    Forked,
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl Fault {
    pub(crate) fn number(&self) -> c_int {
        match self {
            Self::Argument(_) => ARGUMENT,
            Self::TooSmall(_) => TOO_SMALL,
            Self::Full(_) => FULL,
            Self::Forked => FORKED,
            Self::Failed(failure) => (failure.reason as u32).cast_signed(),
        }
    }

    /// The lane ended.
    pub(crate) fn gone(error: &impl ToString) -> Self {
        Failure::new(Reason::Absent, format!("{}; open another queue", error.to_string())).into()
    }
}

impl From<ConnectError> for Fault {
    fn from(error: ConnectError) -> Self {
        Failure::from(error).into()
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::Connect(error) => error.into(),
            Error::Gone(_) | Error::NoAnswer(_) | Error::System(_) => Self::gone(&error),
            error => Failure::new(Reason::Service, error.to_string()).into(),
        }
    }
}

impl From<FailureKind> for Fault {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Stale(why) => Self::gone(&why),
            FailureKind::Late => Self::gone(&"the service did not answer in time"),
            FailureKind::Failure(failure) => failure.into(),
        }
    }
}

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Stores the fault's text for this thread, and returns its number.
pub(crate) fn told(fault: &Fault) -> c_int {
    let text: String = fault.to_string().chars().filter(|letter| *letter != '\0').collect();
    // A thread at its end has no text any more.
    let _ = TEXT.try_with(|kept| kept.replace(CString::new(text).unwrap_or_default()));
    fault.number()
}

/// The text of this thread's last failure, valid until its next one.
pub(crate) fn text() -> *const c_char {
    TEXT.try_with(|kept| kept.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// A line about a number, valid forever.
pub(crate) fn line(number: c_int) -> &'static CStr {
    match number {
        OK => c"no failure",
        ARGUMENT => c"an argument that no call takes: see sidecore.h",
        TOO_SMALL => c"the buffer is too small for the result",
        FULL => c"all slots of the queue are in use: take results first",
        FORKED => c"the queue belongs to the parent process: open another one in the child",
        _ => {
            let known = Reason::ALL.into_iter().find(|reason| (*reason as u32).cast_signed() == number);
            known.map_or(c"no number of this library", Reason::text)
        }
    }
}
