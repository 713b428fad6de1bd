//! Sleeping until shortly before the instant at which a completion is expected.
//!
//! A nap and the spinning after it cost little more than a park, and no wake-up is waited for. How long before the
//! expected instant the spinning starts is therefore a matter of CPU time, and limited to a quarter of a park. It need
//! not be earlier for the sake of latency: a completion that comes before its time is found at the end of the nap, still
//! before its time. What is late is spun for to three standard deviations, but for a quarter of a park at least.
//!
//! Where no nap is possible (it would last too long, or the instant is too uncertain) it waits as break-even, unless what
//! is awaited is so far away that spinning cannot help. Near, it can: two who wait for each other may be slow only
//! because each has to be woken.

use super::Step;
use super::forecast::{Forecast, Overshoot};
use crate::time::Nanos;

/// So many park costs away nothing is near.
const FAR: Nanos = 8;

/// A wait for which something is forecast.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expectant<'o> {
    pub(super) forecast: Forecast,
    pub(super) park_cost: Nanos,
    pub(super) overshoot: &'o Overshoot,
    /// When the wait began.
    pub(super) begun: Nanos,
    /// It napped already: nobody naps twice.
    pub(super) napped: bool,
}

impl Expectant<'_> {
    /// What to do at this instant. A wait costs at most five parks and a poll, however wrong its forecast is: a nap or
    /// break-even's spinning, twice the park cost before the expected instant, once after it, and a park.
    pub(super) fn step(&self, now: Nanos) -> Step {
        if self.is_vague() {
            return self.park_or_break_even(now);
        }
        let Forecast { at, sigma } = self.forecast;
        let patience = sigma.saturating_mul(3).clamp(self.park_cost / 4, self.park_cost);
        if now >= at.saturating_add(patience) {
            return self.break_even(now);
        }
        let left = at.saturating_sub(now);
        if left <= self.park_cost.saturating_add(self.park_cost / 4) {
            return Step::Spin;
        }
        let opens = at.saturating_sub(self.lead()).saturating_sub(self.overshoot.mean());
        if opens > now && !self.napped {
            Step::Nap { until: opens }
        } else if left <= self.park_cost.saturating_mul(2) && (self.napped || self.is_near()) {
            Step::Spin
        } else if self.napped {
            // The nap ended far too early: spinning on would come on top of it.
            Step::Park
        } else {
            self.park_or_break_even(now)
        }
    }

    /// Whether a sleep lasts too long for a nap to be of use. Asked of a wait that has ended.
    pub(super) fn too_late_to_nap(&self) -> bool {
        let Forecast { at, .. } = self.forecast;
        let opens = at.saturating_sub(self.lead()).saturating_sub(self.overshoot.mean());
        !self.is_vague() && !self.napped && opens <= self.begun && at > self.begun.saturating_add(self.park_cost)
    }

    /// Spinning around the expected instant would cost more than it saves.
    fn is_vague(&self) -> bool {
        self.forecast.sigma > self.park_cost / 2
    }

    /// Break-even's spinning lasts until twice the park cost before the instant, whatever a poll takes.
    fn is_near(&self) -> bool {
        self.forecast.at <= self.begun.saturating_add(self.park_cost.saturating_mul(3))
    }

    /// Parks at once if even the earliest credible instant was far away when the wait began.
    fn park_or_break_even(&self, now: Nanos) -> Step {
        let Forecast { at, sigma } = self.forecast;
        let far = self.begun.saturating_add(self.park_cost.saturating_mul(FAR));
        if at.saturating_sub(sigma.saturating_mul(3)) > far { Step::Park } else { self.break_even(now) }
    }

    fn break_even(&self, now: Nanos) -> Step {
        if now.saturating_sub(self.begun) < self.park_cost { Step::Spin } else { Step::Park }
    }

    /// How long before the expected instant the nap should be over: three standard deviations of what is uncertain, but
    /// the spinning to be expected is at most a quarter of a park. That is the lead and at most 0.4 standard deviations
    /// more, for a normal distribution.
    fn lead(&self) -> Nanos {
        let sigma = self.forecast.sigma;
        let wanted = sigma.saturating_add(self.overshoot.sigma()).saturating_mul(3);
        wanted.min((self.park_cost / 4).saturating_sub(sigma.saturating_mul(2) / 5))
    }
}
