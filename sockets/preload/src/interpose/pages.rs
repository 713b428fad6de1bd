//! Memory without the allocator: for signal handlers, and for children in their parent's memory.
//!
//! The pieces of a vfork child stay in its parent's memory, and the parent takes them back.

use libc::{c_char, pid_t};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

const MAX_PIECES: usize = 1024;
const MIN_PIECE_BYTES: usize = 4096;

/// Head of the list of all pieces. None is ever removed.
static FIRST: AtomicPtr<Piece> = AtomicPtr::new(ptr::null_mut());

struct Piece {
    next: *mut Piece,
    bytes: usize,
    /// The process that uses it, or 0.
    owner: AtomicI32,
}

pub(super) struct Pages(NonNull<Piece>);

impl Pages {
    /// A piece of at least `bytes` bytes. `None`: no memory is left.
    pub(super) fn take(bytes: usize) -> Option<Self> {
        let bytes = bytes.checked_add(size_of::<Piece>())?.checked_next_power_of_two()?.max(MIN_PIECE_BYTES);
        let own = rustix::process::getpid().as_raw_pid();
        let free = |piece: &&Piece| {
            let owner = &piece.owner;
            piece.bytes >= bytes && owner.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        if let Some(piece) = all().find(free) {
            return Some(Self(NonNull::from(piece)));
        }
        if all().count() >= MAX_PIECES { None } else { Self::map(bytes, own) }
    }

    fn map(bytes: usize, owner: pid_t) -> Option<Self> {
        // SAFETY: memory of its own, at an address that the kernel chooses.
        let mapped =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let piece = NonNull::new(mapped.ok()?.cast::<Piece>())?;
        let mut next = FIRST.load(Ordering::Acquire);
        loop {
            // SAFETY: a page is large enough, and no other thread has its address yet.
            unsafe { piece.write(Piece { next, bytes, owner: AtomicI32::new(owner) }) };
            match FIRST.compare_exchange_weak(next, piece.as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(Self(piece)),
                Err(first) => next = first,
            }
        }
    }

    pub(super) fn start(&self) -> *mut *const c_char {
        // SAFETY: each piece has bytes after its header.
        unsafe { self.0.add(1).as_ptr().cast() }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: no piece is ever unmapped.
        unsafe { self.0.as_ref() }.owner.store(0, Ordering::Release);
    }
}

/// Takes back the pieces of a child that has left this memory.
pub(super) fn left_by(child: pid_t) {
    for piece in all().filter(|_| child > 0) {
        let _ = piece.owner.compare_exchange(child, 0, Ordering::Release, Ordering::Relaxed);
    }
}

fn all() -> impl Iterator<Item = &'static Piece> {
    // SAFETY: as in `drop`; `next` was written before the piece became visible.
    let follow = |piece: *mut Piece| unsafe { piece.as_ref() };
    std::iter::successors(follow(FIRST.load(Ordering::Acquire)), move |piece| follow(piece.next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_used_again_and_so_is_what_a_child_left() {
        const CHILD: pid_t = 4_000_000;
        let one = Pages::take(10_000).unwrap();
        // SAFETY: the piece was taken with this number of bytes.
        unsafe { one.start().cast::<u8>().write_bytes(7, 10_000) };
        let (first, second) = (one.start(), Pages::take(10_000).unwrap().start());
        assert!(first != second && first.is_aligned());
        // SAFETY: as in `drop`.
        unsafe { one.0.as_ref() }.owner.store(CHILD, Ordering::Relaxed);
        std::mem::forget(one);
        assert_eq!(Pages::take(10_000).unwrap().start(), second);
        left_by(0);
        left_by(CHILD);
        let both = [Pages::take(10_000).unwrap(), Pages::take(10_000).unwrap()];
        assert!(both.iter().any(|pages| pages.start() == first));
        assert!(Pages::take(usize::MAX).is_none());
    }
}
