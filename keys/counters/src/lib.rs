//! The counter file: the service's counters, readable by all users.
//!
//! The service creates one file, maps it and counts in it by [`Counters`]; `top` and exporters only read, by
//! [`Snapshot`]. Every number is a 64-bit word with a single writer, so counting takes a load, an addition and a store:
//! no lock, no system call, no allocation. A reader may see one number a little older than the next. It cannot disturb
//! the service, and for any content of the file it gets numbers or an error in words.
//!
//! This crate knows neither keys nor clients. A client's own numbers reach the file through the service, which copies
//! them from the client's lane; they are marked as what the client says.
//!
//! |Module|For|
//! |---|---|
//! |`kinds`|tables of counters: their numbers, headings and metrics|
//! |`limits`|limits whose use is published|
//! |`layout`|places of the numbers in the file|
//! |`about`|descriptions of blocks: names, places of threads|
//! |`writer`|the file, as its service writes it; `writer/block`: the blocks in it|
//! |`snapshot`|one state of the file, as plain data; `snapshot/reader` reads it|

mod about;
mod kinds;
mod layout;
mod limits;
mod snapshot;
mod writer;

pub use about::{ClassAbout, DeviceAbout, KeyAbout, LaneAbout, SidecoreAbout};
pub use kinds::{ClassCounter, Counter, DeviceCounter, KeyCounter, Kind, LaneCounter, Row, SidecoreCounter};
pub use layout::{Shape, Start};
pub use limits::{Limit, LimitUse};
pub use snapshot::{
    ClassStats, DeviceStats, Histogram, KeyStats, LaneStats, SidecoreStats, Snapshot, SnapshotError, SnapshotErrorKind,
    Stats,
};
pub use writer::block::{Block, DeviceBlock, KeyBlock, LaneBlock, SidecoreBlock};
pub use writer::{Counters, Draft, MAX_KEY_NAME, counters_beside};
