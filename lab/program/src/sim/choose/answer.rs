//! The answer in words: what is cheapest, how sure that is, its margin, and why the next cheaper one fails.

use super::super::output::STOPPED;
use super::tables;
use crate::report::{Grid, digits};
use sidecore_sim::choose::{Answer, Candidate, Margin, Question, Verdict};
use sidecore_sim::estimate::Estimate;
use sidecore_sim::plan::Plan;
use sidecore_sim::system::Metric;

/// Limit of untried combinations that are named.
const NAMED: usize = 10;

/// Why a search was stopped, if it was.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// After that number of seconds.
    Late(f64),
    Other,
}

pub(super) struct Words<'a> {
    pub(super) plan: &'a Plan,
    pub(super) question: &'a Question,
}

impl Words<'_> {
    pub(super) fn metric(&self) -> &'static Metric {
        &self.plan.system.metrics[self.question.choice.latency]
    }

    fn value(&self, value: f64) -> String {
        with_unit(value, self.metric().unit)
    }

    /// A load in the unit of its parameter.
    fn load(&self, load: f64) -> String {
        let name = &self.question.choice.load;
        let found = self.plan.settings.iter().find(|(parameter, _)| parameter.name == *name);
        match found.map_or("1", |(parameter, _)| parameter.unit) {
            "1/s" => format!("{} requests/s", digits(load)),
            "1" => format!("{name} {}", digits(load)),
            unit => with_unit(load, unit),
        }
    }

    pub(super) fn figure(&self, candidate: &Candidate) -> String {
        let Estimate { mean, within, .. } = candidate.tail;
        let half = if within.is_finite() { format!(" +- {} (95 %)", digits(within)) } else { String::new() };
        self.value(mean) + &half
    }

    fn name(&self, candidate: &Candidate) -> String {
        name(self.plan, candidate.variant.as_deref(), &candidate.set)
    }

    pub(super) fn answer(&self, answer: &Answer, end: End) -> Grid {
        let (load, bound) = (self.load(self.question.load), self.value(self.question.bound));
        let title = format!("{}: {load} with {} of at most {bound}", self.plan.title, self.metric().name);
        let mut grid = Grid::new(title, &["choice", ""]);
        let rows = match answer.best.map(|best| &answer.candidates[best]) {
            Some(best) => self.found(answer, best),
            None => self.not_found(answer),
        };
        for (what, said) in rows {
            grid.push([what, said]);
        }
        grid.notes.extend(self.notes(answer, end));
        grid
    }

    fn found(&self, answer: &Answer, best: &Candidate) -> Vec<(String, String)> {
        let (metric, left) = (self.metric(), (1.0 - best.tail.mean / self.question.bound) * 100.0);
        let margin = if ["us", "ms", "ns"].contains(&metric.unit) { "margin in time" } else { "margin" };
        let mut rows = vec![
            ("answer", self.name(best)),
            ("cost", digits(best.cost)),
            (metric.name, self.figure(best)),
            (margin, format!("{left:.0} % of the bound are left")),
            ("how sure", self.sureness(&best.tail)),
            ("limited by", best.limit.clone()),
        ];
        match answer.cheaper() {
            Some(cheaper) => {
                rows.push(("next cheaper", format!("{}, at a cost of {}", self.name(cheaper), digits(cheaper.cost))));
                rows.push(("why not that", self.failure(cheaper)));
            }
            None => rows.push(("next cheaper", "nothing that may be chosen".to_owned())),
        }
        match &answer.margin {
            Some(margin) => rows.extend(self.margin(margin, answer.stopped)),
            None => rows.push(("carries at most", "not searched for: the run was stopped before".to_owned())),
        }
        rows.into_iter().map(|(what, said)| (what.to_owned(), said)).collect()
    }

    fn sureness(&self, tail: &Estimate) -> String {
        let Estimate { mean, within, runs, .. } = *tail;
        if !within.is_finite() {
            return "one run, without an interval: --seeds gives more".to_owned();
        }
        let [low, high] = [mean - within, mean + within].map(digits);
        format!("95 % interval from {low} to {}, {runs} runs", with_unit_text(&high, self.metric().unit))
    }

    fn failure(&self, candidate: &Candidate) -> String {
        let limit = &candidate.limit;
        let (figure, bound) = (self.figure(candidate), self.value(self.question.bound));
        match candidate.verdict {
            Verdict::Meets => format!("it keeps the bound: {figure}"),
            Verdict::Unsure => format!("not sure: {figure} is on both sides of {bound}; limited by {limit}"),
            Verdict::TooSlow => format!("too slow: {figure} instead of {bound}; limited by {limit}"),
            Verdict::Overloaded => {
                let [done, load] = [candidate.rate.mean, self.question.load].map(|load| self.load(load));
                format!("overloaded: {done} instead of {load}; limited by {limit}")
            }
        }
    }

    fn margin(&self, margin: &Margin, stopped: bool) -> Vec<(&'static str, String)> {
        let (from, to) = margin.carries;
        let carries = match to {
            Some(to) => {
                let part = from / self.question.load;
                format!("from {} to {}, {part:.2} x what is asked", digits(from), self.load(to))
            }
            None => format!("more than {}", self.load(from)),
        };
        let mut rows = vec![("carries at most", format!("{carries}; then limited by {}", margin.limit))];
        let Some(error) = self.question.choice.error else {
            let none = "the plan states no error of its own: try the answer by a run";
            rows.push(("if the plan is wrong", none.to_owned()));
            return rows;
        };
        let percent = error * 100.0;
        if let Some((value, verdict)) = margin.at_error {
            let value = self.value(value);
            let said = match verdict {
                Verdict::Meets => format!("holds: {value} with {percent:.0} % more load, the plan's worst known error"),
                Verdict::Overloaded => {
                    format!("not sure: {percent:.0} % more load, the plan's worst known error, is too much for it")
                }
                _ => format!("not sure: {value} with {percent:.0} % more load, the plan's worst known error"),
            };
            rows.push(("if the plan is wrong", said));
        }
        let safe = margin.safe.as_ref().map(|it| format!("{}, at a cost of {}", self.name(it), digits(it.cost)));
        let none = if stopped { "not found before the stop" } else { "nothing that may be chosen" };
        rows.push(("to be safe from that", safe.unwrap_or(none.to_owned())));
        rows
    }

    fn not_found(&self, answer: &Answer) -> Vec<(String, String)> {
        let what = if answer.untried.is_empty() { "that may be chosen" } else { "that was tried" };
        let count = |verdict| answer.candidates.iter().filter(|it| it.verdict == verdict).count();
        let [unsure, slow, overloaded] = [Verdict::Unsure, Verdict::TooSlow, Verdict::Overloaded].map(count);
        let mut rows = vec![
            ("answer", format!("nothing {what} keeps the bound for certain")),
            ("failures", format!("{overloaded} overloaded, {slow} too slow, {unsure} not sure")),
        ];
        if let Some(nearest) = answer.nearest() {
            rows.push(("nearest", self.name(nearest)));
            rows.push(("why not that", self.failure(nearest)));
        }
        rows.into_iter().map(|(what, said)| (what.to_owned(), said)).collect()
    }

    fn notes(&self, answer: &Answer, end: End) -> Vec<String> {
        let (tried, impossible, left) = (answer.candidates.len(), answer.impossible, answer.untried.len());
        let mut notes =
            vec![format!("{tried} ways that differ were tried; {impossible} combinations contradict themselves")];
        if answer.stopped {
            notes.push(match end {
                End::Late(seconds) => format!("Stopped after {seconds} s: --seconds gives it more."),
                End::Other => STOPPED.to_owned(),
            });
        }
        let Some(first) = answer.untried.first() else { return notes };
        if !answer.stopped {
            notes.push(format!(
                "{left} combinations were not run: they cost more than the answer. --markdown runs them too."
            ));
            return notes;
        }
        let named = answer.untried.iter().take(NAMED).map(|it| name(self.plan, it.variant.as_deref(), &it.set));
        let mut named: Vec<String> = named.collect();
        named.extend((left > NAMED).then(|| format!("and {} more", left - NAMED)));
        let cost = digits(first.cost);
        notes.push(format!("{left} combinations were not tried, from a cost of {cost} on: {}.", named.join("; ")));
        notes
    }
}

pub(super) fn name(plan: &Plan, variant: Option<&str>, set: &[(String, String)]) -> String {
    let own = if plan.variants.is_empty() { "" } else { tables::OWN };
    let variant = variant.unwrap_or(own).to_owned();
    let set = set.iter().map(|(name, value)| format!("{} {value}", name.trim_end_matches(".count")));
    [variant].into_iter().filter(|name| !name.is_empty()).chain(set).collect::<Vec<_>>().join(", ")
}

fn with_unit(value: f64, unit: &str) -> String {
    with_unit_text(&digits(value), unit)
}

fn with_unit_text(value: &str, unit: &str) -> String {
    if unit == "1" { value.to_owned() } else { format!("{value} {unit}") }
}
