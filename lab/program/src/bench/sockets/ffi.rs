//! System calls of the measured program and its peers. They use the C library like other programs do, so a preloaded
//! library intercepts them.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

const MAX_READY: u8 = 255;
const MAX_DATAGRAMS: usize = 64;
const CONTROL_WORDS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) enum Interest {
    Readable,
    /// Room to write appeared; reported once each time.
    WritableEdge,
}

pub(in crate::bench) struct Poll(OwnedFd);

impl Poll {
    pub(in crate::bench) fn new() -> io::Result<Self> {
        // SAFETY: the call takes only a flag.
        let descriptor = done(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just created and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    pub(in crate::bench) fn add(&self, socket: impl AsFd, number: usize, interest: Interest) -> io::Result<()> {
        let events = match interest {
            Interest::Readable => libc::EPOLLIN,
            Interest::WritableEdge => libc::EPOLLOUT | libc::EPOLLET,
        };
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: number as u64 };
        let (own, socket) = (self.0.as_raw_fd(), socket.as_fd().as_raw_fd());
        // SAFETY: both descriptors are open, and the call reads one event.
        done(unsafe { libc::epoll_ctl(own, libc::EPOLL_CTL_ADD, socket, &raw mut event) }).map(drop)
    }

    pub(in crate::bench) fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        let (own, socket) = (self.0.as_raw_fd(), socket.as_fd().as_raw_fd());
        // SAFETY: both descriptors are open; the call reads no event.
        done(unsafe { libc::epoll_ctl(own, libc::EPOLL_CTL_DEL, socket, ptr::null_mut()) }).map(drop)
    }

    pub(in crate::bench) fn wait(&self, ready: &mut Vec<usize>, ms: i32) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_READY as usize];
        // SAFETY: the call writes at most `MAX_READY` events, which is the length of the array.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), i32::from(MAX_READY), ms) };
        let count = done(count).or_else(|error| match error.kind() {
            io::ErrorKind::Interrupted => Ok(0),
            _ => Err(error),
        })?;
        ready.clear();
        ready.extend(events[..count as usize].iter().map(|event| event.u64 as usize));
        Ok(())
    }
}

/// Discards up to `most` bytes of a connection without copying them. Returns their number; 0: the connection has ended.
pub(in crate::bench) fn discard(socket: impl AsFd, most: usize) -> io::Result<usize> {
    let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    // SAFETY: with this flag TCP writes nothing to the address.
    let count = unsafe { libc::recv(socket.as_fd().as_raw_fd(), ptr::null_mut(), most, flags) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

pub(in crate::bench) struct Batch {
    bytes: Vec<u8>,
    /// Bytes of each place: one more than a datagram's size, so that a longer datagram is detected.
    stride: usize,
    lens: [usize; MAX_DATAGRAMS],
}

impl Batch {
    pub(in crate::bench) fn new(size: usize) -> Self {
        Self { bytes: vec![0; (size + 1) * MAX_DATAGRAMS], stride: size + 1, lens: [0; MAX_DATAGRAMS] }
    }

    /// Waits for one datagram up to the socket's time-out, and takes all available ones. Returns their number.
    pub(in crate::bench) fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        let mut pieces: [libc::iovec; MAX_DATAGRAMS] = std::array::from_fn(|place| {
            let bytes = &mut self.bytes[place * self.stride..(place + 1) * self.stride];
            libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
        });
        // SAFETY: all-zero bytes are valid headers without addresses, data and control messages.
        let mut headers: [libc::mmsghdr; MAX_DATAGRAMS] = unsafe { std::mem::zeroed() };
        for (header, piece) in headers.iter_mut().zip(&mut pieces) {
            (header.msg_hdr.msg_iov, header.msg_hdr.msg_iovlen) = (ptr::from_mut(piece), 1);
        }
        let (socket, most) = (socket.as_fd().as_raw_fd(), MAX_DATAGRAMS as u32);
        // SAFETY: headers, pieces and their bytes are writable during the call.
        let count =
            unsafe { libc::recvmmsg(socket, headers.as_mut_ptr(), most, libc::MSG_WAITFORONE, ptr::null_mut()) };
        let count = done(count)? as usize;
        for (len, header) in self.lens.iter_mut().zip(&headers[..count]) {
            *len = header.msg_len as usize;
        }
        Ok(count)
    }

    pub(in crate::bench) fn datagrams(&self, count: usize) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.stride).zip(self.lens).take(count).map(|(bytes, len)| &bytes[..len])
    }
}

/// Sets the socket's receive buffer, bytes by the kernel's accounting. Falls back to the system's limit for this user.
pub(in crate::bench) fn receive_buffer(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    // The kernel doubles the value for its own overhead.
    let value = i32::try_from(bytes / 2).unwrap_or(i32::MAX);
    set(&socket, (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE), value)
        .or_else(|_| set(&socket, (libc::SOL_SOCKET, libc::SO_RCVBUF), value))
}

/// Sets the number of connections that may wait for acceptance, up to the system's limit. The client of a further
/// connection retries after a second.
pub(in crate::bench) fn backlog(listener: impl AsFd, most: i32) -> io::Result<()> {
    // SAFETY: the call takes only numbers. For a listening socket it changes the length of its queue.
    done(unsafe { libc::listen(listener.as_fd().as_raw_fd(), most) }).map(drop)
}

pub(in crate::bench) fn set_cork(socket: impl AsFd, on: bool) -> io::Result<()> {
    set(socket, (libc::IPPROTO_TCP, libc::TCP_CORK), i32::from(on))
}

pub(in crate::bench) fn stamp(socket: impl AsFd) -> io::Result<()> {
    set(socket, (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS), 1)
}

/// Waits for bytes. Returns their number, and the arrival time of the last of them at the socket, in ns of the
/// calendar's clock.
pub(in crate::bench) fn receive_stamped(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero bytes are a valid header without address, data and control messages.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut piece, 1);
    (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
    // SAFETY: header, piece, buffer and control messages are writable during the call.
    let count = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, 0) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel filled in the header; the macro's function reads only its control messages.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const header).as_ref() };
    let stamped =
        first.filter(|first| (first.cmsg_level, first.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS));
    let at = stamped.map(|first| {
        // SAFETY: a message of this kind holds a `timespec`, possibly unaligned.
        let time: libc::timespec =
            unsafe { libc::CMSG_DATA(ptr::from_ref(first)).cast::<libc::timespec>().read_unaligned() };
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
    });
    Ok((count, at))
}

pub(in crate::bench) fn raise_descriptors() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes one limit.
    done(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the call reads one limit.
    done(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(limit.rlim_cur)
}

fn set(socket: impl AsFd, (level, name): (i32, i32), value: i32) -> io::Result<()> {
    let (from, len) = ((&raw const value).cast(), size_of::<i32>() as libc::socklen_t);
    // SAFETY: the call reads one `int`, which lives through the call.
    done(unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, name, from, len) }).map(drop)
}

fn done(answer: i32) -> io::Result<i32> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use std::time::{Duration, SystemTime};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (here, listener.accept().unwrap().0)
    }

    #[test]
    fn what_is_not_copied_is_counted() {
        let (mut here, there) = pair();
        let (poll, mut ready) = (Poll::new().unwrap(), vec![1, 2]);
        poll.add(&there, 7, Interest::Readable).unwrap();
        poll.wait(&mut ready, 0).unwrap();
        assert!(ready.is_empty());
        here.write_all(&[0; 1000]).unwrap();
        poll.wait(&mut ready, 1000).unwrap();
        assert_eq!((ready.clone(), discard(&there, 600).unwrap(), discard(&there, 600).unwrap()), (vec![7], 600, 400));
        assert_eq!(discard(&there, 600).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(here);
        poll.wait(&mut ready, 1000).unwrap();
        assert_eq!(discard(&there, 600).unwrap(), 0);
        poll.remove(&there).unwrap();
        poll.wait(&mut ready, 0).unwrap();
        assert!(ready.is_empty());
    }

    #[test]
    fn a_message_says_when_it_came() {
        let (mut here, there) = pair();
        stamp(&there).unwrap();
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
        // The kernel starts to note times with a delay.
        let stamped = (0..2000).find_map(|_| {
            let before = now();
            here.write_all(b"when").unwrap();
            let (count, at) = receive_stamped(&there, &mut [0; 16]).unwrap();
            assert_eq!(count, 4);
            thread::sleep(Duration::from_millis(1));
            Some((before, at?))
        });
        let (before, at) = stamped.unwrap();
        assert!((before..=now()).contains(&at));
    }
}
