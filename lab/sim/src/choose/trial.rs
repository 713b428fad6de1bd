//! Runs of one combination, and its judgement.

use super::{Candidate, Question, Untried, Verdict};
use crate::estimate::{Effort, Estimate};
use crate::plan::{Choice, Plan, PlanError, metric};
use crate::settings::{Settings, Source};

/// A carried load below this fraction of the load is overload: the rest would queue forever.
const CARRIED: f64 = 0.98;
/// Others run again at this multiple of the load. One below its capacity carries more than the load then. One above it
/// has a queue that grew too slowly to be seen before.
const MORE: f64 = 1.25;
/// A carried load below this fraction in the first run ends the case: random arrivals alone do not explain it.
const FAR_BELOW: f64 = 0.9;
/// A value above this multiple of the bound in the first run ends the case.
const FAR: f64 = 2.0;

#[derive(Clone, Copy)]
pub(super) struct Trial<'a> {
    pub(super) plan: &'a Plan,
    pub(super) question: &'a Question,
}

impl<'a> Trial<'a> {
    pub(super) fn of(plan: &'a Plan, question: &'a Question) -> Result<Self, PlanError> {
        let known = |name: &str| plan.settings.find(name).is_ok() || metric(plan.system, name).is_ok();
        if let Some((name, _)) = question.choice.cost.iter().find(|(name, _)| !known(name)) {
            let message = format!("a cost of `{name}`: that is no parameter and no metric of the plan's");
            return Err(PlanError::in_file(&plan.path, None, message));
        }
        Ok(Self { plan, question })
    }

    /// The candidate, and the hash of its runs. `None`: it was stopped.
    pub(super) fn run(
        &self,
        settings: &Settings,
        way: &Untried,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<(Candidate, u64)> {
        let Self { plan, question } = self;
        let Choice { latency, rate, .. } = question.choice;
        let once = Effort::once(question.effort.seed);
        let mut found = plan.system.estimate(settings, &[latency], &once);
        let is_near = found.1[rate].mean >= FAR_BELOW * question.load && found.1[latency].mean <= FAR * question.bound;
        if is_near && question.effort.runs > 1 {
            found = plan.system.estimate_while(settings, &[latency], &question.effort, go_on)?;
        }
        let (outcome, estimates) = found;
        let mut verdict = self.verdict(&estimates);
        if verdict != Verdict::Overloaded && self.most(settings).is_some_and(|most| most < question.load) {
            verdict = Verdict::Overloaded;
        }
        let candidate = Candidate {
            variant: way.variant.clone(),
            set: way.set.clone(),
            cost: self.cost(settings, Some(&outcome.values)),
            tail: estimates[latency],
            rate: estimates[rate],
            verdict,
            limit: outcome.limit,
        };
        Some((candidate, outcome.trace))
    }

    /// The carried load where more is offered. `None`: the parameter does not take as much.
    fn most(&self, settings: &Settings) -> Option<f64> {
        let Question { load, choice, effort, .. } = self.question;
        let mut settings = settings.clone();
        settings.set(&choice.load, &(load * MORE).to_string(), Source::Plan).ok()?;
        let (_, estimates) = self.plan.system.estimate(&settings, &[choice.rate], &Effort::once(effort.seed));
        Some(estimates[choice.rate].mean)
    }

    /// Before a run, metrics cost nothing.
    pub(super) fn cost(&self, settings: &Settings, values: Option<&[f64]>) -> f64 {
        let amount = |name: &str| {
            let parameter = settings.find(name).ok().and_then(|index| settings.text(&settings.parameter(index).name));
            let of_metric = || Some(values?[metric(self.plan.system, name).ok()?]);
            parameter.and_then(|text| text.parse().ok()).or_else(of_metric).unwrap_or(0.0)
        };
        self.question.choice.cost.iter().map(|(name, price)| price * amount(name)).sum()
    }

    fn verdict(&self, estimates: &[Estimate]) -> Verdict {
        let (tail, bound) = (&estimates[self.question.choice.latency], self.question.bound);
        let within = if tail.within.is_finite() { tail.within } else { 0.0 };
        match estimates[self.question.choice.rate].mean {
            rate if rate < CARRIED * self.question.load => Verdict::Overloaded,
            _ if tail.mean + within <= bound => Verdict::Meets,
            _ if tail.mean - within <= bound => Verdict::Unsure,
            _ => Verdict::TooSlow,
        }
    }

    /// The same combination at a multiple of the load. `None`: it was stopped.
    pub(super) fn at(&self, settings: &Settings, times: f64, go_on: &mut dyn FnMut() -> bool) -> Option<Candidate> {
        let load = self.question.load * times;
        let question = Question { load, ..self.question.clone() };
        let mut settings = settings.clone();
        // A load outside of the parameter's limits is more than anything can carry.
        let taken = settings.set(&question.choice.load, &load.to_string(), Source::Plan).is_ok();
        let none = Untried { variant: None, set: Vec::new(), cost: 0.0 };
        let mut found = Trial { plan: self.plan, question: &question }.run(&settings, &none, go_on)?.0;
        if !taken {
            found.verdict = Verdict::Overloaded;
        }
        Some(found)
    }
}
