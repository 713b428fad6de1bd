//! Lines on standard error, which a service manager writes to its log. A client that fails again and again has a few
//! lines a minute.

use sidecore_client::keyops::failure::{Failure, Reason};
use sidecore_core::policy::rate::{Origin, Pace, RateLimit};
use sidecore_core::text::shown;
use sidecore_ipc::sys::clock;
use sidecore_terminal::output;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

const ORIGINS: usize = 64;
const PACE: Pace = Pace { burst: 5, every: 60_000_000_000, origins: ORIGINS, of_group: ORIGINS, reserved: 0 };

/// The origin of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A request or a list failed for this reason.
    Failed(Reason),
    /// A user who may not connect.
    Stranger(u32),
    /// A user without a free connection.
    Full(u32),
    /// A certificate of no key, or one that cannot be read any more.
    Certificate,
    /// A request that the agent does not do.
    Declined(Declined),
    /// A connection that could not be bound to a session.
    Unbound,
    /// A request that a connection of another machine may not make, or one for another session.
    Forwarded,
    /// A key that is not for SSH.
    NotForSsh,
    /// The system has no connection, thread or memory.
    System,
}

/// What the agent does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declined {
    Add,
    Remove,
    Token,
    Lock,
    Unknown,
    Malformed,
}

impl Origin for Event {
    type Group = ();

    fn group(self) {}

    fn is_trusted(self) -> bool {
        false
    }
}

pub(crate) struct Log(Mutex<RateLimit<Event>>);

impl Default for Log {
    fn default() -> Self {
        Self(Mutex::new(RateLimit::new(PACE)))
    }
}

impl Log {
    pub(crate) fn tell(&self, event: Event, text: impl Display) {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner).tell(clock::now(), event);
        let Some(quiet) = told else { return };
        // Names and texts of a service are its allegations.
        let text: String = text.to_string().chars().map(shown).collect();
        if quiet == 0 {
            output::tell(text);
        } else {
            output::tell(format_args!("{text} ({quiet} more since the last time)"));
        }
    }

    pub(crate) fn failed(&self, what: impl Display, failure: &Failure) {
        self.tell(Event::Failed(failure.reason), format_args!("{what}: {failure}"));
    }
}
