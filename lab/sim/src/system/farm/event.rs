//! The world's events, and the messages and attempts in them.

use sidecore_core::time::Nanos;

#[derive(Clone, Copy, Debug)]
pub(super) enum FarmEvent {
    Comes,
    Waits(u32),
    Reached(Parcel),
    Worked(Parcel, Answer),
    Came(Message),
    Turns,
    Stored(u32),
    Beats(usize, u32),
    Looks,
    Dies,
    Back(usize),
    Asks(usize, u32),
    Expires(u32, u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Answer(Parcel, Answer),
    Started(Parcel),
    /// Counts of events received and answered in this life.
    Beat {
        node: usize,
        life: u32,
        received: u64,
        answered: u64,
    },
    Joins {
        node: usize,
        life: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parcel {
    pub(super) node: usize,
    /// Life of that node; it begins another one after its death.
    pub(super) life: u32,
    pub(super) job: u32,
    pub(super) attempt: u64,
    pub(super) work: f64,
    /// A node died with it: the dispatcher has to know when another one begins with it.
    pub(super) reports_start: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) held: Nanos,
    pub(super) work: Nanos,
    pub(super) failed: bool,
}
