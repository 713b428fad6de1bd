//! The world's events, and the packets in them.

use super::parameters::{Lhcb, Traffic};

#[derive(Clone, Copy, Debug)]
pub(super) enum LhcbEvent {
    Bus(usize),
    Carried(usize, Packet),
    Timer(usize),
    Section(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    Data(u64),
    /// Bytes that the other program has taken.
    Ack(u64),
}

impl Packet {
    pub(super) fn frame(self, traffic: Traffic) -> u64 {
        Lhcb::frame(traffic, if let Self::Data(bytes) = self { bytes } else { 0 })
    }
}
