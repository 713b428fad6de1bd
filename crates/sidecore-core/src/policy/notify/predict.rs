//! Sleep until shortly before the expected instant of a completion.
//!
//! A nap and the spinning after it cost little more than a park, without the latency of a wake-up. The lead of the
//! spinning before the expected instant therefore costs CPU time, and is limited to a quarter of a park. A longer
//! lead would not help latency: a completion that is early is found at the end of the nap, still before its time. A
//! late completion is awaited by spinning for three standard deviations, but for a quarter of a park at least.
//!
//! A nap may be impossible: it would last too long, or the instant is too uncertain. Then it waits as break-even, or
//! parks if the completion is so far away that spinning cannot help. For a near one it can: two sides that wait for
//! each other may be slow only because each has to be woken.

use super::Step;
use super::forecast::{Forecast, Overshoot};
use crate::time::Nanos;

/// An instant beyond this number of park costs is far.
const FAR: Nanos = 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct Expectant<'o> {
    pub(super) forecast: Forecast,
    pub(super) park_cost: Nanos,
    pub(super) overshoot: &'o Overshoot,
    pub(super) begun: Nanos,
    /// Whether it napped already: a second nap is not permitted.
    pub(super) napped: bool,
}

impl Expectant<'_> {
    /// The step at this instant. With any forecast a wait costs at most five parks and a poll: a nap or break-even's
    /// spinning, twice the park cost before the expected instant, once after it, and a park.
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

    /// Whether a sleep lasts too long for a nap to be of use. For a wait that has ended.
    pub(super) fn too_late_to_nap(&self) -> bool {
        let Forecast { at, .. } = self.forecast;
        let opens = at.saturating_sub(self.lead()).saturating_sub(self.overshoot.mean());
        !self.is_vague() && !self.napped && opens <= self.begun && at > self.begun.saturating_add(self.park_cost)
    }

    /// Spinning around the expected instant would cost more than it saves.
    fn is_vague(&self) -> bool {
        self.forecast.sigma > self.park_cost / 2
    }

    /// Whether break-even's spinning lasts until twice the park cost before the instant, for any duration of a poll.
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

    /// Lead of the nap's end before the expected instant: three standard deviations of the uncertainty. The expected
    /// spinning is at most a quarter of a park: the lead and at most 0.4 standard deviations more, for a normal
    /// distribution.
    fn lead(&self) -> Nanos {
        let sigma = self.forecast.sigma;
        let wanted = sigma.saturating_add(self.overshoot.sigma()).saturating_mul(3);
        wanted.min((self.park_cost / 4).saturating_sub(sigma.saturating_mul(2) / 5))
    }
}
