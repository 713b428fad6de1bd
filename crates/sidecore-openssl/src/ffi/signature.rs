//! Signatures: contexts, digests made on the way, and parameters.

use super::abi::{Dispatch, signature as entry};
use super::context::{self, Output, Settable, dupctx, with};
use super::context::{get_ctx_params, gettable_ctx_params, set_ctx_params, settable_ctx_params};
use super::object::{KeyObject, key_in};
use super::params::{Answer, BYTES, INTEGER, Param, Params, Questions, TEXT, UNSIGNED, Value, params};
use super::provider::Provider;
use super::{bytes, free};
use crate::algorithm_id::algorithm_id;
use crate::hasher::Hasher;
use sidecore_client::face::digest::Digest;
use sidecore_client::face::failure::Failure;
use sidecore_client::face::key::Key;
use sidecore_client::face::sign::{Padding, Salt, Settings};
use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;

/// A signature in the making.
#[derive(Clone, Default)]
struct Signing {
    settings: Settings,
    message: Message,
    /// Signatures are to depend on key and message only.
    deterministic: bool,
}

/// What is signed.
#[derive(Clone, Default)]
enum Message {
    /// What is given at the end: a digest, or a message where the algorithm takes no digest.
    Given,
    /// A message in pieces, so far.
    Hashed(Hasher),
    /// None was begun, or it is over.
    #[default]
    Over,
}

type Context = context::Context<Signing>;

/// RSA and ECDSA.
pub(super) static FUNCTIONS: [Dispatch; 20] = [
    entry::newctx(newctx),
    entry::sign_init(sign_init),
    entry::sign(sign),
    entry::verify_init(verify_init),
    entry::verify(verify),
    entry::digest_sign_init(digest_init),
    entry::digest_sign_update(digest_update),
    entry::digest_sign_final(digest_sign_final),
    entry::digest_sign(sign),
    entry::digest_verify_init(digest_init),
    entry::digest_verify_update(digest_update),
    entry::digest_verify_final(digest_verify_final),
    entry::digest_verify(verify),
    entry::freectx(free::<Context>),
    entry::dupctx(dupctx::<Signing>),
    entry::get_ctx_params(get_ctx_params::<Signing>),
    entry::gettable_ctx_params(gettable_ctx_params::<Signing>),
    entry::set_ctx_params(set_ctx_params::<Signing>),
    entry::settable_ctx_params(settable_ctx_params::<Signing>),
    Dispatch::END,
];

/// Ed25519 and ML-DSA, which take whole messages and no digest.
pub(super) static MESSAGE_FUNCTIONS: [Dispatch; 12] = [
    entry::newctx(newctx),
    entry::digest_sign_init(digest_init),
    entry::digest_sign(sign),
    entry::digest_verify_init(digest_init),
    entry::digest_verify(verify),
    entry::freectx(free::<Context>),
    entry::dupctx(dupctx::<Signing>),
    entry::get_ctx_params(get_ctx_params::<Signing>),
    entry::gettable_ctx_params(gettable_ctx_params::<Signing>),
    entry::set_ctx_params(set_ctx_params::<Signing>),
    entry::settable_ctx_params(settable_message_params),
    Dispatch::END,
];

static SETTABLE_OF_MESSAGES: &[Param] = params! {
    BYTES: c"context-string";
    INTEGER: c"message-encoding", c"deterministic";
    TEXT: c"instance";
};

extern "C" fn settable_message_params(_context: *mut c_void, _provider: *mut c_void) -> *const Param {
    SETTABLE_OF_MESSAGES.as_ptr()
}

extern "C" fn newctx(provider: &Arc<Provider>, _properties: *const c_char) -> Option<Box<Context>> {
    context::newctx(provider)
}

impl Context {
    /// Begins with a key, or again with the same, and with these settings; with no message yet. OpenSSL lets a program go on
    /// after an initialisation that failed, and what is given then was never hashed: it must not be signed or verified.
    fn begin_with(&mut self, key: Option<Arc<Key>>, params: Params<'_>) -> Result<bool, Failure> {
        self.work.message = Message::Over;
        self.begin(key)?;
        self.work.set(params)
    }

    /// Begins what is given at the end.
    fn begin_given(&mut self, key: Option<Arc<Key>>, params: Params<'_>) -> Result<bool, Failure> {
        let begun = self.begin_with(key, params)?;
        self.work.message = Message::Given;
        Ok(begun)
    }

    fn takes_digest(&self) -> bool {
        self.key.as_ref().is_some_and(|key| key.public.family().takes_digest())
    }

    /// Begins a message, to be signed under a digest of this name.
    fn begin_message(&mut self, name: Option<&str>) -> Result<bool, Failure> {
        let name = name.filter(|name| !name.is_empty());
        if !self.takes_digest() {
            if name.is_some() {
                return Err(Failure::unsupported("Ed25519 and ML-DSA take no digest: leave it out"));
            }
            self.work.message = Message::Given;
            return Ok(true);
        }
        if let Some(name) = name {
            self.work.settings.digest = Some(digest(name)?);
        }
        let digest = *self.work.settings.digest.get_or_insert(Digest::Sha256);
        self.work.message = Message::Hashed(Hasher::new(digest));
        Ok(true)
    }

    fn update(&mut self, piece: &[u8]) -> Result<bool, Failure> {
        match &mut self.work.message {
            Message::Hashed(hasher) => hasher.update(piece),
            Message::Given => {
                return Err(Failure::unsupported("this algorithm signs whole messages: give it at once"));
            }
            Message::Over => return Err(none_begun()),
        }
        Ok(true)
    }

    /// What is signed: the digest of the message that `rest` ends, or `rest`.
    fn finished<'r>(&mut self, rest: &'r [u8]) -> Result<Cow<'r, [u8]>, Failure> {
        if matches!(self.work.message, Message::Given) {
            return Ok(rest.into());
        }
        let Message::Hashed(mut hasher) = std::mem::replace(&mut self.work.message, Message::Over) else {
            return Err(none_begun());
        };
        hasher.update(rest);
        Ok(hasher.finish().into())
    }

    fn sign(&mut self, rest: &[u8]) -> Result<Vec<u8>, Failure> {
        let tbs = self.finished(rest)?;
        if self.work.deterministic {
            return Err(Failure::unsupported("deterministic signatures: leave the setting out"));
        }
        let (caller, key) = self.caller()?;
        self.work.settings.sign(caller, key, &tbs)
    }

    fn verify(&mut self, signature: &[u8], rest: &[u8]) -> Result<bool, Failure> {
        let tbs = self.finished(rest)?;
        let (caller, key) = self.caller()?;
        self.work.settings.verify(caller, key, signature, &tbs)
    }

    fn longest(&self) -> Result<usize, Failure> {
        Ok(self.key()?.public.max_len())
    }
}

impl Settable for Signing {
    const SETTABLE: &'static [Param] = params! {
        TEXT: c"digest", c"properties", c"pad-mode", c"saltlen", c"mgf1-digest", c"mgf1-properties";
    };

    const GETTABLE: &'static [Param] = params! {
        BYTES: c"algorithm-id";
        TEXT: c"digest", c"pad-mode", c"saltlen", c"mgf1-digest";
        UNSIGNED: c"digest-size";
    };

    fn set(&mut self, params: Params<'_>) -> Result<bool, Failure> {
        if let Some(name) = params.text(c"digest") {
            if matches!(self.message, Message::Hashed(_)) && self.settings.digest != Digest::from_name(name) {
                return Err(Failure::input("the digest cannot change after the message has begun"));
            }
            self.settings.digest = if name.is_empty() { None } else { Some(digest(name)?) };
        }
        if let Some(mode) = params.get(c"pad-mode") {
            self.settings.padding = padding(mode)?;
        }
        if let Some(length) = params.get(c"saltlen") {
            if self.settings.padding != Padding::Pss {
                return Err(Failure::input("a salt length goes with PSS: set the padding first"));
            }
            self.settings.salt = salt(length)?;
        }
        if let Some(name) = params.text(c"mgf1-digest") {
            self.settings.mgf1 = Some(digest(name)?);
        }
        if let Some(deterministic) = params.integer(c"deterministic") {
            self.deterministic = deterministic != 0;
        }
        check_message_settings(params).map(|()| true)
    }

    fn answer(context: &Context, questions: &mut Questions<'_>) -> Result<bool, Failure> {
        let settings = &context.work.settings;
        let asked = questions.asks(c"algorithm-id");
        let id = if asked { algorithm_id(context.key()?, settings)? } else { Vec::new() };
        let digest = settings.digest;
        let padding = match settings.padding {
            Padding::Pkcs1 => Answer::Either(1, c"pkcs1"),
            Padding::Pss => Answer::Either(6, c"pss"),
        };
        let (number, text) = match settings.salt {
            Salt::Digest => (-1, c"digest".to_owned()),
            Salt::Auto => (-2, c"auto".to_owned()),
            Salt::Max => (-3, c"max".to_owned()),
            Salt::AutoDigestMax => (-4, c"auto-digestmax".to_owned()),
            Salt::Bytes(bytes) => (i32::from(bytes), CString::new(bytes.to_string()).unwrap_or_default()),
        };
        let fit = questions.answer([
            (c"algorithm-id", Answer::Bytes(&id)),
            (c"digest", Answer::Text(digest.map_or(c"", Digest::name))),
            (c"digest-size", Answer::Length(digest.map_or(0, Digest::size))),
            (c"mgf1-digest", Answer::Text(settings.mgf1.or(digest).map_or(c"", Digest::name))),
            (c"pad-mode", padding),
            (c"saltlen", Answer::Either(number, &text)),
        ]);
        let misfit = || Failure::input("a parameter was asked for in another type, or without room for it");
        fit.then_some(true).ok_or_else(misfit)
    }
}

fn none_begun() -> Failure {
    Failure::input("no message was begun: initialise the operation anew")
}

fn digest(name: &str) -> Result<Digest, Failure> {
    Digest::from_name(name)
        .ok_or_else(|| Failure::unsupported(format!("the digest {name}: use SHA-1, SHA-2, SHA-3 or MD5-SHA1")))
}

/// What messages are signed with here: Ed25519 without a context, and pure ML-DSA with an empty one.
fn check_message_settings(params: Params<'_>) -> Result<(), Failure> {
    if params.bytes(c"context-string").is_some_and(|context| !context.is_empty()) {
        return Err(Failure::unsupported("signatures with a context string: leave it out"));
    }
    if params.integer(c"message-encoding").is_some_and(|encoding| encoding != 1) {
        return Err(Failure::unsupported("signatures of messages that are encoded already: give the message itself"));
    }
    if params.integer(c"mu").is_some_and(|mu| mu != 0) {
        return Err(Failure::unsupported("signatures of a message representative (mu): give the message itself"));
    }
    if params.integer(c"nonce-type").is_some_and(|kind| kind != 0) {
        return Err(Failure::unsupported("ECDSA with a nonce that is not random: leave the setting out"));
    }
    match params.text(c"instance") {
        Some(name) if !name.eq_ignore_ascii_case("Ed25519") => {
            Err(Failure::unsupported(format!("the instance {name}: use Ed25519")))
        }
        _ => Ok(()),
    }
}

fn padding(mode: Value<'_>) -> Result<Padding, Failure> {
    match mode {
        Value::Integer(1) | Value::Text("pkcs1") => Ok(Padding::Pkcs1),
        Value::Integer(6) | Value::Text("pss") => Ok(Padding::Pss),
        _ => Err(Failure::unsupported("this padding of RSA signatures: use pkcs1 or pss")),
    }
}

fn salt(length: Value<'_>) -> Result<Salt, Failure> {
    let number = match length {
        Value::Text("digest") => -1,
        Value::Text("auto") => -2,
        Value::Text("max") => -3,
        Value::Text("auto-digestmax") => -4,
        Value::Text(text) => text.trim().parse().unwrap_or(i64::MIN),
        Value::Integer(number) => number,
        _ => i64::MIN,
    };
    match number {
        -1 => Ok(Salt::Digest),
        -2 => Ok(Salt::Auto),
        -3 => Ok(Salt::Max),
        -4 => Ok(Salt::AutoDigestMax),
        _ => u16::try_from(number).map(Salt::Bytes).map_err(|_| {
            Failure::input("this length of a PSS salt: use digest, max, auto, auto-digestmax or a number of bytes")
        }),
    }
}

extern "C" fn sign_init(context: Option<&mut Context>, key: Option<&KeyObject>, params: Params<'_>) -> c_int {
    with(context, c"sign", |context| context.begin_given(key_in(key)?, params))
}

extern "C" fn verify_init(context: Option<&mut Context>, key: Option<&KeyObject>, params: Params<'_>) -> c_int {
    with(context, c"verify", |context| context.begin_given(key_in(key)?, params))
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn sign(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    size: usize,
    tbs: *const u8,
    tbs_len: usize,
) -> c_int {
    with(context, c"sign", |context| {
        // SAFETY: OpenSSL's buffers.
        let (room, tbs) = unsafe { (Output::new(room, len, size), bytes(tbs, tbs_len)) };
        Output::answer(room, context.longest()?, || context.sign(tbs))
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn verify(
    context: Option<&mut Context>,
    signature: *const u8,
    len: usize,
    tbs: *const u8,
    tbs_len: usize,
) -> c_int {
    // SAFETY: OpenSSL's buffers.
    with(context, c"verify", |context| unsafe { context.verify(bytes(signature, len), bytes(tbs, tbs_len)) })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn digest_init(
    context: Option<&mut Context>,
    name: *const c_char,
    key: Option<&KeyObject>,
    params: Params<'_>,
) -> c_int {
    with(context, c"sign", |context| {
        // SAFETY: OpenSSL's C string.
        let name = if name.is_null() { None } else { unsafe { CStr::from_ptr(name) }.to_str().ok() };
        context.begin_with(key_in(key)?, params)?;
        context.begin_message(name)
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn digest_update(context: Option<&mut Context>, piece: *const u8, len: usize) -> c_int {
    // SAFETY: OpenSSL's buffer.
    with(context, c"sign", |context| context.update(unsafe { bytes(piece, len) }))
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn digest_sign_final(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    size: usize,
) -> c_int {
    // SAFETY: as for `sign`, with nothing left of the message.
    unsafe { sign(context, room, len, size, std::ptr::null(), 0) }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn digest_verify_final(context: Option<&mut Context>, signature: *const u8, len: usize) -> c_int {
    // SAFETY: as for `verify`, with nothing left of the message.
    unsafe { verify(context, signature, len, std::ptr::null(), 0) }
}
