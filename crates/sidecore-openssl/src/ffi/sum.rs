//! Digests: contexts and parameters.

use super::abi::{Dispatch, Param, digest as entry};
use super::context::{Operation, dupctx, freectx, with};
use super::params::Questions;
use super::provider::Provider;
use super::signature::Output;
use super::{bytes, guard, shared};
use crate::bulk::Sum;
use crate::digest::Digest;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A message to be digested.
#[derive(Clone)]
struct Context {
    provider: Arc<Provider>,
    sum: Sum,
}

impl Operation for Context {
    fn provider(&self) -> &Provider {
        &self.provider
    }
}

/// The functions of one digest differ in the digest only.
macro_rules! digest {
    ($module:ident, $digest:expr, $block:literal) => {
        pub(super) mod $module {
            use super::*;

            /// # Safety
            /// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
            unsafe extern "C" fn newctx(provider: *mut c_void) -> *mut c_void {
                guard(std::ptr::null_mut(), || {
                    // SAFETY: the provider's context.
                    let provider = unsafe { shared::<Provider>(provider) };
                    Box::into_raw(Box::new(Context { provider, sum: Sum::new($digest) })).cast()
                })
            }

            /// # Safety
            /// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
            unsafe extern "C" fn get_params(params: *mut Param) -> c_int {
                guard(0, || {
                    // SAFETY: OpenSSL's list.
                    let mut questions = unsafe { Questions::new(params) };
                    let answered = questions
                        .length(c"blocksize", $block)
                        .and_then(|()| questions.length(c"size", $digest.len()))
                        .and_then(|()| questions.integer(c"xof", 0))
                        .and_then(|()| questions.integer(c"algid-absent", 1));
                    c_int::from(answered.is_ok())
                })
            }

            pub(in crate::ffi) static FUNCTIONS: [Dispatch; 9] = [
                entry::newctx(newctx),
                entry::init(init),
                entry::update(update),
                entry::finish(finish),
                entry::freectx(freectx::<Context>),
                entry::dupctx(dupctx::<Context>),
                entry::get_params(get_params),
                entry::gettable_params(gettable_params),
                Dispatch::END,
            ];
        }
    };
}

digest!(sha_256, Digest::Sha256, 64);
digest!(sha_384, Digest::Sha384, 128);
digest!(sha_512, Digest::Sha512, 128);

static GETTABLE: [Param; 5] = [
    Param::unsigned(c"blocksize"),
    Param::unsigned(c"size"),
    Param::integer(c"xof"),
    Param::integer(c"algid-absent"),
    Param::END,
];

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn gettable_params(_provider: *mut c_void) -> *const Param {
    GETTABLE.as_ptr()
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn init(context: *mut c_void, _params: *const Param) -> c_int {
    // SAFETY: OpenSSL's context.
    unsafe {
        with(context, c"digest", |context: &mut Context| {
            context.sum = Sum::new(context.sum.digest());
            Ok(true)
        })
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn update(context: *mut c_void, piece: *const u8, len: usize) -> c_int {
    // SAFETY: OpenSSL's context and buffer.
    unsafe {
        with(context, c"digest", |context: &mut Context| {
            context.sum.update(bytes(piece, len));
            Ok(true)
        })
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn finish(context: *mut c_void, room: *mut u8, len: *mut usize, size: usize) -> c_int {
    // SAFETY: OpenSSL's context and room.
    unsafe {
        with(context, c"digest", |context: &mut Context| {
            let Some(output) = Output::new(room, len, size) else { return Ok(false) };
            output.put(&context.sum.finish(context.provider.options()?)?)
        })
    }
}
