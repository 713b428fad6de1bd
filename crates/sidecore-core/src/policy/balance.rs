//! Which device gets the next request.
//!
//! The [`Balancer`] chooses by a [`Balance`] from the [`Load`] of each device and, for `eft`, from the time that
//! [`Rates`] expects of it. `sed` is least weighted work in flight, as Linux balances its s390 crypto cards. `eft` is
//! earliest finish time: list scheduling (Graham, "Bounds on multiprocessing timing anomalies", 1969) carried over to
//! devices that are not alike.

mod rates;

pub use rates::Rates;

use crate::policy::ParseError;
use crate::time::Nanos;
use core::cmp::Ordering;
use core::fmt::{self, Display, Formatter};

/// Rule by which a device is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// Each in turn: a yardstick.
    RoundRobin,
    /// Shortest expected delay: fewest requests in flight for its weight.
    Sed,
    /// Earliest finish time: least work given plus the time of this request.
    Eft,
}

const NAMES: [&str; 3] = ["round-robin", "sed", "eft"];

impl Balance {
    /// All rules.
    pub const ALL: [Self; 3] = [Self::RoundRobin, Self::Sed, Self::Eft];

    /// Reads `round-robin`, `sed` or `eft`.
    ///
    /// # Errors
    ///
    /// For any other text.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let name = text.trim();
        let found = Self::ALL.into_iter().find(|balance| balance.name() == name);
        found.ok_or_else(|| ParseError::unknown(name, &NAMES, "round-robin, sed, eft"))
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

/// What the balancer knows of a device now.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Alive and not draining.
    pub usable: bool,
    /// Requests it has.
    pub in_flight: u32,
    /// Most requests it may have.
    pub depth: u32,
    /// Estimated work given to it and not done, ns.
    pub backlog: Nanos,
    /// Speed relative to the other devices, for `sed`, 1..=1000.
    pub weight: u32,
}

impl Load {
    /// Whether it can take one more request.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.usable && self.in_flight < self.depth
    }
}

/// Chooses a device for each request.
#[derive(Clone, Debug)]
pub struct Balancer {
    policy: Balance,
    /// The device whose turn it is.
    turn: usize,
}

impl Balancer {
    /// A balancer that begins with the first device.
    pub fn new(policy: Balance) -> Self {
        Self { policy, turn: 0 }
    }

    /// Takes another rule.
    pub fn set_policy(&mut self, policy: Balance) {
        self.policy = policy;
    }

    /// The rule in force.
    pub fn policy(&self) -> Balance {
        self.policy
    }

    /// Index of the device for a request; `None` if no device that can do it has room. `capable` tells whether a device
    /// can do it at all, `estimate` how long it would take there, ns. Equals go to the lower index.
    #[inline]
    pub fn choose(
        &mut self,
        loads: &[Load],
        capable: impl Fn(usize) -> bool,
        estimate: impl Fn(usize) -> Nanos,
    ) -> Option<usize> {
        let open = |&i: &usize| loads[i].has_room() && capable(i);
        if loads.len() == 1 {
            return Some(0).filter(open);
        }
        let all = 0..loads.len();
        match self.policy {
            Balance::RoundRobin => self.in_turn(loads.len(), open),
            Balance::Sed => all.filter(open).min_by(|&a, &b| by_delay(&loads[a], &loads[b])),
            Balance::Eft => all.filter(open).min_by_key(|&i| loads[i].backlog.saturating_add(estimate(i))),
        }
    }

    fn in_turn(&mut self, devices: usize, open: impl Fn(&usize) -> bool) -> Option<usize> {
        let first = self.turn.min(devices);
        let found = (first..devices).chain(0..first).find(open)?;
        self.turn = found + 1;
        Some(found)
    }
}

/// Orders by requests in flight with this one, divided by weight.
#[inline]
fn by_delay(a: &Load, b: &Load) -> Ordering {
    let scaled = |load: &Load, other: &Load| (u64::from(load.in_flight) + 1) * u64::from(other.weight.max(1));
    scaled(a, b).cmp(&scaled(b, a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn load(in_flight: u32, backlog: Nanos, weight: u32) -> Load {
        Load { usable: true, in_flight, depth: 8, backlog, weight }
    }

    #[test]
    fn spellings_come_back() {
        for (balance, name) in Balance::ALL.into_iter().zip(NAMES) {
            assert_eq!((Balance::parse(name), balance.to_string().as_str()), (Ok(balance), name));
        }
        let error = Balance::parse("round_robin").unwrap_err().to_string();
        assert_eq!(error, "no such policy, did you mean `round-robin`?; accepted: round-robin, sed, eft");
    }

    #[test]
    fn round_robin_takes_turns_and_passes_over_the_full() {
        let mut balancer = Balancer::new(Balance::RoundRobin);
        let mut loads = [load(0, 0, 1); 3];
        let mut next = |loads: &[Load]| balancer.choose(loads, |_| true, |_| 0);
        assert_eq!([next(&loads), next(&loads), next(&loads), next(&loads)], [Some(0), Some(1), Some(2), Some(0)]);
        loads[1].in_flight = 8;
        assert_eq!([next(&loads), next(&loads)], [Some(2), Some(0)]);
        assert_eq!(next(&loads[..2]), Some(0));
        for load in &mut loads {
            load.usable = false;
        }
        assert_eq!([next(&loads), next(&[])], [None, None]);
    }

    #[test]
    fn sed_weighs_what_is_in_flight() {
        let mut balancer = Balancer::new(Balance::Sed);
        let mut choose = |loads: &[Load]| balancer.choose(loads, |_| true, |_| 0);
        assert_eq!(choose(&[load(0, 0, 1), load(0, 0, 3)]), Some(1));
        assert_eq!(choose(&[load(0, 0, 1), load(2, 0, 3)]), Some(0));
        assert_eq!(choose(&[load(0, 0, 1), load(3, 0, 3)]), Some(0));
        assert_eq!(choose(&[load(u32::MAX, 0, 0), load(7, 0, 0)]), Some(1));
    }

    #[test]
    fn eft_finishes_earliest() {
        let mut balancer = Balancer::new(Balance::Eft);
        let loads = [load(0, 500, 1), load(0, 100, 1)];
        assert_eq!(balancer.choose(&loads, |_| true, |i| [100, 600][i]), Some(0));
        assert_eq!(balancer.choose(&loads, |_| true, |i| [100, 499][i]), Some(1));
        assert_eq!(balancer.choose(&loads, |_| true, |i| [100, 500][i]), Some(0), "a tie");
        assert_eq!(balancer.choose(&loads, |i| i == 1, |i| [100, 600][i]), Some(1));
        assert_eq!(balancer.choose(&[load(0, u64::MAX, 1); 2], |_| true, |_| u64::MAX), Some(0));
    }

    #[test]
    fn a_single_device_is_taken_or_not() {
        for policy in Balance::ALL {
            let mut balancer = Balancer::new(policy);
            assert_eq!(balancer.choose(&[load(7, 0, 1)], |_| true, |_| unreachable!()), Some(0));
            assert_eq!(balancer.choose(&[load(8, 0, 1)], |_| true, |_| unreachable!()), None);
            assert_eq!(balancer.choose(&[load(0, 0, 1)], |_| false, |_| unreachable!()), None);
        }
    }
}
