//! Key exchange and key encapsulation: contexts.

use super::abi::{Dispatch, Param, kem, keyexch};
use super::bytes;
use super::context::{self, dupctx, freectx, newctx, with};
use super::object::key_in;
use super::output::Output;
use sidecore_client::face::agree;
use sidecore_client::face::failure::Failure;
use sidecore_client::face::key::Key;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// The key of the peer, once it is known.
type Peer = Option<Arc<Key>>;
type Context = context::Context<Peer>;

/// X25519.
pub(super) static EXCHANGE: [Dispatch; 7] = [
    keyexch::newctx(newctx::<Peer>),
    keyexch::init(init),
    keyexch::derive(derive),
    keyexch::set_peer(set_peer),
    keyexch::freectx(freectx::<Peer>),
    keyexch::dupctx(dupctx::<Peer>),
    Dispatch::END,
];

/// ML-KEM-768.
pub(super) static ENCAPSULATION: [Dispatch; 8] = [
    kem::newctx(newctx::<Peer>),
    kem::encapsulate_init(init),
    kem::encapsulate(encapsulate),
    kem::decapsulate_init(init),
    kem::decapsulate(decapsulate),
    kem::freectx(freectx::<Peer>),
    kem::dupctx(dupctx::<Peer>),
    Dispatch::END,
];

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn init(context: *mut c_void, key: *mut c_void, _params: *const Param) -> c_int {
    // SAFETY: OpenSSL's context and key.
    unsafe {
        with(context, c"agree", |context: &mut Context| {
            context.key = key_in(key);
            context.work = None;
            context.key().map(|_| true)
        })
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn set_peer(context: *mut c_void, peer: *mut c_void) -> c_int {
    // SAFETY: OpenSSL's context and key.
    unsafe {
        with(context, c"agree", |context: &mut Context| {
            context.work = key_in(peer);
            Ok(context.work.is_some())
        })
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn derive(context: *mut c_void, room: *mut u8, len: *mut usize, size: usize) -> c_int {
    // SAFETY: OpenSSL's context and room.
    unsafe {
        with(context, c"derive", |context: &mut Context| {
            Output::answer((room, len, size), agree::SECRET_LEN, || {
                let peer = context.work.as_ref().ok_or_else(|| Failure::input("no key of the peer: set it first"))?;
                let (caller, key) = context.caller()?;
                agree::derive(caller, key, peer)
            })
        })
    }
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn encapsulate(
    context: *mut c_void,
    room: *mut u8,
    len: *mut usize,
    secret_room: *mut u8,
    secret_len: *mut usize,
) -> c_int {
    // SAFETY: OpenSSL's context; each room has the bytes that its length says.
    unsafe {
        with(context, c"encapsulate", |context: &mut Context| {
            let size = |len: *mut usize| len.as_ref().copied().unwrap_or(0);
            let output = (Output::new(room, len, size(len)), Output::new(secret_room, secret_len, size(secret_len)));
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
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn decapsulate(
    context: *mut c_void,
    room: *mut u8,
    len: *mut usize,
    ciphertext: *const u8,
    ciphertext_len: usize,
) -> c_int {
    // SAFETY: OpenSSL's context and buffers; the room has the bytes that its length says.
    unsafe {
        with(context, c"decapsulate", |context: &mut Context| {
            let size = len.as_ref().copied().unwrap_or(0);
            Output::answer((room, len, size), agree::SECRET_LEN, || {
                let (caller, key) = context.caller()?;
                agree::decapsulate(caller, key, bytes(ciphertext, ciphertext_len))
            })
        })
    }
}
