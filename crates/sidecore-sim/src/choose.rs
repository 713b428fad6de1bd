//! The cheapest hardware and policies that keep a tail under a bound at a load.
//!
//! A plan says what may be chosen: its own software and its variants, each with every combination of values of some
//! parameters. All of them are run at the load, since neither cost nor tail need fall or rise along a parameter; what is
//! overloaded or far off is run once, the others until they are sure. The answer is the cheapest whose interval lies under the bound.

use crate::estimate::{Effort, Estimate};
use crate::plan::{Changes, Choice, Plan, PlanError};
use crate::settings::{Settings, Source};
use crate::table::Progress;
use std::collections::HashSet;

/// Most combinations that are tried.
pub const MOST: usize = 2_000;
/// Less of the load done than this part of it is overload: the rest of it queues for ever.
const CARRIED: f64 = 0.98;
/// So many times the bound in the first run, and it is not run again.
const FAR: f64 = 2.0;
/// How far up, in times the load, and in how many steps the load is found that the choice just carries.
const HIGHEST: f64 = 8.0;
const STEPS: usize = 7;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// Requests a second.
    pub load: f64,
    /// The 99th percentile must not be above this, us.
    pub bound: f64,
    /// What may be chosen and what it costs; as the plan says, or changed.
    pub choice: Choice,
    /// How sure an answer is to be.
    pub effort: Effort,
}

/// Whether a combination does what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its whole interval is under the bound.
    Meets,
    /// Its interval is on both sides of the bound.
    Unsure,
    /// Its whole interval is above the bound.
    TooSlow,
    /// It does not carry the load.
    Overloaded,
}

/// One combination.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Name of the variant; none of the plan's own software.
    pub variant: Option<String>,
    /// What was set of the parameters that may be chosen.
    pub set: Changes,
    /// What it costs.
    pub cost: f64,
    /// The 99th percentile, us.
    pub tail: Estimate,
    /// Requests done in a second.
    pub rate: Estimate,
    /// Whether it will do.
    pub verdict: Verdict,
    /// The part that limits it.
    pub limit: String,
}

/// How much more the choice carries.
#[derive(Clone, Debug)]
pub struct Margin {
    /// Largest load at which it met the bound, and the smallest at which it did not, if one was found; requests a second.
    pub carries: (f64, Option<f64>),
    /// The part that limits it there.
    pub limit: String,
    /// Its tail at the load plus the plan's worst error, us, and whether that meets the bound, where the plan states its error.
    pub at_error: Option<(f64, Verdict)>,
    /// The cheapest that meets the bound there too.
    pub safe: Option<usize>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What was tried, by cost; of those that behave alike only the first.
    pub candidates: Vec<Candidate>,
    /// The cheapest that meets the bound; of several at one cost that with the lowest tail.
    pub best: Option<usize>,
    /// Its margin; none if it was stopped before.
    pub margin: Option<Margin>,
    /// Combinations that contradict themselves, such as a bound on completions above what may be in flight.
    pub impossible: usize,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// Tries everything that may be chosen.
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

/// A variant's name, what is set beside it, and the settings that come of both.
type Combination = (Option<String>, Changes, Settings);

/// All combinations that are possible, and how many are not.
fn combinations(plan: &Plan, question: &Question) -> Result<(Vec<Combination>, usize), PlanError> {
    let wrong = |message: String| PlanError::in_file(&plan.path, None, &message);
    let variants = std::iter::once(None).chain(plan.variants.iter().map(Some));
    let mut all = vec![Changes::new()];
    for (name, values) in &question.choice.over {
        if all.len() * values.len() * (plan.variants.len() + 1) > MOST {
            return Err(wrong(format!("more than {MOST} combinations: give fewer values with --over")));
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
                settings.set(name, value, Source::Plan).map_err(wrong)?;
            }
            match plan.system.check(&settings) {
                Ok(()) => possible.push((variant.map(|variant| variant.name.clone()), set.clone(), settings)),
                Err(_) => impossible += 1,
            }
        }
    }
    if possible.is_empty() {
        return Err(wrong("no combination is possible: see --over and --set".to_owned()));
    }
    Ok((possible, impossible))
}

/// What is tried of each combination.
struct Trial<'a> {
    plan: &'a Plan,
    question: &'a Question,
}

impl<'a> Trial<'a> {
    fn of(plan: &'a Plan, question: &'a Question) -> Result<Self, PlanError> {
        let known = |name: &str| plan.settings.find(name).is_ok() || crate::plan::metric(plan.system, name).is_ok();
        if let Some((name, _)) = question.choice.cost.iter().find(|(name, _)| !known(name)) {
            let message = format!("a cost of `{name}`: that is no parameter and no metric of the plan's");
            return Err(PlanError::in_file(&plan.path, None, &message));
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

    /// How much there is of something that has a price.
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

    /// At so much of the load.
    fn at(&self, settings: &Settings, times: f64) -> Candidate {
        let load = self.question.load * times;
        let question = Question { load, ..self.question.clone() };
        let mut settings = settings.clone();
        // A load that the parameter does not take is more than anything carries.
        let taken = settings.set(&question.choice.load, &load.to_string(), Source::Plan).is_ok();
        let mut found = Trial { plan: self.plan, question: &question }.run(&settings, None, Changes::new()).0;
        if !taken {
            found.verdict = Verdict::Overloaded;
        }
        found
    }

    /// How much more than the load the best of these carries, and which of them is safe from the plan's error. `None`: it was
    /// stopped.
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
    /// Numbers of the candidates that no other beats in both cost and tail, among those that carry the load; by cost.
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
