//! What OpenSSL loads: the provider itself.

use super::abi::core::Handle;
use super::abi::{Algorithm, Dispatch, Item, Param, provider as entry};
use super::params::Questions;
use super::upcalls::Core;
use crate::failure::{Failure, Reason};
use crate::lanes;
use sidecore::client::Options;
use sidecore::core::policy::notify::Notify;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// One loaded provider: there is one for each library context that uses it.
pub(crate) struct Provider {
    pub(crate) core: Core,
    /// How lanes are made; or what is wrong in the configuration, which OpenSSL would not show while it loads.
    options: Result<Options, Failure>,
}

/// Providers that are loaded.
static LOADED: AtomicUsize = AtomicUsize::new(0);

impl Provider {
    fn new(core: Core) -> Self {
        LOADED.fetch_add(1, Ordering::Relaxed);
        Self { core, options: Self::read(&core) }
    }

    fn read(core: &Core) -> Result<Options, Failure> {
        let mut options = Options::default();
        if let Some(socket) = core.setting(c"socket") {
            options.socket = socket.into();
        }
        if let Some(policy) = core.setting(c"notify") {
            let policy =
                Notify::parse(&policy).map_err(|error| Failure::input(format!("notify = {policy}: {error}")))?;
            options.notify = Some(policy);
        }
        if let Some(text) = core.setting(c"timeout_ms") {
            options.patience = read_timeout(&text)?;
        }
        Ok(options)
    }

    /// How lanes are made.
    pub(crate) fn options(&self) -> Result<&Options, Failure> {
        self.options.as_ref().map_err(Clone::clone)
    }

    /// Puts a failure into OpenSSL's queue of errors; what a function returns then.
    pub(crate) fn fail(&self, doing: &'static CStr, failure: &Failure) -> c_int {
        self.core.error(doing, failure);
        0
    }
}

/// How long an operation may take, in milliseconds.
fn read_timeout(text: &str) -> Result<Duration, Failure> {
    let allowed = 1..=600_000;
    let given = text.trim().parse().ok().filter(|given| allowed.contains(given));
    given.map(Duration::from_millis).ok_or_else(|| {
        Failure::input(format!("timeout_ms = {text}: give a whole number of milliseconds from 1 to {}", allowed.end()))
    })
}

impl Drop for Provider {
    fn drop(&mut self) {
        if LOADED.fetch_sub(1, Ordering::Relaxed) == 1 {
            lanes::close_idle();
        }
    }
}

static FUNCTIONS: [Dispatch; 6] = [
    entry::teardown(teardown),
    entry::gettable_params(gettable_params),
    entry::get_params(get_params),
    entry::query_operation(query_operation),
    entry::get_reason_strings(get_reason_strings),
    Dispatch::END,
];

static GETTABLE: [Param; 5] = [
    Param::text_pointer(c"name"),
    Param::text_pointer(c"version"),
    Param::text_pointer(c"buildinfo"),
    Param::integer(c"status"),
    Param::END,
];

static REASONS: [Item; Reason::ALL.len() + 1] = {
    let mut items = [Item { id: 0, text: std::ptr::null() }; Reason::ALL.len() + 1];
    let mut index = 0;
    while index < Reason::ALL.len() {
        let reason = Reason::ALL[index];
        items[index] = Item { id: reason as u32, text: reason.text().as_ptr() };
        index += 1;
    }
    items
};

/// Where OpenSSL begins.
///
/// # Safety
/// Called by OpenSSL, as `openssl/core.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OSSL_provider_init(
    handle: *const Handle,
    upcalls: *const c_void,
    functions: *mut *const c_void,
    context: *mut *mut c_void,
) -> c_int {
    super::guard(0, || {
        // SAFETY: OpenSSL's own table and handle.
        let core = unsafe { Core::new(handle, upcalls.cast()) };
        super::fibre::find(&core);
        let provider = Arc::new(Provider::new(core));
        // SAFETY: OpenSSL wants its answers here.
        unsafe {
            *functions = FUNCTIONS.as_ptr().cast();
            *context = Arc::into_raw(provider).cast_mut().cast();
        }
        1
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn teardown(context: *mut c_void) {
    super::guard((), || {
        // SAFETY: the context made by `OSSL_provider_init`, for the last time.
        drop(unsafe { Arc::from_raw(context.cast::<Provider>()) });
    });
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn gettable_params(_context: *mut c_void) -> *const Param {
    GETTABLE.as_ptr()
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn get_params(_context: *mut c_void, params: *mut Param) -> c_int {
    super::guard(0, || {
        // SAFETY: OpenSSL's list.
        let mut questions = unsafe { Questions::new(params) };
        let version = const {
            match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
                Ok(version) => version,
                Err(_) => c"",
            }
        };
        let answered = questions
            .text(c"name", c"sidecore")
            .and_then(|()| questions.text(c"version", version))
            .and_then(|()| questions.text(c"buildinfo", version))
            .and_then(|()| questions.integer(c"status", 1));
        c_int::from(answered.is_ok())
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn query_operation(_context: *mut c_void, number: c_int, no_store: *mut c_int) -> *const Algorithm {
    if !no_store.is_null() {
        // SAFETY: OpenSSL wants an answer here.
        unsafe { *no_store = 0 };
    }
    super::algorithms(number).map_or(std::ptr::null(), <[Algorithm]>::as_ptr)
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn get_reason_strings(_context: *mut c_void) -> *const Item {
    REASONS.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_number_of_milliseconds() {
        assert_eq!(read_timeout("250").unwrap(), Duration::from_millis(250));
        assert_eq!(read_timeout(" 600000 ").unwrap(), Duration::from_mins(10));
        for text in ["", "0", "-1", "2s", "1.5", "600001", "99999999999999999999"] {
            let failure = read_timeout(text).unwrap_err();
            assert!(failure.text.contains(&format!("timeout_ms = {text}: give")), "{}", failure.text);
        }
    }
}
