//! How the two sides of a hop wait for each other.
//!
//! The [`Waiter`] decides how its side waits: poll, nap or park; the [`WaitLoop`] around it says when to arm, look
//! again and sleep. The [`Moderator`] decides when the other side rings a parked one. All follow the same [`Notify`],
//! which fits one control word, so it can be switched while they run. A policy that spins parks instead where its
//! thread owns no core: [`Waiters`] says where, and why.

mod audit;
mod learn;
mod moderator;
mod places;
mod wait_loop;
mod waiter;

pub use audit::Audit;
pub use moderator::{Moderator, WakeDecision};
pub use places::{ThreadCore, Waiters, in_force};
pub use wait_loop::{Wait, WaitLoop};
pub use waiter::{Step, Waiter};

use crate::policy::ParseError;
use crate::time::{Nanos, Pretty, parse_duration};
use core::fmt::{self, Display, Formatter};

/// How a hop waits and is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// Poll permanently: the baseline for latency.
    Spin,
    /// Sleep immediately and be woken: the baseline for CPU time.
    Park,
    /// Look again after every period, with the doorbell unarmed: there are no wake-ups.
    Timer {
        /// From one look to the next, ns.
        period: Nanos,
    },
    /// Sleep immediately and be woken after `count` completions, after `delay`, or by an urgent one.
    Coalesce {
        /// Completions that ring.
        count: u32,
        /// Longest that a completion waits to be announced, ns.
        delay: Nanos,
    },
    /// Poll for as long as a park costs, then sleep and be woken.
    BreakEven,
    /// Poll for as long as recent waits make cheapest, then sleep and be woken.
    Learn,
}

const ACCEPTED: &str =
    "spin, park, timer(PERIOD), coalesce(COUNT,DELAY), break-even, learn; PERIOD and DELAY 1us to 1s, COUNT 1 to 4096";
const NAMES: [&str; 6] = ["spin", "park", "timer", "coalesce", "break-even", "learn"];

/// Kinds in a control word. Zero is no kind, so that untouched memory is no policy.
const SPIN: u64 = 1;
const PARK: u64 = 2;
const TIMER: u64 = 3;
const COALESCE: u64 = 4;
const BREAK_EVEN: u64 = 5;
const LEARN: u64 = 6;

/// A control word holds the kind in bits 0 to 7, the count in 8 to 31 and the period or delay in 32 to 63.
const COUNT_SHIFT: u32 = 8;
const INTERVAL_SHIFT: u32 = 32;

impl Notify {
    /// Shortest period or delay, ns.
    pub const MIN_INTERVAL: Nanos = 1_000;
    /// Longest period or delay, ns.
    pub const MAX_INTERVAL: Nanos = 1_000_000_000;
    /// Most completions that may be coalesced.
    pub const MAX_COUNT: u32 = 4096;

    /// Reads `spin`, `park`, `timer(250us)`, `coalesce(32,50us)`, `break-even` or `learn`.
    ///
    /// # Errors
    ///
    /// For any other name, and for arguments that are missing, superfluous or outside the limits. `predict`, which was removed,
    /// gets the name of its successor.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        let (name, arguments) = match text.split_once('(') {
            Some((name, rest)) => (name, Some(rest.strip_suffix(')').ok_or_else(|| wrong("the `)` is missing"))?)),
            None => (text, None),
        };
        match (name.trim_end(), arguments) {
            ("spin", None) => Ok(Self::Spin),
            ("park", None) => Ok(Self::Park),
            ("break-even", None) => Ok(Self::BreakEven),
            ("learn", None) => Ok(Self::Learn),
            ("predict", _) => Err(ParseError::removed("predict", "break-even", ACCEPTED)),
            ("timer", Some(period)) => Ok(Self::Timer { period: interval(period)? }),
            ("coalesce", Some(arguments)) => coalesce(arguments),
            ("timer", None) => Err(wrong("`timer` needs a period, as in timer(250us)")),
            ("coalesce", None) => Err(wrong("`coalesce` needs a count and a delay, as in coalesce(32,50us)")),
            ("spin" | "park" | "break-even" | "learn", Some(_)) => Err(wrong("this policy takes nothing in brackets")),
            (name, _) => Err(ParseError::unknown(name, &NAMES, ACCEPTED)),
        }
    }

    /// The policy as one word, never 0, for shared memory. Numbers beyond a limit are brought to it.
    pub fn to_word(self) -> u64 {
        match self.within_limits() {
            Self::Spin => SPIN,
            Self::Park => PARK,
            Self::BreakEven => BREAK_EVEN,
            Self::Learn => LEARN,
            Self::Timer { period } => TIMER | period << INTERVAL_SHIFT,
            Self::Coalesce { count, delay } => COALESCE | u64::from(count) << COUNT_SHIFT | delay << INTERVAL_SHIFT,
        }
    }

    /// The policy of a word, or `None` if [`to_word`](Self::to_word) makes no such word.
    pub fn from_word(word: u64) -> Option<Self> {
        let interval = word >> INTERVAL_SHIFT;
        let policy = match word & 0xff {
            SPIN => Self::Spin,
            PARK => Self::Park,
            BREAK_EVEN => Self::BreakEven,
            LEARN => Self::Learn,
            TIMER => Self::Timer { period: interval },
            COALESCE => Self::Coalesce { count: (word as u32) >> COUNT_SHIFT, delay: interval },
            _ => return None,
        };
        (policy.to_word() == word).then_some(policy)
    }

    /// Whether it polls before it sleeps, where it may.
    pub fn spins(self) -> bool {
        matches!(self, Self::Spin | Self::BreakEven | Self::Learn)
    }

    fn within_limits(self) -> Self {
        let interval = |nanos: Nanos| nanos.clamp(Self::MIN_INTERVAL, Self::MAX_INTERVAL);
        match self {
            Self::Timer { period } => Self::Timer { period: interval(period) },
            Self::Coalesce { count, delay } => {
                Self::Coalesce { count: count.clamp(1, Self::MAX_COUNT), delay: interval(delay) }
            }
            Self::Spin | Self::Park | Self::BreakEven | Self::Learn => self,
        }
    }
}

impl Display for Notify {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Spin => f.write_str("spin"),
            Self::Park => f.write_str("park"),
            Self::BreakEven => f.write_str("break-even"),
            Self::Learn => f.write_str("learn"),
            Self::Timer { period } => write!(f, "timer({})", Pretty(period)),
            Self::Coalesce { count, delay } => write!(f, "coalesce({count},{})", Pretty(delay)),
        }
    }
}

fn wrong(what: &'static str) -> ParseError {
    ParseError::arguments(what, ACCEPTED)
}

fn coalesce(arguments: &str) -> Result<Notify, ParseError> {
    let (count, delay) =
        arguments.split_once(',').ok_or_else(|| wrong("`coalesce` needs a count and a delay, as in (32,50us)"))?;
    let count = count.trim().parse().ok().filter(|count| (1..=Notify::MAX_COUNT).contains(count));
    let count = count.ok_or_else(|| wrong("the count is no number from 1 to 4096"))?;
    Ok(Notify::Coalesce { count, delay: interval(delay)? })
}

fn interval(text: &str) -> Result<Nanos, ParseError> {
    let nanos = parse_duration(text.trim())
        .ok_or_else(|| wrong("not a duration: write a number and ns, us, ms or s, as in 250us"))?;
    match nanos {
        Notify::MIN_INTERVAL..=Notify::MAX_INTERVAL => Ok(nanos),
        _ => Err(wrong("the duration is not from 1us to 1s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn spellings_come_back() {
        for text in "spin park timer(250us) timer(1s) coalesce(32,50us) coalesce(1,1.5ms) break-even learn".split(' ') {
            assert_eq!(Notify::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Notify::parse(" timer( 1000us ) ").unwrap().to_string(), "timer(1ms)");
        assert_eq!(Notify::parse("coalesce(4, 1us)"), Ok(Notify::Coalesce { count: 4, delay: 1_000 }));
    }

    #[test]
    fn errors_name_the_reason_and_what_is_accepted() {
        let cases = [
            ("", "no such policy; "),
            ("Park", "did you mean `park`?"),
            ("tmier(1us)", "did you mean `timer`?"),
            ("timer", "needs a period"),
            ("timer(1us", "`)` is missing"),
            ("timer(5)", "not a duration"),
            ("timer(2s)", "not from 1us to 1s"),
            ("timer(999ns)", "not from 1us to 1s"),
            ("coalesce", "needs a count and a delay"),
            ("coalesce(8)", "needs a count and a delay"),
            ("coalesce(0,1us)", "no number from 1 to 4096"),
            ("coalesce(4097,1us)", "no number from 1 to 4096"),
            ("spin(1us)", "takes nothing in brackets"),
            ("learn(8)", "takes nothing in brackets"),
            ("laern", "did you mean `learn`?"),
            ("predict", "`predict` was removed: write \"break-even\""),
            (" predict (8)", "`predict` was removed: write \"break-even\""),
        ];
        for (text, reason) in cases {
            let error = Notify::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("coalesce(COUNT,DELAY)"), "{text}: {error}");
        }
    }

    #[test]
    fn words_are_canonical() {
        assert_eq!(Notify::from_word(0), None);
        assert_eq!(Notify::from_word(LEARN + 1), None);
        for word in [
            SPIN | 1 << COUNT_SHIFT,
            LEARN | 1 << INTERVAL_SHIFT,
            TIMER,
            TIMER | 999 << INTERVAL_SHIFT,
            COALESCE | 1_000 << INTERVAL_SHIFT,
        ] {
            assert_eq!(Notify::from_word(word), None, "{word:#x}");
        }
        let timer = Notify::Timer { period: 0 };
        assert_eq!(Notify::from_word(timer.to_word()), Some(Notify::Timer { period: Notify::MIN_INTERVAL }));
    }
}
