//! RSA decryption: contexts and parameters.

use super::abi::{Dispatch, Param, asym_cipher as entry};
use super::context::{Operation, dupctx, freectx, given, with};
use super::object::key_in;
use super::params::{Misfit, Params, Questions, Value};
use super::provider::Provider;
use super::signature::Output;
use super::{bytes, guard, shared};
use sidecore_client::face::decrypt::{Padding, Settings};
use sidecore_client::face::digest::Digest;
use sidecore_client::face::failure::Failure;
use sidecore_client::face::key::Key;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A decryption to come.
#[derive(Clone)]
struct Context {
    provider: Arc<Provider>,
    key: Option<Arc<Key>>,
    settings: Settings,
}

impl Operation for Context {
    fn provider(&self) -> &Provider {
        &self.provider
    }
}

pub(super) static FUNCTIONS: [Dispatch; 10] = [
    entry::newctx(newctx),
    entry::decrypt_init(decrypt_init),
    entry::decrypt(decrypt),
    entry::freectx(freectx::<Context>),
    entry::dupctx(dupctx::<Context>),
    entry::get_ctx_params(get_ctx_params),
    entry::gettable_ctx_params(gettable_ctx_params),
    entry::set_ctx_params(set_ctx_params),
    entry::settable_ctx_params(settable_ctx_params),
    Dispatch::END,
];

static SETTABLE: [Param; 9] = [
    Param::text(c"digest"),
    Param::text(c"digest-props"),
    Param::text(c"pad-mode"),
    Param::text(c"mgf1-digest"),
    Param::text(c"mgf1-properties"),
    Param::bytes(c"oaep-label"),
    Param::unsigned(c"tls-client-version"),
    Param::unsigned(c"tls-negotiated-version"),
    Param::END,
];

static GETTABLE: [Param; 7] = [
    Param::text(c"digest"),
    Param::text(c"pad-mode"),
    Param::text(c"mgf1-digest"),
    Param::bytes_pointer(c"oaep-label"),
    Param::unsigned(c"tls-client-version"),
    Param::unsigned(c"tls-negotiated-version"),
    Param::END,
];

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn gettable_ctx_params(_context: *mut c_void, _provider: *mut c_void) -> *const Param {
    GETTABLE.as_ptr()
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn settable_ctx_params(_context: *mut c_void, _provider: *mut c_void) -> *const Param {
    SETTABLE.as_ptr()
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn newctx(provider: *mut c_void) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        // SAFETY: the provider's context.
        let provider = unsafe { shared::<Provider>(provider) };
        Box::into_raw(Box::new(Context { provider, key: None, settings: Settings::default() })).cast()
    })
}

impl Context {
    fn key(&self) -> Result<&Arc<Key>, Failure> {
        given(self.key.as_ref())
    }

    fn set(&mut self, params: Params<'_>) -> Result<bool, Failure> {
        let settings = &mut self.settings;
        if let Some(mode) = params.get(c"pad-mode") {
            settings.padding = padding(mode)?;
        }
        if let Some(name) = params.text(c"digest") {
            settings.digest = digest(name)?;
        }
        if let Some(name) = params.text(c"mgf1-digest") {
            settings.mgf1 = Some(digest(name)?);
        }
        if let Some(label) = params.bytes(c"oaep-label") {
            settings.label = label.to_vec();
        }
        let version = |name| params.integer(name).map(|number| u16::try_from(number).unwrap_or(0));
        settings.client_version = version(c"tls-client-version").unwrap_or(settings.client_version);
        settings.negotiated_version = version(c"tls-negotiated-version").unwrap_or(settings.negotiated_version);
        Ok(true)
    }

    fn answer(&self, questions: &mut Questions<'_>) -> Result<(), Misfit> {
        let settings = &self.settings;
        let (number, text) = match settings.padding {
            Padding::Pkcs1 => (1, c"pkcs1"),
            Padding::Oaep => (4, c"oaep"),
            Padding::Tls => (7, c"tls"),
        };
        questions.either(c"pad-mode", number, text)?;
        questions.text(c"digest", settings.digest.name())?;
        questions.text(c"mgf1-digest", settings.mgf1.unwrap_or(settings.digest).name())?;
        questions.integer(c"tls-client-version", settings.client_version.into())?;
        questions.integer(c"tls-negotiated-version", settings.negotiated_version.into())?;
        questions.pointer(c"oaep-label", &settings.label)
    }
}

fn digest(name: &str) -> Result<Digest, Failure> {
    Digest::from_name(name)
        .ok_or_else(|| Failure::unsupported(format!("the digest {name}: use SHA-1, SHA-256, SHA-384 or SHA-512")))
}

fn padding(mode: Value<'_>) -> Result<Padding, Failure> {
    match mode {
        Value::Integer(1) | Value::Text("pkcs1") => Ok(Padding::Pkcs1),
        Value::Integer(4) | Value::Text("oaep" | "oeap") => Ok(Padding::Oaep),
        Value::Integer(7) => Ok(Padding::Tls),
        _ => Err(Failure::unsupported("this padding of RSA ciphertexts: use pkcs1 or oaep")),
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn decrypt_init(context: *mut c_void, key: *mut c_void, params: *const Param) -> c_int {
    // SAFETY: OpenSSL's context, key and list.
    unsafe {
        with(context, c"decrypt", |context: &mut Context| {
            if let Some(key) = key_in(key) {
                context.key = Some(key);
            }
            context.key()?;
            context.set(Params::new(params))
        })
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn decrypt(
    context: *mut c_void,
    room: *mut u8,
    len: *mut usize,
    size: usize,
    ciphertext: *const u8,
    ciphertext_len: usize,
) -> c_int {
    // SAFETY: OpenSSL's context and buffers.
    unsafe {
        with(context, c"decrypt", |context: &mut Context| {
            let Some(mut output) = Output::new(room, len, size) else { return Ok(false) };
            let key = context.key()?;
            if output.only_length(context.settings.longest(key)) {
                return Ok(true);
            }
            let ciphertext = bytes(ciphertext, ciphertext_len);
            output.put(&context.settings.decrypt(context.provider.caller()?, key, ciphertext)?)
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
