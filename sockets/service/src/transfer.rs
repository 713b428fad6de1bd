//! One stream in the service: bytes of its ring go to the kernel, until the stream ends.
//!
//! Each turn takes the stream's hold for one system call that does not block. After an empty ring the service arms
//! the bell and looks once more; from then on the program announces the stream. A program's words are read once and
//! checked.

mod datagrams;

use super::content::Content;
use super::ledger::Permit;
use super::meter::Meter;
use rustix::io::Errno;
use sidecore_core::sync::AtomicU64;
use sidecore_core::words;
use sidecore_sockets::datagrams::Mover;
use sidecore_sockets::shm::BankMemory;
use sidecore_sockets::sys::{tcp, udp};
use sidecore_streams::cursor::{Cursors, recovered};
use sidecore_streams::datagrams::HEADER;
use sidecore_streams::hold::{Hold, Holder};
use sidecore_streams::layout::{
    BASE, DRAINS, ERROR, HEAD, LINGER, MESSAGES, SHARED, STATE, TAIL, TRANSFERS, WISH, WRITER,
};
use sidecore_streams::place::{LeaveRequest, PlaceState, leave_of, state_word};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

const MAX_TRANSFER_BYTES: u32 = 64 * 1024;
/// Most turns of a stream of bytes that is given back: its program may write without pause meanwhile.
const PARTING_TURNS: u32 = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceRef<'a> {
    pub(super) memory: &'a BankMemory,
    pub(super) place: u32,
}

#[derive(Debug)]
pub(super) struct Stream {
    socket: OwnedFd,
    /// Dropped after the socket is closed.
    _permit: Permit,
    number: u32,
    life: Life,
    /// The bell was armed, and perhaps was not rung since.
    armed: bool,
    /// The last read value of the writer's word.
    tail: u64,
    moved: u32,
    /// Messages that its program had not sent itself by then.
    gathered: u64,
    polled: bool,
    /// Present if it sends datagrams, not bytes.
    datagrams: Option<Mover>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    /// The bell is shut. The stream ends once the ring is empty, or the program continues by itself.
    Ending,
    /// Its program has hung up: it ends with an empty ring. `dead`: no process holds it.
    Orphan {
        dead: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    More,
    /// The ring is empty, and the stream will be announced.
    Empty,
    Blocked,
    /// A program that has hung up holds the ring. It does not ring after the release: try again later.
    Held,
    Over(Over),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// As its program wished, or because the program has ended.
    Left(LeaveRequest),
    /// The program continues by itself.
    GivenBack,
    Cut,
    /// The kernel reported this, or the words of the place are invalid (`PROTO`).
    Failed(Errno),
}

enum Moved {
    All,
    Most,
    Nothing(LeaveRequest),
    Blocked,
    Failed(Errno),
}

impl PlaceRef<'_> {
    fn word(&self, line: usize, word: usize) -> &AtomicU64 {
        self.memory.word(self.place, line, word)
    }

    fn hold(&self) -> Hold<'_> {
        self.memory.hold(self.place)
    }

    /// The program's wish for that stream. Its earlier writes are visible after this.
    fn wish(&self, number: u32) -> LeaveRequest {
        leave_of(self.word(WRITER, WISH).load(Ordering::Acquire), number)
    }

    fn say(&self, number: u32, state: PlaceState) {
        self.word(SHARED, STATE).store(state_word(number, state), Ordering::Release);
    }

    pub(super) fn refuse(&self, number: u32) {
        self.memory.bell(self.place).shut();
        self.say(number, PlaceState::Ended);
    }

    /// Takes the hold from any value of the word, except the program's.
    fn take_from_nobody(&self) -> bool {
        let Hold(word) = self.hold();
        let found = word.load(Ordering::Relaxed);
        let take = || word.compare_exchange(found, Holder::Sidecore as u64, Ordering::Acquire, Ordering::Relaxed);
        found != Holder::Program as u64 && take().is_ok()
    }

    /// Notes the kernel's error for the program. It tells the reason once, to this call or to an earlier one of the
    /// program, which keeps it here until it can tell it; whoever comes next meets another error.
    fn note_error(&self, error: Errno) {
        let error = error.raw_os_error().unsigned_abs().into();
        let _ = self.word(SHARED, ERROR).compare_exchange(0, error, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn cursors(&self, tail: u64) -> Option<Cursors> {
        let head = self.word(SHARED, HEAD).load(Ordering::Relaxed);
        Cursors::read(head, tail, self.memory.layout().ring_bytes()).ok()
    }
}

impl Stream {
    /// The program's bell is not armed: it is served immediately. `beyond`: there is no room for it, and it goes back
    /// to its program as soon as its ring is empty.
    pub(super) fn begin(
        at: PlaceRef<'_>,
        number: u32,
        (socket, content): (OwnedFd, Content),
        permit: Permit,
        beyond: bool,
    ) -> Self {
        if beyond {
            at.memory.bell(at.place).shut();
        }
        at.say(number, PlaceState::Open);
        let life = if beyond { Life::Ending } else { Life::Open };
        let datagrams = match content {
            Content::Bytes => None,
            Content::Datagrams(to) => Some(Mover::new(to)),
        };
        Self {
            socket,
            _permit: permit,
            number,
            life,
            armed: false,
            tail: 0,
            moved: 0,
            gathered: 0,
            polled: false,
            datagrams,
        }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Marks the socket as registered with the poller. Returns whether it was already.
    pub(super) fn now_polled(&mut self) -> bool {
        std::mem::replace(&mut self.polled, true)
    }

    pub(super) fn is_polled(&self) -> bool {
        self.polled
    }

    pub(super) fn serve(&mut self, at: PlaceRef<'_>, meter: &mut Meter) -> Turn {
        if !self.hold(at) {
            return match self.life {
                // The program cannot empty it now, and may not return when it can.
                Life::Ending if self.datagrams.is_some() && udp::is_full(&self.socket) => Turn::Blocked,
                Life::Ending => Turn::Over(Over::GivenBack),
                // The holder announces it, or dies.
                Life::Open => Turn::Empty,
                Life::Orphan { .. } => Turn::Held,
            };
        }
        let moved = self.move_some(at, meter);
        if let Moved::Failed(error) = moved {
            // Before the release: the program may meet the next error.
            at.note_error(error);
        }
        at.hold().release();
        match (moved, self.life) {
            (Moved::Failed(error), _) => Turn::Over(Over::Failed(error)),
            (Moved::Blocked, life) => {
                // Only the service has the rest, and it may be killed.
                let is_left = matches!(life, Life::Orphan { .. }) || at.wish(self.number) != LeaveRequest::Stay;
                if is_left && self.datagrams.is_none() {
                    tcp::reset_at_close(&self.socket, at.word(SHARED, LINGER));
                }
                Turn::Blocked
            }
            (Moved::Nothing(LeaveRequest::Stay), Life::Ending) => Turn::Over(Over::GivenBack),
            (Moved::Nothing(wish), life) if wish != LeaveRequest::Stay || life != Life::Open => {
                Turn::Over(Over::Left(wish))
            }
            (Moved::All, Life::Open) if self.is_filled(at) => Turn::More,
            (Moved::Most, _) | (Moved::All, Life::Ending | Life::Orphan { .. }) => Turn::More,
            (Moved::All | Moved::Nothing(_), _) => self.arm(at),
        }
    }

    /// The service ends, or is done with a live program, which continues by itself. Bytes that the kernel takes now
    /// are still moved.
    pub(super) fn give_back(&mut self, at: PlaceRef<'_>, meter: &mut Meter) -> Over {
        at.memory.bell(at.place).shut();
        self.life = Life::Ending;
        // A turn may move a single datagram, and the smallest one is its length alone.
        let datagrams = at.memory.layout().ring_bytes() / HEADER;
        for _ in 0..if self.datagrams.is_some() { datagrams } else { PARTING_TURNS } {
            match self.serve(at, meter) {
                Turn::More => {}
                Turn::Over(over) => return over,
                Turn::Empty | Turn::Blocked | Turn::Held => break,
            }
        }
        Over::GivenBack
    }

    /// As [`give_back`](Self::give_back). `None`: the service continues to send the ring, because the program has
    /// left the stream or has ended, or may end first (`ending`: the service ends).
    pub(super) fn part(&mut self, at: PlaceRef<'_>, meter: &mut Meter, ending: bool) -> Option<Over> {
        if matches!(self.life, Life::Orphan { .. }) {
            return None;
        }
        let over = self.give_back(at, meter);
        // The bell is shut: a program that leaves after this look sees that, and sends the rest itself.
        let stays = at.wish(self.number) != LeaveRequest::Stay || ending && self.has_rest(at);
        if over != Over::GivenBack || !stays {
            return Some(over);
        }
        self.life = Life::Orphan { dead: false };
        None
    }

    pub(super) fn cut(&mut self, at: PlaceRef<'_>) -> Over {
        let is_left = at.wish(self.number) != LeaveRequest::Stay || self.life == Life::Orphan { dead: true };
        match (self.has_rest(at), is_left) {
            (true, true) => Over::Cut,
            (true, false) => Over::GivenBack,
            (false, _) => Over::Left(at.wish(self.number)),
        }
    }

    /// True if bytes are in the ring, or its words are invalid.
    fn has_rest(&self, at: PlaceRef<'_>) -> bool {
        let tail = at.word(WRITER, TAIL).load(Ordering::Acquire);
        self.datagrams.is_none() && at.cursors(tail).is_none_or(|cursors| cursors.waiting() > 0)
    }

    /// Its program has hung up, or is `dead`. It is served immediately. `false`: it is unknown whether the kernel has
    /// the bytes that the program was sending as it died.
    #[must_use]
    pub(super) fn bereave(&mut self, at: PlaceRef<'_>, dead: bool) -> bool {
        at.memory.bell(at.place).shut();
        self.life = Life::Orphan { dead };
        if !dead || at.hold().holder() != Some(Holder::Program) {
            return true;
        }
        let known = self.recover(at).is_some();
        at.hold().release();
        known
    }

    /// Takes the stream. `false`: the program has it.
    fn hold(&mut self, at: PlaceRef<'_>) -> bool {
        if self.armed && self.life == Life::Open {
            at.memory.bell(at.place).disarm();
        }
        self.armed = false;
        if at.hold().take(Holder::Sidecore) {
            return true;
        }
        match self.life {
            Life::Orphan { dead } => dead || at.take_from_nobody(),
            Life::Ending => false,
            Life::Open => {
                // The program announces it on release, if it sees the bell armed; otherwise the release is over
                // already.
                at.memory.bell(at.place).arm();
                self.armed = true;
                at.hold().take(Holder::Sidecore)
            }
        }
    }

    /// Whether the kernel has an error for a program that is still there. The service sends nothing more then: the
    /// kernel tells the error once, and the program's own calls and polls are to meet it.
    pub(super) fn is_broken(&mut self, at: PlaceRef<'_>) -> bool {
        if self.life != Life::Open || self.datagrams.is_some() || !tcp::has_error(&self.socket) {
            return false;
        }
        at.memory.bell(at.place).shut();
        self.life = Life::Ending;
        // A program that leaves after this look sees the bell shut.
        at.wish(self.number) == LeaveRequest::Stay
    }

    pub(super) fn moved(&self) -> u32 {
        self.moved
    }

    /// Messages of the last transfer, by the program's count, which the bytes bound: each has at least one.
    pub(super) fn gathered(&mut self, at: PlaceRef<'_>) -> u64 {
        let read = |word| at.word(WRITER, word).load(Ordering::Relaxed);
        let gathered = read(MESSAGES).wrapping_sub(read(DRAINS));
        let before = std::mem::replace(&mut self.gathered, gathered);
        gathered.wrapping_sub(before).min(self.moved.into())
    }

    fn move_some(&mut self, at: PlaceRef<'_>, meter: &mut Meter) -> Moved {
        self.moved = 0;
        // The wish first: everything written before it is visible to the look at the ring.
        let wish = at.wish(self.number);
        self.tail = at.word(WRITER, TAIL).load(Ordering::Acquire);
        let Some(cursors) = at.cursors(self.tail) else { return Moved::Failed(Errno::PROTO) };
        let asked = cursors.waiting().min(MAX_TRANSFER_BYTES);
        if asked == 0 {
            return Moved::Nothing(wish);
        }
        if self.datagrams.is_some() {
            return self.move_datagrams(at, meter, &cursors);
        }
        let spans = cursors.filled(asked).map(|extent| at.memory.span(at.place, extent));
        let more = cursors.more() || asked < cursors.waiting();
        match meter.measure(|| tcp::send(&self.socket, spans, more)) {
            Ok(sent) => {
                at.word(SHARED, HEAD).store(cursors.moved(sent as u32), Ordering::Release);
                words::add(at.word(SHARED, TRANSFERS), 1);
                self.moved = sent as u32;
                match self.moved {
                    sent if sent < asked => Moved::Blocked,
                    sent if sent < cursors.waiting() => Moved::Most,
                    _ => Moved::All,
                }
            }
            Err(Errno::AGAIN) => Moved::Blocked,
            Err(error) => Moved::Failed(error),
        }
    }

    fn is_filled(&self, at: PlaceRef<'_>) -> bool {
        at.word(WRITER, TAIL).load(Ordering::Relaxed) != self.tail
    }

    fn arm(&mut self, at: PlaceRef<'_>) -> Turn {
        let bell = at.memory.bell(at.place);
        bell.arm();
        self.armed = true;
        if !self.is_filled(at) && at.wish(self.number) == LeaveRequest::Stay {
            return Turn::Empty;
        }
        bell.disarm();
        self.armed = false;
        Turn::More
    }

    fn recover(&self, at: PlaceRef<'_>) -> Option<()> {
        let cursors = at.cursors(at.word(WRITER, TAIL).load(Ordering::Acquire))?;
        // The position in datagrams is unknown: the ones in progress are sent again.
        if cursors.waiting() == 0 || self.datagrams.is_some() {
            return Some(());
        }
        let count = tcp::accepted(&self.socket).ok()?;
        let head = recovered(&cursors, at.word(SHARED, BASE).load(Ordering::Relaxed), count).ok()?;
        at.word(SHARED, HEAD).store(head, Ordering::Relaxed);
        Some(())
    }

    /// Sets its end at its place, as the last write: the next stream may begin there.
    pub(super) fn conclude(&self, at: PlaceRef<'_>, over: Over) {
        let state = match over {
            Over::Left(wish) => {
                if self.datagrams.is_none() {
                    tcp::end_in_order(&self.socket, at.word(SHARED, LINGER));
                }
                if wish == LeaveRequest::ShutAndLeave {
                    // Fails only where the connection is gone.
                    let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
                }
                PlaceState::Free
            }
            Over::GivenBack => {
                // Otherwise the program restores it after the last byte.
                if self.datagrams.is_none() && !self.has_rest(at) {
                    tcp::end_in_order(&self.socket, at.word(SHARED, LINGER));
                }
                PlaceState::Ended
            }
            Over::Cut => {
                tcp::reset_at_close(&self.socket, at.word(SHARED, LINGER));
                PlaceState::Ended
            }
            Over::Failed(_) => {
                at.memory.bell(at.place).shut();
                PlaceState::Ended
            }
        };
        at.say(self.number, state);
    }
}
