//! The order of the requests on a device.
//!
//! [`Order::Shortest`] ranks requests by `AGEING × time + arrival`, least first. A rank never changes, so a heap
//! holds them. A request can be overtaken only by requests that arrive within `AGEING` times its own time. A request
//! of time C thus waits for the requests present at its arrival, and for arrivals within `AGEING × C`. Shortest first
//! is best for mean response (Schrage, "A proof of the optimality of the shortest remaining processing time
//! discipline", 1968). Ageing by arrival is that of Unix schedulers, with the bound made explicit.
//!
//! Where sizes have a heavy tail, short requests wait for the one long request in service. Requests over [`CHUNK`]
//! are therefore served in chunks; between two of them the device continues with the least rank.

use crate::policy::ParseError;
use crate::time::Nanos;
use core::fmt::{self, Display, Formatter};

/// Largest part of a request that is done in one piece under [`Order::Shortest`], bytes.
pub const CHUNK: u32 = 32 * 1024;
/// Multiple of a request's own time after which no arrival overtakes it.
pub const AGEING: Nanos = 16;

/// Rule for the order of a device's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they come.
    Fifo,
    /// Those of the least time first, with ageing.
    Shortest,
}

const NAMES: [&str; 2] = ["fifo", "shortest"];

/// How a device serves one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The device continues with the least rank; on a tie with the earliest request.
    pub rank: Nanos,
    /// Number of equal pieces, at least 1.
    pub chunks: u32,
}

impl Schedule {
    /// As it comes and in one piece.
    pub const FIFO: Self = Self { rank: 0, chunks: 1 };
}

impl Order {
    /// All rules.
    pub const ALL: [Self; 2] = [Self::Fifo, Self::Shortest];

    /// Reads `fifo` or `shortest`.
    ///
    /// # Errors
    ///
    /// For any other text.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let name = text.trim();
        let found = Self::ALL.into_iter().find(|order| order.name() == name);
        found.ok_or_else(|| ParseError::unknown(name, &NAMES, "fifo, shortest"))
    }

    /// Name on the command line and in rows.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// The schedule of a request of that size (bytes) and expected time `cost` (ns).
    #[inline]
    pub fn schedule(self, arrived: Nanos, cost: Nanos, size: u32) -> Schedule {
        match self {
            Self::Fifo => Schedule::FIFO,
            Self::Shortest => {
                Schedule { rank: arrived.saturating_add(cost.saturating_mul(AGEING)), chunks: chunks(size) }
            }
        }
    }
}

/// Pieces of a request of that size (bytes) under [`Order::Shortest`].
#[inline]
pub fn chunks(size: u32) -> u32 {
    size.div_ceil(CHUNK).max(1)
}

impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn spellings_come_back() {
        for (order, name) in Order::ALL.into_iter().zip(NAMES) {
            assert_eq!((Order::parse(name), order.to_string().as_str()), (Ok(order), name));
        }
        let error = Order::parse("shorter").unwrap_err().to_string();
        assert_eq!(error, "no such policy, did you mean `shortest`?; accepted: fifo, shortest");
    }

    #[test]
    fn the_short_pass_the_long_for_so_long() {
        let long = Order::Shortest.schedule(1_000, 100, 64).rank;
        let short = |arrived| Order::Shortest.schedule(arrived, 1, 64).rank;
        assert!(short(1_000 + 99 * AGEING) <= long && short(1_001 + 99 * AGEING) > long);
        assert_eq!(Order::Fifo.schedule(1_000, 100, u32::MAX), Schedule::FIFO);
        assert_eq!(Order::Shortest.schedule(u64::MAX, u64::MAX, 0), Schedule { rank: u64::MAX, chunks: 1 });
    }

    #[test]
    fn what_is_longer_than_a_chunk_is_cut() {
        let chunks = |size| Order::Shortest.schedule(0, 0, size).chunks;
        assert_eq!([0, CHUNK, CHUNK + 1, 1 << 20].map(chunks), [1, 1, 2, 32]);
    }
}
