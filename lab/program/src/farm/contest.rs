//! Variants measured in turn, with repeats.

use super::columns;
use super::found::{apart, medians, middle};
use super::running::Variant;
use super::stand::Stand;
use crate::farm::error::FarmError;
use sidecore_report::{Column, Row, column, statistics};
use sidecore_terminal::output::tell;

pub(crate) const IN_FLIGHT: [usize; 6] = [1, 2, 4, 8, 16, 32];

pub(crate) struct Entry {
    pub(crate) variant: Variant,
    pub(crate) found: Vec<Row>,
}

pub(crate) type Figure = &'static Column;
/// A bound by its column.
pub(crate) type Goal = (&'static Column, f64);
/// The rows of a scenario, and the place of the best variant that pulls.
pub(crate) type Measured = (Vec<Row>, Option<usize>);

pub(crate) fn all(policies: &[&'static str]) -> Vec<Variant> {
    let farms = policies.iter().map(|balance| Variant::Farm(balance));
    farms.chain(IN_FLIGHT.map(Variant::Pull)).collect()
}

/// Measures each variant once, then each once more, and so on. `one` receives the variant, and a seed that is the same
/// within a repeat.
pub(crate) async fn measure(
    stand: &Stand,
    scenario: &str,
    variants: &[Variant],
    repeats: usize,
    one: impl AsyncFn(Variant, u64) -> Result<Row, FarmError>,
) -> Result<Vec<Entry>, FarmError> {
    let mut entries: Vec<Entry> = variants.iter().map(|&variant| Entry { variant, found: Vec::new() }).collect();
    let steps = repeats * entries.len();
    for repeat in 0..repeats {
        for (number, entry) in entries.iter_mut().enumerate() {
            let step = repeat * variants.len() + number + 1;
            tell(format_args!("{scenario}: {}, {step} of {steps}", entry.variant.name()));
            let seed = stand.seed.wrapping_add(repeat as u64);
            entry.found.push(one(entry.variant, seed).await?);
        }
    }
    Ok(entries)
}

pub(crate) fn best(entries: &[Entry], better: impl Fn(f64, f64) -> bool, figure: Figure) -> Option<usize> {
    let pulls = entries.iter().enumerate().filter(|(_, entry)| matches!(entry.variant, Variant::Pull(_)));
    let figures = pulls.filter_map(|(place, entry)| Some((place, middle(&entry.found, figure)?)));
    figures.reduce(|best, next| if better(next.1, best.1) { next } else { best }).map(|(place, _)| place)
}

/// Median of the quotients of two measurements in the same repeat.
pub(crate) fn ratio(of: &Entry, by: &Entry, figure: Figure) -> Option<f64> {
    let pairs = of.found.iter().zip(&by.found).filter_map(|(of, by)| Some((of.number(figure)?, by.number(figure)?)));
    let (of, by): (Vec<f64>, Vec<f64>) = pairs.unzip();
    statistics::ratio(&of, &by)
}

pub(crate) fn row(stand: &Stand, scenario: &str, entry: &Entry, spread: Figure) -> Row {
    Row::new(scenario, &entry.variant.name())
        .with(column::BALANCE, entry.variant.balance())
        .with(columns::SPREAD, apart(&entry.found, spread))
        .with(column::REPEATS, entry.found.len())
        .with(column::SEED, stand.seed)
        .with(column::LIBRARY, stand.engine())
        .and(&medians(&entry.found))
}

pub(crate) fn compared(row: Row, of: &Entry, by: &Entry, figure: Figure, (goal, bound): Goal) -> Row {
    if of.variant.balance().is_none() || std::ptr::eq(of, by) {
        return row;
    }
    row.with(columns::RATIO, ratio(of, by, figure)).with(column::BASELINE, by.variant.name()).with(goal, bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(variant: Variant, shares: &[f64]) -> Entry {
        Entry { variant, found: shares.iter().map(|&share| Row::default().with(columns::SHARE, share)).collect() }
    }

    #[test]
    fn the_best_is_one_that_pulls_and_by_its_median() {
        let entries = [
            entry(Variant::Farm("tokens"), &[0.99]),
            entry(Variant::Pull(1), &[0.6, 0.9, 0.6]),
            entry(Variant::Pull(2), &[0.7, 0.7, 0.1]),
        ];
        assert_eq!(best(&entries, |one, other| one > other, columns::SHARE), Some(2));
        assert_eq!(best(&entries, |one, other| one < other, columns::SHARE), Some(1));
        assert_eq!(best(&entries[..1], |one, other| one > other, columns::SHARE), None);
    }

    #[test]
    fn a_ratio_is_of_pairs() {
        let (of, by) = (entry(Variant::Farm("tokens"), &[2.0, 30.0, 4.0]), entry(Variant::Pull(1), &[1.0, 10.0, 4.0]));
        assert_eq!(ratio(&of, &by, columns::SHARE), Some(2.0));
        assert_eq!(ratio(&of, &entry(Variant::Pull(1), &[]), columns::SHARE), None);
    }
}
