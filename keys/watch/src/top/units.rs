//! Numbers for display: few digits and a unit.

use sidecore_core::histogram::Summary;
use sidecore_core::time::Nanos;

pub(super) use sidecore_terminal::units::{NONE, amount, count, known, time};

/// Median and 99th percentile: `1.2us/34us`.
pub(super) fn quantiles(summary: &Summary) -> String {
    if summary.count == 0 {
        return NONE.to_owned();
    }
    format!("{}/{}", time(summary.p50), time(summary.p99))
}

/// CPU time as a percentage: nanoseconds of each second.
pub(super) fn percent(nanos_per_second: f64) -> String {
    format!("{:.0}%", nanos_per_second / 1e7)
}

/// A long time in its two largest units: `3h12m`.
pub(super) fn age(nanos: Nanos) -> String {
    let seconds = nanos / 1_000_000_000;
    match seconds {
        0 => time(nanos as f64),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_values_have_no_quantiles() {
        assert_eq!(quantiles(&Summary::default()), NONE);
        let summary = Summary { count: 2, mean: 3.0, p50: 1_200.0, p99: 34_000.0 };
        assert_eq!(quantiles(&summary), "1.2us/34us");
        assert_eq!(percent(0.5e9), "50%");
    }

    #[test]
    fn ages_have_two_units() {
        let cases =
            [(80_000_000, "80ms"), (59_000_000_000, "59s"), (61_000_000_000, "1m01s"), (11_520_000_000_000, "3h12m")];
        for (nanos, text) in cases {
            assert_eq!(age(nanos), text);
        }
        assert_eq!(age(u64::MAX), "213503d23h");
    }
}
