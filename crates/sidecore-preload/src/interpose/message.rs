//! What a program sends, where it lies in the program's memory.

use libc::{c_void, iovec};
use sidecore_client::shm::span::Span;
use std::ptr::NonNull;

/// The most pieces that the kernel takes.
const MOST: usize = 1024;

/// A message in pieces, with at least one byte.
#[derive(Clone, Copy)]
pub(crate) struct Message<'a> {
    pieces: &'a [iovec],
    len: usize,
}

impl<'a> Message<'a> {
    /// `None`: the kernel is to say what is wrong with it, or it is empty.
    ///
    /// # Safety
    /// The pieces, and the bytes that they name, stay there for `'a`; except that an address may be null.
    #[inline]
    pub(super) unsafe fn new(pieces: *const iovec, count: usize) -> Option<Self> {
        if pieces.is_null() || count > MOST {
            return None;
        }
        // SAFETY: as the caller promised.
        let pieces = unsafe { std::slice::from_raw_parts(pieces, count) };
        let mut len = 0_usize;
        for piece in pieces {
            if piece.iov_base.is_null() && piece.iov_len > 0 {
                return None;
            }
            len = len.checked_add(piece.iov_len).filter(|len| isize::try_from(*len).is_ok())?;
        }
        (len > 0).then_some(Self { pieces, len })
    }

    /// The same of one piece.
    ///
    /// # Safety
    /// As for [`Message::new`].
    #[inline]
    pub(super) unsafe fn of(piece: &'a iovec) -> Option<Self> {
        let is_right = !piece.iov_base.is_null() && piece.iov_len > 0 && isize::try_from(piece.iov_len).is_ok();
        is_right.then_some(Self { pieces: std::slice::from_ref(piece), len: piece.iov_len })
    }

    /// Bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All of it, if it is one piece.
    #[inline]
    pub(crate) fn only(&self) -> Option<Span<'a>> {
        let [piece] = self.pieces else { return None };
        // SAFETY: `new` was promised that the bytes stay there.
        unsafe { span(piece.iov_base, piece.iov_len) }
    }

    /// Its pieces, without its first `skip` bytes.
    #[inline]
    pub(crate) fn spans(&self, mut skip: usize) -> impl Iterator<Item = Span<'a>> {
        self.pieces.iter().filter_map(move |piece| {
            let skipped = skip.min(piece.iov_len);
            skip -= skipped;
            let start = NonNull::new(piece.iov_base.cast::<u8>())?;
            // SAFETY: inside of the piece.
            let start = unsafe { start.add(skipped) };
            // SAFETY: `new` was promised that the bytes stay there; nobody here writes to them.
            Some(unsafe { Span::new(start, piece.iov_len - skipped) })
        })
    }
}

/// One piece.
#[inline]
pub(super) fn piece(buffer: *const c_void, len: usize) -> iovec {
    iovec { iov_base: buffer.cast_mut(), iov_len: len }
}

/// The same as bytes. `None`: there are none, or the kernel is to say what is wrong.
///
/// # Safety
/// They stay there for `'a`, if the address is not null.
#[inline]
pub(super) unsafe fn span<'a>(buffer: *const c_void, len: usize) -> Option<Span<'a>> {
    let start = NonNull::new(buffer.cast_mut().cast::<u8>()).filter(|_| len > 0 && isize::try_from(len).is_ok())?;
    // SAFETY: as the caller promised; nobody here writes to them.
    Some(unsafe { Span::new(start, len) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<'a>(pieces: &[&'a [u8]], keep: &'a mut Vec<iovec>) -> Option<Message<'a>> {
        keep.extend(pieces.iter().map(|bytes| piece(bytes.as_ptr().cast(), bytes.len())));
        // SAFETY: pieces and bytes are borrowed for as long.
        unsafe { Message::new(keep.as_ptr(), keep.len()) }
    }

    #[test]
    fn what_was_sent_is_left_out() {
        let mut keep = Vec::new();
        let message = message(&[b"abc", b"", b"defg"], &mut keep).unwrap();
        let lens = |skip| message.spans(skip).map(|span| span.len()).filter(|len| *len > 0).collect::<Vec<_>>();
        assert_eq!(message.len(), 7);
        assert!(message.only().is_none());
        assert_eq!((lens(0), lens(2), lens(3), lens(6)), (vec![3, 4], vec![1, 4], vec![4], vec![1]));
    }

    #[test]
    fn what_the_kernel_refuses_is_left_to_it() {
        assert!(message(&[b"", b""], &mut Vec::new()).is_none());
        let wrong = [piece(std::ptr::null(), 1), piece([0_u8].as_ptr().cast(), usize::MAX)];
        for piece in wrong {
            // SAFETY: nothing behind the addresses is looked at.
            assert!(unsafe { Message::new(&raw const piece, 1) }.is_none());
        }
        // SAFETY: as above.
        assert!(unsafe { Message::new(std::ptr::null(), 1) }.is_none());
    }
}
