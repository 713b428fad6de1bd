//! Results of one run of a variant, and the medians of several runs.

use super::feeding::Fed;
use super::load;
use super::results::Stored;
use sidecore_report::statistics::{median, spread};
use sidecore_report::{Column, Row};
use std::collections::HashMap;
use std::time::{Duration, SystemTime};

/// The median of each figure, by itself.
pub(crate) fn medians(of: &[Row]) -> Row {
    of.iter().flat_map(Row::columns).fold(Row::default(), |row, figure| row.with(figure, middle(of, figure)))
}

pub(crate) fn middle(of: &[Row], figure: &Column) -> Option<f64> {
    let figures = figures(of, figure);
    (!figures.is_empty()).then(|| median(&figures))
}

pub(crate) fn apart(of: &[Row], figure: &Column) -> Option<f64> {
    spread(&figures(of, figure))
}

fn figures(of: &[Row], figure: &Column) -> Vec<f64> {
    of.iter().filter_map(|row| row.number(figure)).collect()
}

/// Work whose results were stored between these times after the first event, as a part of the nodes' capacity in that
/// time.
pub(crate) fn share(fed: &[Fed], stored: &[Stored], unit: Duration, from: Duration, to: Duration) -> Option<f64> {
    let begin = fed.first()?.at;
    let done = |at: SystemTime| at > begin + from && at <= begin + to;
    Some(work(fed, stored, done) / (to.saturating_sub(from).as_secs_f64() * load::units_per_s(unit)))
}

/// The same until the last result. `None`: an event has no result.
pub(crate) fn share_to_the_end(fed: &[Fed], stored: &[Stored], unit: Duration) -> Option<f64> {
    let took = stored.iter().map(|stored| stored.at).max()?.duration_since(fed.first()?.at).ok()?;
    (stored.len() >= fed.len()).then(|| work(fed, stored, |_| true) / (took.as_secs_f64() * load::units_per_s(unit)))
}

/// Times of events planned later than `after` from the first: rates are learned until then.
pub(crate) fn total(fed: &[Fed], stored: &[Stored], after: Duration) -> Vec<Duration> {
    let Some(first) = fed.first() else { return Vec::new() };
    let at: HashMap<&str, SystemTime> = stored.iter().map(|stored| (stored.id.as_str(), stored.at)).collect();
    let later = fed.iter().filter(|event| event.at >= first.at + after);
    // Both times are by one clock, but not read in the same instant: a result is never earlier than its event.
    later.filter_map(|event| Some(at.get(event.id.as_str())?.duration_since(event.at).unwrap_or_default())).collect()
}

pub(crate) fn rate(stored: &[Stored]) -> Option<f64> {
    let (first, last) = (stored.iter().map(|stored| stored.at).min()?, stored.iter().map(|stored| stored.at).max()?);
    let took = last.duration_since(first).ok()?;
    (!took.is_zero()).then(|| (stored.len() - 1) as f64 / took.as_secs_f64())
}

fn work(fed: &[Fed], stored: &[Stored], at: impl Fn(SystemTime) -> bool) -> f64 {
    let units: HashMap<&str, u32> = fed.iter().map(|event| (event.id.as_str(), event.units)).collect();
    let in_time = stored.iter().filter(|stored| at(stored.at));
    in_time.filter_map(|stored| units.get(stored.id.as_str())).map(|units| f64::from(*units)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::farm::columns::{CPU, SHARE, TOTAL, TOTAL_P99};
    use bytes::Bytes;
    use sidecore_report::Times;

    const UNIT: Duration = Duration::from_micros(100);

    fn run(count: u64, units: u32) -> (Vec<Fed>, Vec<Stored>) {
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let at = |number: u64| begin + Duration::from_millis(number);
        let fed = (0..count)
            .map(|number| Fed { id: format!("e-{number}"), units, at: at(number), sent: at(number) })
            .collect();
        let stored = (0..count)
            .map(|number| Stored { id: format!("e-{number}"), at: at(number + 500), body: Bytes::new(), reason: None })
            .collect();
        (fed, stored)
    }

    #[test]
    fn a_share_is_work_done_by_work_that_could_be_done() {
        // The nodes' capacity is 142 units of work a millisecond.
        let (fed, stored) = run(2_000, 142);
        let found = share(&fed, &stored, UNIT, Duration::from_secs(1), Duration::from_secs(2)).unwrap();
        assert!((found - 1.0).abs() < 1e-9, "{found}");
        let end = share_to_the_end(&fed, &stored, UNIT).unwrap();
        assert!((end - 2_000.0 / 2_499.0).abs() < 1e-9, "{end}");
        assert_eq!(share_to_the_end(&fed, &stored[1..], UNIT), None);
        assert_eq!(share(&[], &[], UNIT, Duration::ZERO, UNIT), None);
    }

    #[test]
    fn an_events_time_is_from_when_it_was_to_come() {
        let (fed, mut stored) = run(100, 1);
        assert_eq!(total(&fed, &stored, Duration::ZERO), vec![Duration::from_millis(500); 100]);
        assert_eq!(total(&fed, &stored, Duration::from_millis(90)).len(), 10);
        stored[0].at = SystemTime::UNIX_EPOCH;
        assert_eq!(total(&fed, &stored, Duration::ZERO)[0], Duration::ZERO);
        assert!((rate(&stored[1..]).unwrap() - 1_000.0).abs() < 1e-6);
        assert_eq!((rate(&stored[..1]), rate(&[])), (None, None));
    }

    #[test]
    fn medians_are_taken_figure_by_figure() {
        let found = |share: f64, p99| {
            Row::default().with(SHARE, share).with_times(TOTAL, Some(Times { mean: 1.0, p50: 2.0, p99 }))
        };
        let of = [found(0.9, 5.0), found(0.7, 7.0), found(0.8, 6.0)];
        let middle = medians(&of);
        assert_eq!((middle.number(SHARE), middle.number(TOTAL_P99), middle.get(CPU[0])), (Some(0.8), Some(6.0), None));
        assert!((apart(&of, SHARE).unwrap() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn medians_and_spreads_are_of_any_number_of_repeats() {
        let of =
            |shares: &[f64]| -> Vec<Row> { shares.iter().map(|&share| Row::default().with(SHARE, share)).collect() };
        let middle = |shares: &[f64]| middle(&of(shares), SHARE);
        assert_eq!((middle(&[]), middle(&[3.0, 1.0, 2.0]), middle(&[4.0, 2.0])), (None, Some(2.0), Some(3.0)));
        assert_eq!((apart(&of(&[1.0]), SHARE), apart(&of(&[1.0, 2.0, 3.0]), SHARE)), (None, Some(1.0)));
    }
}
