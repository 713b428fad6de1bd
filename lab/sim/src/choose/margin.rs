//! Spare capacity of the answer.

use super::{Candidate, Search, Verdict};

/// Highest multiple of the load, and number of steps, in the search for the load that the choice just carries.
const HIGHEST: f64 = 8.0;
pub(super) const STEPS: usize = 7;

/// Spare capacity of the choice.
#[derive(Clone, Debug)]
pub struct Margin {
    /// The largest load within the bound, and the smallest one above it, if found; in the unit of the load.
    pub carries: (f64, Option<f64>),
    /// The limiting part at that load.
    pub limit: String,
    /// The metric at the load plus the plan's worst error, and its verdict, if the plan states an error.
    pub at_error: Option<(f64, Verdict)>,
    /// The cheapest candidate that also meets the bound at this load.
    pub safe: Option<Candidate>,
}

impl Search<'_, '_> {
    /// `None`: there is no answer, or the search was stopped.
    pub(super) fn margin(&mut self) -> Option<Margin> {
        let best = self.best().filter(|_| !self.steps.stopped)?;
        let (low, high, limit) = self.carried(best)?;
        let load = self.trial.question.load;
        let mut margin =
            Margin { carries: (low * load, high.map(|high| high * load)), limit, at_error: None, safe: None };
        margin.safe = self.safe(best, &mut margin.at_error);
        Some(margin)
    }

    /// The multiples of the load that the candidate carries and does not, and its limit there.
    fn carried(&mut self, best: usize) -> Option<(f64, Option<f64>, String)> {
        let (mut low, mut high, mut limit) = (1.0, None, String::new());
        let mut times = 2.0;
        for _ in 0..STEPS {
            if times > HIGHEST {
                break;
            }
            let found = self.at(best, times)?;
            if found.verdict == Verdict::Meets {
                low = times;
            } else {
                high = Some(times);
            }
            limit = found.limit;
            times = high.map_or(low * 2.0, |high| f64::midpoint(low, high));
        }
        Some((low, high, limit))
    }

    fn at(&mut self, number: usize, times: f64) -> Option<Candidate> {
        let steps = &mut self.steps;
        let found = self.trial.at(&self.tried[number].1, times, &mut || steps.go_on())?;
        self.steps.advance().then_some(found)
    }

    /// The cheapest candidate that meets the bound also at the load plus the plan's error. It may be costlier than what
    /// ran until now.
    fn safe(&mut self, best: usize, at_error: &mut Option<(f64, Verdict)>) -> Option<Candidate> {
        let error = self.trial.question.choice.error?;
        let mut number = best;
        loop {
            while let Some(next) = self.left.front().map(|way| way.untried.cost)
                && self.tried.get(number).is_none_or(|(found, _)| next <= found.cost)
            {
                if !self.next() {
                    return None;
                }
            }
            if self.tried.get(number)?.0.verdict == Verdict::Meets {
                let found = self.at(number, 1.0 + error)?;
                at_error.get_or_insert((found.tail.mean, found.verdict));
                if found.verdict == Verdict::Meets {
                    return Some(self.tried[number].0.clone());
                }
            }
            number += 1;
        }
    }
}
