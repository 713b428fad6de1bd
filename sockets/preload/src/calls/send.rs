//! Sending a message on a connection.

use crate::calls::promote::promote;
use crate::calls::settle::{Settled, left, settle, settle_by};
use crate::calls::wait::{Awaited, RoomWait, may_block, would_block};
use crate::gate::{Gate, InRing, Path};
use crate::interpose::message::Message;
use libc::c_int;
use rustix::io::Errno;
use sidecore_ipc::shm::span::Span;
use sidecore_sockets::stream::{Drained, Offered, Sent};
use sidecore_sockets::sys::tcp;
use sidecore_streams::rule::{Advice, PathReason, Rule};
use std::net::{IpAddr, SocketAddr};

const UNDERSTOOD: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Kernel,
    /// The kernel, followed by [`Gate::exit`].
    Counted,
    Accepted(usize),
    Failed(Errno),
    Pipe,
    /// This number of bytes was accepted; the rest goes to the kernel.
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

    /// The socket was closed during the call. The next socket with its number must get nothing of this message.
    fn gone(sent: usize) -> Self {
        Self::of(sent, Errno::BADF)
    }
}

/// Result of offering a message of one piece to a ring. It stays in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AtOnce {
    Sent,
    /// All of it is accepted, in a ring that no service empties: continue with [`alone`].
    Alone(InRing),
    Not,
}

/// Sends a message of one piece through a ring with room for it, the usual case.
#[inline]
pub(crate) fn at_once(gate: Gate, piece: Span<'_>, flags: c_int) -> AtOnce {
    // For datagrams the rule has further conditions.
    let Some(ring) = gate.ring_of_bytes() else { return AtOnce::Not };
    let Some(rule) = gate.slot().after(piece.len()) else { return AtOnce::Not };
    match ring.stream.offer(ring.key, piece, flags & libc::MSG_MORE != 0) {
        Offered::Taken => {
            gate.slot().remember(rule);
            AtOnce::Sent
        }
        Offered::Alone => AtOnce::Alone(ring),
        Offered::Not => AtOnce::Not,
    }
}

#[cold]
pub(crate) fn alone(gate: Gate, message: &Message<'_>, flags: c_int, ring: InRing) -> Next {
    let sent = ring.stream.fall_back(ring.key, message.len());
    through(gate, message, flags, Some((ring, sent)))
}

pub(crate) fn send(gate: Gate, message: &Message<'_>, flags: c_int) -> Next {
    match gate.enter() {
        // The number was just closed: the kernel knows its present file.
        Path::Kernel | Path::Gone => Next::Kernel,
        Path::Counted => match count(gate, message) {
            Advice::Promote => first(gate, message, flags),
            _ => Next::Counted,
        },
        Path::Ring(ring) => match count(gate, message) {
            Advice::Demote(why) => match settle(gate, why) {
                Settled::Failed(error) => Next::of(0, error),
                _ => through(gate, message, flags, None),
            },
            _ => match into(ring, message, 0, flags) {
                Sent::Taken(taken) if taken == message.len() => Next::Accepted(taken),
                sent => through(gate, message, flags, Some((ring, sent))),
            },
        },
        Path::Leaving(_) | Path::Behind(_) => through(gate, message, flags, None),
        Path::Shut => Next::Pipe,
    }
}

#[cold]
fn first(gate: Gate, message: &Message<'_>, flags: c_int) -> Next {
    promote(gate, message.to()).map_or(Next::Counted, |ring| {
        let sent = into(ring, message, 0, flags);
        through(gate, message, flags, Some((ring, sent)))
    })
}

#[inline]
pub(crate) fn is_plain(gate: Gate, flags: c_int) -> bool {
    let other = flags & !UNDERSTOOD;
    other == 0 || other == if gate.is_of_datagrams() { libc::MSG_CONFIRM } else { libc::MSG_MORE }
}

/// Whether a `sendmmsg` of datagrams, starting with `first`, on a socket in no ring is made as one call.
pub(crate) fn is_one_call(gate: Gate, first: &Message<'_>) -> bool {
    count(gate, first) != Advice::Promote
}

/// Sends a message with a feature that only the kernel supports. `call` sends it and must not block. If the program's
/// own call may block, the kernel alone makes it, and takes all of it or returns an error.
pub(crate) fn direct(gate: Gate, flags: c_int, call: impl FnOnce() -> Result<usize, Errno>) -> Next {
    let Some(ring) = gate.in_ring().filter(|ring| !ring.stream.is_within() && !may_block(gate, flags)) else {
        return on_the_kernel(gate, flags, Next::Kernel);
    };
    // The ring's bytes, then this call, with no transfer in between.
    let called = ring.stream.with_kernel(ring.key, || {
        let result = call();
        (result, result.unwrap_or(0))
    });
    match called {
        Ok(Ok(sent)) => Next::Accepted(sent),
        Ok(Err(error)) => Next::Failed(error),
        Err(Drained::Blocked) => Next::Failed(Errno::AGAIN),
        Err(Drained::Held) => Next::Failed(would_block(gate, Awaited::Turn)),
        Err(Drained::Failed(error)) => Next::of(0, error),
        Err(Drained::Empty) => on_the_kernel(gate, flags, Next::Kernel),
    }
}

/// Brings the socket to the kernel's path, and waits for that as the program's own call would. The thread is counted
/// there, so that no other thread promotes the socket before the call has ended. `gone`: the result if the socket is
/// closed.
pub(crate) fn on_the_kernel(gate: Gate, flags: c_int, mut gone: Next) -> Next {
    let mut room = RoomWait::of(gate);
    loop {
        match gate.enter() {
            Path::Gone => return gone,
            Path::Kernel => return Next::Kernel,
            Path::Counted => return Next::Counted,
            Path::Shut => return Next::Pipe,
            Path::Ring(_) | Path::Leaving(_) | Path::Behind(_) => {}
        }
        // After a part of a message the next call tells an error.
        match settle_by(gate, PathReason::Special, !matches!(gone, Next::Accepted(_))) {
            Settled::Kernel => {}
            Settled::Within => return Next::Kernel,
            Settled::Failed(error) => return Next::of(0, error),
            Settled::Waits(awaited) => {
                if let Err(error) = room.wait(awaited, flags, 0) {
                    return Next::Failed(error);
                }
                if gone == Next::Kernel {
                    gone = Next::gone(0);
                }
            }
        }
    }
}

/// Sends the rest of a message after its first bytes were accepted. The pieces count as one call of the kernel, so no
/// ring is entered between them. Returns the accepted bytes of the whole message.
///
/// # Errors
/// The connection broke, and the kernel told it to a call of the library's.
#[cold]
pub(crate) fn rest(gate: Gate, message: &Message<'_>, mut sent: usize, flags: c_int) -> Result<usize, Errno> {
    let before = sent;
    let is_counted = match on_the_kernel(gate, flags, Next::Accepted(sent)) {
        Next::Counted => true,
        Next::Kernel => false,
        _ => return Ok(sent),
    };
    let done = pieces(gate, message, &mut sent, flags);
    if is_counted {
        gate.exit((sent - before).cast_signed());
    }
    done.map(|()| sent)
}

/// Sends all bytes after the first `sent` by the kernel, on a copy of the descriptor: the copy remains the message's
/// socket even if the number changes. The thread holds no copy while it waits, where it may be cancelled.
fn pieces(gate: Gate, message: &Message<'_>, sent: &mut usize, flags: c_int) -> Result<(), Errno> {
    let mut room = RoomWait::of(gate);
    while *sent < message.len() {
        let Some(copy) = gate.copy() else { break };
        // The kernel tells its error once, and the next call is to meet it.
        if copy.get().is_some_and(tcp::has_error) {
            break;
        }
        for span in message.spans(*sent) {
            let is_last = *sent + span.len() == message.len();
            let Some(socket) = copy.get() else { return Ok(()) };
            match tcp::send(socket, [span, Span::of(&mut [])], !is_last || flags & libc::MSG_MORE != 0) {
                Ok(taken) => {
                    *sent += taken;
                    if taken < span.len() {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                // It stays, and only the program's own call raises the signal.
                Err(Errno::PIPE) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        drop(copy);
        if *sent < message.len() && room.wait(Awaited::Room, flags, *sent).is_err() {
            break;
        }
    }
    Ok(())
}

/// Before a call that sends in another way: gives the ring's bytes to the kernel.
pub(crate) fn before(gate: Gate, why: PathReason) -> Result<(), Errno> {
    let mut room = RoomWait::of(gate);
    loop {
        match settle(gate, why) {
            // If the sending side is shut, the kernel reports it itself, and raises the signal.
            Settled::Kernel | Settled::Within | Settled::Failed(Errno::PIPE) => return Ok(()),
            Settled::Failed(error) => return Err(error),
            Settled::Waits(awaited) => room.wait(awaited, 0, 0)?,
        }
        if !gate.is_same() {
            return Err(Errno::BADF);
        }
    }
}

/// Called when the program receives. Returns the kernel's error for earlier datagrams, once.
#[inline]
pub(crate) fn receives(gate: Gate) -> Option<Errno> {
    let Advice::Demote(why) = gate.ask(Rule::receives) else { return None };
    // What a connection received comes before its error, which is kept.
    match settle_by(gate, why, gate.is_of_datagrams()) {
        Settled::Failed(error) if gate.is_of_datagrams() => Some(error),
        _ => None,
    }
}

#[inline]
fn count(gate: Gate, message: &Message<'_>) -> Advice {
    if gate.is_of_datagrams() {
        return gate.ask(|rule| rule.sends_datagram(message.len(), message.to().map_or(0, bits)));
    }
    gate.ask(|rule| rule.sends(message.len()))
}

fn bits(of: &SocketAddr) -> u16 {
    let ip = match of.ip() {
        IpAddr::V4(ip) => ip.to_bits(),
        IpAddr::V6(ip) => ip.segments().into_iter().fold(0, |bits: u32, part| bits.rotate_left(5) ^ u32::from(part)),
    };
    (ip ^ ip >> 16) as u16 ^ of.port()
}

/// Continues a call after the ring's answer to its message; `None`: the ring is being left.
#[inline(never)]
fn through(gate: Gate, message: &Message<'_>, flags: c_int, mut said: Option<(InRing, Sent)>) -> Next {
    let (mut sent, mut room) = (0, RoomWait::of(gate));
    loop {
        let awaited = match said {
            // Only the kernel announces new room, and only after it refused bytes. So after a part the rest is tried.
            Some((_, Sent::Taken(taken))) => {
                sent += taken;
                if sent == message.len() {
                    return Next::Accepted(sent);
                }
                None
            }
            Some((_, Sent::Full)) => Some(Awaited::Room),
            Some((_, Sent::Held)) => Some(Awaited::Turn),
            Some((ring, Sent::Left)) => {
                if left(gate, ring) {
                    gate.slot().note(PathReason::NoService);
                }
                return Next::Rest(sent);
            }
            Some((ring, Sent::Failed(error))) => {
                if sent == 0 {
                    left(gate, ring);
                }
                return Next::of(sent, error);
            }
            Some((_, Sent::Within)) => {
                // A handler's message goes past the ring, whose counts do not include it: so the ring is left.
                gate.leave();
                gate.slot().note(PathReason::Special);
                return if sent == 0 { Next::Kernel } else { Next::Accepted(sent) };
            }
            None => match settle_by(gate, PathReason::Special, sent == 0) {
                Settled::Kernel => return Next::Rest(sent),
                Settled::Within => return Next::Kernel,
                Settled::Failed(error) => return Next::of(sent, error),
                Settled::Waits(awaited) => Some(awaited),
            },
        };
        if let Some(awaited) = awaited
            && let Err(error) = room.wait(awaited, flags, sent)
        {
            return Next::of(sent, error);
        }
        said = match gate.path() {
            Path::Ring(ring) => Some((ring, into(ring, message, sent, flags))),
            Path::Leaving(_) | Path::Behind(_) => None,
            Path::Shut if sent == 0 => return Next::Pipe,
            Path::Shut => return Next::Accepted(sent),
            Path::Gone => return Next::gone(sent),
            Path::Counted | Path::Kernel => return Next::Rest(sent),
        };
    }
}

fn into(ring: InRing, message: &Message<'_>, skip: usize, flags: c_int) -> Sent {
    let (pieces, len) = (message.spans(skip), message.len() - skip);
    match message.to() {
        Some(to) => ring.stream.send_to(ring.key, pieces, len, to),
        None => ring.stream.send(ring.key, pieces, len, flags & libc::MSG_MORE != 0, skip > 0),
    }
}
