//! Common parts of all operations: contexts, which OpenSSL makes, copies, uses one at a time and frees; and buffers
//! for results.

use super::guard;
use super::params::{Param, Params, Questions, params};
use super::provider::Provider;
use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_client::keyops::key::Key;
use sidecore_client::keyops::wait::Caller;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

/// The context of an operation: its key, and the operation's own state `W`. OpenSSL holds it as a box.
#[derive(Clone)]
pub(super) struct Context<W> {
    pub(super) provider: Arc<Provider>,
    pub(super) key: Option<Arc<Key>>,
    pub(super) work: W,
}

impl<W> Context<W> {
    pub(super) fn caller(&self) -> Result<(Caller<'_>, &Arc<Key>), Failure> {
        Ok((self.provider.caller()?, self.key()?))
    }

    /// Begins with this key; `None`: with the previous one.
    pub(super) fn begin(&mut self, key: Option<Arc<Key>>) -> Result<(), Failure> {
        self.key = key.or(self.key.take());
        self.key().map(|_| ())
    }

    /// Applies the parameters, and refuses unknown ones.
    pub(super) fn set(&mut self, params: Params<'_>) -> Result<bool, Failure>
    where
        W: Settable,
    {
        params.all_in(self.work.settable())?;
        self.work.set(params)
    }

    pub(super) fn key(&self) -> Result<&Arc<Key>, Failure> {
        self.key.as_ref().ok_or_else(|| Failure::new(Reason::Key, "no key: initialise the operation with one"))
    }
}

pub(super) trait Settable: Sized {
    const SETTABLE: &'static [Param];
    const GETTABLE: &'static [Param];

    fn settable(&self) -> &'static [Param] {
        Self::SETTABLE
    }

    fn set(&mut self, params: Params<'_>) -> Result<bool, Failure>;

    fn answer(context: &Context<Self>, questions: &mut Questions<'_>) -> Result<bool, Failure>;
}

pub(super) extern "C" fn newctx<W: Default>(provider: &Arc<Provider>) -> Option<Box<Context<W>>> {
    guard(None, || Some(Box::new(Context { provider: Arc::clone(provider), key: None, work: W::default() })))
}

pub(super) extern "C" fn dupctx<W: Clone>(context: Option<&Context<W>>) -> Option<Box<Context<W>>> {
    guard(None, || Some(Box::new(context?.clone())))
}

pub(super) extern "C" fn set_ctx_params<W: Settable>(context: Option<&mut Context<W>>, params: Params<'_>) -> c_int {
    with(context, c"set parameters", |context| context.set(params))
}

pub(super) extern "C" fn get_ctx_params<W: Settable>(
    context: Option<&mut Context<W>>,
    mut questions: Questions<'_>,
) -> c_int {
    with(context, c"get parameters", |context| W::answer(context, &mut questions))
}

pub(super) extern "C" fn settable_ctx_params<W: Settable>(_: *mut c_void, _: *mut c_void) -> *const Param {
    W::SETTABLE.as_ptr()
}

/// For contexts without parameters: `set_ctx_params` refuses each with a reason.
pub(super) extern "C" fn nothing_settable(_: *mut c_void, _: *mut c_void) -> *const Param {
    params! {}.as_ptr()
}

pub(super) extern "C" fn gettable_ctx_params<W: Settable>(_: *mut c_void, _: *mut c_void) -> *const Param {
    W::GETTABLE.as_ptr()
}

pub(super) fn with<W>(
    context: Option<&mut Context<W>>,
    doing: &'static CStr,
    work: impl FnOnce(&mut Context<W>) -> Result<bool, Failure>,
) -> c_int {
    guard(0, || {
        let Some(context) = context else { return 0 };
        let done = work(context);
        context.provider.tell_of(context.key.as_deref(), doing, done).map_or(0, c_int::from)
    })
}

pub(super) struct Output<'a> {
    /// `None`: only the length is requested.
    room: Option<&'a mut [u8]>,
    len: &'a mut usize,
}

impl<'a> Output<'a> {
    /// # Safety
    /// `room` is null or has `size` bytes.
    pub(super) unsafe fn new(room: *mut u8, len: Option<&'a mut usize>, size: usize) -> Option<Self> {
        // SAFETY: not null here, so it has `size` bytes; OpenSSL's caller alone uses them during the call.
        let room = (!room.is_null()).then(|| unsafe { std::slice::from_raw_parts_mut(room, size) });
        Some(Self { room, len: len? })
    }

    /// Returns the maximum length if that is requested, else makes and copies the result.
    pub(super) fn answer<R: AsRef<[u8]>>(
        output: Option<Self>,
        longest: usize,
        make: impl FnOnce() -> Result<R, Failure>,
    ) -> Result<bool, Failure> {
        let Some(mut output) = output else { return Ok(false) };
        if output.only_length(longest) { Ok(true) } else { output.put(make()?.as_ref()) }
    }

    /// Returns the maximum length if that is requested.
    pub(super) fn only_length(&mut self, longest: usize) -> bool {
        if self.room.is_none() {
            *self.len = longest;
        }
        self.room.is_none()
    }

    pub(super) fn put(self, result: &[u8]) -> Result<bool, Failure> {
        let room = self.room.and_then(|room| room.get_mut(..result.len()));
        let room = room.ok_or_else(|| Failure::input(format!("no room for a result of {} bytes", result.len())))?;
        room.copy_from_slice(result);
        *self.len = result.len();
        Ok(true)
    }
}
