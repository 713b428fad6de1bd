//! Digests and ciphers.

use super::{API, Context, Error, Owned, done, name_of, text};
use std::ffi::{c_int, c_void};
use std::ptr;

/// A digest of a message.
pub(crate) struct Digest {
    context: Owned,
    _method: Owned,
}

impl Digest {
    /// Begins, with an implementation that has these properties.
    pub(crate) fn new(context: &Context, name: &str, properties: &str) -> Result<Self, Error> {
        let (name, properties) = (text(name), text(properties));
        // SAFETY: the context lives, the texts are C strings.
        let method = unsafe { (API.digest_fetch)(context.0.object, name.as_ptr(), properties.as_ptr()) };
        let method = Owned::new(method, API.digest_free)?;
        // SAFETY: asks nothing of its caller.
        let context = Owned::new(unsafe { (API.digest_context)() }, API.digest_context_free)?;
        // SAFETY: both live.
        done(unsafe { (API.digest_init)(context.object, method.object, ptr::null()) })?;
        Ok(Self { context, _method: method })
    }

    pub(crate) fn update(&self, piece: &[u8]) -> Result<(), Error> {
        // SAFETY: the context lives, the bytes are there.
        done(unsafe { (API.digest_update)(self.context.object, piece.as_ptr().cast(), piece.len()) })
    }

    pub(crate) fn finish(&self) -> Result<Vec<u8>, Error> {
        let (mut room, mut len) = ([0; 64], 0);
        // SAFETY: no digest is longer than 64 bytes.
        done(unsafe { (API.digest_final)(self.context.object, room.as_mut_ptr(), &raw mut len) })?;
        Ok(room[..len as usize].to_vec())
    }

    /// What a copy of it gives.
    pub(crate) fn finish_copy(&self) -> Result<Vec<u8>, Error> {
        // SAFETY: asks nothing of its caller.
        let context = Owned::new(unsafe { (API.digest_context)() }, API.digest_context_free)?;
        // SAFETY: both live.
        done(unsafe { (API.digest_copy)(context.object, self.context.object) })?;
        let (mut room, mut len) = ([0; 64], 0);
        // SAFETY: no digest is longer than 64 bytes.
        done(unsafe { (API.digest_final)(context.object, room.as_mut_ptr(), &raw mut len) })?;
        Ok(room[..len as usize].to_vec())
    }
}

/// The provider whose digest (or else cipher) a program gets that asks with these properties; none without.
pub(crate) fn fetched_from(context: &Context, name: &str, properties: Option<&str>, cipher: bool) -> Option<String> {
    let (name, properties) = (text(name), properties.map(text));
    let properties = properties.as_ref().map_or(ptr::null(), |properties| properties.as_ptr());
    let (fetch, free, provider) = if cipher {
        (API.cipher_fetch, API.cipher_free, API.cipher_provider)
    } else {
        (API.digest_fetch, API.digest_free, API.digest_provider)
    };
    // SAFETY: the context lives, the texts are C strings.
    let method = Owned::new(unsafe { fetch(context.0.object, name.as_ptr(), properties) }, free).ok()?;
    // SAFETY: the method lives, and its provider as long.
    unsafe { name_of(provider(method.object)) }
}

const SET_IV_LEN: c_int = 0x9;
const GET_TAG: c_int = 0x10;
const SET_TAG: c_int = 0x11;

/// A cipher at work.
pub(crate) struct Cipher {
    context: Owned,
    method: Owned,
}

impl Cipher {
    /// An implementation that has these properties, without key.
    pub(crate) fn new(context: &Context, name: &str, properties: &str, encrypts: bool) -> Result<Self, Error> {
        let (name, properties) = (text(name), text(properties));
        // SAFETY: the context lives, the texts are C strings.
        let method = unsafe { (API.cipher_fetch)(context.0.object, name.as_ptr(), properties.as_ptr()) };
        let method = Owned::new(method, API.cipher_free)?;
        // SAFETY: asks nothing of its caller.
        let context = Owned::new(unsafe { (API.cipher_context)() }, API.cipher_context_free)?;
        let direction = c_int::from(encrypts);
        // SAFETY: both live; no key yet.
        let begun = unsafe {
            (API.cipher_init)(context.object, method.object, ptr::null(), ptr::null(), direction, ptr::null())
        };
        done(begun)?;
        Ok(Self { context, method })
    }

    /// Sets the key, the initialisation vector, or both.
    pub(crate) fn start(&self, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), Error> {
        let at = |bytes: Option<&[u8]>| bytes.map_or(ptr::null(), <[u8]>::as_ptr);
        // SAFETY: key and vector have the lengths that the cipher has, as the caller saw to; -1 keeps the direction.
        done(unsafe { (API.cipher_init)(self.context.object, ptr::null_mut(), at(key), at(iv), -1, ptr::null()) })
    }

    pub(crate) fn iv_len(&self) -> usize {
        // SAFETY: the context lives.
        unsafe { (API.cipher_iv_len)(self.context.object) as usize }
    }

    pub(crate) fn set_iv_len(&self, len: usize) -> Result<(), Error> {
        // SAFETY: as above; no data.
        done(unsafe { (API.cipher_control)(self.context.object, SET_IV_LEN, int(len), ptr::null_mut()) })
    }

    pub(crate) fn set_tag(&self, tag: &[u8]) -> Result<(), Error> {
        let data = tag.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: the tag is only read.
        done(unsafe { (API.cipher_control)(self.context.object, SET_TAG, int(tag.len()), data) })
    }

    pub(crate) fn tag(&self, len: usize) -> Result<Vec<u8>, Error> {
        let mut tag = vec![0; len];
        // SAFETY: the room is there.
        done(unsafe { (API.cipher_control)(self.context.object, GET_TAG, int(len), tag.as_mut_ptr().cast()) })?;
        Ok(tag)
    }

    pub(crate) fn set_padding(&self, padded: bool) -> Result<(), Error> {
        // SAFETY: the context lives.
        done(unsafe { (API.cipher_padding)(self.context.object, c_int::from(padded)) })
    }

    /// The vector as the next block would use it.
    pub(crate) fn next_iv(&self) -> Result<Vec<u8>, Error> {
        let mut room = vec![0; 128];
        // SAFETY: the room is there.
        done(unsafe { (API.cipher_updated_iv)(self.context.object, room.as_mut_ptr().cast(), room.len()) })?;
        room.truncate(self.iv_len());
        Ok(room)
    }

    /// Another one in the same state.
    pub(crate) fn copy(&self) -> Result<Self, Error> {
        // SAFETY: asks nothing of its caller.
        let context = Owned::new(unsafe { (API.cipher_context)() }, API.cipher_context_free)?;
        // SAFETY: both live; the copy owns a reference of the method.
        done(unsafe { (API.cipher_copy)(context.object, self.context.object) })?;
        let method = Owned { object: self.method.object, free: nothing };
        Ok(Self { context, method })
    }

    /// Associated data.
    pub(crate) fn associate(&self, data: &[u8]) -> Result<(), Error> {
        let mut len = 0;
        // SAFETY: without room the data is associated; the bytes are there.
        done(unsafe {
            (API.cipher_update)(self.context.object, ptr::null_mut(), &raw mut len, data.as_ptr(), int(data.len()))
        })
    }

    pub(crate) fn update(&self, data: &[u8]) -> Result<Vec<u8>, Error> {
        let mut room = vec![0; data.len() + 32];
        let mut len = 0;
        let (at, size) = (data.as_ptr(), int(data.len()));
        // SAFETY: a block more than the data is the most that is written.
        done(unsafe { (API.cipher_update)(self.context.object, room.as_mut_ptr(), &raw mut len, at, size) })?;
        room.truncate(len as usize);
        Ok(room)
    }

    pub(crate) fn finish(&self) -> Result<Vec<u8>, Error> {
        let (mut room, mut len) = ([0; 32], 0);
        // SAFETY: a block is the most that is written.
        done(unsafe { (API.cipher_final)(self.context.object, room.as_mut_ptr(), &raw mut len) })?;
        Ok(room[..len as usize].to_vec())
    }
}

fn int(len: usize) -> c_int {
    c_int::try_from(len).expect("vectors are short")
}

/// # Safety
/// For whoever borrows.
unsafe extern "C" fn nothing(_: super::Object) {}
