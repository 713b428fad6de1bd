//! Rows about programs and their sockets, from words that service and program share, and from programs' reports. Any
//! user's thread reads them.

use super::gone::{Gone, Past, ROWS};
use super::meter::Price;
use super::reports::{Bell, Reports};
use sidecore_core::time::Nanos;
use sidecore_sockets::protocol::{MAX_ROWS, REPORTED, Reported, Row};
use sidecore_sockets::shm::BankMemory;
use sidecore_streams::cursor::Cursors;
use sidecore_streams::layout::{
    DRAINS, HEAD, KERNEL_MESSAGES, MESSAGES, PLACES, ROW, SHARED, SOCKET, STATE, TAIL, TRANSFERS, WHY, WRITER,
};
use sidecore_streams::place::stream_of;
use sidecore_streams::rule::PathReason;
use sidecore_streams::saving::saved;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most places read for one page: most may have no row, and the user's thread has streams to serve.
const MAX_PAGE_PLACES: u32 = 4096;
/// Most programs read for one page.
const MAX_PAGE_PROGRAMS: usize = MAX_ROWS;

#[derive(Debug)]
pub(super) struct Listed {
    pub(super) uid: u32,
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) reports: Reports,
    /// Of its user's thread.
    bell: Arc<Bell>,
    /// Of its user's system calls.
    price: Arc<Price>,
    banks: Mutex<Vec<(Arc<BankMemory>, Peers)>>,
}

type Peers = Box<[Peer]>;

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    address: Option<SocketAddr>,
    is_open: bool,
}

#[derive(Default)]
struct Page {
    rows: Vec<Row>,
    places: u32,
}

/// The programs of all users, by their numbers, which grow.
#[derive(Debug, Default)]
pub(super) struct Registry {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    programs: BTreeMap<u32, Arc<Listed>>,
    gone: Gone,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No change in here is left half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listed {
    pub(super) fn new((uid, pid): (u32, u32), name: String, price: Arc<Price>, bell: Arc<Bell>) -> Self {
        Self { uid, pid, name, reports: Reports::default(), bell, price, banks: Mutex::default() }
    }

    pub(super) fn add(&self, bank: Arc<BankMemory>) {
        lock(&self.banks).push((bank, vec![Peer::default(); PLACES as usize].into()));
    }

    pub(super) fn begin(&self, place: u32, address: Option<SocketAddr>) {
        self.at(place, |peer| *peer = Peer { address, is_open: true });
    }

    pub(super) fn end(&self, place: u32) {
        self.at(place, |peer| peer.is_open = false);
    }

    fn at(&self, place: u32, change: impl FnOnce(&mut Peer)) {
        let mut banks = lock(&self.banks);
        let bank = banks.get_mut((place / PLACES) as usize);
        if let Some(peer) = bank.and_then(|(_, peers)| peers.get_mut((place % PLACES) as usize)) {
            change(peer);
        }
    }

    /// Adds rows of its places that have or had a stream, then of reported sockets, beginning at `from`. Returns the
    /// first place that the page has no room for; `None`: there are no more.
    fn add_rows(&self, serial: u32, from: u32, page: &mut Page) -> Option<u32> {
        let (banks, known) = (lock(&self.banks), self.reports.lock());
        for place in from..banks.len() as u32 * PLACES {
            if page.is_full() {
                return Some(place);
            }
            let (memory, peers) = &banks[(place / PLACES) as usize];
            page.places += 1;
            let reported = known.seated.get(&place).filter(|_| known.is_current());
            let row = self.row(memory, place, peers[(place % PLACES) as usize], reported);
            page.rows.extend(row.map(|row| Row { serial, ..row }));
        }
        let unseated = known.unseated.range(from.saturating_sub(REPORTED)..).filter(|_| known.is_current());
        for (descriptor, socket) in unseated {
            if page.is_full() {
                return Some(REPORTED.saturating_add(*descriptor));
            }
            page.rows.push(Row { serial, ..self.reported_row(socket) });
        }
        None
    }

    /// The busiest rows, after its end.
    fn last_rows(&self, serial: u32) -> Vec<Row> {
        let (banks, known) = (lock(&self.banks), self.reports.lock());
        let places = 0..(banks.len() as u32 * PLACES).min(MAX_PAGE_PLACES);
        let messages = |place: u32| {
            let word = |word| banks[(place / PLACES) as usize].0.word(place % PLACES, WRITER, word);
            let [messages, kernel] = [MESSAGES, KERNEL_MESSAGES].map(|kind| word(kind).load(Ordering::Relaxed));
            messages.saturating_add(kernel)
        };
        let mut busiest: Vec<(u64, u32)> = places.map(|place| (messages(place), place)).collect();
        busiest.sort_unstable_by_key(|(messages, place)| (Reverse(*messages), *place));
        let row = |(_, place): (u64, u32)| {
            let (memory, peers) = &banks[(place / PLACES) as usize];
            self.row(memory, place, peers[(place % PLACES) as usize], known.seated.get(&place))
        };
        let mut unseated: Vec<&Reported> = known.unseated.values().collect();
        unseated.sort_by_key(|socket| Reverse(socket.bytes));
        let reported = unseated.into_iter().map(|socket| self.reported_row(socket));
        let rows = busiest.into_iter().filter_map(row).chain(reported).take(ROWS);
        rows.map(|row| Row { serial, open: false, ..row }).collect()
    }

    /// Row of place `number` among all banks, which lies in `memory`. `reported`: the program's report on its socket.
    fn row(&self, memory: &BankMemory, number: u32, peer: Peer, reported: Option<&Reported>) -> Option<Row> {
        let word = |line, word| memory.word(number % PLACES, line, word).load(Ordering::Relaxed);
        let (messages, kernel_messages) = (word(WRITER, MESSAGES), word(WRITER, KERNEL_MESSAGES));
        if peer.address.is_none() && messages == 0 && kernel_messages == 0 {
            return None;
        }
        let (bytes, transfers, drains) = (word(SHARED, HEAD), word(SHARED, TRANSFERS), word(WRITER, DRAINS));
        let cursors = Cursors::read(bytes, word(WRITER, TAIL), memory.layout().ring_bytes());
        let stream = stream_of(word(SHARED, STATE));
        let of_this = |socket: &&Reported| !peer.is_open && socket.seat.is_some_and(|seat| seat.stream == stream);
        let reported = reported.filter(of_this);
        let why = match (word(ROW, WHY) as u8, reported) {
            // The program still has it open.
            (why, Some(socket)) if why != PathReason::Closed as u8 => socket.why,
            // It ended in the ring: by a call that the library did not see, or by an error that the program has not
            // read yet.
            (why, None) if why == PathReason::Row as u8 && !peer.is_open && peer.address.is_some() => {
                PathReason::Closed as u8
            }
            (why, _) => why,
        };
        Some(Row {
            place: number,
            stream,
            descriptor: word(ROW, SOCKET) as u32,
            open: peer.is_open,
            peer: peer.address.map(|peer| peer.to_string()),
            why,
            messages,
            kernel_messages,
            kernel_bytes: reported.and_then(|socket| socket.bytes),
            bytes,
            transfers,
            drains,
            waiting: cursors.map_or(0, |cursors| cursors.waiting().into()),
            // Each moved message has at least one byte, which bounds the program's count.
            saved_ns: self.price.get().map(|price| saved(price, messages.min(bytes), transfers.saturating_add(drains))),
            ..self.empty_row()
        })
    }

    fn reported_row(&self, socket: &Reported) -> Row {
        Row {
            place: REPORTED.saturating_add(socket.descriptor),
            descriptor: socket.descriptor,
            peer: socket.peer.map(|peer| peer.to_string()),
            why: socket.why,
            kernel_bytes: socket.bytes,
            ..self.empty_row()
        }
    }

    fn empty_row(&self) -> Row {
        Row {
            serial: 0,
            pid: self.pid,
            uid: self.uid,
            program: self.name.clone(),
            place: 0,
            stream: 0,
            descriptor: 0,
            open: false,
            peer: None,
            why: 0,
            messages: 0,
            kernel_messages: 0,
            kernel_bytes: None,
            bytes: 0,
            transfers: 0,
            drains: 0,
            waiting: 0,
            saved_ns: None,
            gone_ns: None,
        }
    }
}

impl Page {
    fn is_full(&self) -> bool {
        self.rows.len() == MAX_ROWS || self.places == MAX_PAGE_PLACES
    }

    /// Adds rows of an ended program, beginning at `from`. As [`Listed::add_rows`].
    fn add_past(&mut self, past: &Past, from: u32, now: Nanos) -> Option<u32> {
        for (number, row) in (0..).zip(past.rows(now)).skip(from as usize) {
            if self.is_full() {
                return Some(number);
            }
            self.rows.push(row);
        }
        None
    }
}

enum Entry {
    Here(Arc<Listed>),
    Gone(Arc<Past>),
}

fn position(serial: u32, place: u32) -> u64 {
    u64::from(serial) << 32 | u64::from(place)
}

impl Registry {
    pub(super) fn add(&self, serial: u32, program: Arc<Listed>) {
        lock(&self.known).programs.insert(serial, program);
    }

    /// The program's connection has ended. Its busiest rows are kept for a while.
    pub(super) fn remove(&self, serial: u32, now: Nanos) {
        let program = lock(&self.known).programs.get(&serial).cloned();
        if let Some(program) = program {
            let rows = program.last_rows(serial);
            let mut known = lock(&self.known);
            known.programs.remove(&serial);
            known.gone.add((program.uid, serial), rows, now);
        }
    }

    /// Counts programs of this user (for root: of all users) that owe a report, and sockets beyond its limit.
    /// `fresh`: their users' threads first ask all of them for a new report.
    pub(super) fn reports(&self, uid: u32, fresh: bool) -> (u32, u64) {
        let known = lock(&self.known);
        known.programs.values().filter(|program| uid == 0 || program.uid == uid).fold(
            (0, 0),
            |(owing, others), program| {
                if fresh && program.reports.want() {
                    program.bell.ask();
                }
                let (owes, beyond) = program.reports.progress();
                (owing + u32::from(owes), others + u64::from(beyond))
            },
        )
    }

    /// Some rows of this user's programs (for root: of all), beginning at that position; any number is valid. Also
    /// returns the next position. Programs that start or end between pages do not shift other programs' rows.
    pub(super) fn page(&self, uid: u32, from: u64, now: Nanos) -> (Vec<Row>, Option<u64>) {
        let (first, place) = ((from >> 32) as u32, from as u32);
        let mut page = Page::default();
        let programs = self.programs_from(first, uid, now);
        for (serial, program) in &programs {
            let from = if *serial == first { place } else { 0 };
            let next = match program {
                Entry::Here(listed) => listed.add_rows(*serial, from, &mut page),
                Entry::Gone(past) => page.add_past(past, from, now),
            };
            if let Some(place) = next {
                return (page.rows, Some(position(*serial, place)));
            }
        }
        let last = programs.get(MAX_PAGE_PROGRAMS - 1);
        (page.rows, last.and_then(|(serial, _)| Some(position(serial.checked_add(1)?, 0))))
    }

    fn programs_from(&self, first: u32, uid: u32, now: Nanos) -> Vec<(u32, Entry)> {
        let known = lock(&self.known);
        let own = known.programs.range(first..).filter(|(_, program)| uid == 0 || program.uid == uid);
        let here = own.take(MAX_PAGE_PROGRAMS).map(|(serial, program)| (*serial, Entry::Here(program.clone())));
        let gone = known.gone.programs_from(first, uid, MAX_PAGE_PROGRAMS, now);
        let gone = gone.into_iter().map(|past| (past.serial, Entry::Gone(past)));
        let mut programs: Vec<_> = here.chain(gone).collect();
        drop(known);
        programs.sort_by_key(|(serial, _)| *serial);
        programs.truncate(MAX_PAGE_PROGRAMS);
        programs
    }
}
