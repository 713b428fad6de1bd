//! What the contexts of all operations have in common: OpenSSL makes, frees and copies them, and works on one at a time.

use super::abi::Param;
use super::params::{Params, Questions};
use super::provider::Provider;
use super::{guard, shared};
use sidecore_client::face::failure::{Failure, Reason};
use sidecore_client::face::key::Key;
use sidecore_client::face::pause::Caller;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

/// The context of an operation: its key, and `W`, what else it knows. OpenSSL holds it as the raw pointer of a box.
#[derive(Clone)]
pub(super) struct Context<W> {
    provider: Arc<Provider>,
    pub(super) key: Option<Arc<Key>>,
    pub(super) work: W,
}

impl<W> Context<W> {
    /// Who has the operation done, and the key that it was given.
    pub(super) fn caller(&self) -> Result<(Caller<'_>, &Arc<Key>), Failure> {
        Ok((self.provider.caller()?, self.key()?))
    }

    /// Begins with this key, or again with the one that it has.
    pub(super) fn begin(&mut self, key: Option<Arc<Key>>) -> Result<(), Failure> {
        self.key = key.or(self.key.take());
        self.key().map(|_| ())
    }

    /// The key that the operation was given.
    pub(super) fn key(&self) -> Result<&Arc<Key>, Failure> {
        self.key.as_ref().ok_or_else(|| Failure::new(Reason::Key, "no key: initialise the operation with one"))
    }
}

/// What has parameters.
pub(super) trait Settable: Sized {
    /// What may be set.
    const SETTABLE: &'static [Param];
    /// What may be asked.
    const GETTABLE: &'static [Param];

    /// Sets what the parameters say.
    fn set(&mut self, params: Params<'_>) -> Result<bool, Failure>;

    /// Answers questions.
    fn answer(context: &Context<Self>, questions: &mut Questions<'_>) -> Result<bool, Failure>;
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
pub(super) unsafe extern "C" fn newctx<W: Default>(provider: *mut c_void) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: the provider's context.
        let provider = unsafe { shared::<Provider>(provider) };
        Box::into_raw(Box::new(Context { provider, key: None, work: W::default() })).cast()
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says, with a context of this type.
pub(super) unsafe extern "C" fn freectx<W>(context: *mut c_void) {
    guard((), || {
        if !context.is_null() {
            // SAFETY: made by `newctx` or `dupctx`, for the last time.
            drop(unsafe { Box::from_raw(context.cast::<Context<W>>()) });
        }
    });
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says, with a context of this type.
pub(super) unsafe extern "C" fn dupctx<W: Clone>(context: *mut c_void) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: OpenSSL's context.
        let copy = unsafe { context.cast::<Context<W>>().as_ref() }.map(|context| Box::new(context.clone()));
        copy.map_or(std::ptr::null_mut(), |copy| Box::into_raw(copy).cast())
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says, with a context of this type.
pub(super) unsafe extern "C" fn set_ctx_params<W: Settable>(context: *mut c_void, params: *const Param) -> c_int {
    // SAFETY: OpenSSL's context and list.
    unsafe { with(context, c"set parameters", |context: &mut Context<W>| context.work.set(Params::new(params))) }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says, with a context of this type.
pub(super) unsafe extern "C" fn get_ctx_params<W: Settable>(context: *mut c_void, params: *mut Param) -> c_int {
    // SAFETY: OpenSSL's context and list.
    unsafe {
        with(context, c"get parameters", |context: &mut Context<W>| W::answer(context, &mut Questions::new(params)))
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
pub(super) unsafe extern "C" fn settable_ctx_params<W: Settable>(_: *mut c_void, _: *mut c_void) -> *const Param {
    W::SETTABLE.as_ptr()
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
pub(super) unsafe extern "C" fn gettable_ctx_params<W: Settable>(_: *mut c_void, _: *mut c_void) -> *const Param {
    W::GETTABLE.as_ptr()
}

/// Runs `work` on a context; what fails goes into OpenSSL's queue.
///
/// # Safety
/// `context` is null or a context of this type, and nobody else is at it.
pub(super) unsafe fn with<W>(
    context: *mut c_void,
    doing: &'static CStr,
    work: impl FnOnce(&mut Context<W>) -> Result<bool, Failure>,
) -> c_int {
    guard(0, || {
        // SAFETY: see above.
        let Some(context) = (unsafe { context.cast::<Context<W>>().as_mut() }) else { return 0 };
        match work(context) {
            Ok(done) => c_int::from(done),
            Err(failure) => context.provider.fail(doing, &failure),
        }
    })
}
