//! Sizes and ages on the command line.

use std::time::Duration;

const SIZES: [(&str, u64); 7] =
    [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10), ("B", 1)];
const AGES: [(&str, u64); 3] = [("d", 86_400), ("h", 3_600), ("min", 60)];

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MeasureError {
    #[error("a size is a whole number of bytes, KiB, MiB or GiB, e.g. 512MiB")]
    Size,
    #[error("a length of time is a number from 1 on and d, h, min, s, ms, us or ns, e.g. 24h")]
    Age,
}

/// Reads a size: a whole number and `KiB`, `MiB` or `GiB`, or of bytes alone.
pub(crate) fn size(text: &str) -> Result<u64, MeasureError> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = unit.trim();
    let factor =
        if unit.is_empty() { Some(1) } else { SIZES.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor) };
    let bytes = number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    bytes.filter(|bytes| *bytes > 0 && i64::try_from(*bytes).is_ok()).ok_or(MeasureError::Size)
}

/// Reads a length of time: a number and `d`, `h`, `min`, `s`, `ms`, `us` or `ns`.
pub(crate) fn age(text: &str) -> Result<Duration, MeasureError> {
    let long = AGES.iter().find_map(|(name, seconds)| Some((text.strip_suffix(name)?.parse::<u64>().ok()?, seconds)));
    let nanos = match long {
        Some((number, seconds)) => number.checked_mul(*seconds).and_then(|seconds| seconds.checked_mul(1_000_000_000)),
        None => sidecore_core::time::parse_duration(text),
    };
    let fits = nanos.filter(|nanos| *nanos > 0 && i64::try_from(*nanos).is_ok());
    fits.map(Duration::from_nanos).ok_or(MeasureError::Age)
}

pub(crate) fn shown(bytes: u64) -> String {
    let whole = SIZES[..3].iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{bytes}B"), |(name, unit)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_shown() {
        for (text, bytes) in [("1B", 1), ("1500B", 1500), ("64KiB", 65_536), ("512MiB", 512 << 20), ("2GiB", 2 << 30)] {
            assert_eq!((size(text), shown(bytes)), (Ok(bytes), text.to_owned()));
        }
        assert_eq!((size("100"), size("1 MiB"), size("3M")), (Ok(100), Ok(1 << 20), Ok(3 << 20)));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "0", "MiB", "-1", "1.5GiB", "1TB", "99999999999GiB", "18446744073709551615"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ages_are_days_and_hours_as_well_as_what_core_reads() {
        let seconds = |text| age(text).map(|age| age.as_secs());
        assert_eq!(
            (seconds("1d"), seconds("24h"), seconds("5min"), seconds("90s")),
            (Ok(86_400), Ok(86_400), Ok(300), Ok(90))
        );
        assert_eq!(age("250ms"), Ok(Duration::from_millis(250)));
        for text in ["", "h", "0s", "1.5h", "soon", "999999999d"] {
            assert!(age(text).is_err(), "{text}");
        }
    }
}
