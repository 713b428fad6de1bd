//! A request as decisions see it: numbers, no payload.

use crate::session::Class;
use crate::time::Nanos;

/// Number of a client in its dispatch. Used again after the client is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientId(pub u32);

/// Number of a lane in its dispatch. Used again after the lane is closed and its requests left the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneId(pub u32);

/// What policies know of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The lane it came from.
    pub lane: LaneId,
    /// The client's name for it.
    pub tag: u32,
    /// Algorithm and operation.
    pub class: Class,
    /// Bytes of input.
    pub size: u32,
    /// Announce its completion at once.
    pub urgent: bool,
    /// When it was submitted, if it is sampled.
    pub submitted: Option<Nanos>,
}
