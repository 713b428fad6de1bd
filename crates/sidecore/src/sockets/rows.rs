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

/// The programs of all users.
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

    /// Rows of its places that have or had a stream.
    fn rows(&self) -> Vec<Row> {
        let banks = lock(&self.banks);
        let places = banks.iter().zip((0..).step_by(PLACES as usize)).flat_map(|((memory, peers), first)| {
            (first..).zip(peers).map(move |(number, peer)| (memory, number, *peer))
        });
        places.filter_map(|(memory, number, peer)| self.row(memory, number, peer)).collect()
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

impl Registry {
    pub(super) fn add(&self, serial: u32, program: Arc<Listed>) {
        lock(&self.programs).insert(serial, program);
    }

    pub(super) fn remove(&self, serial: u32) {
        lock(&self.programs).remove(&serial);
    }

    /// Rows from that one on, as many as one answer takes: of this user's programs, for root of all.
    pub(super) fn rows(&self, uid: u32, from: u32) -> Vec<Row> {
        let programs: Vec<_> =
            lock(&self.programs).values().filter(|program| uid == 0 || program.uid == uid).cloned().collect();
        programs.iter().flat_map(|program| program.rows()).skip(from as usize).take(MAX_ROWS).collect()
    }
}
