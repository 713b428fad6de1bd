//! Resources of one user in the service: a permit for each object, released once the object is closed and not before.

use crate::SocketsConfig;
use sidecore_sockets::protocol::Refused;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sockets beyond the limit that are held for a moment: bytes in the ring of a refused stream are still sent.
const PARTING: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Programs,
    Sockets,
    /// Shared memory, bytes.
    Bytes,
}

#[derive(Debug)]
pub(super) struct Ledger {
    limits: SocketsConfig,
    held: [AtomicU64; 3],
}

/// A part of a user's resources. Dropped after the object that it covers.
#[derive(Debug)]
pub(super) struct Permit {
    ledger: Arc<Ledger>,
    kind: Kind,
    amount: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.ledger.held[self.kind as usize].fetch_sub(self.amount, Ordering::AcqRel);
    }
}

impl Ledger {
    pub(super) fn new(limits: SocketsConfig) -> Arc<Self> {
        Arc::new(Self { limits, held: Default::default() })
    }

    /// A permit for `amount` more.
    ///
    /// # Errors
    /// The limit, by its name in the configuration.
    pub(super) fn take(self: &Arc<Self>, kind: Kind, amount: u64) -> Result<Permit, Refused> {
        let limits = &self.limits;
        let (key, number, limit, what) = match kind {
            Kind::Programs => ("max_programs", limits.max_programs, limits.max_programs.into(), "programs"),
            Kind::Sockets => {
                ("max_sockets", limits.max_sockets, u64::from(limits.max_sockets) + PARTING, "connections in rings")
            }
            Kind::Bytes => ("max_mib", limits.max_mib, u64::from(limits.max_mib) << 20, "MiB of rings"),
        };
        let more = |held: u64| held.checked_add(amount).filter(|held| *held <= limit);
        let taken = self.held[kind as usize].fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.map(|_| Permit { ledger: self.clone(), kind, amount }).map_err(|_| {
            Refused::limit(format_args!(
                "this user has all the {what} that sockets.{key} = {number} allows: end some, or raise it"
            ))
        })
    }

    /// Whether more sockets are held than the limit: such a stream goes back to its program.
    pub(super) fn sockets_exceed(&self) -> bool {
        self.held[Kind::Sockets as usize].load(Ordering::Acquire) > self.limits.max_sockets.into()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.iter().all(|held| held.load(Ordering::Acquire) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_and_what_is_given_back_is_there_for_others() {
        let limits = SocketsConfig { max_programs: 2, max_mib: 1, max_sockets: 1, ..SocketsConfig::default() };
        let ledger = Ledger::new(limits);
        let programs = [Kind::Programs; 2].map(|kind| ledger.take(kind, 1).unwrap());
        assert!(ledger.take(Kind::Programs, 1).unwrap_err().text.contains("sockets.max_programs = 2"));
        let bytes = ledger.take(Kind::Bytes, 1 << 20).unwrap();
        assert!(ledger.take(Kind::Bytes, 1).unwrap_err().text.contains("sockets.max_mib = 1"));
        assert!(ledger.take(Kind::Bytes, u64::MAX).is_err());
        drop((programs, bytes));
        assert!(ledger.is_empty());
        assert!(ledger.take(Kind::Programs, 2).is_ok());
    }

    #[test]
    fn some_sockets_beyond_the_limit_are_held_for_a_moment() {
        let ledger = Ledger::new(SocketsConfig { max_sockets: 1, ..SocketsConfig::default() });
        let _one = ledger.take(Kind::Sockets, 1).unwrap();
        assert!(!ledger.sockets_exceed());
        let more: Vec<_> = std::iter::from_fn(|| ledger.take(Kind::Sockets, 1).ok()).collect();
        assert!(ledger.sockets_exceed());
        assert_eq!(more.len() as u64, PARTING);
    }
}
