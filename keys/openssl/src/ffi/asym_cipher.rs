//! Contexts and parameters of RSA encryption and decryption.

use super::abi::{Dispatch, asym_cipher as entry};
use super::context::{self, Output, Settable, dupctx, newctx, with};
use super::context::{get_ctx_params, gettable_ctx_params, set_ctx_params, settable_ctx_params};
use super::object::{KeyObject, key_in};
use super::params::{Answer, BYTES, BYTES_POINTER, INTEGER, Param, Params, Questions, TEXT, UNSIGNED, Value, params};
use super::{bytes, free};
use sidecore_client::keyops::decrypt::{Padding, Settings};
use sidecore_client::keyops::digest::Digest;
use sidecore_client::keyops::failure::Failure;
use std::ffi::{CStr, c_int};

/// The name since OpenSSL 3.2, and the name that Node uses with 3.0, which does not know the parameter.
const IMPLICIT_REJECTION: [&CStr; 2] = [c"implicit-rejection", c"rsa_pkcs1_implicit_rejection"];

type Context = context::Context<Settings>;

pub(super) static FUNCTIONS: [Dispatch; 12] = [
    entry::newctx(newctx::<Settings>),
    entry::encrypt_init(encrypt_init),
    entry::encrypt(encrypt),
    entry::decrypt_init(decrypt_init),
    entry::decrypt(decrypt),
    entry::freectx(free::<Context>),
    entry::dupctx(dupctx::<Settings>),
    entry::get_ctx_params(get_ctx_params::<Settings>),
    entry::gettable_ctx_params(gettable_ctx_params::<Settings>),
    entry::set_ctx_params(set_ctx_params::<Settings>),
    entry::settable_ctx_params(settable_ctx_params::<Settings>),
    Dispatch::END,
];

impl Settable for Settings {
    const SETTABLE: &'static [Param] = params! {
        TEXT: c"digest", c"digest-props", c"pad-mode", c"mgf1-digest", c"mgf1-properties";
        INTEGER: c"pad-mode";
        BYTES: c"oaep-label";
        UNSIGNED: c"tls-client-version", c"tls-negotiated-version", IMPLICIT_REJECTION[0], IMPLICIT_REJECTION[1];
    };

    const GETTABLE: &'static [Param] = params! {
        TEXT: c"digest", c"pad-mode", c"mgf1-digest";
        BYTES_POINTER: c"oaep-label";
        UNSIGNED: c"tls-client-version", c"tls-negotiated-version", c"implicit-rejection";
    };

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
        let version = |name, known: u16| match params.integer(name) {
            Some(number) => u16::try_from(number).map_err(|_| Failure::input("a version of TLS has 16 bits")),
            None => Ok(known),
        };
        self.client_version = version(c"tls-client-version", self.client_version)?;
        self.negotiated_version = version(c"tls-negotiated-version", self.negotiated_version)?;
        let properties = [c"digest-props", c"mgf1-properties"].map(|name| params.text(name).unwrap_or_default());
        if properties != ["", ""] {
            return Err(Failure::unsupported("digests with properties: leave them out"));
        }
        for name in IMPLICIT_REJECTION {
            match params.number(name).as_deref() {
                None | Some([1]) => {}
                Some([]) => {
                    let text =
                        "errors for bad padding: an administrator names the key in keys.explicit_decryption_errors";
                    return Err(Failure::unsupported(text));
                }
                Some(_) => return Err(Failure::input("implicit-rejection is 0 or 1")),
            }
        }
        Ok(true)
    }

    fn answer(context: &Context, questions: &mut Questions<'_>) -> Result<bool, Failure> {
        let settings = &context.work;
        let (number, text) = match settings.padding {
            Padding::Pkcs1 => (1, c"pkcs1"),
            Padding::None => (3, c"none"),
            Padding::Oaep => (4, c"oaep"),
            Padding::Tls => (7, c"tls"),
        };
        Ok(questions.answer([
            (c"pad-mode", Answer::Either(number, text)),
            (c"digest", Answer::Text(settings.digest.name())),
            (c"mgf1-digest", Answer::Text(settings.mgf1.unwrap_or(settings.digest).name())),
            (c"tls-client-version", Answer::Integer(settings.client_version.into())),
            (c"tls-negotiated-version", Answer::Integer(settings.negotiated_version.into())),
            (c"implicit-rejection", Answer::Integer(1)),
            (c"oaep-label", Answer::BytesPointer(&settings.label)),
        ]))
    }
}

fn digest(name: &str) -> Result<Digest, Failure> {
    Digest::from_name(name).ok_or_else(|| Failure::unsupported(format!("the digest {name}: use SHA-1 or one of SHA-2")))
}

fn padding(mode: Value<'_>) -> Result<Padding, Failure> {
    match mode {
        Value::Integer(1) | Value::Text("pkcs1") => Ok(Padding::Pkcs1),
        Value::Integer(3) | Value::Text("none") => Ok(Padding::None),
        Value::Integer(4) | Value::Text("oaep" | "oeap") => Ok(Padding::Oaep),
        Value::Integer(7) => Ok(Padding::Tls),
        _ => Err(Failure::unsupported("this padding of RSA ciphertexts: use pkcs1 or oaep")),
    }
}

extern "C" fn decrypt_init(context: Option<&mut Context>, key: Option<&KeyObject>, params: Params<'_>) -> c_int {
    with(context, c"decrypt", |context| {
        context.begin(key_in(key)?)?;
        context.set(params)
    })
}

extern "C" fn encrypt_init(context: Option<&mut Context>, key: Option<&KeyObject>, params: Params<'_>) -> c_int {
    with(context, c"encrypt", |context| {
        context.begin(key_in(key)?)?;
        context.set(params)
    })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn encrypt(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    size: usize,
    plaintext: *const u8,
    plaintext_len: usize,
) -> c_int {
    with(context, c"encrypt", |context| {
        let longest = context.key()?.public.max_len();
        // SAFETY: `out` is null or has `outsize` bytes, and `in` has `inlen`, by provider-asym_cipher(7).
        let (room, plaintext) = unsafe { (Output::new(room, len, size), bytes(plaintext, plaintext_len)) };
        Output::answer(room, longest, || {
            let (caller, key) = context.caller()?;
            context.work.encrypt(caller, key, plaintext)
        })
    })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn decrypt(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    size: usize,
    ciphertext: *const u8,
    ciphertext_len: usize,
) -> c_int {
    with(context, c"decrypt", |context| {
        let longest = context.work.longest(context.key()?);
        // SAFETY: `out` is null or has `outsize` bytes, and `in` has `inlen`, by provider-asym_cipher(7).
        let (room, ciphertext) = unsafe { (Output::new(room, len, size), bytes(ciphertext, ciphertext_len)) };
        Output::answer(room, longest, || {
            let (caller, key) = context.caller()?;
            context.work.decrypt(caller, key, ciphertext)
        })
    })
}
