//! A lane attached by hand, with everything that a hostile client can reach.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};
use sidecore::control::{Attach, Reply, Request, decode, encode};
use sidecore::core::layout::{ABI, Layout};
use sidecore::core::ring::Message;
use sidecore::engine::crypto::SessionSpec;
use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a slot; the last is its sequence number.
const SLOT: usize = 8;
/// Longest wait for an answer: far longer than usual, so that a hang is found.
const TIMEOUT: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// A connection without any checks.
pub(crate) struct Control(pub(crate) OwnedFd);

impl Control {
    pub(crate) fn connect(path: &str) -> io::Result<Self> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self(socket))
    }

    pub(crate) fn send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)), "up to 16 descriptors");
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags)?;
        Ok(())
    }

    pub(crate) fn send(&self, request: &Request) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        let packet = encode(request, &mut buffer).map_err(io::Error::other)?;
        self.send_bytes(packet, &[])
    }

    pub(crate) fn receive(&self) -> io::Result<(Reply, Vec<OwnedFd>)> {
        assert!(self.wait(&TIMEOUT), "the service does not answer");
        let mut buffer = [0; 16 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(&self.0, &mut [IoSliceMut::new(&mut buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds.collect::<Vec<_>>()),
            _ => None,
        });
        let fds = rights.flatten().collect();
        Ok((decode(&buffer[..got.bytes]).map_err(io::Error::other)?, fds))
    }

    pub(crate) fn ask(&self, request: &Request) -> io::Result<(Reply, Vec<OwnedFd>)> {
        self.send(request)?;
        self.receive()
    }

    pub(crate) fn ready(&self) -> bool {
        self.wait(&Timespec { tv_sec: 0, tv_nsec: 0 })
    }

    fn wait(&self, timeout: &Timespec) -> bool {
        poll(&mut [PollFd::new(&self.0, PollFlags::IN | PollFlags::RDHUP)], Some(timeout)).is_ok_and(|ready| ready > 0)
    }
}

pub(crate) fn attach_request(slots: u32, arena_bytes: u32) -> Request {
    Request::Attach(Attach {
        abi: ABI,
        slots,
        arena_bytes,
        name: "\x1b[2Jhostile\0".to_owned(),
        adopt: None,
        reclaimable: false,
    })
}

pub(crate) struct RawLane {
    pub(crate) control: Control,
    pub(crate) layout: Layout,
    start: NonNull<AtomicU64>,
    pub(crate) pushed: Cell<u64>,
}

impl RawLane {
    /// A lane, and the descriptors that came with it: memory, doorbell, wake-up pipe, the doorbell's other end.
    pub(crate) fn attach(path: &str, slots: u32, arena_bytes: u32) -> io::Result<(Self, Vec<OwnedFd>)> {
        let control = Control::connect(path)?;
        let (reply, fds) = control.ask(&attach_request(slots, arena_bytes))?;
        let Reply::Attached { .. } = reply else { return Err(io::Error::other(format!("{reply:?}"))) };
        let layout = Layout::new(slots, arena_bytes).expect("a lane of that shape was given");
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping overlaps nothing; it is reached as atomics only and unmapped with the lane.
        let start = unsafe {
            mmap(std::ptr::null_mut(), layout.total_bytes(), protection, MapFlags::SHARED, fds[0].as_fd(), 0)?
        };
        let start = NonNull::new(start.cast()).expect("an address");
        Ok((Self { control, layout, start, pushed: Cell::new(0) }, fds))
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped for the life of `self`, page-aligned; any bytes are valid atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.total_bytes() / 8) }
    }

    pub(crate) fn slot(&self, number: u64) -> &[AtomicU64] {
        let line = self.layout.submission().start + (number % u64::from(self.layout.slots())) as usize;
        &self.words()[line * SLOT..][..SLOT]
    }

    pub(crate) fn push(&self, message: &Message) {
        for (word, value) in self.slot(self.pushed.get()).iter().zip(message) {
            word.store(*value, Ordering::Relaxed);
        }
        self.publish();
    }

    pub(crate) fn publish(&self) {
        let number = self.pushed.get();
        self.slot(number)[SLOT - 1].store(number + 1, Ordering::Release);
        self.pushed.set(number + 1);
    }

    pub(crate) fn answered(&self, number: u64) -> bool {
        let line = self.layout.completion().start + (number % u64::from(self.layout.slots())) as usize;
        self.words()[line * SLOT + SLOT - 1].load(Ordering::Acquire) == number + 1
    }

    pub(crate) fn open_session(&self, spec: SessionSpec) -> io::Result<u32> {
        match self.control.ask(&Request::OpenSession(spec))?.0 {
            Reply::Session { handle } => Ok(handle),
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }
}

impl Drop for RawLane {
    fn drop(&mut self) {
        // SAFETY: mapped by `attach`; every borrow of it ended with `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.layout.total_bytes()) };
    }
}
