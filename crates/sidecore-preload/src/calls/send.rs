//! A message that a program sends on a connection.

use crate::calls::promote::promote;
use crate::calls::settle::{Settled, left, settle};
use crate::calls::wait::{Patience, may_block};
use crate::gate::{Gate, InRing, Path};
use crate::interpose::message::Message;
use libc::c_int;
use rustix::io::Errno;
use sidecore_client::shm::span::Span;
use sidecore_client::sockets::stream::{Drained, Offered, Sent};
use sidecore_client::sys::tcp;
use sidecore_core::streams::rule::{Advice, Rule, Why};
use std::net::{IpAddr, SocketAddr};

/// Flags that any ring understands.
const UNDERSTOOD: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// How a call goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// As the program's own call to the kernel.
    Kernel,
    /// The same, with [`Gate::exit`] afterwards.
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

    /// The socket was closed meanwhile. The number's next socket gets nothing of this message.
    fn gone(sent: usize) -> Self {
        Self::of(sent, Errno::BADF)
    }
}

/// What became of a message of one piece at first sight. It stays in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AtOnce {
    /// All of it is accepted.
    Sent,
    /// The same, in a ring that nobody empties any more: [`alone`] goes on.
    Alone(InRing),
    /// Nothing was done: [`send`] is to be asked.
    Not,
}

/// A message of one piece through a ring that has room for it, as most are.
#[inline]
pub(crate) fn at_once(gate: Gate, piece: Span<'_>, flags: c_int) -> AtOnce {
    // Of datagrams the rule asks more.
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

/// One that is in a ring that nobody empties any more.
#[cold]
pub(crate) fn alone(gate: Gate, message: &Message<'_>, flags: c_int, ring: InRing) -> Next {
    let sent = ring.stream.go_on_alone(ring.key, message.len());
    through(gate, message, flags, Some((ring, sent)))
}

/// One with nothing beside its bytes but these flags.
pub(crate) fn send(gate: Gate, message: &Message<'_>, flags: c_int) -> Next {
    match gate.enter() {
        // The number was closed at this moment: the kernel says what it is now.
        Path::Kernel | Path::Gone => Next::Kernel,
        Path::Counted => match count(gate, message) {
            Advice::Promote => first(gate, message, flags),
            _ => Next::Counted,
        },
        Path::Ring(ring) => match count(gate, message) {
            Advice::Demote(why) => {
                match settle(gate, why) {
                    // Of a connection the kernel says it again.
                    Settled::Failed(error) if gate.is_of_datagrams() => Next::of(0, error),
                    _ => through(gate, message, flags, None),
                }
            }
            _ => match into(ring, message, 0, flags) {
                Sent::Taken(taken) if taken == message.len() => Next::Accepted(taken),
                sent => through(gate, message, flags, Some((ring, sent))),
            },
        },
        Path::Leaving(_) | Path::Behind(_) => through(gate, message, flags, None),
        Path::Shut => Next::Pipe,
    }
}

/// The first one into a ring, if it is entered.
#[cold]
fn first(gate: Gate, message: &Message<'_>, flags: c_int) -> Next {
    promote(gate, message.to()).map_or(Next::Counted, |ring| {
        let sent = into(ring, message, 0, flags);
        through(gate, message, flags, Some((ring, sent)))
    })
}

/// Whether the ring of that socket understands these flags.
#[inline]
pub(crate) fn is_plain(gate: Gate, flags: c_int) -> bool {
    let other = flags & !UNDERSTOOD;
    other == 0 || other == if gate.is_of_datagrams() { libc::MSG_CONFIRM } else { libc::MSG_MORE }
}

/// Whether `sendmmsg` of datagrams, of which this is the first, on a socket that is not in a ring is made as one call.
pub(crate) fn is_one_call(gate: Gate, first: &Message<'_>) -> bool {
    count(gate, first) != Advice::Promote
}

/// One with something that only the kernel understands. `call` makes it, and must not block: where the program's own may, it is
/// made by the kernel alone, which takes all of it or says so.
pub(crate) fn direct(gate: Gate, flags: c_int, call: impl FnOnce() -> Result<usize, Errno>) -> Next {
    let Some(ring) = gate.in_ring().filter(|ring| !ring.stream.is_within() && !may_block(gate, flags)) else {
        return on_the_kernel(gate, flags, Next::Kernel);
    };
    // The ring's bytes, then this call, with nothing between.
    let called = ring.stream.with_kernel(ring.key, || {
        let result = call();
        (result, result.unwrap_or(0))
    });
    match called {
        Ok(Ok(sent)) => Next::Accepted(sent),
        Ok(Err(error)) => Next::Failed(error),
        Err(Drained::Blocked) => Next::Failed(Errno::AGAIN),
        Err(Drained::Failed(error)) => Next::of(0, error),
        Err(Drained::Empty) => on_the_kernel(gate, flags, Next::Kernel),
    }
}

/// Brings the socket to the kernel's path, and waits for that as the program's own call would. It is counted there, so that
/// no thread promotes it before the call has ended. `gone`: the result if the socket is closed.
pub(crate) fn on_the_kernel(gate: Gate, flags: c_int, mut gone: Next) -> Next {
    let mut patience = Patience::of(gate);
    loop {
        match gate.enter() {
            Path::Gone => return gone,
            Path::Kernel => return Next::Kernel,
            Path::Counted => return Next::Counted,
            Path::Shut => return Next::Pipe,
            Path::Ring(_) | Path::Leaving(_) | Path::Behind(_) => {}
        }
        match settle(gate, Why::Special) {
            Settled::Kernel => {}
            Settled::Within => return Next::Kernel,
            Settled::Failed(error) => return Next::of(0, error),
            Settled::Blocked if flags & libc::MSG_DONTWAIT != 0 => return Next::Failed(Errno::AGAIN),
            Settled::Blocked => {
                if let Err(error) = patience.wait() {
                    return Next::Failed(error);
                }
                if gone == Next::Kernel {
                    gone = Next::gone(0);
                }
            }
        }
    }
}

/// The rest of a message whose first bytes were accepted. Its pieces are counted as one call of the kernel: no ring is
/// entered between them. Returns how many bytes of the whole are accepted.
#[cold]
pub(crate) fn rest(gate: Gate, message: &Message<'_>, sent: usize, flags: c_int) -> usize {
    match on_the_kernel(gate, flags, Next::Accepted(sent)) {
        Next::Counted => {
            let all = pieces(gate, message, sent, flags);
            gate.exit((all - sent).cast_signed());
            all
        }
        Next::Kernel => pieces(gate, message, sent, flags),
        _ => sent,
    }
}

/// Sends by the kernel what comes behind the first `sent` bytes, on a copy of the descriptor: that stays the message's socket
/// if the number does not. No copy is kept while the thread waits, where it may be cancelled.
fn pieces(gate: Gate, message: &Message<'_>, mut sent: usize, flags: c_int) -> usize {
    let mut patience = Patience::of(gate);
    while sent < message.len() {
        let Some(copy) = gate.copy() else { break };
        for span in message.spans(sent) {
            let is_last = sent + span.len() == message.len();
            let Some(socket) = copy.get() else { return sent };
            match tcp::send(socket, [span, Span::of(&mut [])], !is_last || flags & libc::MSG_MORE != 0) {
                Ok(taken) => {
                    sent += taken;
                    if taken < span.len() {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(_) => return sent,
            }
        }
        drop(copy);
        if sent < message.len() && (flags & libc::MSG_DONTWAIT != 0 || patience.wait().is_err()) {
            break;
        }
    }
    sent
}

/// Before a call with its own way to send: gives the ring's bytes to the kernel.
///
/// # Errors
/// The call fails with this.
pub(crate) fn before(gate: Gate, why: Why) -> Result<(), Errno> {
    let mut patience = Patience::of(gate);
    loop {
        match settle(gate, why) {
            // Where nothing can be sent any more the kernel says so itself, and raises the signal.
            Settled::Kernel | Settled::Within | Settled::Failed(Errno::PIPE) => return Ok(()),
            Settled::Failed(error) => return Err(error),
            Settled::Blocked => patience.wait()?,
        }
        if !gate.is_same() {
            return Err(Errno::BADF);
        }
    }
}

/// The program receives. What the kernel reports for datagrams that were sent before, which it says once.
#[inline]
pub(crate) fn receives(gate: Gate) -> Option<Errno> {
    let Advice::Demote(why) = gate.ask(Rule::receives) else { return None };
    match settle(gate, why) {
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
fn through(gate: Gate, message: &Message<'_>, flags: c_int, mut said: Option<(InRing, Sent)>) -> Next {
    let (mut sent, mut patience) = (0, Patience::of(gate));
    loop {
        match said {
            Some((_, Sent::Taken(taken))) => {
                sent += taken;
                if sent == message.len() {
                    return Next::Accepted(sent);
                }
            }
            Some((_, Sent::Full)) => {}
            Some((ring, Sent::Left)) => {
                if left(gate, ring) {
                    gate.slot().note(Why::NoService);
                }
                return Next::Rest(sent);
            }
            Some((ring, Sent::Failed(error))) => {
                left(gate, ring);
                return Next::of(sent, error);
            }
            Some((_, Sent::Within)) => {
                // A handler's message goes around the ring, which does not know of it: so the ring is left.
                gate.leave();
                gate.slot().note(Why::Special);
                return if sent == 0 { Next::Kernel } else { Next::Accepted(sent) };
            }
            None => match settle(gate, Why::Special) {
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
        None => ring.stream.send(ring.key, pieces, len, flags & libc::MSG_MORE != 0),
    }
}
