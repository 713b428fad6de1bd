//! The cheapest hardware and policies that keep a tail under a bound at a load.
//!
//! A plan lists the choices: its own software and its variants, each with every combination of values of some
//! parameters. All of them run at the load, because neither cost nor tail is monotonic in a parameter. Overloaded or
//! far-off combinations run once, the others until they are sure. The answer is the cheapest one whose interval lies
//! under the bound.

use crate::estimate::{Effort, Estimate};
use crate::plan::{Changes, Choice, Plan, PlanError};
use crate::settings::{Settings, Source};
use crate::table::Progress;
use std::collections::HashSet;
use std::fmt::Display;

/// Limit of combinations.
pub const MAX_COMBINATIONS: usize = 2_000;
/// A completion rate below this fraction of the load is overload: the rest would queue forever.
const CARRIED: f64 = 0.98;
/// A tail above this multiple of the bound in the first run ends the case.
const FAR: f64 = 2.0;
/// Highest multiple of the load, and number of steps, in the search for the load that the choice just carries.
const HIGHEST: f64 = 8.0;
const STEPS: usize = 7;

/// Parameters of the search.
#[derive(Clone, Debug)]
pub struct Question {
    /// Load, requests per second.
    pub load: f64,
    /// Upper bound of the 99th percentile, us.
    pub bound: f64,
    /// The choices and their costs, as in the plan or changed.
    pub choice: Choice,
    /// Required certainty.
    pub effort: Effort,
}

/// Judgement of a combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its whole interval is under the bound.
    Meets,
    /// Its interval contains the bound.
    Unsure,
    /// Its whole interval is above the bound.
    TooSlow,
    /// It does not carry the load.
    Overloaded,
}

/// One combination.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Name of the variant; `None`: the plan's own software.
    pub variant: Option<String>,
    /// Values of the parameters to choose.
    pub set: Changes,
    /// Its cost.
    pub cost: f64,
    /// The 99th percentile, us.
    pub tail: Estimate,
    /// Requests completed per second.
    pub rate: Estimate,
    /// Its judgement.
    pub verdict: Verdict,
    /// The part that limits it.
    pub limit: String,
}

/// Spare capacity of the choice.
#[derive(Clone, Debug)]
pub struct Margin {
    /// The largest load within the bound, and the smallest one above it, if found; requests per second.
    pub carries: (f64, Option<f64>),
    /// The limiting part at that load.
    pub limit: String,
    /// Its tail at the load plus the plan's worst error, us, and its verdict, if the plan states an error.
    pub at_error: Option<(f64, Verdict)>,
    /// Index of the cheapest candidate that also meets the bound at this load.
    pub safe: Option<usize>,
}

/// Result of the search.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The candidates, by cost; of equal ones only the first.
    pub candidates: Vec<Candidate>,
    /// Index of the cheapest candidate that meets the bound; at equal cost, the one with the lowest tail.
    pub best: Option<usize>,
    /// Its margin; `None` if the search was stopped before.
    pub margin: Option<Margin>,
    /// Number of contradictory combinations, such as a bound on completions above the limit in flight.
    pub impossible: usize,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// Runs all combinations of the plan's choices.
///
/// # Errors
///
/// If there are too many combinations, a name or value is wrong, or none of them is possible.
pub fn choose(plan: &Plan, question: &Question, progress: Progress<'_>) -> Result<Answer, PlanError> {
    let (combinations, impossible) = combinations(plan, question)?;
    let trial = Trial::of(plan, question)?;
    let (mut candidates, mut seen, mut stopped) = (Vec::<(Candidate, Settings)>::new(), HashSet::new(), false);
    let most = combinations.len() + STEPS + 1;
    for (done, (variant, set, settings)) in combinations.into_iter().enumerate() {
        let (found, trace) = trial.run(&settings, variant, set);
        if seen.insert((trace, found.cost.to_bits())) {
            candidates.push((found, settings));
        }
        if progress(done + 1, most).is_break() {
            stopped = true;
            break;
        }
    }
    candidates.sort_by(|(a, _), (b, _)| a.cost.total_cmp(&b.cost).then(a.tail.mean.total_cmp(&b.tail.mean)));
    let best = candidates.iter().position(|(found, _)| found.verdict == Verdict::Meets);
    let mut step = most - STEPS - 1;
    let margin = best.filter(|_| !stopped).and_then(|best| {
        trial.margin(&candidates, best, &mut || {
            step += 1;
            progress(step.min(most), most).is_continue()
        })
    });
    stopped |= best.is_some() && margin.is_none();
    let candidates = candidates.into_iter().map(|(found, _)| found).collect();
    Ok(Answer { candidates, best, margin, impossible, stopped })
}

/// A variant's name, the changes to it, and the resulting settings.
type Combination = (Option<String>, Changes, Settings);

fn combinations(plan: &Plan, question: &Question) -> Result<(Vec<Combination>, usize), PlanError> {
    let wrong = |message: &dyn Display| PlanError::in_file(&plan.path, None, message);
    let variants = std::iter::once(None).chain(plan.variants.iter().map(Some));
    let mut all = vec![Changes::new()];
    for (name, values) in &question.choice.over {
        if all.len() * values.len() * (plan.variants.len() + 1) > MAX_COMBINATIONS {
            return Err(wrong(&format!("more than {MAX_COMBINATIONS} combinations: give fewer values with --over")));
        }
        let with = |known: &Changes, value: &String| [&known[..], &[(name.clone(), value.clone())]].concat();
        all = all.iter().flat_map(|known| values.iter().map(move |value| with(known, value))).collect();
    }
    let (mut possible, mut impossible) = (Vec::new(), 0);
    for variant in variants {
        for set in &all {
            let mut settings = plan.settings.clone();
            let of_variant = variant.map_or(&[][..], |variant| &variant.set);
            let load = (question.choice.load.clone(), question.load.to_string());
            for (name, value) in of_variant.iter().chain(set).chain([&load]) {
                settings.set(name, value, Source::Plan).map_err(|error| wrong(&error))?;
            }
            match plan.system.check(&settings) {
                Ok(()) => possible.push((variant.map(|variant| variant.name.clone()), set.clone(), settings)),
                Err(_) => impossible += 1,
            }
        }
    }
    if possible.is_empty() {
        return Err(wrong(&"no combination is possible: see --over and --set"));
    }
    Ok((possible, impossible))
}

struct Trial<'a> {
    plan: &'a Plan,
    question: &'a Question,
}

impl<'a> Trial<'a> {
    fn of(plan: &'a Plan, question: &'a Question) -> Result<Self, PlanError> {
        let known = |name: &str| plan.settings.find(name).is_ok() || crate::plan::metric(plan.system, name).is_ok();
        if let Some((name, _)) = question.choice.cost.iter().find(|(name, _)| !known(name)) {
            let message = format!("a cost of `{name}`: that is no parameter and no metric of the plan's");
            return Err(PlanError::in_file(&plan.path, None, message));
        }
        Ok(Self { plan, question })
    }

    fn run(&self, settings: &Settings, variant: Option<String>, set: Changes) -> (Candidate, u64) {
        let Self { plan, question } = self;
        let Choice { latency, rate, .. } = question.choice;
        let wanted = [latency];
        let once = Effort::once(question.effort.seed);
        let mut found = plan.system.estimate(settings, &wanted, &once);
        let is_near = self.verdict(&found.1) != Verdict::Overloaded
            && found.1[latency].mean <= FAR * question.bound
            && question.effort.runs > 1;
        if is_near {
            found = plan.system.estimate(settings, &wanted, &question.effort);
        }
        let (outcome, estimates) = found;
        let cost =
            question.choice.cost.iter().map(|(name, price)| price * self.amount(settings, &outcome.values, name));
        let candidate = Candidate {
            variant,
            set,
            cost: cost.sum(),
            tail: estimates[latency],
            rate: estimates[rate],
            verdict: self.verdict(&estimates),
            limit: outcome.limit,
        };
        (candidate, outcome.trace)
    }

    fn amount(&self, settings: &Settings, values: &[f64], name: &str) -> f64 {
        let parameter = settings.find(name).ok().and_then(|index| settings.text(&settings.parameter(index).name));
        let metric = || crate::plan::metric(self.plan.system, name).ok().map(|metric| values[metric]);
        parameter.and_then(|text| text.parse().ok()).or_else(metric).unwrap_or(0.0)
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

    fn at(&self, settings: &Settings, times: f64) -> Candidate {
        let load = self.question.load * times;
        let question = Question { load, ..self.question.clone() };
        let mut settings = settings.clone();
        // A load outside of the parameter's limits is more than anything can carry.
        let taken = settings.set(&question.choice.load, &load.to_string(), Source::Plan).is_ok();
        let mut found = Trial { plan: self.plan, question: &question }.run(&settings, None, Changes::new()).0;
        if !taken {
            found.verdict = Verdict::Overloaded;
        }
        found
    }

    /// Finds the highest load of the best candidate, and the candidate that is safe from the plan's error. `None`: it
    /// was stopped.
    fn margin(
        &self,
        candidates: &[(Candidate, Settings)],
        best: usize,
        go_on: &mut impl FnMut() -> bool,
    ) -> Option<Margin> {
        let (mut low, mut high, mut limit) = (1.0, None, String::new());
        let mut times = 2.0;
        for _ in 0..STEPS {
            if times > HIGHEST {
                break;
            }
            let found = go_on().then(|| self.at(&candidates[best].1, times))?;
            if found.verdict == Verdict::Meets {
                low = times;
            } else {
                high = Some(times);
            }
            limit = found.limit;
            times = high.map_or(low * 2.0, |high| f64::midpoint(low, high));
        }
        let (mut at_error, mut safe) = (None, None);
        let mut meeting = (best..candidates.len()).filter(|number| candidates[*number].0.verdict == Verdict::Meets);
        while let (Some(error), None, Some(number)) = (self.question.choice.error, safe, meeting.next()) {
            let found = go_on().then(|| self.at(&candidates[number].1, 1.0 + error))?;
            at_error = at_error.or(Some((found.tail.mean, found.verdict)));
            safe = (found.verdict == Verdict::Meets).then_some(number);
        }
        let load = self.question.load;
        Some(Margin { carries: (low * load, high.map(|high| high * load)), limit, at_error, safe })
    }
}

impl Answer {
    /// Indices of the candidates that carry the load, without those beaten by another one in both cost and tail; by cost.
    pub fn frontier(&self) -> Vec<usize> {
        let mut least = f64::INFINITY;
        let mut all = Vec::new();
        for (number, found) in self.candidates.iter().enumerate() {
            if found.verdict != Verdict::Overloaded && found.tail.mean < least {
                least = found.tail.mean;
                all.push(number);
            }
        }
        all
    }
}
