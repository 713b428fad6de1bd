//! A program's connection to one run of the service of sockets, and the places that it has there.

use super::protocol::{Ask, Reply, Report, Seated};
use super::stream::Ring;
use crate::control;
use crate::shm::BankMemory;
use crate::sys::clock;
use crate::sys::connections::{Connections, Listed};
use crate::sys::own::{Own, closed};
use crate::sys::packet;
use crate::sys::poll::{wait_for, wait_readable};
use crate::sys::tcp;
use crate::sys::undisturbed::Undisturbed;
use crate::sys::usage::thread_usage;
use crate::sys::wake::Ringer;
use rustix::event::PollFlags;
use rustix::net::{Shutdown, shutdown};
use rustix::process::geteuid;
use sidecore_core::streams::cursor::{Cursors, recovered};
use sidecore_core::streams::layout::{
    self, BASE, Bank, HEAD, MAX_BANKS, PLACES, ROW, SHARED, STATE, TAIL, WHY, WISH, WRITER, why_stream, why_word,
};
use sidecore_core::streams::own::{Count, Wakes};
use sidecore_core::streams::place::{State, Wish, state_of};
use sidecore_core::streams::rule::Why;
use sidecore_core::streams::saving::BreakEven;
use sidecore_core::sync::AtomicU64;
use sidecore_core::time::Nanos;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// How long the service may take for an answer, ns: a program's sending waits for it.
const PATIENCE: Nanos = 50_000_000;
/// How often the thread looks whether the program has taken the connection's number, ns.
const LOOK_EVERY: Nanos = 1_000_000_000;
/// Count of fresh places below which the next bank is requested.
const FEW: usize = PLACES as usize / 4;
/// Adopted connections. Children close them; a program that closes everything leaves them open.
const ADOPTED_PLACES: usize = 1024;
pub(super) static ADOPTED: Connections<ADOPTED_PLACES> = Connections::new();
/// Places that were left and are looked at for one that is free.
const LOOKS: usize = 16;
/// Attachments of this process.
static ATTACHMENTS: AtomicU16 = AtomicU16::new(0);

/// The program's part of what it shares with one run of the service.
#[derive(Debug)]
pub(super) struct Attachment {
    control: Own,
    /// See [`Seated`].
    number: u16,
    /// The effective user of the process when it attached.
    user: u32,
    ringer: Ringer,
    /// Threads, and handlers that interrupted them, that look whether they are to ring, and then do.
    ringing: AtomicU32,
    layout: Bank,
    first: Arc<BankMemory>,
    wakes: Wakes,
    gone: AtomicBool,
    places: Mutex<Places>,
    /// What closed connections still had in their rings when the service ended, each with a descriptor of ours.
    adopted: Mutex<Vec<Adopted>>,
}

/// The rest of a closed connection's ring.
#[derive(Debug)]
struct Adopted {
    ring: Ring,
    wish: Wish,
    /// Dropped before the socket is closed. `None`: there was no place.
    _listed: Option<Listed>,
    socket: Own,
}

#[derive(Debug)]
struct Places {
    banks: Vec<Arc<BankMemory>>,
    /// Numbers of places that were never used since the bank came.
    fresh: Vec<u32>,
    /// Places that were left, and the numbers of their last streams: free when the service says so.
    left: VecDeque<(u32, u32)>,
    more: More,
}

/// Whether there is another bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    /// Perhaps: not requested yet.
    Unknown,
    /// Requested.
    Asked,
    /// None: the limit is reached, or one that the service gave was lost.
    None,
}

/// A place that a stream has. Given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) of: Arc<Attachment>,
    pub(super) bank: Arc<BankMemory>,
    /// Its number in the bank.
    pub(super) place: u32,
    /// Its number among all.
    index: u32,
    /// Number of the stream.
    pub(super) number: u32,
    /// Its ring holds datagrams, and no bytes.
    pub(super) target: Option<Target>,
}

/// Where a stream's datagrams go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// To whom; `None`: the socket is connected.
    pub(super) to: Option<SocketAddr>,
    /// Bytes of the largest that is sent as one packet.
    pub(super) packet: u32,
}

impl Attachment {
    /// Says hello on a fresh connection to a service that is trusted.
    ///
    /// # Errors
    /// The service does not answer in time, or refuses.
    pub(super) fn new(control: Own, name: &str) -> io::Result<Self> {
        let hello = Ask::Hello { abi: layout::ABI, name: name.to_owned() };
        let (Reply::Welcome { ring_bytes }, fds) = ask(&control, &hello)? else { return Err(refused()) };
        let layout = Bank::new(ring_bytes).ok_or_else(refused)?;
        let [memory, writer, reader] = <[OwnedFd; 3]>::try_from(fds).map_err(|_| refused())?;
        let (memory, ringer) = (Own::new(memory)?, Ringer::new(reader, writer)?);
        let first = Arc::new(BankMemory::open(memory.get().ok_or_else(closed)?, layout)?);
        let (places, count) = Places::of(std::slice::from_ref(&first));
        Ok(Self {
            control,
            number: ATTACHMENTS.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
            user: geteuid().as_raw(),
            ringer,
            ringing: AtomicU32::new(0),
            layout,
            first,
            wakes: Wakes::default(),
            gone: AtomicBool::new(false),
            places: Mutex::new(places),
            adopted: Mutex::new(Vec::with_capacity(count)),
        })
    }

    /// Whether the service has ended.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Takes the banks that come and reports on `sockets`, until the service ends. `places`: called before a bank is used, with
    /// the number of places there will be.
    pub(super) fn wait_for_end(&self, places: impl Fn(usize), sockets: fn() -> Report) {
        if let Ok(control) = self.control.to_poll() {
            let _ = self.hear(control, places, sockets);
        }
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Err: the service has ended, or the program closed the descriptor.
    fn hear(&self, control: BorrowedFd<'_>, places: impl Fn(usize), sockets: fn() -> Report) -> io::Result<()> {
        let (mut banks, mut owes) = (vec![self.first.clone()], false);
        loop {
            // A call that waits keeps the connection open, also for the service, when the program has taken its number.
            wait_for(control, PollFlags::IN | PollFlags::RDHUP, Some(clock::now().saturating_add(LOOK_EVERY)))?;
            let control = self.control.get().ok_or(io::ErrorKind::NotConnected)?;
            match control::receive(control) {
                Ok((Reply::Bank, fds)) => self.take_bank(fds, &mut banks, &places)?,
                Ok((Reply::Describe, _)) => owes = true,
                Ok(_) => Undisturbed::new().lock(&self.places).more = More::Unknown,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            // Where the connection has no room for it the next look tries again.
            owes = owes && !self.report(control, sockets());
        }
    }

    /// # Errors
    /// It was not requested.
    fn take_bank(&self, fds: Vec<OwnedFd>, banks: &mut Vec<Arc<BankMemory>>, places: impl Fn(usize)) -> io::Result<()> {
        if Undisturbed::new().lock(&self.places).more != More::Asked {
            return Err(refused());
        }
        // Both sides count banks: behind a lost one there is none.
        let memory = fds.into_iter().next().and_then(|memory| Own::new(memory).ok());
        let bank = memory.as_ref().and_then(|memory| BankMemory::open(memory.get()?, self.layout).ok());
        let is_lost = bank.is_none();
        if let Some(bank) = bank.map(Arc::new) {
            banks.push(bank);
            places(banks.len() * PLACES as usize);
            self.have(banks);
        }
        if is_lost || banks.len() == MAX_BANKS as usize {
            Undisturbed::new().lock(&self.places).more = More::None;
        }
        Ok(())
    }

    /// False: the connection has no room for it now.
    fn report(&self, control: BorrowedFd<'_>, mut report: Report) -> bool {
        for socket in &mut report.sockets {
            socket.seat = socket.seat.filter(|seat| self.row_of(*seat, |_| ()).is_some());
        }
        let sent = control::send(control, &Ask::Report(report), &[]);
        !sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// The program closes the socket with its last ring at `seat`.
    pub(super) fn closed(&self, seat: Seated) {
        let word = why_word(seat.stream, Why::Closed);
        let _ = self.row_of(seat, |row| {
            let before = row.load(Ordering::Relaxed);
            // The next stream there may note its reason at this moment.
            if why_stream(before) == seat.stream {
                let _ = row.compare_exchange(before, word, Ordering::Relaxed, Ordering::Relaxed);
            }
        });
    }

    /// Calls `act` with the reason's word of that place. `None`: another stream has noted its own there.
    fn row_of<T>(&self, seat: Seated, act: impl FnOnce(&AtomicU64) -> T) -> Option<T> {
        let (place, undisturbed) = (u32::from(seat.place), Undisturbed::new());
        let places = undisturbed.lock(&self.places);
        let bank = places.banks.get((place / PLACES) as usize).filter(|_| seat.attachment == self.number)?;
        let word = bank.word(place % PLACES, ROW, WHY);
        (why_stream(word.load(Ordering::Relaxed)) == seat.stream).then(|| act(word))
    }

    /// One more bank. Memory is taken and given back while no lock is held: a handler may wait for one, within a call of the
    /// allocator.
    fn have(&self, banks: &[Arc<BankMemory>]) {
        let (mut next, count) = Places::of(banks);
        let mut adopted = Vec::with_capacity(count);
        let undisturbed = Undisturbed::new();
        let mut current = undisturbed.lock(&self.places);
        next.fresh.append(&mut current.fresh);
        next.left.append(&mut current.left);
        let before = std::mem::replace(&mut *current, next);
        drop(current);
        let mut current = undisturbed.lock(&self.adopted);
        adopted.append(&mut current);
        let adopted_before = std::mem::replace(&mut *current, adopted);
        drop(current);
        drop((before, adopted_before));
    }

    /// True if the process is still the user that attached.
    pub(super) fn is_of_this_user(&self) -> bool {
        geteuid().as_raw() == self.user
    }

    /// The program goes on without the service: for both it is as if the other had ended.
    pub(super) fn end(&self) {
        if let Some(control) = self.control.get() {
            let _ = shutdown(control, Shutdown::Both);
        }
    }

    /// A place for a stream, of which the service does not know yet.
    ///
    /// # Errors
    /// There is no room, or no service any more. `WouldBlock`: room is on its way.
    pub(super) fn seat(self: &Arc<Self>, target: Option<Target>) -> io::Result<Seat> {
        let control = self.control.get().filter(|_| !self.is_gone()).ok_or(io::ErrorKind::NotConnected)?;
        let undisturbed = Undisturbed::new();
        let mut places = undisturbed.lock(&self.places);
        let next = places.next();
        // Early: its answer takes as long as some promotions.
        if places.fresh.len() < FEW && places.more == More::Unknown && say(control, &Ask::Bank, &[]).is_ok() {
            places.more = More::Asked;
        }
        let Some((index, number)) = next else {
            let kind = if places.more == More::Asked { io::ErrorKind::WouldBlock } else { io::ErrorKind::OutOfMemory };
            return Err(kind.into());
        };
        let bank = places.banks[(index / PLACES) as usize].clone();
        Ok(Seat { of: self.clone(), bank, place: index % PLACES, index, number, target })
    }

    /// Nobody empties a ring any more that had bytes of a connection that the program closes now: they are sent all the same.
    pub(super) fn adopt(&self, ring: Ring, wish: Wish) {
        // Without a descriptor there is no way to send them.
        if let Ok(socket) = Own::copy(ring.socket()) {
            let listed = socket.get().and_then(|socket| ADOPTED.list(socket));
            Undisturbed::new().lock(&self.adopted).push(Adopted { ring, wish, _listed: listed, socket });
        }
        // Only the thread that waits for the end can send them. All streams are given to the kernel then, and come again.
        if !self.is_gone() {
            self.end();
        }
    }

    /// After the end: gives what was adopted to the kernel. Whether nothing is left.
    pub(super) fn drain_adopted(&self) -> bool {
        let undisturbed = Undisturbed::new();
        let mut adopted = undisturbed.lock(&self.adopted);
        // Where the program took the descriptor over there is no way to send the rest.
        adopted.retain_mut(|one| one.socket.get().is_some_and(|socket| one.ring.is_unfinished(socket, one.wish)));
        adopted.is_empty()
    }

    /// Its descriptors. `None`: closed or replaced by the program.
    pub(super) fn descriptors(&self) -> [Option<RawFd>; 3] {
        let [reader, writer] = self.ringer.descriptors();
        [self.control.get().map(|fd| fd.as_raw_fd()), reader, writer]
    }

    /// True if a message would have to wake the sidecore.
    #[inline]
    pub(super) fn is_asleep(&self) -> bool {
        self.first.doorbell().is_armed()
    }

    /// A message finds it asleep. True if that is to wake it, see [`Wakes`].
    pub(super) fn wakes(&self, now: Nanos) -> bool {
        let [break_even, messages, calls] = self.first.gathered().map(|word| word.load(Ordering::Relaxed));
        self.wakes.wakes(now, thread_usage, Count { messages, calls }, BreakEven::from_word(break_even))
    }

    /// The program sent such a message itself.
    pub(super) fn sent(&self, began: Nanos, now: Nanos) {
        self.wakes.sent(began, now);
    }

    /// The connection, to be let go of in children.
    pub(super) fn connection(&self) -> Option<BorrowedFd<'_>> {
        self.control.get()
    }
}

impl Places {
    /// Places of these banks, with those of the last one as fresh; and how many places there are. Leaving one takes no memory:
    /// a signal handler may do it, within a call of the allocator.
    fn of(banks: &[Arc<BankMemory>]) -> (Self, usize) {
        let end = banks.len() as u32 * PLACES;
        let mut fresh = Vec::with_capacity(end as usize);
        fresh.extend((end - PLACES..end).rev());
        let left = VecDeque::with_capacity(end as usize);
        (Self { banks: banks.to_vec(), fresh, left, more: More::Unknown }, end as usize)
    }

    /// A free place, and the number of the stream that begins there.
    fn next(&mut self) -> Option<(u32, u32)> {
        // Mostly the first that was left is free. Where a peer takes nothing its place is not, for a long time.
        for _ in 0..self.left.len().min(LOOKS) {
            let (index, number) = self.left.pop_front()?;
            let bank = &self.banks[(index / PLACES) as usize];
            let word = bank.word(index % PLACES, SHARED, STATE).load(Ordering::Acquire);
            if matches!(state_of(word, number), Some(State::Free | State::Ended)) {
                return Some((index, number.wrapping_add(1)));
            }
            self.left.push_back((index, number));
        }
        self.fresh.pop().map(|index| (index, 1))
    }
}

impl Seat {
    fn begin(&self, base: u64) {
        let (bank, place) = (&self.bank, self.place);
        for (line, word) in
            [(WRITER, TAIL), (WRITER, WISH), (SHARED, HEAD), (SHARED, layout::ERROR), (SHARED, layout::LINGER)]
        {
            bank.word(place, line, word).store(0, Ordering::Relaxed);
        }
        for word in [layout::MESSAGES, layout::KERNEL_MESSAGES, layout::DRAINS] {
            bank.word(place, WRITER, word).store(0, Ordering::Relaxed);
        }
        bank.word(place, SHARED, layout::TRANSFERS).store(0, Ordering::Relaxed);
        bank.word(place, SHARED, BASE).store(base, Ordering::Relaxed);
        bank.hold(place).release();
        bank.bell(place).disarm();
    }

    /// Announces a stream on that socket to the service. `accepted`: bytes of the connection in the kernel, 0 of datagrams.
    ///
    /// # Errors
    /// The service has ended.
    pub(super) fn open(self, socket: BorrowedFd<'_>, accepted: u64) -> io::Result<Self> {
        self.begin(accepted);
        let (place, stream) = (self.index, self.number);
        let ask = match self.target.and_then(|target| target.to) {
            None => Ask::Promote { place, stream },
            Some(to) => Ask::PromoteTo { place, stream, to },
        };
        let control = self.of.control.get().ok_or_else(|| io::ErrorKind::NotConnected.into());
        match control.and_then(|control| say(control, &ask, &[socket])) {
            Ok(()) => Ok(self),
            Err(error) => {
                self.unused();
                Err(error)
            }
        }
    }

    /// Its numbers.
    pub(super) fn seated(&self) -> Seated {
        Seated { attachment: self.of.number, place: self.index as u16, stream: self.number }
    }

    /// The service was never told of it.
    pub(super) fn unused(self) {
        let word = sidecore_core::streams::place::state_word(self.number, State::Free);
        self.bank.word(self.place, SHARED, STATE).store(word, Ordering::Relaxed);
    }

    /// Rings for this place. `false`: the program has closed the doorbell; the attachment ends, and the program goes on alone.
    pub(super) fn announce(&self) -> bool {
        let bank = self.index / PLACES;
        // Release, and the bank's bit last: who sees it finds the place's.
        self.bank.announced().fetch_or(1 << self.place, Ordering::Release);
        self.of.first.announced_banks().0[(bank / 64) as usize].fetch_or(1 << (bank % 64), Ordering::Release);
        // A handler may have interrupted who is about to ring, and wait for what comes of its own message before that goes on.
        let others = self.of.ringing.fetch_add(1, Ordering::Relaxed);
        let must_ring = self.of.first.doorbell().must_wake() || others > 0;
        let is_lost = must_ring && !self.of.ringer.ring();
        self.of.ringing.fetch_sub(1, Ordering::Relaxed);
        if is_lost {
            self.of.end();
        }
        !is_lost
    }

    /// The holder is dead: writes how far it came, as the kernel knows it. `None`: what the kernel says cannot be. Of datagrams
    /// it knows nothing: those that the holder was at may be sent again.
    pub(super) fn recover(&self, socket: BorrowedFd<'_>, tail: u64) -> Option<()> {
        if self.target.is_some() {
            return Some(());
        }
        let head = self.bank.word(self.place, SHARED, HEAD);
        let cursors = Cursors::read(head.load(Ordering::Acquire), tail, self.bank.layout().ring_bytes()).ok()?;
        let base = self.bank.word(self.place, SHARED, BASE).load(Ordering::Relaxed);
        head.store(recovered(&cursors, base, tcp::accepted(socket).ok()?).ok()?, Ordering::Release);
        Some(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        Undisturbed::new().lock(&self.of.places).left.push_back((self.index, self.number));
    }
}

fn ask(control: &Own, ask: &Ask) -> io::Result<(Reply, Vec<OwnedFd>)> {
    control::send(control.get().ok_or_else(closed)?, ask, &[])?;
    if !wait_readable(control.to_poll()?, Some(PATIENCE))? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    control::receive(control.get().ok_or_else(closed)?)
}

/// Sends a question whose answer, if any, the library's thread takes. Does not allocate.
fn say(control: BorrowedFd<'_>, ask: &Ask, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut buffer = [0; 64];
    let packet = control::encode(ask, &mut buffer).map_err(|_| io::ErrorKind::InvalidInput)?;
    packet::send(control, packet, fds)
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, "the service of sockets refused")
}
