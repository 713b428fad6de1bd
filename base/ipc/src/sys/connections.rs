//! A list of the connections of this process's lanes and programs. A forked child closes all of them, also connections
//! in use by its parent's other threads.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::fstat;
use rustix::io::{DupFlags, dup3};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

const NONE: RawFd = -1;
const TAKEN: RawFd = -2;

/// Sockets that are connections of this process, at most `SLOTS`. A child reads the list without a lock: each slot
/// is consistent at any time.
pub struct Connections<const SLOTS: usize> {
    slots: [Slot; SLOTS],
    /// Slots from here on were never in use.
    end: AtomicUsize,
}

#[derive(Debug)]
struct Slot {
    /// Written last, and cleared first.
    fd: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

impl Slot {
    const fn free() -> Self {
        Self { fd: AtomicI32::new(NONE), device: AtomicU64::new(0), inode: AtomicU64::new(0) }
    }

    fn number(&self) -> Option<(RawFd, bool)> {
        let number = self.fd.load(Ordering::Acquire);
        if number < 0 {
            return None;
        }
        // SAFETY: the number is not closed here, only queried; a number that is not open is an error.
        let found = fstat(unsafe { BorrowedFd::borrow_raw(number) });
        let known = (self.device.load(Ordering::Relaxed), self.inode.load(Ordering::Relaxed));
        Some((number, found.is_ok_and(|found| (found.st_dev, found.st_ino) == known)))
    }
}

/// A listed socket: children drop it. Must be dropped before the socket is closed.
#[derive(Debug)]
pub struct Listed(&'static Slot);

impl<const SLOTS: usize> Connections<SLOTS> {
    /// Without a listed socket.
    pub const fn empty() -> Self {
        Self { slots: [const { Slot::free() }; SLOTS], end: AtomicUsize::new(0) }
    }

    /// Lists the socket, so that children drop it. `None`: there is no free slot, or it is no open descriptor.
    pub fn list(&'static self, socket: BorrowedFd<'_>) -> Option<Listed> {
        let of = fstat(socket).ok()?;
        let is_free = |slot: &Slot| slot.fd.compare_exchange(NONE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let at = self.slots.iter().position(is_free)?;
        let slot = &self.slots[at];
        self.end.fetch_max(at + 1, Ordering::Relaxed);
        slot.device.store(of.st_dev, Ordering::Relaxed);
        slot.inode.store(of.st_ino, Ordering::Relaxed);
        slot.fd.store(socket.as_raw_fd(), Ordering::Release);
        Some(Listed(slot))
    }

    fn used(&self) -> impl Iterator<Item = &Slot> {
        self.slots[..self.end.load(Ordering::Relaxed)].iter()
    }

    /// Listed numbers. A number may refer to another file now.
    pub fn numbers(&self) -> impl Iterator<Item = RawFd> {
        self.used().map(|slot| slot.fd.load(Ordering::Acquire)).filter(|number| *number >= 0)
    }

    /// True if this number is of a listed socket and still refers to it.
    pub fn is(&self, number: RawFd) -> bool {
        // The number first, which takes no system call.
        let has_it = |slot: &&Slot| slot.fd.load(Ordering::Acquire) == number;
        self.used().filter(has_it).any(|slot| slot.number() == Some((number, true)))
    }

    /// In a child: drops the parent's connections. Each number stays in use, for a dead socket, because owners from
    /// the parent's threads may still close it here.
    pub fn let_go(&self) {
        let mut nowhere = None;
        // If the program closed ours and reused the number, its file stays.
        for (number, _) in self.used().filter_map(Slot::number).filter(|(_, is_ours)| *is_ours) {
            if nowhere.is_none() {
                nowhere = eventfd(0, EventfdFlags::CLOEXEC).ok();
            }
            let Some(nowhere) = &nowhere else { return };
            // SAFETY: the parent's connection, see above; the owner of the number in this process still owns it
            // afterwards.
            let mut socket = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
            // Without an entry in the descriptor table there is nothing to replace.
            let _ = dup3(nowhere, &mut socket, DupFlags::CLOEXEC);
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.fd.store(NONE, Ordering::Release);
    }
}
