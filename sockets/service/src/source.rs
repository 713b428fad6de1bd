//! Numbers of the poller's sources of a user's thread: program, and kind. A number is never reused.

/// Bits of a place's number among all of a program's banks.
const PLACE_BITS: u32 = 15;
const KIND_BITS: u32 = 2;
const CLIENT_BITS: u32 = 15;

pub(super) const WAKE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Control,
    Doorbell,
    Process,
    Stream(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) client: usize,
    pub(super) serial: u32,
    pub(super) what: What,
}

impl Source {
    pub(super) fn number(self) -> u64 {
        let (kind, place) = match self.what {
            What::Control => (0, 0),
            What::Doorbell => (1, 0),
            What::Process => (2, 0),
            What::Stream(place) => (3, u64::from(place)),
        };
        let client = (self.client as u64) << (KIND_BITS + PLACE_BITS);
        u64::from(self.serial) << (CLIENT_BITS + KIND_BITS + PLACE_BITS) | client | kind << PLACE_BITS | place
    }

    pub(super) fn of(number: u64) -> Self {
        let bits = |from: u32, count: u32| (number >> from) as u32 & ((1 << count) - 1);
        let what = match bits(PLACE_BITS, KIND_BITS) {
            0 => What::Control,
            1 => What::Doorbell,
            2 => What::Process,
            _ => What::Stream(bits(0, PLACE_BITS)),
        };
        let client = bits(PLACE_BITS + KIND_BITS, CLIENT_BITS) as usize;
        Self { client, serial: (number >> (CLIENT_BITS + KIND_BITS + PLACE_BITS)) as u32, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_streams::layout::{MAX_BANKS, PLACES};

    #[test]
    fn each_number_names_one_source() {
        let last = What::Stream(MAX_BANKS * PLACES - 1);
        for what in [What::Control, What::Doorbell, What::Process, What::Stream(0), last] {
            for (client, serial) in [(0, 0), (16_384, 1), (3, u32::MAX - 1)] {
                let source = Source { client, serial, what };
                assert_eq!(Source::of(source.number()), source);
                assert_ne!(source.number(), WAKE);
            }
        }
    }
}
