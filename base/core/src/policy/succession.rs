//! A service whose place another one takes: what the former one may do at each step.
//!
//! Both run side by side for a while. The former one answers clients until the next one has read the keys and can
//! answer them itself, so a slow start costs no client anything. The next one may die at any step, or never get to the
//! following one; then the former one goes on. Three rules keep the keys whole:
//!
//! - Only the holder of the lock on the keys at rest writes them. The former service gives the lock up before the next
//!   one reads. It writes again only with the lock in its hands, which the kernel gives when the next one is gone.
//! - With the lock back, it looks whether the keys at rest are as it left them. Otherwise its own keys are out of date,
//!   and it ends.
//! - Once the next one has the socket, it may have told clients of changes. From then on the former one accepts nobody
//!   until it has the lock back.
//!
//! The tests try all orders of these steps, with the death of either service between any two.

use crate::time::Nanos;

/// Longest time for the next service to read the keys, ns. Meanwhile no key can be changed.
const READING: Nanos = 300_000_000_000;
/// Longest time without a service that accepts clients, while the lock does not come back, ns.
const REGAINING: Nanos = 10_000_000_000;

/// What the next service asks for, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The keys at rest, to read them.
    Keys,
    /// The listening socket, and the lock of its place.
    Socket,
    /// The end of the former service.
    End,
}

/// Why a step is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotNow {
    /// A next service is there already, or has not yet let go of the keys.
    Another,
    /// Another step comes before this one.
    OutOfTurn,
}

/// The keys at rest, as the former service finds them when it tries to lock them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Another process has the lock.
    Locked,
    /// It has the lock, and the keys are as it left them.
    Same,
    /// Other keys, or none that it can read.
    Changed,
}

/// What follows from an attempt to lock the keys again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Try again later.
    Wait,
    /// Go on as before the next service came.
    Resume,
    /// End: its keys are out of date, or nobody would serve.
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Alone,
    Reading { until: Nanos },
    Serving,
    Regaining { accepts: bool, until: Nanos },
    Over,
}

/// The former service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Former(Stage);

impl Default for Former {
    fn default() -> Self {
        Self(Stage::Alone)
    }
}

impl Former {
    /// Whether it may change keys at rest.
    pub fn may_write(self) -> bool {
        self.0 == Stage::Alone
    }

    /// Whether it accepts clients.
    pub fn accepts(self) -> bool {
        matches!(self.0, Stage::Alone | Stage::Reading { .. } | Stage::Regaining { accepts: true, .. })
    }

    /// Whether a next service is connected.
    pub fn has_next(self) -> bool {
        matches!(self.0, Stage::Reading { .. } | Stage::Serving)
    }

    /// The next service asks for this step. After `Ok`, the former one has taken it.
    ///
    /// # Errors
    /// The step is not due; nothing changes.
    pub fn ask(&mut self, step: Step, now: Nanos) -> Result<(), NotNow> {
        self.0 = match (self.0, step) {
            (Stage::Alone, Step::Keys) => Stage::Reading { until: now.saturating_add(READING) },
            (Stage::Reading { .. }, Step::Socket) => Stage::Serving,
            (Stage::Serving, Step::End) => Stage::Over,
            (Stage::Alone | Stage::Over, _) => return Err(NotNow::OutOfTurn),
            (_, Step::Keys) => return Err(NotNow::Another),
            _ => return Err(NotNow::OutOfTurn),
        };
        Ok(())
    }

    /// Whether the next service takes too long: its connection is to be closed.
    pub fn is_overdue(self, now: Nanos) -> bool {
        matches!(self.0, Stage::Reading { until } if until <= now)
    }

    /// The connection of the next service has ended. It may live.
    pub fn next_is_gone(&mut self, now: Nanos) {
        let accepts = match self.0 {
            Stage::Reading { .. } => true,
            Stage::Serving => false,
            _ => return,
        };
        self.0 = Stage::Regaining { accepts, until: now.saturating_add(REGAINING) };
    }

    /// Whether it is to try to lock the keys at rest.
    pub fn wants_lock(self) -> bool {
        matches!(self.0, Stage::Regaining { .. })
    }

    /// It tried to lock the keys at rest, and found this.
    pub fn tried(&mut self, found: Found, now: Nanos) -> Then {
        let Stage::Regaining { accepts, until } = self.0 else { return Then::Wait };
        match found {
            Found::Same => {
                self.0 = Stage::Alone;
                Then::Resume
            }
            Found::Locked if accepts || now < until => Then::Wait,
            Found::Locked | Found::Changed => {
                self.0 = Stage::Over;
                Then::Fail
            }
        }
    }
}

#[cfg(test)]
mod tests;
