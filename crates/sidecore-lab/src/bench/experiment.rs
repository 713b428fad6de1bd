//! How everything here is measured: cases on their axes, in each the same variants, which run in turn again and again, so
//! that what the machine does meanwhile befalls all of them; then medians, spread, and ratios to baselines of the same run.

mod found;

use super::series::ratio;
use super::{BenchError, Outcome};
use crate::progress::Progress;
use crate::report::{Key, Row};
pub(super) use found::{Counted, Run};

/// A point on the axes. `L` is what measurements are made with, e.g. a crew.
pub(super) struct Case<'e, L> {
    row: Row,
    payload: bool,
    variants: Vec<Variant<'e, L>>,
}

/// One of the things that are compared in a case.
pub(super) struct Variant<'e, L> {
    row: Row,
    run: Box<Measure<'e, L>>,
    against: Vec<(By, String)>,
    /// All of its runs.
    found: Run,
}

type Measure<'e, L> = dyn FnMut(&mut L, &Turn<'_>) -> Result<Run, BenchError> + 'e;

/// Which run of a variant this is.
pub(super) struct Turn<'f> {
    /// Of the repeats, from 0.
    pub(super) repeat: usize,
    /// Rates of the variants before this one in the same turn.
    rates: &'f [(String, f64)],
}

/// What a ratio divides.
#[derive(Debug, Clone, Copy)]
pub(super) enum By {
    /// Rates: more is better.
    Rate,
    /// Times of one after the other, from their rates: less is better.
    Time,
    /// Median latencies: less is better.
    Median,
    /// The rate by a bound that is not measured, operations a second.
    Bound(f64),
}

impl<'e, L> Case<'e, L> {
    /// A case of that scenario.
    pub(super) fn new(scenario: &str) -> Self {
        Self { row: Row::default().with(Key::Scenario, scenario), payload: false, variants: Vec::new() }
    }

    /// With a value that all its rows have.
    pub(super) fn with(mut self, key: Key, value: impl Into<serde_json::Value>) -> Self {
        self.row = self.row.with(key, value);
        self
    }

    /// Rows also say how much payload that is, if there is any.
    pub(super) fn payload(mut self, is_any: bool) -> Self {
        self.payload = is_any;
        self
    }

    /// With that variant, after the others.
    pub(super) fn variant(mut self, variant: Variant<'e, L>) -> Self {
        self.variants.push(variant);
        self
    }
}

impl<'e, L> Variant<'e, L> {
    /// A variant that is measured by that.
    pub(super) fn new(name: &str, run: impl FnMut(&mut L, &Turn<'_>) -> Result<Run, BenchError> + 'e) -> Self {
        let row = Row::default().with(Key::Variant, name);
        Self { row, run: Box::new(run), against: Vec::new(), found: Run::default() }
    }

    /// With a value that its rows have.
    pub(super) fn with(mut self, key: Key, value: impl Into<serde_json::Value>) -> Self {
        self.row = self.row.with(key, value);
        self
    }

    /// Compared with a variant, or a bound, of that name. With several there is a row for each.
    pub(super) fn against(mut self, by: By, baseline: &str) -> Self {
        self.against.push((by, baseline.to_owned()));
        self
    }

    /// What a row of the case calls it: of several of the same name, its policy tells them apart.
    fn names(&self, name: &str) -> bool {
        [Key::Variant, Key::Notify, Key::Devices].iter().any(|key| self.row.text(*key) == Some(name))
    }
}

impl Turn<'_> {
    /// Whether the variant has not run before in this case.
    pub(super) fn is_first(&self) -> bool {
        self.repeat == 0
    }

    /// What the variant of that name did in this turn, operations a second. `None`: it cannot be measured here.
    pub(super) fn rate(&self, name: &str) -> Option<f64> {
        self.rates.iter().find(|(known, _)| known == name).map(|(_, rate)| *rate)
    }
}

/// Measures all cases. The rows come case by case, variant by variant; what cannot be measured here is left out, with
/// its reason.
pub(super) fn measure_all<L>(
    laboratory: &mut L,
    cases: Vec<Case<'_, L>>,
    repeats: usize,
    progress: &Progress,
) -> Result<Outcome, BenchError> {
    progress.bar.inc_length((cases.len() * repeats) as u64);
    let mut outcome = Outcome::default();
    for mut case in cases {
        for repeat in 0..repeats {
            progress.begin(&in_words(&case.row));
            let mut rates = Vec::new();
            for variant in &mut case.variants {
                let run = (variant.run)(laboratory, &Turn { repeat, rates: &rates })?;
                rates.extend(run.rates.first().map(|rate| (variant.row.variant().to_owned(), *rate)));
                variant.found.add(run);
            }
            progress.advance();
        }
        outcome.rows.extend(rows(&case));
        let missing = case.variants.into_iter().filter_map(|variant| variant.found.missing);
        outcome.left_out.extend(missing.map(|why| format!("{}: {why}", case.row.scenario())));
    }
    outcome.left_out.sort();
    outcome.left_out.dedup();
    Ok(outcome)
}

/// The case, for who watches.
fn in_words(row: &Row) -> String {
    let axes = [Key::Op, Key::Size, Key::Clients, Key::Jobs, Key::Load, Key::Devices].map(Key::column);
    let said = axes.into_iter().filter_map(|axis| Some(format!("{} {}", axis.header, axis.cell(row)?)));
    said.collect::<Vec<_>>().join(", ")
}

fn rows<L>(case: &Case<'_, L>) -> Vec<Row> {
    let mut rows = Vec::new();
    for Variant { row, against, found, .. } in case.variants.iter().filter(|variant| !variant.found.rates.is_empty()) {
        let row = found.row(case.row.clone().and(row), case.payload);
        let compared = against.iter().filter_map(|(by, name)| {
            let baseline = case.variants.iter().find(|variant| variant.names(name)).map(|variant| &variant.found);
            let ratio = by.divide(found, baseline)?;
            Some(row.clone().with(Key::Ratio, ratio).with(Key::Baseline, name.as_str()))
        });
        let compared: Vec<_> = compared.collect();
        rows.extend(if compared.is_empty() { vec![row] } else { compared });
    }
    rows
}

impl By {
    /// `None`: the baseline has not been measured.
    fn divide(self, own: &Run, baseline: Option<&Run>) -> Option<f64> {
        match self {
            Self::Rate => ratio(own.compared(), baseline?.compared()),
            Self::Time => ratio(baseline?.compared(), own.compared()),
            Self::Median => Some(own.median_latency()? / baseline?.median_latency()?),
            Self::Bound(rate) => ratio(own.compared(), &vec![rate; own.rates.len()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates that are handed out in turn.
    fn variant<'e>(name: &str, rates: &'e [f64]) -> Variant<'e, Vec<String>> {
        let own = name.to_owned();
        Variant::new(name, move |ran: &mut Vec<String>, turn| {
            ran.push(format!("{own}{}", turn.repeat));
            Ok(rates.get(turn.repeat).map_or_else(|| Run::missing("there is none"), |rate| Run::at(*rate)))
        })
    }

    #[test]
    fn variants_run_in_turn_and_rows_have_medians_and_ratios_of_pairs() {
        let case = || Case::new("lane").with(Key::Op, "noop").with(Key::Size, 1_000).payload(true);
        let double = Variant::new("double", |_: &mut Vec<String>, turn: &Turn<'_>| {
            Ok(Run::at(2.0 * turn.rate("bare").expect("it was measured before")))
        });
        let cases = vec![
            case()
                .variant(variant("bare", &[1.0, 2.0, 4.0]))
                .variant(double)
                .variant(variant("none", &[]).against(By::Rate, "bare"))
                .variant(variant("lane", &[3.0, 4.0, 4.0]).against(By::Rate, "bare").against(By::Bound(8.0), "most"))
                .variant(variant("trip", &[1.0, 1.0, 1.0]).against(By::Time, "bare").with(Key::AtMost, 2.5)),
        ];
        let mut ran = Vec::new();
        let outcome = measure_all(&mut ran, cases, 3, &Progress::new(0)).unwrap();
        assert_eq!(ran[..5], ["bare0", "none0", "lane0", "trip0", "bare1"]);
        assert_eq!(outcome.left_out, ["lane: there is none"]);
        let found = |row: &Row| (row.variant().to_owned(), row.number(Key::OpsPerS), row.number(Key::Ratio));
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
        assert_eq!((row.text(Key::Baseline), row.text(Key::Op)), (Some("bare"), Some("noop")));
        assert_eq!((row.number(Key::MbitPerS), row.number(Key::Repeats)), (Some(0.032), Some(3.0)));
        assert_eq!(Key::Reach.column().cell(&outcome.rows[4]).as_deref(), Some("≤ 2.50 x, held"));
    }
}
