//! What is told of programs and their sockets: read from the words that service and program share, by any user's thread.

use crate::shm::BankMemory;
use sidecore_client::sockets::protocol::{MAX_ROWS, Row};
use sidecore_core::streams::cursor::Cursors;
use sidecore_core::streams::layout::{
    HEAD, KERNEL_MESSAGES, MESSAGES, PLACES, ROW, SHARED, SOCKET, TAIL, TRANSFERS, WHY, WRITER,
};
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
    pub(super) fn new(uid: u32, pid: u32, name: String) -> Self {
        Self { uid, pid, name, banks: Mutex::default() }
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
        let places = banks.iter().flat_map(|(memory, peers)| (0..PLACES).map(move |place| (memory, place, peers)));
        places.filter_map(|(memory, place, peers)| self.row(memory, place, peers[place as usize])).collect()
    }

    fn row(&self, memory: &BankMemory, place: u32, peer: Option<SocketAddr>) -> Option<Row> {
        let word = |line, word| memory.word(place, line, word).load(Ordering::Relaxed);
        let (messages, kernel_messages) = (word(WRITER, MESSAGES), word(WRITER, KERNEL_MESSAGES));
        if peer.is_none() && messages == 0 && kernel_messages == 0 {
            return None;
        }
        let bytes = word(SHARED, HEAD);
        let cursors = Cursors::read(bytes, word(WRITER, TAIL), memory.layout().ring_bytes());
        Some(Row {
            pid: self.pid,
            uid: self.uid,
            program: self.name.clone(),
            descriptor: word(ROW, SOCKET) as u32,
            peer: peer.map(|peer| peer.to_string()),
            why: word(ROW, WHY) as u8,
            messages,
            kernel_messages,
            bytes,
            transfers: word(SHARED, TRANSFERS),
            waiting: cursors.map_or(0, |cursors| cursors.waiting().into()),
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
