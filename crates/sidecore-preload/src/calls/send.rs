//! A message that a program sends on a connection.

use crate::calls::promote::promote;
use crate::calls::settle::{Settled, left, settle};
use crate::calls::wait::{Patience, may_block};
use crate::interpose::message::Message;
use crate::interpose::slot::{Path, Slot, State};
use crate::interpose::socket;
use libc::c_int;
use rustix::io::Errno;
use sidecore_client::shm::span::Span;
use sidecore_client::sockets::stream::{Drained, Offered, Sent, Stream};
use sidecore_core::streams::rule::{Advice, Rule, Why};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

/// Flags that any ring understands.
const UNDERSTOOD: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// How a call goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// As the program's own call to the kernel.
    Kernel,
    /// The same, with [`Slot::exit`] afterwards.
    Counted,
    /// So many bytes were accepted.
    Accepted(usize),
    /// It fails with this.
    Failed(Errno),
    /// It fails, as nothing can be sent any more.
    Pipe,
    /// So many bytes were accepted; the rest goes to the kernel.
    Rest(usize),
}

impl Next {
    fn of(sent: usize, error: Errno) -> Self {
        match sent {
            // The kernel also raises the signal.
            0 if error == Errno::PIPE => Self::Kernel,
            0 => Self::Failed(error),
            _ => Self::Accepted(sent),
        }
    }
}

/// What became of a message of one piece at first sight. It stays in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AtOnce {
    /// All of it is accepted.
    Sent,
    /// The same, in a ring that nobody empties any more: [`alone`] goes on.
    Alone(&'static Stream),
    /// Nothing was done: [`send`] is to be asked.
    Not,
}

/// A message of one piece through a ring that has room for it, as most are.
#[inline]
pub(crate) fn at_once(fd: RawFd, slot: &'static Slot, piece: Span<'_>, flags: c_int) -> AtOnce {
    let Some((stream, rule)) = slot.ring_for(piece.len()) else { return AtOnce::Not };
    match stream.offer(socket::borrowed(fd), piece, flags & libc::MSG_MORE != 0) {
        Offered::Taken => {
            slot.remember(rule);
            AtOnce::Sent
        }
        Offered::Alone => AtOnce::Alone(stream),
        Offered::Not => AtOnce::Not,
    }
}

/// One that is in a ring that nobody empties any more.
#[cold]
pub(crate) fn alone(
    fd: RawFd,
    slot: &'static Slot,
    message: &Message<'_>,
    flags: c_int,
    stream: &'static Stream,
) -> Next {
    let sent = stream.go_on_alone(socket::borrowed(fd), message.len());
    through(fd, slot, message, flags, Some((stream, sent)))
}

/// One with nothing beside its bytes but these flags.
pub(crate) fn send(fd: RawFd, slot: &'static Slot, message: &Message<'_>, flags: c_int) -> Next {
    match slot.enter() {
        Path::Kernel => Next::Kernel,
        Path::Counted => match count(slot, message) {
            Advice::Promote => first(fd, slot, message, flags),
            _ => Next::Counted,
        },
        Path::Ring(stream) => match count(slot, message) {
            Advice::Demote(why) => {
                match settle(fd, slot, why) {
                    // Of a connection the kernel says it again.
                    Settled::Failed(error) if slot.is_of_datagrams() => Next::of(0, error),
                    _ => through(fd, slot, message, flags, None),
                }
            }
            _ => match into(fd, stream, message, 0, flags) {
                Sent::Taken(taken) if taken == message.len() => Next::Accepted(taken),
                sent => through(fd, slot, message, flags, Some((stream, sent))),
            },
        },
        Path::Leaving(_) => through(fd, slot, message, flags, None),
        Path::Shut => Next::Pipe,
    }
}

/// The first one into a ring, if it is entered.
#[cold]
fn first(fd: RawFd, slot: &'static Slot, message: &Message<'_>, flags: c_int) -> Next {
    promote(fd, slot, message.to()).map_or(Next::Counted, |stream| {
        let sent = into(fd, stream, message, 0, flags);
        through(fd, slot, message, flags, Some((stream, sent)))
    })
}

/// Whether the ring of that socket understands these flags.
#[inline]
pub(crate) fn is_plain(slot: &Slot, flags: c_int) -> bool {
    let other = flags & !UNDERSTOOD;
    other == 0 || other == if slot.is_of_datagrams() { libc::MSG_CONFIRM } else { libc::MSG_MORE }
}

/// Whether `sendmmsg` of datagrams, of which this is the first, on a socket that is not in a ring is made as one call.
pub(crate) fn is_one_call(slot: &Slot, first: &Message<'_>) -> bool {
    count(slot, first) != Advice::Promote
}

/// One with something that only the kernel understands. `call` makes it, and must not block: where the program's own may, it is
/// made by the kernel alone, which takes all of it or says so.
pub(crate) fn direct(
    fd: RawFd,
    slot: &'static Slot,
    flags: c_int,
    call: impl FnOnce() -> Result<usize, Errno>,
) -> Next {
    match slot.path() {
        Path::Ring(stream) | Path::Leaving(stream) if !stream.is_within() && !may_block(fd, flags) => {
            behind_the_ring(fd, stream, call)
        }
        _ => on_the_kernel(fd, slot, flags),
    }
}

/// What is in the ring, and then this call with nothing between.
fn behind_the_ring(fd: RawFd, stream: &Stream, call: impl FnOnce() -> Result<usize, Errno>) -> Next {
    let called = stream.with_kernel(socket::borrowed(fd), || {
        let result = call();
        (result, result.unwrap_or(0))
    });
    match called {
        Ok(Ok(sent)) => Next::Accepted(sent),
        Ok(Err(error)) => Next::Failed(error),
        Err(Drained::Blocked) => Next::Failed(Errno::AGAIN),
        Err(Drained::Failed(error)) => Next::of(0, error),
        Err(Drained::Empty) => Next::Kernel,
    }
}

/// Brings the connection to the kernel's path, and waits for that as the program's own call would. It is counted there, so that
/// nobody promotes it before the call has ended.
pub(crate) fn on_the_kernel(fd: RawFd, slot: &'static Slot, flags: c_int) -> Next {
    let mut patience = Patience::of(fd);
    loop {
        match slot.enter() {
            Path::Kernel => return Next::Kernel,
            Path::Counted => return Next::Counted,
            Path::Shut => return Next::Pipe,
            Path::Ring(_) | Path::Leaving(_) => {}
        }
        match settle(fd, slot, Why::Special) {
            Settled::Kernel => {}
            Settled::Within => return Next::Kernel,
            Settled::Failed(error) => return Next::of(0, error),
            Settled::Blocked if flags & libc::MSG_DONTWAIT != 0 => return Next::Failed(Errno::AGAIN),
            Settled::Blocked => {
                if let Err(error) = patience.wait() {
                    return Next::Failed(error);
                }
            }
        }
    }
}

/// A call that sends in a way of its own, after all that was accepted before. Err: it fails.
pub(crate) fn before(fd: RawFd, slot: &'static Slot, why: Why) -> Result<(), Errno> {
    let mut patience = Patience::of(fd);
    loop {
        match settle(fd, slot, why) {
            // Where nothing can be sent any more the kernel says so itself, and raises the signal.
            Settled::Kernel | Settled::Within | Settled::Failed(Errno::PIPE) => return Ok(()),
            Settled::Failed(error) => return Err(error),
            Settled::Blocked => patience.wait()?,
        }
    }
}

/// The program receives. What the kernel reports for datagrams that were sent before, which it says once.
#[inline]
pub(crate) fn receives(fd: RawFd, slot: &'static Slot) -> Option<Errno> {
    let Advice::Demote(why) = slot.ask(Rule::receives) else { return None };
    match settle(fd, slot, why) {
        Settled::Failed(error) if slot.is_of_datagrams() => Some(error),
        _ => None,
    }
}

#[inline]
fn count(slot: &Slot, message: &Message<'_>) -> Advice {
    if slot.is_of_datagrams() {
        return slot.ask(|rule| rule.sends_datagram(message.len(), message.to().map_or(0, bits)));
    }
    slot.ask(|rule| rule.sends(message.len()))
}

/// A few bits of an address.
fn bits(of: &SocketAddr) -> u16 {
    let ip = match of.ip() {
        IpAddr::V4(ip) => ip.to_bits(),
        IpAddr::V6(ip) => ip.segments().into_iter().fold(0, |bits: u32, part| bits.rotate_left(5) ^ u32::from(part)),
    };
    (ip ^ ip >> 16) as u16 ^ of.port()
}

/// How a call goes on after what the ring said to its message; `None`: it is being left.
#[inline(never)]
fn through(
    fd: RawFd,
    slot: &'static Slot,
    message: &Message<'_>,
    flags: c_int,
    mut said: Option<(&'static Stream, Sent)>,
) -> Next {
    let (mut sent, mut patience) = (0, Patience::of(fd));
    loop {
        match said {
            Some((_, Sent::Taken(taken))) => {
                sent += taken;
                if sent == message.len() {
                    return Next::Accepted(sent);
                }
            }
            Some((_, Sent::Full)) => {}
            Some((stream, Sent::Left)) => {
                left(slot, stream);
                return Next::Rest(sent);
            }
            Some((stream, Sent::Failed(error))) => {
                left(slot, stream);
                return Next::of(sent, error);
            }
            Some((_, Sent::Within)) => {
                // A handler's message goes around the ring, which does not know of it: so the ring is left.
                let _ = slot.change(State::Ring, State::Leaving);
                return if sent == 0 { Next::Kernel } else { Next::Accepted(sent) };
            }
            None => match settle(fd, slot, Why::Special) {
                Settled::Kernel => return Next::Rest(sent),
                Settled::Within => return Next::Kernel,
                Settled::Failed(error) => return Next::of(sent, error),
                Settled::Blocked => {}
            },
        }
        // A part is not the kernel's word that it takes no more, after which alone it says when it does: the rest is tried.
        if !matches!(said, Some((_, Sent::Taken(_)))) {
            if flags & libc::MSG_DONTWAIT != 0 {
                return Next::of(sent, Errno::AGAIN);
            }
            if let Err(error) = patience.wait() {
                return Next::of(sent, error);
            }
        }
        said = match slot.path() {
            Path::Ring(stream) => Some((stream, into(fd, stream, message, sent, flags))),
            Path::Leaving(_) => None,
            Path::Shut if sent == 0 => return Next::Pipe,
            Path::Shut => return Next::Accepted(sent),
            Path::Counted | Path::Kernel => return Next::Rest(sent),
        };
    }
}

fn into(fd: RawFd, stream: &Stream, message: &Message<'_>, skip: usize, flags: c_int) -> Sent {
    if let Some(to) = message.to() {
        return stream.send_to(socket::borrowed(fd), message.spans(skip), message.len() - skip, to);
    }
    let more = flags & libc::MSG_MORE != 0;
    stream.send(socket::borrowed(fd), message.spans(skip), message.len() - skip, more)
}
