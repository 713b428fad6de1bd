//! Ciphers: contexts and parameters.

use super::abi::{Dispatch, Param, cipher as entry};
use super::context::{Operation, dupctx, freectx, with};
use super::params::{Misfit, Params, Questions};
use super::provider::Provider;
use super::signature::Output;
use super::{bytes, guard, shared};
use crate::bulk::{Algorithm, Mode, State};
use crate::failure::Failure;
use sidecore::engine::crypto::Cipher;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A cipher at work.
#[derive(Clone)]
struct Context {
    provider: Arc<Provider>,
    state: State,
    /// As it was last asked for: OpenSSL may be told where it is.
    next_iv: Vec<u8>,
}

impl Operation for Context {
    fn provider(&self) -> &Provider {
        &self.provider
    }
}

/// The functions of one algorithm differ in the algorithm only.
macro_rules! algorithm {
    ($module:ident, $mode:expr, $cipher:expr) => {
        pub(super) mod $module {
            use super::*;

            const ALGORITHM: Algorithm = Algorithm { mode: $mode, cipher: $cipher };

            /// # Safety
            /// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
            unsafe extern "C" fn newctx(provider: *mut c_void) -> *mut c_void {
                // SAFETY: the provider's context.
                unsafe { super::newctx(provider, ALGORITHM) }
            }

            /// # Safety
            /// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
            unsafe extern "C" fn get_params(params: *mut Param) -> c_int {
                // SAFETY: OpenSSL's list.
                guard(0, || c_int::from(super::describe(ALGORITHM, &mut unsafe { Questions::new(params) }).is_ok()))
            }

            pub(in crate::ffi) static FUNCTIONS: [Dispatch; 14] = [
                entry::newctx(newctx),
                entry::encrypt_init(encrypt_init),
                entry::decrypt_init(decrypt_init),
                entry::update(update),
                entry::finish(finish),
                entry::freectx(freectx::<Context>),
                entry::dupctx(dupctx::<Context>),
                entry::get_params(get_params),
                entry::get_ctx_params(get_ctx_params),
                entry::set_ctx_params(set_ctx_params),
                entry::gettable_params(gettable_params),
                entry::gettable_ctx_params(gettable_ctx_params),
                entry::settable_ctx_params(settable_ctx_params),
                Dispatch::END,
            ];
        }
    };
}

algorithm!(aes_128_gcm, Mode::Gcm, Cipher::Aes128Ctr);
algorithm!(aes_256_gcm, Mode::Gcm, Cipher::Aes256Ctr);
algorithm!(aes_128_ctr, Mode::Ctr, Cipher::Aes128Ctr);
algorithm!(aes_256_ctr, Mode::Ctr, Cipher::Aes256Ctr);
algorithm!(aes_128_cbc, Mode::Cbc, Cipher::Aes128Cbc);
algorithm!(aes_256_cbc, Mode::Cbc, Cipher::Aes256Cbc);
algorithm!(chacha20_poly1305, Mode::ChaChaPoly, Cipher::ChaCha20Poly1305);

static GETTABLE: [Param; 7] = [
    Param::unsigned(c"mode"),
    Param::unsigned(c"keylen"),
    Param::unsigned(c"ivlen"),
    Param::unsigned(c"blocksize"),
    Param::integer(c"aead"),
    Param::integer(c"custom-iv"),
    Param::END,
];

static GETTABLE_OF_CONTEXT: [Param; 9] = [
    Param::unsigned(c"keylen"),
    Param::unsigned(c"ivlen"),
    Param::unsigned(c"taglen"),
    Param::unsigned(c"padding"),
    Param::unsigned(c"num"),
    Param::bytes(c"iv"),
    Param::bytes(c"updated-iv"),
    Param::bytes(c"tag"),
    Param::END,
];

static SETTABLE_OF_CONTEXT: [Param; 5] = [
    Param::unsigned(c"keylen"),
    Param::unsigned(c"ivlen"),
    Param::unsigned(c"padding"),
    Param::bytes(c"tag"),
    Param::END,
];

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn gettable_params(_provider: *mut c_void) -> *const Param {
    GETTABLE.as_ptr()
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn gettable_ctx_params(_context: *mut c_void, _provider: *mut c_void) -> *const Param {
    GETTABLE_OF_CONTEXT.as_ptr()
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn settable_ctx_params(_context: *mut c_void, _provider: *mut c_void) -> *const Param {
    SETTABLE_OF_CONTEXT.as_ptr()
}

/// What is always so.
fn describe(algorithm: Algorithm, questions: &mut Questions<'_>) -> Result<(), Misfit> {
    // `EVP_CIPH_…_MODE`.
    let mode = match algorithm.mode {
        Mode::ChaChaPoly => 0,
        Mode::Cbc => 2,
        Mode::Ctr => 5,
        Mode::Gcm => 6,
    };
    questions.integer(c"mode", mode)?;
    questions.length(c"keylen", algorithm.cipher.key_len())?;
    questions.length(c"ivlen", algorithm.iv_len())?;
    questions.length(c"blocksize", algorithm.block_len())?;
    questions.integer(c"aead", algorithm.is_aead().into())?;
    questions.integer(c"custom-iv", algorithm.is_aead().into())
}

/// # Safety
/// `provider` is the provider's context.
unsafe fn newctx(provider: *mut c_void, algorithm: Algorithm) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: see above.
        let provider = unsafe { shared::<Provider>(provider) };
        Box::into_raw(Box::new(Context { provider, state: State::new(algorithm), next_iv: Vec::new() })).cast()
    })
}

impl Context {
    fn set(&mut self, params: Params<'_>) -> Result<bool, Failure> {
        let length = |name| params.integer(name).map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        if let Some(len) = length(c"keylen")
            && len != self.state.algorithm.cipher.key_len()
        {
            return Err(Failure::unsupported(format!("a key of {len} bytes with this cipher")));
        }
        if let Some(len) = length(c"ivlen") {
            self.state.set_iv_len(len)?;
        }
        if let Some(padding) = params.integer(c"padding") {
            self.state.padded = padding != 0;
        }
        match (params.bytes(c"tag"), params.size(c"tag")) {
            (Some(tag), _) => self.state.set_tag(tag)?,
            // Only the length is told.
            (None, Some(len)) if len > 16 => return Err(Failure::input(format!("a tag of {len} bytes: use up to 16"))),
            _ => {}
        }
        Ok(true)
    }

    fn answer(&mut self, questions: &mut Questions<'_>) -> Result<(), Misfit> {
        let (next_iv, used) = self.state.next_iv();
        self.next_iv = next_iv;
        questions.length(c"keylen", self.state.algorithm.cipher.key_len())?;
        questions.length(c"ivlen", self.state.iv_len)?;
        questions.integer(c"taglen", if self.state.algorithm.is_aead() { 16 } else { 0 })?;
        questions.integer(c"padding", self.state.padded.into())?;
        questions.length(c"num", used)?;
        questions.bytes_or_pointer(c"iv", &self.state.iv)?;
        questions.bytes_or_pointer(c"updated-iv", &self.next_iv)?;
        match questions.room(c"tag") {
            None => Ok(()),
            Some(room) => {
                let tag = self.state.tag().and_then(|tag| tag.get(..room)).ok_or(Misfit)?;
                questions.bytes(c"tag", tag)
            }
        }
    }
}

/// # Safety
/// All are OpenSSL's.
unsafe fn init(
    context: *mut c_void,
    encrypts: bool,
    (key, key_len): (*const u8, usize),
    (iv, iv_len): (*const u8, usize),
    params: *const Param,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        with(context, c"cipher", |context: &mut Context| {
            let given = |at: *const u8, len| (!at.is_null()).then(|| bytes(at, len));
            context.set(Params::new(params))?;
            context.state.begin(encrypts, given(key, key_len), given(iv, iv_len))?;
            Ok(true)
        })
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn encrypt_init(
    context: *mut c_void,
    key: *const u8,
    key_len: usize,
    iv: *const u8,
    iv_len: usize,
    params: *const Param,
) -> c_int {
    // SAFETY: OpenSSL's context, buffers and list.
    unsafe { init(context, true, (key, key_len), (iv, iv_len), params) }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn decrypt_init(
    context: *mut c_void,
    key: *const u8,
    key_len: usize,
    iv: *const u8,
    iv_len: usize,
    params: *const Param,
) -> c_int {
    // SAFETY: OpenSSL's context, buffers and list.
    unsafe { init(context, false, (key, key_len), (iv, iv_len), params) }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn update(
    context: *mut c_void,
    room: *mut u8,
    len: *mut usize,
    size: usize,
    input: *const u8,
    input_len: usize,
) -> c_int {
    // SAFETY: OpenSSL's context and buffers; room and input may be the same place, so the input is copied first.
    unsafe {
        with(context, c"cipher", |context: &mut Context| {
            let input = bytes(input, input_len).to_vec();
            let options = context.provider.options()?.clone();
            if room.is_null() {
                context.state.associate(&options, &input)?;
                if let Some(len) = len.as_mut() {
                    *len = input.len();
                }
                return Ok(true);
            }
            let result = context.state.update(&options, &input)?;
            let Some(output) = Output::new(room, len, size) else { return Ok(false) };
            output.put(&result)
        })
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn finish(context: *mut c_void, room: *mut u8, len: *mut usize, size: usize) -> c_int {
    // SAFETY: OpenSSL's context and room.
    unsafe {
        with(context, c"cipher", |context: &mut Context| {
            let options = context.provider.options()?.clone();
            let result = context.state.finish(&options)?;
            if result.is_empty() {
                if let Some(len) = len.as_mut() {
                    *len = 0;
                }
                return Ok(true);
            }
            let Some(output) = Output::new(room, len, size) else { return Ok(false) };
            output.put(&result)
        })
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn get_ctx_params(context: *mut c_void, params: *mut Param) -> c_int {
    // SAFETY: OpenSSL's context and list.
    unsafe {
        with(context, c"get parameters", |context: &mut Context| {
            Ok(context.answer(&mut Questions::new(params)).is_ok())
        })
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn set_ctx_params(context: *mut c_void, params: *const Param) -> c_int {
    // SAFETY: OpenSSL's context and list.
    unsafe { with(context, c"set parameters", |context: &mut Context| context.set(Params::new(params))) }
}
