//! Time as a number: nanoseconds, and their notation.
//!
//! Core never reads a clock. The caller passes the time in, so the simulator can pass its own.

use core::fmt::{self, Display, Formatter};

/// Nanoseconds: an instant on the machine's monotonic clock, or a duration.
pub type Nanos = u64;

/// Units with their number of decimal places in nanoseconds, largest first.
const UNITS: [(&str, u32); 4] = [("s", 9), ("ms", 6), ("us", 3), ("ns", 0)];

/// Reads a duration: digits, perhaps a decimal part, and one of `ns`, `us`, `ms` and `s`, as in `1.5ms`.
///
/// `None` for anything else, for fractions of a nanosecond and for an overflow.
pub fn parse_duration(text: &str) -> Option<Nanos> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
    let digits = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    let (whole, part) = match number.split_once('.') {
        Some((whole, part)) => (whole, decimals(part, digits)?),
        None => (number, 0),
    };
    whole.parse::<Nanos>().ok()?.checked_mul(10_u64.pow(digits))?.checked_add(part)
}

/// The digits behind a decimal point, as a number of the smallest unit, `digits` places down.
fn decimals(part: &str, digits: u32) -> Option<Nanos> {
    let significant = part.trim_end_matches('0');
    let missing = digits.checked_sub(u32::try_from(significant.len()).ok()?)?;
    match (part, significant) {
        ("", _) => None,
        (_, "") => Some(0),
        _ => Some(significant.parse::<Nanos>().ok()? * 10_u64.pow(missing)),
    }
}

/// Shows a duration exactly, in the largest unit not above it: `1.5ms`.
///
/// [`parse_duration`] reads it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pretty(pub Nanos);

impl Display for Pretty {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let fits = |(_, digits): &&(&str, u32)| self.0 >= 10_u64.pow(*digits);
        let (unit, digits) = *UNITS.iter().find(fits).unwrap_or(&("ns", 0));
        let scale = 10_u64.pow(digits);
        write!(f, "{}", self.0 / scale)?;
        fraction(f, self.0 % scale, digits as usize)?;
        f.write_str(unit)
    }
}

/// Writes `part` with `places` decimal places, without the zeros at its end.
fn fraction(f: &mut Formatter<'_>, mut part: Nanos, mut places: usize) -> fmt::Result {
    if part == 0 {
        return Ok(());
    }
    while part.is_multiple_of(10) {
        part /= 10;
        places -= 1;
    }
    write!(f, ".{part:0places$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn durations_are_read() {
        let cases = [("250us", 250_000), ("1.5ms", 1_500_000), ("40ns", 40), ("2s", 2_000_000_000), ("0ns", 0)];
        for (text, nanos) in cases {
            assert_eq!(parse_duration(text), Some(nanos), "{text}");
            assert_eq!(Pretty(nanos).to_string(), text);
        }
        assert_eq!(parse_duration("1.500ms"), Some(1_500_000));
        assert_eq!(parse_duration("3.0ns"), Some(3));
    }

    #[test]
    fn anything_else_is_no_duration() {
        let wrong = ["", "5", "us", "1.us", ".5us", "1..5us", "1.5.1us", "-1us", "+1us", "1 us", "1.5ns", "1h", "1US"];
        for text in wrong {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        assert_eq!(parse_duration("18446744073709551615ns"), Some(Nanos::MAX));
        assert_eq!(parse_duration("18446744073709551616ns"), None);
        assert_eq!(parse_duration("18446744073.709551616s"), None);
        assert_eq!(parse_duration("1.00000000000000000000000000001s"), None);
    }
}
