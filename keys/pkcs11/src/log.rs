//! Failures of operations: the program gets a number, and the log gets the reason, which the number does not show.

use crate::config::{Log, Setup};
use crate::life;
use crate::rv::Rv;
use crate::sys::lock::OwnedLock;
use cryptoki_sys::{
    CKR_ATTRIBUTE_SENSITIVE, CKR_DATA_LEN_RANGE, CKR_DEVICE_ERROR, CKR_DEVICE_MEMORY, CKR_ENCRYPTED_DATA_INVALID,
    CKR_GENERAL_ERROR, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_HANDLE_INVALID, CKR_MECHANISM_PARAM_INVALID,
};
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::Key;
use sidecore_client::keyops::large_stack::on_large_stack;
use sidecore_client::keyops::notice;
use sidecore_core::policy::rate::{Pace, RateLimit};
use sidecore_ipc::sys::clock;

/// Kind of an operation, as far as errors in its input differ.
#[derive(Clone, Copy)]
pub(crate) enum Doing {
    /// Signing, verifying or encrypting.
    Data,
    /// Decrypting.
    Decrypting,
    /// A question about keys.
    Asking,
}

const PACE: Pace =
    Pace { burst: 1, every: 60_000_000_000, origins: Reason::ALL.len(), of_group: Reason::ALL.len(), reserved: 0 };

static LIMIT: OwnedLock<Option<RateLimit<Reason>>> = OwnedLock::new(None);

/// The return value for a failure, which is logged.
pub(crate) fn told(setup: &Setup, doing: Doing, failure: &Failure, key: Option<&Key>) -> Rv {
    match setup.log {
        Log::Syslog => on_large_stack(|| notice::tell(failure, key)),
        Log::Stderr => on_large_stack(|| write(failure)),
        Log::None => {}
    }
    Rv(match failure.reason {
        Reason::Absent | Reason::Late | Reason::Service | Reason::Hidden | Reason::OtherVersion => CKR_DEVICE_ERROR,
        Reason::NoKey | Reason::Replaced => CKR_KEY_HANDLE_INVALID,
        Reason::NotAllowed | Reason::Key => match doing {
            Doing::Asking => CKR_DEVICE_ERROR,
            _ => CKR_KEY_FUNCTION_NOT_PERMITTED,
        },
        Reason::Unsupported => CKR_MECHANISM_PARAM_INVALID,
        Reason::Input => match doing {
            Doing::Decrypting => CKR_ENCRYPTED_DATA_INVALID,
            _ => CKR_DATA_LEN_RANGE,
        },
        Reason::Limit => CKR_DEVICE_MEMORY,
        Reason::Private => CKR_ATTRIBUTE_SENSITIVE,
        Reason::Internal => CKR_GENERAL_ERROR,
    })
}

/// The return value for what the program asked for and does not get. The log has the reason.
pub(crate) fn refused(setup: &Setup, why: &str, rv: Rv) -> Rv {
    told(setup, Doing::Asking, &Failure::new(Reason::Internal, format!("PKCS#11: {why}")), None);
    rv
}

fn write(failure: &Failure) {
    let Ok(process) = life::process() else { return };
    let mut limit = LIMIT.lock_or(process, || None);
    let limit = limit.get_or_insert_with(|| RateLimit::new(PACE));
    if limit.tell(clock::now(), failure.reason).is_some() {
        let text: String = failure.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        // The standard library's lock on standard error could be held by a thread of the parent.
        let _ = rustix::io::write(rustix::stdio::stderr(), format!("sidecore: {text}\n").as_bytes());
    }
}
