//! Requests that were handed to a device and not yet answered.
//!
//! A fixed table made once. A [`Ticket`] names an entry and its generation: when a request is taken from a dead device
//! and given to another, the entry gets a new generation, so a late answer from the dead one matches nothing. That is
//! what makes each request complete exactly once.

use crate::time::Nanos;
use crate::work::Work;
use alloc::vec::Vec;

/// Name of one attempt at one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    index: u32,
    generation: u32,
}

impl Ticket {
    /// Index in the table, below its capacity, for parallel arrays. A request that moves keeps its index.
    #[inline]
    pub fn index(self) -> usize {
        self.index as usize
    }

    /// Both numbers in one word.
    #[inline]
    pub fn to_word(self) -> u64 {
        u64::from(self.index) | u64::from(self.generation) << 32
    }

    /// The ticket of a word that [`Ticket::to_word`] made.
    #[inline]
    pub fn from_word(word: u64) -> Self {
        Self { index: word as u32, generation: (word >> 32) as u32 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestState {
    OnDevice,
    Deferred,
    /// Its device died, and it waits to be given to another one.
    Orphan,
}

impl RequestState {
    #[inline]
    pub(crate) fn is_on_device(self) -> bool {
        self == Self::OnDevice
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) work: Work,
    pub(crate) device: u8,
    pub(crate) state: RequestState,
    pub(crate) handed: Nanos,
    pub(crate) cost: Nanos,
    /// Devices that had it before and died.
    pub(crate) losses: u8,
}

impl Entry {
    #[inline]
    pub(crate) fn new(work: Work, device: u8, handed: Nanos, cost: Nanos, losses: u8) -> Self {
        Self { work, device, state: RequestState::OnDevice, handed, cost, losses }
    }
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    entry: Option<Entry>,
}

/// The table. `capacity` entries, no allocation after [`InFlight::new`].
#[derive(Debug)]
pub(crate) struct InFlight {
    places: Vec<Slot>,
    free: Vec<u32>,
}

impl InFlight {
    pub(crate) fn new(capacity: u32) -> Self {
        let places = (0..capacity).map(|_| Slot { generation: 0, entry: None }).collect();
        Self { places, free: (0..capacity).rev().collect() }
    }

    /// Reuses the place freed last, so an entry that is taken out and put back keeps its place.
    #[inline]
    pub(crate) fn insert(&mut self, entry: Entry) -> Option<Ticket> {
        let index = self.free.pop()?;
        let place = &mut self.places[index as usize];
        place.entry = Some(entry);
        Some(Ticket { index, generation: place.generation })
    }

    #[inline]
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Entry> {
        let place = self.current(ticket)?;
        let entry = place.entry.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(ticket.index);
        Some(entry)
    }

    pub(crate) fn get(&self, ticket: Ticket) -> Option<&Entry> {
        self.places.get(ticket.index()).filter(|place| place.generation == ticket.generation)?.entry.as_ref()
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        self.current(ticket)?.entry.as_mut()
    }

    pub(crate) fn next_on(&self, device: u8, from: usize) -> Option<Ticket> {
        let rest = self.places.get(from..)?;
        let offset = rest.iter().position(|place| {
            place.entry.is_some_and(|entry| entry.device == device && entry.state != RequestState::Orphan)
        })?;
        let index = from + offset;
        Some(Ticket { index: index as u32, generation: self.places[index].generation })
    }

    /// One bit for each device that an entry names, including dead ones with orphans.
    pub(crate) fn devices(&self) -> u64 {
        self.places.iter().filter_map(|place| place.entry).fold(0, |named, entry| named | 1 << entry.device)
    }

    pub(crate) fn latest(&self, ticket: Ticket) -> Option<Ticket> {
        let place = self.places.get(ticket.index())?;
        place
            .entry
            .filter(|entry| entry.state.is_on_device())
            .map(|_| Ticket { generation: place.generation, ..ticket })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    #[inline]
    fn current(&mut self, ticket: Ticket) -> Option<&mut Slot> {
        self.places.get_mut(ticket.index()).filter(|place| place.generation == ticket.generation)
    }
}
