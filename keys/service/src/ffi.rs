//! AWS-LC's C interface behind safe, thin wrappers: no other module calls it.
//!
//! A wrapper owns its allocation and frees it on drop. No wrapper keeps a pointer from its caller. Payload arrives as
//! [`Source`] and goes to a [`Span`], so one call serves private memory and memory that a client may change
//! meanwhile. Only routines whose control flow does not depend on the bytes are called on the latter.

pub(crate) mod aead;
pub(crate) mod aes;
pub(crate) mod cipher;
mod context;
mod derived;
pub(crate) mod hash;
pub(crate) mod hpke;
pub(crate) mod keyfile;
pub(crate) mod operation;
pub(crate) mod padding;
pub(crate) mod pkey;
mod rsa;

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::shm::span::Span;

#[derive(Clone, Copy)]
pub(crate) enum Direction {
    Decrypt = 0,
    Encrypt = 1,
}

#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    ptr: *const u8,
    len: usize,
    _memory: PhantomData<&'a [u8]>,
}

impl Source<'_> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn copy_to(&self, offset: usize, private: &mut [u8]) {
        assert!(offset <= self.len && private.len() <= self.len - offset);
        // SAFETY: the range was just checked; `private` is exclusive and so cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr.add(offset), private.as_mut_ptr(), private.len()) };
    }
}

#[inline]
fn room_for(output: Span<'_>, len: usize) -> *mut u8 {
    assert!(len <= output.len());
    output.as_mut_ptr()
}

impl<'a> From<&'a [u8]> for Source<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self { ptr: bytes.as_ptr(), len: bytes.len(), _memory: PhantomData }
    }
}

impl<'a> From<Span<'a>> for Source<'a> {
    #[inline]
    fn from(span: Span<'a>) -> Self {
        Self { ptr: span.as_ptr(), len: span.len(), _memory: PhantomData }
    }
}

/// Overwrites secrets, in a way that is not optimised away.
#[inline]
pub(crate) fn wipe(bytes: &mut [u8]) {
    // SAFETY: the bytes are exclusive and writable for their length.
    unsafe { aws_lc_sys::OPENSSL_cleanse(bytes.as_mut_ptr().cast(), bytes.len()) };
}

/// Empties this thread's error queue, so that a refused request leaves nothing behind for the next.
#[cold]
fn clear_errors() {
    // SAFETY: it touches only the library's own thread-local queue.
    unsafe { aws_lc_sys::ERR_clear_error() };
}

/// An object of a library call, for the caller to own; `None` for null, and then the error queue is emptied.
#[inline]
fn owned<T>(made: *mut T) -> Option<NonNull<T>> {
    if made.is_null() {
        clear_errors();
    }
    NonNull::new(made)
}

/// Whether a library call returned 1, its code for success; otherwise the error queue is emptied.
#[inline]
fn succeeded(code: c_int) -> bool {
    if code != 1 {
        clear_errors();
    }
    code == 1
}
