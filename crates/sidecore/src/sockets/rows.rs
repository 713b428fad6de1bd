//! What is told of programs and their sockets: read from the words that service and program share, by any user's thread.

use super::meter::Price;
use crate::shm::BankMemory;
use sidecore_client::sockets::protocol::{MAX_ROWS, Row};
use sidecore_core::streams::cursor::Cursors;
use sidecore_core::streams::layout::{
    DRAINS, HEAD, KERNEL_MESSAGES, MESSAGES, PLACES, ROW, SHARED, SOCKET, STATE, TAIL, TRANSFERS, WHY, WRITER,
};
use sidecore_core::streams::place::stream_of;
use sidecore_core::streams::saving::saved;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places that are looked at for one page: most may have nothing to tell, and the user's thread has streams to serve.
const MOST_PLACES: u32 = 4096;
/// Programs that are looked at for one page.
const MOST_PROGRAMS: usize = MAX_ROWS;

/// One program, as it is told of.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) uid: u32,
    pub(super) pid: u32,
    pub(super) name: String,
    /// Of its user's system calls.
    price: Arc<Price>,
    banks: Mutex<Vec<(Arc<BankMemory>, Peers)>>,
}

/// The peers of a bank's streams, while the service has their sockets.
type Peers = Box<[Option<SocketAddr>]>;

/// Rows of one answer, as they are gathered.
#[derive(Default)]
struct Page {
    rows: Vec<Row>,
    places: u32,
}

/// The programs of all users, by their numbers, which grow.
#[derive(Debug, Default)]
pub(super) struct Registry {
    programs: Mutex<BTreeMap<u32, Arc<Listed>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here is done by halves.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listed {
    pub(super) fn new(uid: u32, pid: u32, name: String, price: Arc<Price>) -> Self {
        Self { uid, pid, name, price, banks: Mutex::default() }
    }

    pub(super) fn add(&self, bank: Arc<BankMemory>) {
        lock(&self.banks).push((bank, vec![None; PLACES as usize].into()));
    }

    /// Whom the stream at that place goes to.
    pub(super) fn set_peer(&self, place: u32, peer: Option<SocketAddr>) {
        let mut banks = lock(&self.banks);
        let bank = banks.get_mut((place / PLACES) as usize);
        if let Some(known) = bank.and_then(|(_, peers)| peers.get_mut((place % PLACES) as usize)) {
            *known = peer;
        }
    }

    /// Adds rows of its places that have or had a stream, beginning at `from`. The first place that the page has no room
    /// for; `None`: there are no more.
    fn add_rows(&self, serial: u32, from: u32, page: &mut Page) -> Option<u32> {
        let banks = lock(&self.banks);
        for place in from..banks.len() as u32 * PLACES {
            if page.is_full() {
                return Some(place);
            }
            let (memory, peers) = &banks[(place / PLACES) as usize];
            page.places += 1;
            let row = self.row(memory, place, peers[(place % PLACES) as usize]);
            page.rows.extend(row.map(|row| Row { serial, ..row }));
        }
        None
    }

    /// Of the place of that number among all banks, which is in this one.
    fn row(&self, memory: &BankMemory, number: u32, peer: Option<SocketAddr>) -> Option<Row> {
        let word = |line, word| memory.word(number % PLACES, line, word).load(Ordering::Relaxed);
        let (messages, kernel_messages) = (word(WRITER, MESSAGES), word(WRITER, KERNEL_MESSAGES));
        if peer.is_none() && messages == 0 && kernel_messages == 0 {
            return None;
        }
        let (bytes, transfers, drains) = (word(SHARED, HEAD), word(SHARED, TRANSFERS), word(WRITER, DRAINS));
        let cursors = Cursors::read(bytes, word(WRITER, TAIL), memory.layout().ring_bytes());
        Some(Row {
            serial: 0,
            pid: self.pid,
            uid: self.uid,
            program: self.name.clone(),
            place: number,
            stream: stream_of(word(SHARED, STATE)),
            descriptor: word(ROW, SOCKET) as u32,
            peer: peer.map(|peer| peer.to_string()),
            why: word(ROW, WHY) as u8,
            messages,
            kernel_messages,
            bytes,
            transfers,
            drains,
            waiting: cursors.map_or(0, |cursors| cursors.waiting().into()),
            // A message that was moved has a byte at least, whatever the program says.
            saved_ns: self.price.get().map(|price| saved(price, messages.min(bytes), transfers.saturating_add(drains))),
        })
    }
}

impl Page {
    fn is_full(&self) -> bool {
        self.rows.len() == MAX_ROWS || self.places == MOST_PLACES
    }
}

/// Where a page begins: a program, and a place of it.
fn position(serial: u32, place: u32) -> u64 {
    u64::from(serial) << 32 | u64::from(place)
}

impl Registry {
    pub(super) fn add(&self, serial: u32, program: Arc<Listed>) {
        lock(&self.programs).insert(serial, program);
    }

    pub(super) fn remove(&self, serial: u32) {
        lock(&self.programs).remove(&serial);
    }

    /// Some rows of this user's programs, for root of all, beginning at that position (any is one); and where the next begin.
    /// Programs that come and go between pages shift no other's rows.
    pub(super) fn page(&self, uid: u32, from: u64) -> (Vec<Row>, Option<u64>) {
        let (first, place) = ((from >> 32) as u32, from as u32);
        let mut page = Page::default();
        let programs = self.programs_from(first, uid);
        for (serial, program) in &programs {
            let from = if *serial == first { place } else { 0 };
            if let Some(place) = program.add_rows(*serial, from, &mut page) {
                return (page.rows, Some(position(*serial, place)));
            }
        }
        let last = programs.get(MOST_PROGRAMS - 1);
        (page.rows, last.and_then(|(serial, _)| Some(position(serial.checked_add(1)?, 0))))
    }

    fn programs_from(&self, first: u32, uid: u32) -> Vec<(u32, Arc<Listed>)> {
        let programs = lock(&self.programs);
        let own = programs.range(first..).filter(|(_, program)| uid == 0 || program.uid == uid);
        own.take(MOST_PROGRAMS).map(|(serial, program)| (*serial, program.clone())).collect()
    }
}
