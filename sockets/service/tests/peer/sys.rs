//! Memory whose pages never come, and the queue of a listening socket.

use rustix::event::{PollFd, PollFlags, poll};
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::thread;

/// Numbers and structures of Linux's `userfaultfd.h`.
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const MISSING: u64 = 1;
const PAGE: usize = 4096;

#[repr(C)]
struct Hello {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

pub(crate) fn listen(socket: RawFd, backlog: c_int) -> io::Result<()> {
    // SAFETY: it reads and writes no memory of this process.
    if unsafe { libc::listen(socket, backlog) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A page whose first access blocks forever.
#[derive(Debug)]
pub(crate) struct Never {
    start: usize,
    faults: OwnedFd,
}

impl Never {
    /// Needs root.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn new() -> io::Result<Self> {
        let check = |code: i64| if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code) };
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping at an address that the kernel picks; the descriptor is new and nobody else's; both
        // structures are plain numbers that live for the calls.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), PAGE, protection, flags, -1, 0);
            let faults = check(libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK))?;
            let faults = OwnedFd::from_raw_fd(faults as c_int);
            let mut hello = Hello { api: 0xaa, features: 0, ioctls: 0 };
            check(libc::ioctl(faults.as_raw_fd(), UFFDIO_API, &raw mut hello).into())?;
            let mut range = Register { start: start as u64, len: PAGE as u64, mode: MISSING, ioctls: 0 };
            check(libc::ioctl(faults.as_raw_fd(), UFFDIO_REGISTER, &raw mut range).into())?;
            Ok(Self { start: start as usize, faults })
        }
    }

    /// Starts a thread that sends the page on that socket. It waits for the page, and has the socket's lock
    /// meanwhile.
    pub(crate) fn send(&self, socket: &OwnedFd) {
        let (socket, start) = (socket.as_raw_fd(), self.start);
        thread::spawn(move || {
            // SAFETY: the kernel only reads the page, which stays mapped, if it ever comes.
            unsafe { libc::send(socket, start as *const c_void, PAGE, 0) }
        });
        let mut set = [PollFd::new(&self.faults, PollFlags::IN)];
        poll(&mut set, None).expect("the thread touches the page");
        assert_eq!(set[0].revents(), PollFlags::IN);
    }
}
