//! A program's connection to one run of the service of sockets, and its places there.

use super::protocol::{Ask, Reply, Report, Seated};
use crate::shm::BankMemory;
use crate::sys::signals_blocked::SignalsBlocked;
use crate::sys::tcp;
use crate::sys::usage::thread_usage;
use rustix::event::PollFlags;
use rustix::net::{Shutdown, shutdown};
use rustix::process::geteuid;
use sidecore_core::sync::AtomicU64;
use sidecore_core::time::Nanos;
use sidecore_ipc::message;
use sidecore_ipc::sys::clock;
use sidecore_ipc::sys::packet;
use sidecore_ipc::sys::poll::{wait_for, wait_readable};
use sidecore_ipc::sys::verified_fd::{VerifiedFd, closed};
use sidecore_ipc::sys::wake::Ringer;
use sidecore_streams::cursor::{Cursors, recovered};
use sidecore_streams::layout::{
    self, BASE, Bank, HEAD, MAX_BANKS, PLACES, ROW, SHARED, STATE, TAIL, WHY, WISH, WRITER, reason_stream, reason_word,
};
use sidecore_streams::own::{Count, Wakes};
use sidecore_streams::place::{PlaceState, state_of};
use sidecore_streams::rule::PathReason;
use sidecore_streams::saving::BreakEven;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Time limit for the service's answer, ns: the program's sending waits for it.
const REPLY_TIMEOUT_NS: Nanos = 50_000_000;
/// Interval of the thread's checks whether the program has reused the connection's number, and of `tick`, ns.
const CHECK_INTERVAL_NS: Nanos = 1_000_000_000;
const FEW: usize = PLACES as usize / 4;
const MAX_CHECKED_PLACES: usize = 16;
static ATTACHMENTS: AtomicU16 = AtomicU16::new(0);

#[derive(Debug)]
pub(super) struct Attachment {
    control: VerifiedFd,
    number: u16,
    user: u32,
    ringer: Ringer,
    /// Threads, and handlers that interrupted them, between checking the doorbell and ringing it.
    ringing: AtomicU32,
    layout: Bank,
    first: Arc<BankMemory>,
    wakes: Wakes,
    gone: AtomicBool,
    places: Mutex<Places>,
}

#[derive(Debug)]
struct Places {
    banks: Vec<Arc<BankMemory>>,
    fresh: Vec<u32>,
    /// Places that were left, with the numbers of their last streams: the service marks them free.
    left: VecDeque<(u32, u32)>,
    more: More,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Unknown,
    Asked,
    /// None: the limit is reached, or a bank from the service was lost.
    None,
}

#[derive(Debug)]
pub(super) struct StreamSlot {
    pub(super) of: Arc<Attachment>,
    pub(super) bank: Arc<BankMemory>,
    pub(super) place: u32,
    index: u32,
    pub(super) number: u32,
    pub(super) target: Option<Target>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) to: Option<SocketAddr>,
    /// Bytes of the largest datagram sent as one packet.
    pub(super) packet: u32,
}

impl Attachment {
    /// Introduces the program on a fresh connection to a trusted service.
    ///
    /// # Errors
    /// The service does not answer in time, or refuses.
    pub(super) fn new(control: VerifiedFd, name: &str) -> io::Result<Self> {
        let hello = Ask::Hello { abi: layout::ABI, name: name.to_owned() };
        let (Reply::Welcome { ring_bytes }, fds) = ask(&control, &hello)? else { return Err(refused()) };
        let layout = Bank::new(ring_bytes).ok_or_else(refused)?;
        let [memory, writer, reader] = <[OwnedFd; 3]>::try_from(fds).map_err(|_| refused())?;
        let (memory, ringer) = (VerifiedFd::new(memory)?, Ringer::new(reader, writer)?);
        let first = Arc::new(BankMemory::open(memory.get().ok_or_else(closed)?, layout)?);
        let places = Places::of(std::slice::from_ref(&first));
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
        })
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Receives banks and reports on `sockets` until the service ends. `places`: called before a bank is used, with
    /// the new number of places. `tick`: called about once a second.
    pub(super) fn wait_for_end(&self, places: impl Fn(usize), sockets: fn() -> Report, tick: impl Fn()) {
        if let Ok(control) = self.control.to_poll() {
            let _ = self.hear(control, places, sockets, tick);
        }
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Err: the service has ended, or the program closed the descriptor.
    fn hear(
        &self,
        control: BorrowedFd<'_>,
        places: impl Fn(usize),
        sockets: fn() -> Report,
        tick: impl Fn(),
    ) -> io::Result<()> {
        let (mut banks, mut owes) = (vec![self.first.clone()], false);
        loop {
            // A blocking call would keep the connection open, also for the service, after the program has reused its
            // number.
            wait_for(control, PollFlags::IN | PollFlags::RDHUP, Some(clock::now().saturating_add(CHECK_INTERVAL_NS)))?;
            let control = self.control.get().ok_or(io::ErrorKind::NotConnected)?;
            match message::receive(control) {
                Ok((Reply::Bank, fds)) => self.take_bank(fds, &mut banks, &places)?,
                Ok((Reply::Describe, _)) => owes = true,
                Ok(_) => SignalsBlocked::new().lock(&self.places).more = More::Unknown,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            tick();
            // If the connection has no room, the next round tries again.
            owes = owes && !self.report(control, sockets());
        }
    }

    fn take_bank(&self, fds: Vec<OwnedFd>, banks: &mut Vec<Arc<BankMemory>>, places: impl Fn(usize)) -> io::Result<()> {
        if SignalsBlocked::new().lock(&self.places).more != More::Asked {
            return Err(refused());
        }
        // Both sides count banks, so after a lost one there can be no other.
        let memory = fds.into_iter().next().and_then(|memory| VerifiedFd::new(memory).ok());
        let bank = memory.as_ref().and_then(|memory| BankMemory::open(memory.get()?, self.layout).ok());
        let is_lost = bank.is_none();
        if let Some(bank) = bank.map(Arc::new) {
            banks.push(bank);
            places(banks.len() * PLACES as usize);
            self.have(banks);
        }
        if is_lost || banks.len() == MAX_BANKS as usize {
            SignalsBlocked::new().lock(&self.places).more = More::None;
        }
        Ok(())
    }

    /// False: the connection has no room for it now.
    fn report(&self, control: BorrowedFd<'_>, mut report: Report) -> bool {
        for socket in &mut report.sockets {
            socket.seat = socket.seat.filter(|seat| self.row_of(*seat, |_| ()).is_some());
        }
        let sent = message::send(control, &Ask::Report(report), &[]);
        !sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    pub(super) fn closed(&self, seat: Seated) {
        let word = reason_word(seat.stream, PathReason::Closed);
        let _ = self.row_of(seat, |row| {
            let before = row.load(Ordering::Relaxed);
            // The next stream there may note its reason simultaneously.
            if reason_stream(before) == seat.stream {
                let _ = row.compare_exchange(before, word, Ordering::Relaxed, Ordering::Relaxed);
            }
        });
    }

    fn row_of<T>(&self, seat: Seated, act: impl FnOnce(&AtomicU64) -> T) -> Option<T> {
        let (place, blocked) = (u32::from(seat.place), SignalsBlocked::new());
        let places = blocked.lock(&self.places);
        let bank = places.banks.get((place / PLACES) as usize).filter(|_| seat.attachment == self.number)?;
        let word = bank.word(place % PLACES, ROW, WHY);
        (reason_stream(word.load(Ordering::Relaxed)) == seat.stream).then(|| act(word))
    }

    /// Installs the places of one more bank. Memory is allocated and freed while no lock is held: a handler may wait
    /// for a lock within a call of the allocator.
    fn have(&self, banks: &[Arc<BankMemory>]) {
        let mut next = Places::of(banks);
        let blocked = SignalsBlocked::new();
        let mut current = blocked.lock(&self.places);
        next.fresh.append(&mut current.fresh);
        next.left.append(&mut current.left);
        let before = std::mem::replace(&mut *current, next);
        drop(current);
        drop(before);
    }

    pub(super) fn is_of_this_user(&self) -> bool {
        geteuid().as_raw() == self.user
    }

    pub(super) fn end(&self) {
        if let Some(control) = self.control.get() {
            let _ = shutdown(control, Shutdown::Both);
        }
    }

    /// Assigns a place to a stream; the service is not informed yet.
    ///
    /// # Errors
    /// There is no room, or no service any more. `WouldBlock`: a bank has been requested.
    pub(super) fn slot(self: &Arc<Self>, target: Option<Target>) -> io::Result<StreamSlot> {
        let control = self.control.get().filter(|_| !self.is_gone()).ok_or(io::ErrorKind::NotConnected)?;
        let blocked = SignalsBlocked::new();
        let mut places = blocked.lock(&self.places);
        let next = places.next();
        // Requested early: the answer takes as long as some promotions.
        if places.fresh.len() < FEW && places.more == More::Unknown && say(control, &Ask::Bank, &[]).is_ok() {
            places.more = More::Asked;
        }
        let Some((index, number)) = next else {
            let kind = if places.more == More::Asked { io::ErrorKind::WouldBlock } else { io::ErrorKind::OutOfMemory };
            return Err(kind.into());
        };
        let bank = places.banks[(index / PLACES) as usize].clone();
        Ok(StreamSlot { of: self.clone(), bank, place: index % PLACES, index, number, target })
    }

    /// Its descriptors. `None`: closed or replaced by the program.
    pub(super) fn descriptors(&self) -> [Option<RawFd>; 3] {
        let [reader, writer] = self.ringer.descriptors();
        [self.control.get().map(|fd| fd.as_raw_fd()), reader, writer]
    }

    #[inline]
    pub(super) fn is_asleep(&self) -> bool {
        self.first.doorbell().is_armed()
    }

    /// Called if a message finds the sidecore asleep. True if it is to wake it, see [`Wakes`].
    pub(super) fn wakes(&self, now: Nanos) -> bool {
        let [break_even, messages, calls] = self.first.gathered().map(|word| word.load(Ordering::Relaxed));
        self.wakes.wakes(now, thread_usage, Count { messages, calls }, BreakEven::from_word(break_even))
    }

    pub(super) fn sent(&self, began: Nanos, now: Nanos) {
        self.wakes.sent(began, now);
    }

    pub(super) fn connection(&self) -> Option<BorrowedFd<'_>> {
        self.control.get()
    }
}

impl Places {
    /// Places of these banks, those of the last one as fresh. Leaving a place allocates nothing: a signal handler may do
    /// it within a call of the allocator.
    fn of(banks: &[Arc<BankMemory>]) -> Self {
        let end = banks.len() as u32 * PLACES;
        let mut fresh = Vec::with_capacity(end as usize);
        fresh.extend((end - PLACES..end).rev());
        let left = VecDeque::with_capacity(end as usize);
        Self { banks: banks.to_vec(), fresh, left, more: More::Unknown }
    }

    fn next(&mut self) -> Option<(u32, u32)> {
        // Usually the first left place is free. A place stays in use for long if its peer accepts nothing.
        for _ in 0..self.left.len().min(MAX_CHECKED_PLACES) {
            let (index, number) = self.left.pop_front()?;
            let bank = &self.banks[(index / PLACES) as usize];
            let word = bank.word(index % PLACES, SHARED, STATE).load(Ordering::Acquire);
            if matches!(state_of(word, number), Some(PlaceState::Free | PlaceState::Ended)) {
                return Some((index, number.wrapping_add(1)));
            }
            self.left.push_back((index, number));
        }
        self.fresh.pop().map(|index| (index, 1))
    }
}

impl StreamSlot {
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

    /// Announces a stream on this socket to the service. `accepted`: bytes of the connection in the kernel, 0 for
    /// datagrams.
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

    pub(super) fn seated(&self) -> Seated {
        Seated { attachment: self.of.number, place: self.index as u16, stream: self.number }
    }

    pub(super) fn unused(self) {
        let word = sidecore_streams::place::state_word(self.number, PlaceState::Free);
        self.bank.word(self.place, SHARED, STATE).store(word, Ordering::Relaxed);
    }

    /// Rings for this place. `false`: the program has closed the doorbell; then the attachment ends, and the program
    /// continues without the service.
    pub(super) fn announce(&self) -> bool {
        let bank = self.index / PLACES;
        // Release, and the bank's bit last: a reader that sees it also sees the place's bit.
        self.bank.announced().fetch_or(1 << self.place, Ordering::Release);
        self.of.first.announced_banks().0[(bank / 64) as usize].fetch_or(1 << (bank % 64), Ordering::Release);
        // A handler may have interrupted a thread that is about to ring, and may wait for an effect of its own message
        // first.
        let others = self.of.ringing.fetch_add(1, Ordering::Relaxed);
        let must_ring = self.of.first.doorbell().must_wake() || others > 0;
        let is_lost = must_ring && !self.of.ringer.ring();
        self.of.ringing.fetch_sub(1, Ordering::Relaxed);
        if is_lost {
            self.of.end();
        }
        !is_lost
    }

    /// After the death of the holder: stores its progress, by the kernel's count. `None`: the count is impossible. For
    /// datagrams the kernel has no count, so those in transfer may be sent again.
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

impl Drop for StreamSlot {
    fn drop(&mut self) {
        SignalsBlocked::new().lock(&self.of.places).left.push_back((self.index, self.number));
    }
}

fn ask(control: &VerifiedFd, ask: &Ask) -> io::Result<(Reply, Vec<OwnedFd>)> {
    message::send(control.get().ok_or_else(closed)?, ask, &[])?;
    if !wait_readable(control.to_poll()?, Some(REPLY_TIMEOUT_NS))? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    message::receive(control.get().ok_or_else(closed)?)
}

/// Sends a question; the library's thread receives the answer, if any. Does not allocate.
fn say(control: BorrowedFd<'_>, ask: &Ask, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut buffer = [0; 64];
    let packet = message::encode(ask, &mut buffer).map_err(|_| io::ErrorKind::InvalidInput)?;
    packet::send(control, packet, fds)
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, "the service of sockets refused")
}
