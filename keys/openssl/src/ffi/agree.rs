//! Contexts of key exchange and key encapsulation.

use super::abi::{Dispatch, kem, keyexch};
use super::context::{self, Output, Settable, dupctx, newctx, with};
use super::context::{get_ctx_params, gettable_ctx_params, nothing_settable, set_ctx_params, settable_ctx_params};
use super::object::{KeyObject, key_in};
use super::params::{Answer, BYTES, BYTES_POINTER, INTEGER, Param, Params, Questions, TEXT, UNSIGNED, params};
use super::{bytes, free};
use crate::kdf::{Kdf, MAX_LEN};
use sidecore_client::keyops::agree;
use sidecore_client::keyops::digest::Digest;
use sidecore_client::keyops::failure::Failure;
use sidecore_client::keyops::key::{Key, Public};
use std::ffi::c_int;
use std::sync::Arc;
use zeroize::Zeroizing;

#[derive(Clone, Default)]
struct Agreement {
    peer: Option<Arc<Key>>,
    kdf: Kdf,
    /// True: the result is derived from the secret. False: it is the secret.
    derives: bool,
    /// True for ECDH, the only one with parameters.
    is_ecdh: bool,
    /// The program set the cofactor mode to 1. All curves here have the cofactor 1, so the secret stays the same.
    with_cofactor: bool,
}

type Context = context::Context<Agreement>;

/// X25519.
pub(super) static EXCHANGE: [Dispatch; 9] = [
    keyexch::newctx(newctx::<Agreement>),
    keyexch::init(init),
    keyexch::derive(derive),
    keyexch::set_peer(set_peer),
    keyexch::freectx(free::<Context>),
    keyexch::dupctx(dupctx::<Agreement>),
    keyexch::set_ctx_params(set_ctx_params::<Agreement>),
    keyexch::settable_ctx_params(nothing_settable),
    Dispatch::END,
];

/// ECDH.
pub(super) static ON_CURVES: [Dispatch; 11] = [
    keyexch::newctx(newctx::<Agreement>),
    keyexch::init(init),
    keyexch::derive(derive),
    keyexch::set_peer(set_peer),
    keyexch::freectx(free::<Context>),
    keyexch::dupctx(dupctx::<Agreement>),
    keyexch::get_ctx_params(get_ctx_params::<Agreement>),
    keyexch::gettable_ctx_params(gettable_ctx_params::<Agreement>),
    keyexch::set_ctx_params(set_ctx_params::<Agreement>),
    keyexch::settable_ctx_params(settable_ctx_params::<Agreement>),
    Dispatch::END,
];

/// ML-KEM-768.
pub(super) static ENCAPSULATION: [Dispatch; 10] = [
    kem::newctx(newctx::<Agreement>),
    kem::encapsulate_init(init),
    kem::encapsulate(encapsulate),
    kem::decapsulate_init(init),
    kem::decapsulate(decapsulate),
    kem::freectx(free::<Context>),
    kem::dupctx(dupctx::<Agreement>),
    kem::set_ctx_params(set_ctx_params::<Agreement>),
    kem::settable_ctx_params(nothing_settable),
    Dispatch::END,
];

impl Settable for Agreement {
    const SETTABLE: &'static [Param] = params! {
        INTEGER: c"ecdh-cofactor-mode";
        TEXT: c"kdf-type", c"kdf-digest", c"kdf-digest-props";
        UNSIGNED: c"kdf-outlen";
        BYTES: c"kdf-ukm";
    };

    const GETTABLE: &'static [Param] = params! {
        INTEGER: c"ecdh-cofactor-mode";
        TEXT: c"kdf-type", c"kdf-digest";
        UNSIGNED: c"kdf-outlen";
        BYTES_POINTER: c"kdf-ukm";
    };

    fn settable(&self) -> &'static [Param] {
        if self.is_ecdh {
            Self::SETTABLE
        } else {
            params! {}
        }
    }

    fn set(&mut self, params: Params<'_>) -> Result<bool, Failure> {
        if let Some(mode) = params.integer(c"ecdh-cofactor-mode") {
            if !(-1..=1).contains(&mode) {
                return Err(Failure::input("this cofactor mode: use -1, 0 or 1"));
            }
            self.with_cofactor = mode == 1;
        }
        if let Some(name) = params.text(c"kdf-digest") {
            let digest = Digest::from_name(name)
                .ok_or_else(|| Failure::unsupported(format!("the digest {name}: use SHA-1, SHA-2 or SHA-3")))?;
            self.kdf.digest = Some(digest);
        }
        if let Some(len) = params.integer(c"kdf-outlen") {
            let fits = usize::try_from(len).ok().filter(|len| *len <= MAX_LEN);
            self.kdf.len = fits.ok_or_else(|| Failure::input(format!("a key of {len} bytes: use up to {MAX_LEN}")))?;
        }
        if let Some(shared) = params.bytes(c"kdf-ukm") {
            if shared.len() > MAX_LEN {
                return Err(Failure::input(format!("keying material of {} bytes: use up to {MAX_LEN}", shared.len())));
            }
            self.kdf.shared = shared.to_vec();
        }
        if params.text(c"kdf-digest-props").is_some_and(|properties| !properties.is_empty()) {
            return Err(Failure::unsupported("digests with properties: leave them out"));
        }
        match params.text(c"kdf-type") {
            None => {}
            Some("") => self.derives = false,
            Some(name) if name.eq_ignore_ascii_case("X963KDF") => self.derives = true,
            Some(name) => return Err(Failure::unsupported(format!("the key derivation {name}: use X963KDF"))),
        }
        Ok(true)
    }

    fn answer(context: &Context, questions: &mut Questions<'_>) -> Result<bool, Failure> {
        let Agreement { kdf, derives, with_cofactor, .. } = &context.work;
        Ok(questions.answer([
            (c"ecdh-cofactor-mode", Answer::Integer(i32::from(*with_cofactor))),
            (c"kdf-type", Answer::Text(if *derives { c"X963KDF" } else { c"" })),
            (c"kdf-digest", Answer::Text(kdf.digest.map_or(c"", Digest::name))),
            (c"kdf-outlen", Answer::Length(kdf.len)),
            (c"kdf-ukm", Answer::BytesPointer(&kdf.shared)),
        ]))
    }
}

impl Context {
    fn secret(&self) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let peer = self.work.peer.as_ref().ok_or_else(|| Failure::input("no key of the peer: set it first"))?;
        let (caller, key) = self.caller()?;
        let secret = agree::derive(caller, key, peer)?;
        if self.work.derives { self.work.kdf.derive(&secret) } else { Ok(secret) }
    }
}

extern "C" fn init(context: Option<&mut Context>, key: Option<&KeyObject>, params: Params<'_>) -> c_int {
    with(context, c"agree", |context| {
        context.key = key_in(key)?;
        let is_ecdh = context.key.as_ref().is_some_and(|key| matches!(key.public, Public::Ec { .. }));
        context.work = Agreement { is_ecdh, ..Agreement::default() };
        context.set(params)?;
        context.key().map(|_| true)
    })
}

extern "C" fn set_peer(context: Option<&mut Context>, peer: Option<&KeyObject>) -> c_int {
    with(context, c"agree", |context| {
        context.work.peer = None;
        let Some(peer) = key_in(peer)? else { return Ok(false) };
        agree::check_peer(context.key()?, &peer)?;
        context.work.peer = Some(peer);
        Ok(true)
    })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn derive(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    size: usize,
) -> c_int {
    with(context, c"derive", |context| {
        // SAFETY: `secret` is null or has `outlen` bytes, by provider-keyexch(7).
        let room = unsafe { Output::new(room, len, size) };
        let Agreement { kdf, derives, .. } = &context.work;
        let longest = if *derives { kdf.len } else { agree::secret_len(context.key()?) };
        Output::answer(room, longest, || context.secret())
    })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn encapsulate(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    secret_room: *mut u8,
    secret_len: Option<&mut usize>,
) -> c_int {
    with(context, c"encapsulate", |context| {
        // SAFETY: `out` is null or has `*outlen` bytes, `secret` is null or has `*secretlen`, by provider-kem(7).
        let output = unsafe { (sized(room, len), sized(secret_room, secret_len)) };
        let (Some(mut output), Some(mut secret)) = output else { return Ok(false) };
        let only_lengths = output.only_length(agree::CIPHERTEXT_LEN) | secret.only_length(agree::SECRET_LEN);
        if only_lengths {
            return Ok(true);
        }
        let (caller, key) = context.caller()?;
        let both = agree::encapsulate(caller, key)?;
        let (ciphertext, shared) = both.split_at(agree::CIPHERTEXT_LEN);
        Ok(output.put(ciphertext)? && secret.put(shared)?)
    })
}

/// # Safety
/// Only OpenSSL may call it, with arguments by `openssl/core_dispatch.h`.
unsafe extern "C" fn decapsulate(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    ciphertext: *const u8,
    ciphertext_len: usize,
) -> c_int {
    with(context, c"decapsulate", |context| {
        // SAFETY: `out` is null or has `*outlen` bytes, and `in` has `inlen`, by provider-kem(7).
        let (room, ciphertext) = unsafe { (sized(room, len), bytes(ciphertext, ciphertext_len)) };
        Output::answer(room, agree::SECRET_LEN, || {
            let (caller, key) = context.caller()?;
            agree::decapsulate(caller, key, ciphertext)
        })
    })
}

/// # Safety
/// `room` is null or has `len` bytes.
unsafe fn sized(room: *mut u8, len: Option<&mut usize>) -> Option<Output<'_>> {
    // A caller that asks only for the length, without a buffer, may leave `len` unset.
    let size = len.as_deref().filter(|_| !room.is_null()).copied().unwrap_or(0);
    // SAFETY: null, or by this function's contract of the `len` bytes that are `size` here.
    unsafe { Output::new(room, len, size) }
}
