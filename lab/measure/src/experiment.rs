//! The method of all measurements. Cases have the same variants, which run in turn repeatedly, so that disturbances of
//! the machine affect all of them. Results are medians, spreads, and ratios to baselines of the same run.

mod found;
mod measured;
mod series;

use crate::caveats::{of_row, of_time};
use crate::host_monitor::{HostMonitor, host_activity};
use crate::pinning::{Pinning, of_crowd};
use crate::progress::Progress;
pub use found::{Better, Counted, Run};
pub use measured::{Counts, Measured};
use serde_json::json;
pub use series::{times, total_per_s};
use sidecore_report::statistics::{quotients, ratio_of};
use sidecore_report::{Caveat, Column, Outcome, Row, caveat, column};

/// A case with its variants. `L` is the laboratory that they run in, `E` the error of a run.
pub struct Case<'e, L, E> {
    row: Row,
    payload: bool,
    caveats: Vec<Caveat>,
    variants: Vec<Variant<'e, L, E>>,
}

/// A variant: how it runs, and its baselines.
pub struct Variant<'e, L, E> {
    row: Row,
    run: Box<Measure<'e, L, E>>,
    against: Vec<(By, String)>,
    found: Run,
}

type Measure<'e, L, E> = dyn FnMut(&mut L, &Turn<'_>) -> Result<Run, E> + 'e;

/// One turn: each variant runs once.
pub struct Turn<'f> {
    /// Number of the turn, from 0.
    pub repeat: usize,
    /// Rates of the variants before this one in the same turn.
    rates: &'f [(String, f64)],
}

/// Figures whose ratio to a baseline is shown.
#[derive(Debug, Clone, Copy)]
pub enum By {
    /// Rates: more is better.
    Rate,
    /// Times of sequential operations, from their rates: less is better.
    Time,
    /// Median latencies: less is better.
    Median,
    /// The rate by a computed bound, operations a second.
    Bound(f64),
}

impl<'e, L, E> Case<'e, L, E> {
    /// A case of this scenario, without variants.
    pub fn new(scenario: &str) -> Self {
        Self {
            row: Row::default().with(column::SCENARIO, scenario),
            payload: false,
            caveats: Vec::new(),
            variants: Vec::new(),
        }
    }

    /// Sets a column of its rows.
    #[must_use]
    pub fn with(mut self, key: &'static Column, value: impl Into<serde_json::Value>) -> Self {
        self.row = self.row.with(key, value);
        self
    }

    /// Names the cores of sidecores and clients, with a doubt where clients are too many for them.
    #[must_use]
    pub fn pinned(self, pinning: &Pinning, clients: usize) -> Self {
        self.crowded(of_crowd(pinning, clients)).with(column::PINNED, pinning.describe(clients))
    }

    /// Adds a doubt, if there is one.
    #[must_use]
    pub fn crowded(mut self, caveat: Option<Caveat>) -> Self {
        self.caveats.extend(caveat);
        self
    }

    /// Whether the rate times the size is a rate of payload.
    #[must_use]
    pub fn payload(mut self, is_any: bool) -> Self {
        self.payload = is_any;
        self
    }

    /// Adds a variant. Variants run in the order of their addition.
    #[must_use]
    pub fn variant(mut self, variant: Variant<'e, L, E>) -> Self {
        self.variants.push(variant);
        self
    }

    /// One run of each variant. `None`: an interrupt came, which may also have ended measured programs.
    fn turn(&mut self, laboratory: &mut L, repeat: usize, progress: &Progress) -> Result<Option<Vec<Run>>, E> {
        let (mut runs, mut rates) = (Vec::new(), Vec::new());
        for variant in &mut self.variants {
            if progress.is_stopped() {
                return Ok(None);
            }
            let run = match (variant.run)(laboratory, &Turn { repeat, rates: &rates }) {
                Err(_) if progress.is_stopped() => return Ok(None),
                run => run?,
            };
            rates.extend(run.rates.first().map(|rate| (variant.row.variant().to_owned(), *rate)));
            runs.push(run);
        }
        Ok(Some(runs))
    }
}

impl<'e, L, E> Variant<'e, L, E> {
    /// A variant of this name. `run` is one run of it.
    pub fn new(name: &str, run: impl FnMut(&mut L, &Turn<'_>) -> Result<Run, E> + 'e) -> Self {
        let row = Row::default().with(column::VARIANT, name);
        Self { row, run: Box::new(run), against: Vec::new(), found: Run::default() }
    }

    /// Sets a column of its rows.
    #[must_use]
    pub fn with(mut self, key: &'static Column, value: impl Into<serde_json::Value>) -> Self {
        self.row = self.row.with(key, value);
        self
    }

    /// Adds a baseline: the name of another variant of the case.
    #[must_use]
    pub fn against(mut self, by: By, baseline: &str) -> Self {
        self.against.push((by, baseline.to_owned()));
        self
    }

    /// Its policy or devices distinguish variants of the same name.
    fn names(&self, name: &str) -> bool {
        [column::VARIANT, column::NOTIFY, column::DEVICES].iter().any(|key| self.row.text(key) == Some(name))
    }
}

impl Turn<'_> {
    /// Whether this is the first turn.
    pub fn is_first(&self) -> bool {
        self.repeat == 0
    }

    /// Rate of the variant of that name in this turn, operations a second. `None`: it cannot be measured here.
    pub fn rate(&self, name: &str) -> Option<f64> {
        self.rates.iter().find(|(known, _)| known == name).map(|(_, rate)| *rate)
    }
}

/// Unmeasurable variants are left out with their reason. After an interrupt only complete turns count.
///
/// # Errors
/// Those of a run, except after an interrupt.
pub fn measure_all<L, E>(
    laboratory: &mut L,
    cases: Vec<Case<'_, L, E>>,
    repeats: usize,
    progress: &Progress,
) -> Result<Outcome, E> {
    progress.extend(cases.len() * repeats);
    let mut outcome = Outcome::default();
    for mut case in cases {
        let before = HostMonitor::now();
        for repeat in 0..repeats {
            progress.begin(&in_words(&case.row));
            let Some(runs) = case.turn(laboratory, repeat, progress)? else { break };
            case.variants.iter_mut().zip(runs).for_each(|(variant, run)| variant.found.add(run));
            progress.advance();
        }
        case.caveats.extend(of_time(host_activity(before.as_ref())));
        outcome.rows.extend(rows(&case).into_iter().map(|row| with_caveats(row, &case.caveats, repeats)));
        let missing = case.variants.into_iter().filter_map(|variant| variant.found.missing);
        outcome.left_out.extend(missing.map(|why| format!("{}: {why}", case.row.scenario())));
    }
    outcome.left_out.sort();
    outcome.left_out.dedup();
    Ok(outcome)
}

/// The row with all doubts about it; `repeats` were to be made.
pub fn with_caveats(row: Row, of_case: &[Caveat], repeats: usize) -> Row {
    let caveats = [of_case, &of_row(&row, repeats)].concat();
    row.with(column::DOUBTS, caveat::to_json(&caveats))
}

fn in_words(row: &Row) -> String {
    let axes = [column::OP, column::SIZE, column::CLIENTS, column::JOBS, column::LOAD, column::DEVICES];
    let said = axes.into_iter().filter_map(|axis| Some(format!("{} {}", axis.header, axis.cell(row)?)));
    said.collect::<Vec<_>>().join(", ")
}

fn rows<L, E>(case: &Case<'_, L, E>) -> Vec<Row> {
    let mut rows = Vec::new();
    for Variant { row, against, found, .. } in case.variants.iter().filter(|variant| !variant.found.rates.is_empty()) {
        let row = found.row(case.row.clone().and(row), case.payload);
        let row = found.figures.iter().fold(row, |row, (key, values)| ranged(row, key, values));
        let compared = against.iter().filter_map(|(by, name)| {
            let baseline = case.variants.iter().find(|variant| variant.names(name)).map(|variant| &variant.found);
            let ratio = by.divide(found, baseline)?;
            let row = row.clone().with(column::RATIO, ratio).with(column::RATIO_BETTER, by.better(found));
            let row = ranged(row, column::RATIO, &by.quotients(found, baseline).unwrap_or_default());
            Some(row.with(column::BASELINE, name.as_str()))
        });
        let compared: Vec<_> = compared.collect();
        rows.extend(if compared.is_empty() { vec![row] } else { compared });
    }
    rows
}

impl By {
    fn divide(self, own: &Run, baseline: Option<&Run>) -> Option<f64> {
        match self {
            // Over all samples together, not run by run.
            Self::Median => Some(own.median_latency()? / baseline?.median_latency()?),
            _ => ratio_of(&self.quotients(own, baseline)?),
        }
    }

    fn quotients(self, own: &Run, baseline: Option<&Run>) -> Option<Vec<f64>> {
        Some(match self {
            Self::Rate => quotients(own.compared(), baseline?.compared()),
            Self::Time => quotients(baseline?.compared(), own.compared()),
            Self::Median => quotients(own.each(column::TOTAL_P50), baseline?.each(column::TOTAL_P50)),
            Self::Bound(rate) => quotients(own.compared(), &vec![rate; own.rates.len()]),
        })
    }

    fn better(self, own: &Run) -> &'static str {
        match self {
            Self::Rate | Self::Bound(_) if own.more_is_better() => "more",
            _ => "less",
        }
    }
}

fn ranged(row: Row, key: &'static Column, values: &[f64]) -> Row {
    let mut ranges = row.get(column::RANGES).cloned().unwrap_or_else(|| json!({}));
    let (least, most) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(*v), m.max(*v)));
    // The figure itself may be of all samples together and lie outside.
    let own = row.number(key).unwrap_or(least);
    if values.len() > 1 && least.is_finite() && most.is_finite() {
        ranges[key.name] = json!([least.min(own), most.max(own)]);
        return row.with(column::RANGES, ranges);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupt;
    use std::sync::atomic::Ordering;

    fn variant<'e>(name: &str, rates: &'e [f64]) -> Variant<'e, Vec<String>, &'static str> {
        let own = name.to_owned();
        Variant::new(name, move |ran: &mut Vec<String>, turn| {
            ran.push(format!("{own}{}", turn.repeat));
            Ok(rates.get(turn.repeat).map_or_else(|| Run::missing("there is none"), |rate| Run::at(*rate)))
        })
    }

    #[test]
    fn variants_run_in_turn_and_rows_have_medians_and_ratios_of_pairs() {
        let case = || Case::new("lane").with(column::OP, "noop").with(column::SIZE, 1_000).payload(true);
        let double = Variant::new("double", |_: &mut Vec<String>, turn: &Turn<'_>| {
            Ok(Run::at(2.0 * turn.rate("bare").expect("it was measured before")))
        });
        let cases = vec![
            case()
                .variant(variant("bare", &[1.0, 2.0, 4.0]))
                .variant(double)
                .variant(variant("none", &[]).against(By::Rate, "bare"))
                .variant(variant("lane", &[3.0, 4.0, 4.0]).against(By::Rate, "bare").against(By::Bound(8.0), "most"))
                .variant(variant("trip", &[1.0, 1.0, 1.0]).against(By::Time, "bare").with(column::AT_MOST, 2.5)),
        ];
        let mut ran = Vec::new();
        let outcome = measure_all(&mut ran, cases, 3, &Progress::new(0)).unwrap();
        assert_eq!(ran[..5], ["bare0", "none0", "lane0", "trip0", "bare1"]);
        assert_eq!(outcome.left_out, ["lane: there is none"]);
        let found = |row: &Row| (row.variant().to_owned(), row.number(column::OPS_PER_S), row.number(column::RATIO));
        assert_eq!(
            outcome.rows.iter().map(found).collect::<Vec<_>>(),
            [
                ("bare".to_owned(), Some(2.0), None),
                ("double".to_owned(), Some(4.0), None),
                ("lane".to_owned(), Some(4.0), Some(2.0)),
                ("lane".to_owned(), Some(4.0), Some(0.5)),
                ("trip".to_owned(), Some(1.0), Some(2.0)),
            ]
        );
        let row = &outcome.rows[2];
        assert_eq!((row.text(column::BASELINE), row.text(column::OP)), (Some("bare"), Some("noop")));
        assert_eq!((row.number(column::MBIT_PER_S), row.number(column::REPEATS)), (Some(0.032), Some(3.0)));
        assert_eq!((row.range(column::OPS_PER_S), row.range(column::RATIO)), (Some((3.0, 4.0)), Some((1.0, 3.0))));
        let better = |row: &Row| row.text(column::RATIO_BETTER).map(str::to_owned);
        assert_eq!([2, 4].map(|at| better(&outcome.rows[at])), [Some("more".to_owned()), Some("less".to_owned())]);
        assert_eq!(column::REACH.cell(&outcome.rows[4]).as_deref(), Some("≤ 2.50 x, held"));
    }

    #[test]
    fn an_interrupt_leaves_the_turns_that_were_complete() {
        let (interrupt, stop) = Interrupt::by_hand();
        let progress = Progress::new(0).until(&interrupt);
        let ending = |at: usize, fails: bool| {
            let stop = stop.clone();
            Variant::new("ends", move |ran: &mut Vec<String>, turn: &Turn<'_>| {
                stop.store(turn.repeat == at, Ordering::Relaxed);
                ran.push(turn.repeat.to_string());
                // An interrupt ends a measured program like this.
                if fails && turn.repeat == at { Err("a client process ended") } else { Ok(Run::at(1.0)) }
            })
        };
        let rates = [1.0, 2.0, 4.0];
        for (fails, counted) in [(false, 2.0), (true, 1.0)] {
            stop.store(false, Ordering::Relaxed);
            let case = Case::new("lane").variant(variant("bare", &rates)).variant(ending(1, fails));
            let cases = vec![case, Case::new("lane").variant(variant("never", &rates))];
            let mut ran = Vec::new();
            let outcome = measure_all(&mut ran, cases, 3, &progress).unwrap();
            assert_eq!(ran, ["bare0", "0", "bare1", "1"]);
            let found = |row: &Row| (row.variant().to_owned(), row.number(column::REPEATS));
            let found: Vec<_> = outcome.rows.iter().map(found).collect();
            assert_eq!(found, ["bare", "ends"].map(|name| (name.to_owned(), Some(counted))));
        }
        stop.store(false, Ordering::Relaxed);
        let failing = Case::new("lane").variant(ending(9, false)).variant(Variant::new("fails", |_, _| Err("no")));
        assert!(measure_all(&mut Vec::new(), vec![failing], 3, &progress).is_err());
    }
}
