//! The world's events, and the messages and attempts in them.

use sidecore_core::time::Nanos;

#[derive(Clone, Copy, Debug)]
pub(super) enum FarmEvent {
    /// The next event of the farm is due.
    Comes,
    /// An event of the farm arrives at the assigning party.
    Waits(u32),
    /// It arrives at its node.
    Reached(Parcel),
    /// Its node has done it.
    Worked(Parcel, Answer),
    /// A message arrives at the dispatcher; the dispatcher ends its present step.
    Came(Message),
    Turns,
    Stored(u32),
    /// This node beats, in this life.
    Beats(usize, u32),
    /// The dispatcher checks for silent nodes.
    Looks,
    /// A node dies; a node returns.
    Dies,
    Back(usize),
    /// A node's request for an event arrives at the server.
    Asks(usize, u32),
    /// The server's wait for the acknowledgement of this attempt is over.
    Expires(u32, u64),
}

/// A message from a node to the dispatcher.
#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Answer(Parcel, Answer),
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

/// One attempt at an event, with its node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Parcel {
    pub(super) node: usize,
    /// Life of that node; it begins another one after its death.
    pub(super) life: u32,
    pub(super) job: u32,
    /// Name of the attempt.
    pub(super) attempt: u64,
    pub(super) work: f64,
}

/// A node's answer to an event, with times by its own clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) held: Nanos,
    pub(super) work: Nanos,
    pub(super) failed: bool,
}
