//! Key exchange and key encapsulation: contexts.

use super::abi::{Dispatch, kem, keyexch};
use super::context::{self, Output, dupctx, newctx, with};
use super::object::{KeyObject, key_in};
use super::params::Params;
use super::{bytes, free};
use sidecore_client::face::agree;
use sidecore_client::face::failure::Failure;
use sidecore_client::face::key::Key;
use std::ffi::c_int;
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
    keyexch::freectx(free::<Context>),
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
    kem::freectx(free::<Context>),
    kem::dupctx(dupctx::<Peer>),
    Dispatch::END,
];

extern "C" fn init(context: Option<&mut Context>, key: Option<&KeyObject>, _params: Params<'_>) -> c_int {
    with(context, c"agree", |context| {
        context.key = key_in(key)?;
        context.work = None;
        context.key().map(|_| true)
    })
}

extern "C" fn set_peer(context: Option<&mut Context>, peer: Option<&KeyObject>) -> c_int {
    with(context, c"agree", |context| {
        context.work = key_in(peer)?;
        Ok(context.work.is_some())
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn derive(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    size: usize,
) -> c_int {
    with(context, c"derive", |context| {
        // SAFETY: OpenSSL's room.
        let room = unsafe { Output::new(room, len, size) };
        Output::answer(room, agree::SECRET_LEN, || {
            let peer = context.work.as_ref().ok_or_else(|| Failure::input("no key of the peer: set it first"))?;
            let (caller, key) = context.caller()?;
            agree::derive(caller, key, peer)
        })
    })
}

/// # Safety
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn encapsulate(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    secret_room: *mut u8,
    secret_len: Option<&mut usize>,
) -> c_int {
    with(context, c"encapsulate", |context| {
        // SAFETY: each room has the bytes that its length says.
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
/// For OpenSSL only, which calls it as `openssl/core_dispatch.h` says.
unsafe extern "C" fn decapsulate(
    context: Option<&mut Context>,
    room: *mut u8,
    len: Option<&mut usize>,
    ciphertext: *const u8,
    ciphertext_len: usize,
) -> c_int {
    with(context, c"decapsulate", |context| {
        // SAFETY: OpenSSL's buffers; the room has the bytes that its length says.
        let (room, ciphertext) = unsafe { (sized(room, len), bytes(ciphertext, ciphertext_len)) };
        Output::answer(room, agree::SECRET_LEN, || {
            let (caller, key) = context.caller()?;
            agree::decapsulate(caller, key, ciphertext)
        })
    })
}

/// # Safety
/// `room` is null or has the bytes that `len` says.
unsafe fn sized(room: *mut u8, len: Option<&mut usize>) -> Option<Output<'_>> {
    // Whoever asks for the length only, without room, may have set none.
    let size = len.as_deref().filter(|_| !room.is_null()).copied().unwrap_or(0);
    // SAFETY: see above.
    unsafe { Output::new(room, len, size) }
}
