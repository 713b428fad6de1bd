//! RSA decryption: contexts and parameters.

use super::abi::{Dispatch, Param, asym_cipher as entry};
use super::bytes;
use super::context::{self, Settable, dupctx, freectx, newctx, with};
use super::context::{get_ctx_params, gettable_ctx_params, set_ctx_params, settable_ctx_params};
use super::object::key_in;
use super::output::Output;
use super::params::{Misfit, Params, Questions, Value};
use sidecore_client::face::decrypt::{Padding, Settings};
use sidecore_client::face::digest::Digest;
use sidecore_client::face::failure::Failure;
use std::ffi::{c_int, c_void};

type Context = context::Context<Settings>;

pub(super) static FUNCTIONS: [Dispatch; 10] = [
    entry::newctx(newctx::<Settings>),
    entry::decrypt_init(decrypt_init),
    entry::decrypt(decrypt),
    entry::freectx(freectx::<Settings>),
    entry::dupctx(dupctx::<Settings>),
    entry::get_ctx_params(get_ctx_params::<Settings>),
    entry::gettable_ctx_params(gettable_ctx_params::<Settings>),
    entry::set_ctx_params(set_ctx_params::<Settings>),
    entry::settable_ctx_params(settable_ctx_params::<Settings>),
    Dispatch::END,
];

impl Settable for Settings {
    const SETTABLE: &'static [Param] = &[
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

    const GETTABLE: &'static [Param] = &[
        Param::text(c"digest"),
        Param::text(c"pad-mode"),
        Param::text(c"mgf1-digest"),
        Param::bytes_pointer(c"oaep-label"),
        Param::unsigned(c"tls-client-version"),
        Param::unsigned(c"tls-negotiated-version"),
        Param::END,
    ];

    fn set(&mut self, params: Params<'_>) -> Result<bool, Failure> {
        if let Some(mode) = params.get(c"pad-mode") {
            self.padding = padding(mode)?;
        }
        if let Some(name) = params.text(c"digest") {
            self.digest = digest(name)?;
        }
        if let Some(name) = params.text(c"mgf1-digest") {
            self.mgf1 = Some(digest(name)?);
        }
        if let Some(label) = params.bytes(c"oaep-label") {
            self.label = label.to_vec();
        }
        let version = |name| params.integer(name).map(|number| u16::try_from(number).unwrap_or(0));
        self.client_version = version(c"tls-client-version").unwrap_or(self.client_version);
        self.negotiated_version = version(c"tls-negotiated-version").unwrap_or(self.negotiated_version);
        Ok(true)
    }

    fn answer(context: &Context, questions: &mut Questions<'_>) -> Result<bool, Failure> {
        Ok(answer(&context.work, questions).is_ok())
    }
}

fn answer(settings: &Settings, questions: &mut Questions<'_>) -> Result<(), Misfit> {
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
            context.begin(key_in(key))?;
            context.work.set(Params::new(params))
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
            let longest = context.work.longest(context.key()?);
            Output::answer((room, len, size), longest, || {
                let (caller, key) = context.caller()?;
                context.work.decrypt(caller, key, bytes(ciphertext, ciphertext_len))
            })
        })
    }
}
