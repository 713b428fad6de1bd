//! Contexts of signatures, and the digests made in them.

mod settings;

use super::abi::{Dispatch, signature as entry};
use super::context::{self, Output, dupctx, with};
use super::context::{get_ctx_params, gettable_ctx_params, set_ctx_params};
use super::object::{KeyObject, key_in};
use super::params::{Param, Params};
use super::provider::Provider;
use super::{bytes, free, guard};
use settings::digest;
use sidecore_client::keyops::digest::Digest;
use sidecore_client::keyops::failure::Failure;
use sidecore_client::keyops::hasher::Hasher;
use sidecore_client::keyops::key::{Family, Key, Raw};
use sidecore_client::keyops::sign::Settings;
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::sync::Arc;

pub(super) struct Variant {
    family: Family,
    /// Fixed digest of each message; `None`: the program sets one.
    digest: Option<Digest>,
    settable: &'static [Param],
}

/// A [`Variant`] as a type, so that each has functions of its own.
pub(super) trait OfVariant {
    const VARIANT: &'static Variant;
    const KEY_TYPES: &'static KeyTypes;
}

pub(super) struct KeyTypes([*const c_char; 2]);

// SAFETY: the pointers are to constants.
unsafe impl Sync for KeyTypes {}

macro_rules! variants {
    ($($name:ident = $family:expr, $key:literal, $digest:expr, $settable:expr;)*) => {
        $(
            pub(super) enum $name {}

            impl OfVariant for $name {
                const VARIANT: &'static Variant =
                    &Variant { family: $family, digest: $digest, settable: $settable };
                const KEY_TYPES: &'static KeyTypes = &KeyTypes([$key.as_ptr(), std::ptr::null()]);
            }
        )*
    };
}

variants! {
    Rsa = Family::Rsa, c"RSA", None, settings::RSA;
    RsaSha256 = Family::Rsa, c"RSA", Some(Digest::Sha256), settings::FIXED;
    RsaSha384 = Family::Rsa, c"RSA", Some(Digest::Sha384), settings::FIXED;
    RsaSha512 = Family::Rsa, c"RSA", Some(Digest::Sha512), settings::FIXED;
    Ecdsa = Family::Ec, c"EC", None, settings::ECDSA;
    EcdsaSha256 = Family::Ec, c"EC", Some(Digest::Sha256), settings::FIXED;
    EcdsaSha384 = Family::Ec, c"EC", Some(Digest::Sha384), settings::FIXED;
    EcdsaSha512 = Family::Ec, c"EC", Some(Digest::Sha512), settings::FIXED;
    Ed25519 = Family::Raw(Raw::Ed25519), c"ED25519", None, settings::ED25519;
    MlDsa65 = Family::Raw(Raw::MlDsa65), c"ML-DSA-65", None, settings::ML_DSA;
}

#[derive(Clone)]
struct Signing {
    variant: &'static Variant,
    settings: Settings,
    message: Message,
    /// It verifies: then settings that affect only signing do not matter.
    verifies: bool,
    signature: Vec<u8>,
}

#[derive(Clone)]
enum Message {
    /// The input comes in the last call: a digest, or a message if the algorithm takes no digest.
    Given,
    Hashed(Hasher),
    /// The pieces so far, for an algorithm without a digest.
    Gathered(Vec<u8>),
    Over,
}

type Context = context::Context<Signing>;

/// Longest message in pieces for an algorithm without a digest, bytes.
const MAX_GATHERED: usize = 16 << 20;

/// The functions of a variant `V`: those of all variants, and these.
macro_rules! functions {
    ($($own:expr,)*) => {
        &[
            entry::newctx(newctx::<V>),
            entry::sign(sign),
            entry::verify(verify),
            entry::freectx(free::<Context>),
            entry::dupctx(dupctx::<Signing>),
            entry::get_ctx_params(get_ctx_params::<Signing>),
            entry::gettable_ctx_params(gettable_ctx_params::<Signing>),
            entry::set_ctx_params(set_ctx_params::<Signing>),
            entry::settable_ctx_params(settable::<V>),
            $($own,)*
            Dispatch::END,
        ]
    };
}

pub(super) struct Signatures<V>(PhantomData<V>);

impl<V: OfVariant> Signatures<V> {
    /// RSA and ECDSA, over a digest that is set.
    pub(super) const OVER_DIGESTS: &'static [Dispatch] = functions![
        entry::sign_init(sign_init),
        entry::verify_init(verify_init),
        entry::verify_recover_init(verify_init),
        entry::verify_recover(verify_recover),
        entry::digest_sign_init(digest_init::<false>),
        entry::digest_sign_update(update),
        entry::digest_sign_final(sign_final),
        entry::digest_sign(digest_sign),
        entry::digest_verify_init(digest_init::<true>),
        entry::digest_verify_update(update),
        entry::digest_verify_final(digest_verify_final),
        entry::digest_verify(digest_verify),
    ];

    /// RSA and ECDSA over the digest of the variant, and whole messages, since OpenSSL 3.4.
    pub(super) const OVER_MESSAGES: &'static [Dispatch] = functions![
        entry::sign_init(sign_init),
        entry::verify_init(verify_init),
        entry::sign_message_init(message_init::<false>),
        entry::sign_message_update(update),
        entry::sign_message_final(sign_final),
        entry::verify_message_init(message_init::<true>),
        entry::verify_message_update(update),
        entry::verify_message_final(verify_message_final),
        entry::query_key_types(query_key_types::<V>),
    ];

    /// Ed25519 and ML-DSA: they take whole messages and no digest. Before OpenSSL 3.4 there is no `sign` without
    /// `sign_init`.
    pub(super) const WITHOUT_DIGEST: &'static [Dispatch] = functions![
        entry::sign_init(no_digest_init),
        entry::verify_init(no_digest_init),
        entry::digest_sign_init(digest_init::<false>),
        entry::digest_sign(sign),
        entry::digest_verify_init(digest_init::<true>),
        entry::digest_verify(verify),
        entry::sign_message_init(message_init::<false>),
        entry::sign_message_update(update),
        entry::sign_message_final(sign_final),
        entry::verify_message_init(message_init::<true>),
        entry::verify_message_update(update),
        entry::verify_message_final(verify_message_final),
        entry::query_key_types(query_key_types::<V>),
    ];
}

extern "C" fn newctx<V: OfVariant>(provider: &Arc<Provider>, _properties: *const c_char) -> Option<Box<Context>> {
    guard(None, || {
        let settings = Settings { digest: V::VARIANT.digest, ..Settings::default() };
        let work =
            Signing { variant: V::VARIANT, settings, message: Message::Over, verifies: false, signature: Vec::new() };
        Some(Box::new(Context { provider: Arc::clone(provider), key: None, work }))
    })
}

extern "C" fn settable<V: OfVariant>(_context: *mut c_void, _provider: *mut c_void) -> *const Param {
    V::VARIANT.settable.as_ptr()
}

extern "C" fn query_key_types<V: OfVariant>() -> *const *const c_char {
    V::KEY_TYPES.0.as_ptr()
}

impl Context {
    /// Begins with a key, or again with the previous one, and with these settings; without a message. OpenSSL lets a
    /// program continue after a failed initialisation. The input after that was never hashed, so it must not be signed
    /// or verified.
    fn begin_with(&mut self, key: Option<Arc<Key>>, params: Params<'_>) -> Result<bool, Failure> {
        self.work.message = Message::Over;
        self.begin(key)?;
        self.set(params)
    }

    fn begin_given(&mut self, key: Option<Arc<Key>>, params: Params<'_>) -> Result<bool, Failure> {
        let begun = self.begin_with(key, params)?;
        self.work.message = Message::Given;
        Ok(begun)
    }

    fn begin_whole(&mut self, key: Option<Arc<Key>>, params: Params<'_>) -> Result<bool, Failure> {
        self.begin_with(key, params)?;
        self.begin_message(None)?;
        if matches!(self.work.message, Message::Given) {
            self.work.message = Message::Gathered(Vec::new());
        }
        Ok(true)
    }

    fn begin_message(&mut self, name: Option<&str>) -> Result<bool, Failure> {
        let name = name.filter(|name| !name.is_empty());
        if !self.work.variant.family.takes_digest() {
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
            Message::Gathered(message) if message.len() + piece.len() <= MAX_GATHERED => message.extend(piece),
            Message::Gathered(_) => {
                return Err(Failure::input(format!("a message of more than {MAX_GATHERED} bytes in pieces")));
            }
            Message::Given => {
                return Err(Failure::unsupported("this algorithm signs whole messages: give it at once"));
            }
            Message::Over => return Err(none_begun()),
        }
        Ok(true)
    }

    /// The bytes to sign: the digest of the message that ends with `rest`, or `rest` itself.
    fn finished<'r>(&mut self, rest: &'r [u8]) -> Result<Cow<'r, [u8]>, Failure> {
        if matches!(self.work.message, Message::Given) {
            return Ok(rest.into());
        }
        match std::mem::replace(&mut self.work.message, Message::Over) {
            Message::Hashed(mut hasher) => {
                hasher.update(rest);
                Ok(hasher.finish().into())
            }
            Message::Gathered(message) if message.is_empty() => Ok(rest.into()),
            Message::Gathered(message) => Ok([&message, rest].concat().into()),
            Message::Given | Message::Over => Err(none_begun()),
        }
    }

    fn sign(&mut self, rest: &[u8]) -> Result<Vec<u8>, Failure> {
        let tbs = self.finished(rest)?;
        let (caller, key) = self.caller()?;
        self.work.settings.sign(caller, key, &tbs)
    }

    fn verify(&mut self, signature: &[u8], rest: &[u8]) -> Result<bool, Failure> {
        let tbs = self.finished(rest)?;
        let (caller, key) = self.caller()?;
        self.work.settings.verify(caller, key, signature, &tbs)
    }

    /// Adds the last piece of a message that may go on. For OpenSSL 3.0, a one-shot signature or verification is one of
    /// the message so far, as if its own code hashed it; later versions permit only one in a context.
    fn so_far(&mut self, piece: &[u8]) -> Result<Message, Failure> {
        self.update(piece)?;
        Ok(self.work.message.clone())
    }

    fn longest(&self) -> Result<usize, Failure> {
        Ok(self.key()?.public.max_len())
    }
}

fn none_begun() -> Failure {
    Failure::input("no message was begun: initialise the operation anew")
}

extern "C" fn sign_init(context: Option<&mut Context>, key: Option<&KeyObject>, params: Params<'_>) -> c_int {
    with(context, c"sign", |context| context.begin_given(key_in(key)?, params))
}

extern "C" fn verify_init(context: Option<&mut Context>, key: Option<&KeyObject>, params: Params<'_>) -> c_int {
    with(context, c"verify", |context| context.begin_given(key_in(key)?, params))
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn sign(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    size: usize,
    tbs: *const u8,
    tbs_len: usize,
) -> c_int {
    with(context, c"sign", |context| {
        // SAFETY: `sig` is null or has `sigsize` bytes, and `tbs` has `tbslen`, by provider-signature(7).
        let (room, tbs) = unsafe { (Output::new(room, len, size), bytes(tbs, tbs_len)) };
        Output::answer(room, context.longest()?, || context.sign(tbs))
    })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn digest_sign(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    size: usize,
    tbs: *const u8,
    tbs_len: usize,
) -> c_int {
    with(context, c"sign", |context| {
        // SAFETY: `sig` is null or has `sigsize` bytes, and `tbs` has `tbslen`, by provider-signature(7).
        let (room, tbs) = unsafe { (Output::new(room, len, size), bytes(tbs, tbs_len)) };
        Output::answer(room, context.longest()?, || {
            let so_far = context.so_far(tbs)?;
            let signed = context.sign(&[]);
            context.work.message = so_far;
            signed
        })
    })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn digest_verify(
    context: Option<&mut Context>,
    signature: *const u8,
    len: usize,
    tbs: *const u8,
    tbs_len: usize,
) -> c_int {
    with(context, c"verify", |context| {
        // SAFETY: `sig` has `siglen` bytes, and `tbs` has `tbslen`, by provider-signature(7).
        let (signature, tbs) = unsafe { (bytes(signature, len), bytes(tbs, tbs_len)) };
        let so_far = context.so_far(tbs)?;
        let verified = context.verify(signature, &[]);
        context.work.message = so_far;
        verified
    })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn verify(
    context: Option<&mut Context>,
    signature: *const u8,
    len: usize,
    tbs: *const u8,
    tbs_len: usize,
) -> c_int {
    // SAFETY: `sig` has `siglen` bytes, and `tbs` has `tbslen`, by provider-signature(7).
    with(context, c"verify", |context| unsafe { context.verify(bytes(signature, len), bytes(tbs, tbs_len)) })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn verify_recover(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    size: usize,
    signature: *const u8,
    signature_len: usize,
) -> c_int {
    with(context, c"verify", |context| {
        // SAFETY: `rout` is null or has `routsize` bytes, and `sig` has `siglen`, by provider-signature(7).
        let (room, signature) = unsafe { (Output::new(room, len, size), bytes(signature, signature_len)) };
        Output::answer(room, context.longest()?, || {
            let (caller, key) = context.caller()?;
            context.work.settings.recover(caller, key, signature)
        })
    })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn digest_init<const VERIFIES: bool>(
    context: Option<&mut Context>,
    name: *const c_char,
    key: Option<&KeyObject>,
    params: Params<'_>,
) -> c_int {
    with(context, c"sign", |context| {
        // SAFETY: not null where it is read, and `mdname` is a C string, by provider-signature(7).
        let name = if name.is_null() { None } else { unsafe { CStr::from_ptr(name) }.to_str().ok() };
        context.work.verifies = VERIFIES;
        context.begin_with(key_in(key)?, params)?;
        context.begin_message(name)
    })
}

extern "C" fn message_init<const VERIFIES: bool>(
    context: Option<&mut Context>,
    key: Option<&KeyObject>,
    params: Params<'_>,
) -> c_int {
    with(context, c"sign", |context| {
        context.work.verifies = VERIFIES;
        context.begin_whole(key_in(key)?, params)
    })
}

extern "C" fn no_digest_init(context: Option<&mut Context>, _key: Option<&KeyObject>, _: Params<'_>) -> c_int {
    with(context, c"sign", |_| {
        Err(Failure::unsupported("Ed25519 and ML-DSA sign messages, not digests: pkeyutl -rawin"))
    })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn update(context: Option<&mut Context>, piece: *const u8, len: usize) -> c_int {
    // SAFETY: `data` has `datalen` bytes, by provider-signature(7).
    with(context, c"sign", |context| context.update(unsafe { bytes(piece, len) }))
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn sign_final(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    size: usize,
) -> c_int {
    // SAFETY: as for `sign`, with nothing left of the message.
    unsafe { sign(context, room, len, size, std::ptr::null(), 0) }
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn digest_verify_final(context: Option<&mut Context>, signature: *const u8, len: usize) -> c_int {
    // SAFETY: as for `verify`, with nothing left of the message.
    unsafe { verify(context, signature, len, std::ptr::null(), 0) }
}

extern "C" fn verify_message_final(context: Option<&mut Context>) -> c_int {
    with(context, c"verify", |context| {
        let signature = std::mem::take(&mut context.work.signature);
        context.verify(&signature, &[])
    })
}
