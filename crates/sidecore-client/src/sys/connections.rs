//! The connections of this process's lanes, so that a forked child can let go of all of them, also of those that threads
//! which are not in the child had in use.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::fstat;
use rustix::io::{DupFlags, dup3};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// One place for each lane that a process may have, and as many for those that are being closed.
const PLACES: usize = 128;
/// Of a free place.
const NONE: RawFd = -1;
/// Of a place that is being filled.
const TAKEN: RawFd = -2;

/// Which sockets are connections of this process. A child reads it without a lock: each place is whole at any time.
pub(crate) struct Connections([Place; PLACES]);

struct Place {
    /// Written last, and cleared first.
    fd: AtomicI32,
    /// What tells the socket from another that has its number later.
    device: AtomicU64,
    inode: AtomicU64,
}

impl Place {
    const fn free() -> Self {
        Self { fd: AtomicI32::new(NONE), device: AtomicU64::new(0), inode: AtomicU64::new(0) }
    }
}

/// A socket that children let go of, until this is dropped: before the socket is closed.
pub(crate) struct Listed(&'static Place);

impl Connections {
    pub(crate) const fn new() -> Self {
        Self([const { Place::free() }; PLACES])
    }

    /// Has children let go of the socket. `None`: there is no place for it, or it is no open descriptor.
    pub(crate) fn list(&'static self, socket: BorrowedFd<'_>) -> Option<Listed> {
        let of = fstat(socket).ok()?;
        let free =
            |place: &&Place| place.fd.compare_exchange(NONE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let place = self.0.iter().find(free)?;
        place.device.store(of.st_dev, Ordering::Relaxed);
        place.inode.store(of.st_ino, Ordering::Relaxed);
        place.fd.store(socket.as_raw_fd(), Ordering::Release);
        Some(Listed(place))
    }

    /// In a child: ends its part in the parent's connections. Each number stays taken, by something that leads nowhere, for
    /// what the parent's threads had in use may still be closed here.
    pub(crate) fn let_go(&self) {
        let held = |place: &&Place| place.fd.load(Ordering::Acquire) >= 0;
        let mut nowhere = None;
        for place in self.0.iter().filter(held) {
            let number = place.fd.load(Ordering::Acquire);
            // SAFETY: not closed here, and only asked what it is; a number that is not open is an error.
            let Ok(found) = fstat(unsafe { BorrowedFd::borrow_raw(number) }) else { continue };
            let known = (place.device.load(Ordering::Relaxed), place.inode.load(Ordering::Relaxed));
            if (found.st_dev, found.st_ino) != known {
                // The program closed ours, and has the number for something else.
                continue;
            }
            if nowhere.is_none() {
                nowhere = eventfd(0, EventfdFlags::CLOEXEC).ok();
            }
            let Some(nowhere) = &nowhere else { return };
            // SAFETY: the parent's connection, see above; whoever owns the number in this process still owns it afterwards.
            let mut socket = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
            // Without a descriptor table entry to replace there is nothing to let go of.
            let _ = dup3(nowhere, &mut socket, DupFlags::CLOEXEC);
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.fd.store(NONE, Ordering::Release);
    }
}
