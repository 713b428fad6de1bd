//! Events of a service, emitted through the crate `tracing` under the target [`TARGET`].
//!
//! `sidecore serve` writes them as lines of its log (docs/watching.md). A program that embeds a service installs a subscriber of its
//! own, or none. Each event has the field `event`, its name: [`EVENTS`] has those of any service, and each service a list of its
//! own. They come from the threads that control a service, never from one between a request and its answer. A subscriber that
//! blocks holds these threads up.
//!
//! Clients' texts, such as names, stand in fields unchanged: a subscriber that writes lines escapes them. No event
//! holds a key, a passphrase or a request's data.

use crate::tenants::Tenant;
use sidecore_core::policy::rate::{Origin, Owner, Pace, Quiet};
use std::path::Path;

/// The target of all events.
pub const TARGET: &str = "sidecore";

/// Rate of events of one user's refusals for one reason.
pub const PACE: Pace = Pace { burst: 5, every: 10_000_000_000, origins: 256, of_group: 8, reserved: 8 };

/// A kind of event and its user, with a limited rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<W> {
    /// The kind.
    pub what: W,
    /// The user.
    pub uid: u32,
    /// The tenant that the user belongs to.
    pub tenant: Tenant,
}

impl<W: Copy + Eq> Origin for Source<W> {
    type Group = Tenant;

    fn group(self) -> Tenant {
        self.tenant
    }

    fn is_trusted(self) -> bool {
        self.uid == 0
    }
}

/// Importance of an event: the levels of the system's log; `tracing` has only some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A loss that an operator must repair: `tracing::Level::ERROR`.
    Error,
    /// Something is wrong: `tracing::Level::WARN`.
    Warning,
    /// Administrators' actions, start and stop: `tracing::Level::INFO`.
    Notice,
    /// Refusals of clients: `tracing::Level::DEBUG`.
    Info,
    /// Actions of clients: `tracing::Level::TRACE`.
    Debug,
}

impl Level {
    /// All levels, the most important first.
    pub const ALL: [Self; 5] = [Self::Error, Self::Warning, Self::Notice, Self::Info, Self::Debug];

    /// Its name in lines of the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// Its number in the system's log (`sd-daemon(3)`).
    pub fn number(self) -> u8 {
        self as u8 + 3
    }

    /// The level of this number. One that no level has is the nearest.
    pub fn from_number(number: u8) -> Self {
        Self::ALL[usize::from(number.saturating_sub(3)).min(Self::ALL.len() - 1)]
    }
}

impl From<tracing::Level> for Level {
    fn from(level: tracing::Level) -> Self {
        match level {
            tracing::Level::ERROR => Self::Error,
            tracing::Level::WARN => Self::Warning,
            tracing::Level::INFO => Self::Notice,
            tracing::Level::DEBUG => Self::Info,
            tracing::Level::TRACE => Self::Debug,
        }
    }
}

impl From<Level> for tracing::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::ERROR,
            Level::Warning => Self::WARN,
            Level::Notice => Self::INFO,
            Level::Info => Self::DEBUG,
            Level::Debug => Self::TRACE,
        }
    }
}

/// Events of any service.
pub const EVENTS: [(Level, &str); 8] = [
    (Level::Notice, "policies"),
    (Level::Notice, "ready"),
    (Level::Notice, "stop"),
    (Level::Error, "panic"),
    (Level::Warning, "warning"),
    (Level::Info, "refused"),
    (Level::Info, "suppressed"),
    (Level::Warning, "not-measured"),
];

/// Emits an event of this level and name. The module that calls it has an `EVENTS` which lists the event.
#[macro_export]
macro_rules! say {
    ($level:ident $name:expr, $($rest:tt)+) => {{
        debug_assert!(EVENTS.contains(&($crate::events::Level::$level, $name)), "{} is no event of this level", $name);
        $crate::say!(@$level event = $name, $($rest)+)
    }};
    (@Error $($rest:tt)+) => { tracing::error!(target: $crate::events::TARGET, $($rest)+) };
    (@Warning $($rest:tt)+) => { tracing::warn!(target: $crate::events::TARGET, $($rest)+) };
    (@Notice $($rest:tt)+) => { tracing::info!(target: $crate::events::TARGET, $($rest)+) };
    (@Info $($rest:tt)+) => { tracing::debug!(target: $crate::events::TARGET, $($rest)+) };
    (@Debug $($rest:tt)+) => { tracing::trace!(target: $crate::events::TARGET, $($rest)+) };
}

/// The hops' waiting policies, in words.
pub fn policies(in_words: &str) {
    say!(Notice "policies", "notify: {in_words}");
}

/// The service answers at this socket, inside its sandbox.
pub fn ready(socket: &Path) {
    say!(Notice "ready", "serving at {}", socket.display());
}

/// The service ends.
pub fn stop(reason: &str) {
    say!(Notice "stop", reason, "stopping");
}

/// A thread of the service panicked, and the service ends with it.
pub fn panic(thread: &str, place: &str, what: &str) {
    say!(Error "panic", thread, place, "a thread panicked, and the service ends with it: {what}");
}

/// A warning for the operator, with the remedy.
pub fn warning(text: &str) {
    say!(Warning "warning", "{text}");
}

/// The machine could not be measured, for this reason.
pub fn not_measured(error: &std::io::Error) {
    say!(Warning "not-measured", error = %error, "the cost of sleeps and operations could not be measured and stays assumed: free descriptors or memory, and restart");
}

/// A client's request was refused. `suppressed`: earlier refusals of its user for this reason without an event.
pub fn refused(uid: u32, pid: u32, reason: &'static str, text: &str, suppressed: u64) {
    say!(Info "refused", reason, uid, pid, suppressed = some(suppressed), "{text}");
}

/// Refusals or faults without an event since the last one. `otherwise`: the common part of several origins.
pub fn suppressed<W: Copy + Eq>(
    quiet: &Quiet<Source<W>, Tenant>,
    reason: impl Fn(W) -> &'static str,
    otherwise: Option<&'static str>,
) {
    let (reason, uid, users) = match quiet.of {
        Owner::One(Source { what, uid, .. }) => (Some(reason(what)), Some(uid), None),
        Owner::Group(tenant) => (otherwise, None, Some(tenant.to_string())),
        Owner::Others => (otherwise, None, None),
    };
    say!(Info "suppressed", reason, uid, users, suppressed = quiet.count, "events of this kind were not told");
}

/// The text between the braces of a printed struct.
pub fn inside(printed: &str) -> String {
    let inside = printed.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}'));
    inside.map_or(printed, |(inside, _)| inside).trim().to_owned()
}

/// A count, unless it is 0.
pub fn some(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_event_has_a_name_of_its_own_and_levels_survive_tracing() {
        assert_eq!(EVENTS.iter().map(|(_, name)| name).collect::<BTreeSet<_>>().len(), EVENTS.len());
        assert_eq!(Level::ALL.map(|level| Level::from(tracing::Level::from(level))), Level::ALL);
        assert_eq!(Level::ALL.map(Level::number), [3, 4, 5, 6, 7], "as sd-daemon(3) numbers them");
        assert_eq!([3, 4, 5, 6, 7].map(Level::from_number), Level::ALL);
        assert_eq!([0, u8::MAX].map(Level::from_number), [Level::Error, Level::Debug]);
    }

    #[test]
    fn what_a_struct_holds_is_in_words() {
        assert_eq!(inside("Name { a: 1, b: Other { c: 2 } }"), "a: 1, b: Other { c: 2 }");
    }
}
