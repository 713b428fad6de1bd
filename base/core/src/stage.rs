//! Stage times of a request.
//!
//! The stages are z/VM's for its crypto adapters. A clock read costs some 20 ns, so a [`Sampler`]
//! picks the requests with time stamps.

use crate::time::Nanos;

/// A part of a request's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Stage {
    /// From submission until the request is handed to its device.
    Queue = 0,
    /// From there until the reply is taken from the device.
    Device,
    /// From submission until the reply is taken from the device.
    Host,
    /// From there until the client has the completion.
    Deliver,
    /// From submission until the client has the completion.
    Total,
}

impl Stage {
    /// Number of stages.
    pub const COUNT: usize = 5;
    /// All stages in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [Self::Queue, Self::Device, Self::Host, Self::Deliver, Self::Total];

    /// Name in tables and rows.
    pub fn name(self) -> &'static str {
        ["queue", "device", "host", "deliver", "total"][self as usize]
    }

    /// Name in z/VM.
    pub fn zvm_name(self) -> &'static str {
        ["NSERV", "RSERV", "HSERV", "DSERV", "VSERV"][self as usize]
    }
}

/// Instants in the life of one request, as its completion carries them, ns.
///
/// `submitted` is the client's word, so any value is possible. A stage that would be negative lasts 0, and none lasts
/// longer than [`Stamps::LIMIT`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The client submitted the request.
    pub submitted: Nanos,
    /// The service handed it to a device.
    pub handed: Nanos,
    /// The service took the reply from the device.
    pub taken: Nanos,
}

impl Stamps {
    /// Longest time of a stage, ns: one minute, so that a false stamp cannot spoil a sum for long.
    pub const LIMIT: Nanos = 60_000_000_000;

    /// Time of [`Stage::Queue`], ns.
    #[inline]
    pub fn queue(&self) -> Nanos {
        between(self.submitted, self.handed)
    }

    /// Time of [`Stage::Device`], ns.
    #[inline]
    pub fn device(&self) -> Nanos {
        between(self.handed, self.taken)
    }

    /// Time of [`Stage::Host`], ns.
    #[inline]
    pub fn host(&self) -> Nanos {
        between(self.submitted, self.taken)
    }

    /// Time of [`Stage::Deliver`] for a client that had the completion at `received`, ns.
    #[inline]
    pub fn deliver(&self, received: Nanos) -> Nanos {
        between(self.taken, received)
    }

    /// Time of [`Stage::Total`] for a client that had the completion at `received`, ns.
    #[inline]
    pub fn total(&self, received: Nanos) -> Nanos {
        between(self.submitted, received)
    }
}

#[inline]
fn between(from: Nanos, to: Nanos) -> Nanos {
    to.saturating_sub(from).min(Stamps::LIMIT)
}

/// Picks the requests with time stamps: one in a given number, beginning with the first.
#[derive(Clone, Debug)]
pub struct Sampler {
    every: u32,
    /// Requests to pass over before the next one is picked.
    left: u32,
}

impl Sampler {
    /// Picks one request in `every`; 0 picks none and 1 all.
    pub fn new(every: u32) -> Self {
        Self { every, left: 0 }
    }

    /// Whether this request gets time stamps. Called once for each.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it answers for each request and never ends")]
    pub fn next(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        self.left = self.every.saturating_sub(1);
        self.every > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_numbered_and_named() {
        for (number, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, number);
        }
        assert_eq!((Stage::Queue.name(), Stage::Queue.zvm_name()), ("queue", "NSERV"));
        assert_eq!((Stage::Total.name(), Stage::Total.zvm_name()), ("total", "VSERV"));
    }

    #[test]
    fn stages_add_up() {
        let stamps = Stamps { submitted: 100, handed: 130, taken: 190 };
        assert_eq!((stamps.queue(), stamps.device(), stamps.host()), (30, 60, 90));
        assert_eq!((stamps.deliver(200), stamps.total(200)), (10, 100));
    }

    #[test]
    fn a_false_stamp_saturates() {
        let future = Stamps { submitted: u64::MAX, handed: 130, taken: 190 };
        assert_eq!((future.queue(), future.host(), future.total(200)), (0, 0, 0));
        let past = Stamps { submitted: 0, handed: u64::MAX, taken: u64::MAX };
        assert_eq!((past.queue(), past.host(), past.deliver(0)), (Stamps::LIMIT, Stamps::LIMIT, 0));
    }

    #[test]
    fn one_in_so_many_is_picked() {
        for (every, picked) in [(0, 0), (1, 12), (4, 3), (5, 3), (u32::MAX, 1)] {
            let mut sampler = Sampler::new(every);
            assert_eq!((0..12).filter(|_| sampler.next()).count(), picked, "{every}");
        }
    }
}
