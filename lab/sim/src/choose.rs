//! The cheapest hardware and policies that keep a metric within a bound at a load.
//!
//! A plan lists the choices: its own software and its variants, each with every combination of values of some
//! parameters. They run in the order of their cost, because a metric is not monotonic in a parameter. Overloaded or
//! far-off combinations run once, the others until they are sure. The answer is the cheapest one whose interval lies
//! within the bound. Costlier ones cannot change it, and run on request only.

mod margin;
mod trial;

pub use margin::Margin;

use crate::estimate::{Effort, Estimate};
use crate::plan::{Changes, Choice, Plan, PlanError};
use crate::settings::{Settings, Source};
use crate::table::Progress;
use std::collections::{HashSet, VecDeque};
use std::fmt::Display;
use trial::Trial;

/// Limit of combinations.
pub const MAX_COMBINATIONS: usize = 2_000;

/// Parameters of the search.
#[derive(Clone, Debug)]
pub struct Question {
    /// Load, in the unit of the parameter that sets it.
    pub load: f64,
    /// Upper bound of the metric, in its unit.
    pub bound: f64,
    /// The choices and their costs, as in the plan or changed.
    pub choice: Choice,
    /// Required certainty.
    pub effort: Effort,
    /// Whether combinations run that are costlier than the answer.
    pub all: bool,
}

/// Judgement of a combination, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// One combination that ran.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Name of the variant; `None`: the plan's own software.
    pub variant: Option<String>,
    /// Values of the parameters to choose.
    pub set: Changes,
    /// Its cost.
    pub cost: f64,
    /// The bounded metric, in its unit.
    pub tail: Estimate,
    /// The carried load, in its unit.
    pub rate: Estimate,
    /// Its judgement.
    pub verdict: Verdict,
    /// The part that limits it.
    pub limit: String,
}

/// One combination that did not run.
#[derive(Clone, Debug)]
pub struct Untried {
    /// Name of the variant; `None`: the plan's own software.
    pub variant: Option<String>,
    /// Values of the parameters to choose.
    pub set: Changes,
    /// The known part of its cost: that of parameters. Only a run has the amount of a metric.
    pub cost: f64,
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
    /// Combinations that did not run, by cost: costlier than the answer, or later than the stop.
    pub untried: Vec<Untried>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// Runs the combinations of the plan's choices, the cheapest first. `progress` is called between runs: a break ends the
/// search with what it has.
///
/// # Errors
///
/// If there are too many combinations, a name or value is wrong, or none of them is possible.
pub fn choose(plan: &Plan, question: &Question, progress: Progress<'_>) -> Result<Answer, PlanError> {
    let trial = Trial::of(plan, question)?;
    let (ways, impossible) = ways(&trial)?;
    let steps = Steps { progress, done: 0, most: ways.len() + margin::STEPS + 1, stopped: false };
    let mut search = Search { trial, left: ways.into(), tried: Vec::new(), seen: HashSet::new(), steps };
    search.run();
    let margin = search.margin();
    let Search { left, tried, steps, .. } = search;
    let candidates: Vec<Candidate> = tried.into_iter().map(|(found, _)| found).collect();
    let best = candidates.iter().position(|found| found.verdict == Verdict::Meets);
    let untried = left.into_iter().map(|way| way.untried).collect();
    Ok(Answer { candidates, best, margin, impossible, untried, stopped: steps.stopped })
}

struct Way {
    untried: Untried,
    settings: Settings,
}

/// All possible combinations by cost, and the number of impossible ones.
fn ways(trial: &Trial<'_>) -> Result<(Vec<Way>, usize), PlanError> {
    let Trial { plan, question } = trial;
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
            if plan.system.check(&settings).is_err() {
                impossible += 1;
                continue;
            }
            let (variant, set) = (variant.map(|variant| variant.name.clone()), set.clone());
            let cost = trial.cost(&settings, None);
            possible.push(Way { untried: Untried { variant, set, cost }, settings });
        }
    }
    if possible.is_empty() {
        return Err(wrong(&"no combination is possible: see --over and --set"));
    }
    possible.sort_by(|a, b| a.untried.cost.total_cmp(&b.untried.cost));
    Ok((possible, impossible))
}

struct Steps<'a> {
    progress: Progress<'a>,
    done: usize,
    most: usize,
    stopped: bool,
}

impl Steps<'_> {
    fn go_on(&mut self) -> bool {
        self.stopped = self.stopped || (self.progress)(self.done.min(self.most), self.most).is_break();
        !self.stopped
    }

    fn advance(&mut self) -> bool {
        self.done += 1;
        self.go_on()
    }
}

struct Search<'a, 'p> {
    trial: Trial<'a>,
    /// By cost.
    left: VecDeque<Way>,
    /// By cost, then by the metric.
    tried: Vec<(Candidate, Settings)>,
    /// Runs by trace and cost.
    seen: HashSet<(u64, u64)>,
    steps: Steps<'p>,
}

impl Search<'_, '_> {
    fn run(&mut self) {
        while let Some(next) = self.left.front() {
            let least = self.best().map(|best| self.tried[best].0.cost);
            let is_costlier = least.is_some_and(|least| next.untried.cost > least);
            if is_costlier && !self.trial.question.all || !self.next() {
                break;
            }
        }
    }

    fn best(&self) -> Option<usize> {
        self.tried.iter().position(|(found, _)| found.verdict == Verdict::Meets)
    }

    /// Runs the cheapest combination that is left. `false`: there is none, or it was stopped.
    fn next(&mut self) -> bool {
        let Some(way) = self.left.front() else { return false };
        let steps = &mut self.steps;
        let Some((found, trace)) = self.trial.run(&way.settings, &way.untried, &mut || steps.go_on()) else {
            return false;
        };
        let Some(way) = self.left.pop_front() else { return false };
        if self.seen.insert((trace, found.cost.to_bits())) {
            let order = |(a, _): &(Candidate, Settings)| {
                a.cost.total_cmp(&found.cost).then(a.tail.mean.total_cmp(&found.tail.mean)).is_le()
            };
            let at = self.tried.partition_point(order);
            self.tried.insert(at, (found, way.settings));
        }
        self.steps.advance()
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

    /// The costliest of the candidates that are cheaper than the answer; at equal cost, the one nearest to the bound.
    pub fn cheaper(&self) -> Option<&Candidate> {
        let best = &self.candidates[self.best?];
        let nearest = |a: &&Candidate, b: &&Candidate| {
            let by_figures = b.verdict.cmp(&a.verdict).then(b.tail.mean.total_cmp(&a.tail.mean));
            a.cost.total_cmp(&b.cost).then(by_figures)
        };
        self.candidates.iter().filter(|found| found.cost < best.cost).max_by(nearest)
    }

    /// The candidate that comes nearest to the bound.
    pub fn nearest(&self) -> Option<&Candidate> {
        let order =
            |a: &&Candidate, b: &&Candidate| a.verdict.cmp(&b.verdict).then(a.tail.mean.total_cmp(&b.tail.mean));
        self.candidates.iter().min_by(order)
    }
}
