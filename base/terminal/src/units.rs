//! Amounts and times with few digits and a unit.

/// Stands where there is no number.
pub const NONE: &str = "-";

/// The text of a number that may be missing.
pub fn known<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), text)
}

/// Three digits and a decimal prefix: `12.3k`.
pub fn amount(value: f64) -> String {
    let (scaled, prefix) = match value {
        v if v < 999.5 => (v, ""),
        v if v < 999.5e3 => (v / 1e3, "k"),
        v if v < 999.5e6 => (v / 1e6, "M"),
        v if v < 999.5e9 => (v / 1e9, "G"),
        v => (v / 1e12, "T"),
    };
    let places = match scaled {
        s if s >= 99.95 || (prefix.is_empty() && s.fract() < 0.005) => 0,
        s if s >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.places$}{prefix}")
}

/// A count: exact up to five digits, else as [`amount`].
pub fn count(value: u64) -> String {
    if value < 100_000 { value.to_string() } else { amount(value as f64) }
}

/// Two to three digits, the histograms' precision: `1.2us`.
pub fn time(nanos: f64) -> String {
    let (scaled, unit) = match nanos {
        v if v < 999.5 => return format!("{v:.0}ns"),
        v if v < 999.5e3 => (v / 1e3, "us"),
        v if v < 999.5e6 => (v / 1e6, "ms"),
        v => (v / 1e9, "s"),
    };
    let places = usize::from(scaled < 9.95);
    format!("{scaled:.places$}{unit}")
}

/// [`time`] with a sign: `-60us`.
pub fn signed_time(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    sign.to_owned() + &time(nanos.unsigned_abs() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.25, "0.25"),
            (7.0, "7"),
            (12.34, "12.3"),
            (999.0, "999"),
            (999.9, "1.00k"),
            (12_345.0, "12.3k"),
        ];
        for (value, text) in cases {
            assert_eq!(amount(value), text);
        }
        assert_eq!((amount(1e6), amount(1.5e9), amount(2e12)), ("1.00M".into(), "1.50G".into(), "2.00T".into()));
        assert_eq!((count(99_999), count(100_000)), ("99999".into(), "100k".into()));
    }

    #[test]
    fn times_have_their_unit() {
        let cases = [(0.0, "0ns"), (999.0, "999ns"), (999.9, "1.0us"), (9_960.0, "10us"), (123_456.0, "123us")];
        for (nanos, text) in cases {
            assert_eq!(time(nanos), text);
        }
        assert_eq!((time(2.5e6), time(61e9)), ("2.5ms".into(), "61s".into()));
    }

    #[test]
    fn times_may_be_less_than_nothing() {
        assert_eq!((signed_time(-60_000), signed_time(i64::MIN)), ("-60us".into(), "-9223372037s".into()));
    }
}
