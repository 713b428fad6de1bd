//! Which device gets the next request.
//!
//! The [`Balancer`] chooses by a [`Balance`] from the [`Load`] of each device and, for `eft` and what builds on it,
//! from the time that [`Rates`] expects of it. `sed` is least weighted work in flight, as Linux balances its s390
//! crypto cards. `eft` is earliest finish time: list scheduling (Graham, "Bounds on multiprocessing timing
//! anomalies", 1969) carried over to devices that are not alike. `tokens` is the same among devices that ask for work
//! with credits. `priced` adds to `eft` what a device's time is worth to other requests.

mod fills;
mod mix;
mod priced;
mod program;
mod rates;
mod steady;
mod tokens;

pub(crate) use fills::BatchEstimate;
pub use fills::Measured;
pub use program::{Program, Progress};
pub use rates::Rates;
pub(crate) use steady::{Learnt, SteadyRates};

use crate::policy::ParseError;
use crate::session::Class;
use crate::time::Nanos;
use core::cmp::Ordering;
use core::fmt::{self, Display, Formatter};
use priced::Prices;

/// Rule for the choice of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Each in turn: a baseline for comparison.
    RoundRobin,
    /// Shortest expected delay: fewest requests in flight for its weight.
    Sed,
    /// Earliest finish time: least work given plus the time of this request.
    Eft,
    /// Only a device with credit left gets work, and of several the earliest to finish it; the request waits while
    /// none has credit.
    Tokens,
    /// Earliest finish time plus a loss, where another device would use its time better.
    Priced,
}

const NAMES: [&str; 5] = ["round-robin", "sed", "eft", "tokens", "priced"];

impl Balance {
    /// All rules.
    pub const ALL: [Self; 5] = [Self::RoundRobin, Self::Sed, Self::Eft, Self::Tokens, Self::Priced];

    /// Reads `round-robin`, `sed`, `eft`, `tokens` or `priced`.
    ///
    /// # Errors
    ///
    /// For any other text.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let name = text.trim();
        let found = Self::ALL.into_iter().find(|balance| balance.name() == name);
        found.ok_or_else(|| ParseError::unknown(name, &NAMES, "round-robin, sed, eft, tokens, priced"))
    }

    /// Name on the command line and in rows.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

impl Display for Balance {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The balancer's view of one device.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Alive and not draining.
    pub usable: bool,
    /// Requests it has.
    pub in_flight: u32,
    /// Most requests it may have.
    pub depth: u32,
    /// Most requests that may wait for it beyond these, under `priced`.
    pub deferred: u32,
    /// Estimated work given to it and not done, ns.
    pub backlog: Nanos,
    /// Speed relative to the other devices, for `sed`, 1..=1000.
    pub weight: u32,
    /// Limit of its backlog under `tokens`, ns: beyond it the device stops asking.
    pub window: Nanos,
}

impl Load {
    /// An idle device of that depth and weight, with the usual window. Nothing waits for it.
    pub fn idle(depth: u32, weight: u32) -> Self {
        Self { usable: true, in_flight: 0, depth, deferred: 0, backlog: 0, weight, window: tokens::WINDOW }
    }

    /// Whether it can take one more request.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.usable && self.in_flight < self.depth
    }

    /// Time until the answer to a request of duration `time`, ns, on a device that does one after another.
    #[inline]
    pub fn finish(&self, time: Nanos) -> Nanos {
        self.backlog.saturating_add(time)
    }

    #[inline]
    fn has_place(&self) -> bool {
        self.usable && self.in_flight < self.depth.saturating_add(self.deferred)
    }
}

/// Chooses a device for each request.
#[derive(Clone, Debug)]
pub struct Balancer {
    policy: Balance,
    turn: usize,
    prices: Prices,
}

impl Balancer {
    /// A balancer that begins with the first device.
    pub fn new(policy: Balance) -> Self {
        Self { policy, turn: 0, prices: Prices::new() }
    }

    /// Takes another rule.
    pub fn set_policy(&mut self, policy: Balance) {
        self.policy = policy;
    }

    /// The rule in force.
    pub fn policy(&self) -> Balance {
        self.policy
    }

    /// Devices joined, left or cannot be used any more; there are `devices` of them now. Memory that `priced` needs for
    /// more devices than before is allocated here.
    pub fn devices_changed(&mut self, devices: usize) {
        self.prices.devices_changed(devices);
    }

    /// A device's [`SteadyRates`] observed a request.
    #[inline]
    pub(crate) fn learnt(&mut self, learnt: Learnt) {
        match learnt {
            Learnt::Little => {}
            Learnt::Change => self.prices.rates_changed(),
            Learnt::Enough => self.prices.rates_settled(),
        }
    }

    /// Whether a device would be given one more request that it can do.
    #[inline]
    pub fn accepts(&self, load: &Load) -> bool {
        if load.has_room() {
            return self.policy != Balance::Tokens || tokens::credit(load) > 0;
        }
        self.policy == Balance::Priced && load.has_place()
    }

    /// Index of the device for a request. `None`: no capable device accepts one. Under `priced` also: the best device
    /// has no room, and on any other the request would cost time that others need. `capable` tells whether a device
    /// can do it, `estimate` gives the time it takes of the device, ns, and `finish` the time until its answer for
    /// that cost, ns. Ties go to the lower index.
    #[inline]
    pub fn choose(
        &mut self,
        loads: &[Load],
        capable: impl Fn(usize) -> bool,
        estimate: impl Fn(usize) -> Nanos,
        finish: impl Fn(usize, Nanos) -> Nanos,
    ) -> Option<usize> {
        if let [load] = loads {
            return (self.accepts(load) && capable(0)).then_some(0);
        }
        self.choose_among(loads, capable, estimate, finish)
    }

    /// Separate, so that the path with one device stays short.
    #[inline(never)]
    fn choose_among(
        &mut self,
        loads: &[Load],
        capable: impl Fn(usize) -> bool,
        estimate: impl Fn(usize) -> Nanos,
        finish: impl Fn(usize, Nanos) -> Nanos,
    ) -> Option<usize> {
        let open = |&i: &usize| self.accepts(&loads[i]) && capable(i);
        let all = 0..loads.len();
        match self.policy {
            Balance::RoundRobin => {
                let first = self.turn.min(loads.len());
                let found = (first..loads.len()).chain(0..first).find(open)?;
                self.turn = found + 1;
                Some(found)
            }
            Balance::Sed => all.filter(open).min_by(|&a, &b| by_delay(&loads[a], &loads[b])),
            Balance::Priced if self.prices.known() => self.prices.choose(loads, capable, estimate, finish),
            Balance::Tokens | Balance::Eft | Balance::Priced => {
                all.filter(open).min_by_key(|&i| finish(i, estimate(i)))
            }
        }
    }

    /// Whether [`Balancer::choose`] would find a device. The turn does not advance.
    pub fn would_choose(
        &self,
        loads: &[Load],
        capable: impl Fn(usize) -> bool,
        estimate: impl Fn(usize) -> Nanos,
        finish: impl Fn(usize, Nanos) -> Nanos,
    ) -> bool {
        if self.policy == Balance::Priced && self.prices.known() && loads.len() > 1 {
            return self.prices.best(loads, capable, estimate, finish).is_some();
        }
        loads.iter().enumerate().any(|(i, load)| self.accepts(load) && capable(i))
    }

    /// `count` requests were given to a device: `priced` learns the arriving mix.
    #[inline]
    pub fn placed(&mut self, class: Class, size: u32, count: u32) {
        if self.policy == Balance::Priced {
            (0..count).for_each(|_| self.prices.arrived(class, size));
        }
    }

    /// Whether the next request may go to another device although nothing else has changed.
    #[inline]
    pub fn takes_turns(&self, devices: usize) -> bool {
        self.policy == Balance::RoundRobin && devices > 1
    }

    /// Brings prices up to date; call it often. It costs a comparison unless an update is due, and then a bounded
    /// number of steps: a large program is solved over several calls. `estimate` gives a device's time for a request
    /// of that class and size (bytes), ns; `None` if it cannot do it. Returns whether an update was due.
    #[inline]
    pub fn reprice(
        &mut self,
        now: Nanos,
        loads: &[Load],
        estimate: impl Fn(usize, Class, u32) -> Option<Nanos>,
    ) -> bool {
        let due = self.policy == Balance::Priced && self.prices.is_due(now);
        if due {
            self.prices.reprice(now, loads, estimate);
        }
        due
    }
}

/// Orders by requests in flight, including this one, divided by weight.
#[inline]
fn by_delay(a: &Load, b: &Load) -> Ordering {
    let scaled = |load: &Load, other: &Load| (u64::from(load.in_flight) + 1) * u64::from(other.weight.max(1));
    scaled(a, b).cmp(&scaled(b, a))
}

#[cfg(test)]
mod tests;
