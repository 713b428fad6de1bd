//! Formats of numbers and names: three significant digits, a unit, no control characters.

use sidecore_core::text::shown;

/// Operations a second, e.g. `17.2 M/s`.
pub fn rate(per_second: f64) -> String {
    scaled(per_second, "/s")
}

/// Payload in million bits a second, e.g. `812 Mbit/s` or `12.3 Gbit/s`.
pub fn throughput(mbit_per_s: f64) -> String {
    if mbit_per_s >= 999.5 {
        format!("{} Gbit/s", digits(mbit_per_s / 1e3))
    } else {
        format!("{} Mbit/s", digits(mbit_per_s))
    }
}

/// A time in microseconds, e.g. `1.23 us`; from ten milliseconds on in milliseconds.
pub fn micros(us: f64) -> String {
    if us.abs() < 9_999.5 { format!("{} us", digits(us)) } else { format!("{} ms", digits(us / 1e3)) }
}

/// A ratio, e.g. `0.97 x`.
pub fn ratio(ratio: f64) -> String {
    if (0.1..9.995).contains(&ratio) { format!("{ratio:.2} x") } else { format!("{} x", digits(ratio)) }
}

/// A size, e.g. `64 B` or `16 KiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = UNITS.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{} {name}", bytes / unit))
}

/// A share, e.g. `2.1 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A setting, e.g. a load of `0.25`.
pub fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A small count with its noun, e.g. `1 client` or `8 clients`.
pub fn counted(number: f64, name: &str) -> String {
    let number = plain(number);
    let ending = if number == "1" { "" } else { "s" };
    format!("{number} {name}{ending}")
}

/// A count, e.g. `950` or `12.3 M`.
pub fn count(count: u64) -> String {
    if count < 10_000 { count.to_string() } else { scaled(count as f64, "") }
}

/// Three significant digits without an exponent and without trailing noise.
pub fn digits(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        0.0 => 0,
        _ if size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ if size >= 0.09995 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// Replaces control characters, which could drive a terminal, by a visible mark.
pub fn clean(text: &str) -> String {
    text.chars().map(shown).collect()
}

fn scaled(value: f64, unit: &str) -> String {
    let (value, prefix) = match value {
        value if value >= 999.5e6 => (value / 1e9, "G"),
        value if value >= 999.5e3 => (value / 1e6, "M"),
        value if value >= 9_999.5 => (value / 1e3, "k"),
        value => (value, ""),
    };
    format!("{} {prefix}{unit}", digits(value)).trim_end().to_owned()
}

/// Escapes text for Markdown: it neither ends a cell nor starts any markup.
pub fn escaped(text: &str) -> String {
    let escaped = |c| ['\\', '|', '<', '>', '&', '`', '*', '_', '[', ']'].contains(&c).then_some('\\');
    clean(text).chars().flat_map(|c| escaped(c).into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits_and_a_prefix() {
        let shown = [17_234_567.0, 999_499.0, 999_600.0, 4_321.0, 12.34, 0.0].map(rate);
        assert_eq!(shown, ["17.2 M/s", "999 k/s", "1.00 M/s", "4321 /s", "12.3 /s", "0 /s"]);
    }

    #[test]
    fn times_and_throughputs_change_their_unit() {
        assert_eq!(
            [0.0123, 0.5, 1.234, 123.4, 9_999.0, 12_345.0].map(micros),
            ["0.0123 us", "0.500 us", "1.23 us", "123 us", "9999 us", "12.3 ms"]
        );
        assert_eq!([83.04, 999.6, 12_345.0].map(throughput), ["83.0 Mbit/s", "1.00 Gbit/s", "12.3 Gbit/s"]);
    }

    #[test]
    fn ratios_shares_sizes_and_counts() {
        assert_eq!([0.974, 1.0, 12.34, 0.01].map(ratio), ["0.97 x", "1.00 x", "12.3 x", "0.0100 x"]);
        assert_eq!(percent(0.0213), "2.1 %");
        assert_eq!([0.05, 0.5, 1.0, 100.0, 0.0].map(plain), ["0.05", "0.5", "1", "100", "0"]);
        assert_eq!(
            [16, 1000, 1024, 16_384, 3 << 20, 1536].map(bytes),
            ["16 B", "1000 B", "1 KiB", "16 KiB", "3 MiB", "1536 B"]
        );
        assert_eq!([0, 9_999, 12_345, 17_200_000].map(count), ["0", "9999", "12.3 k", "17.2 M"]);
    }

    #[test]
    fn names_lose_control_characters() {
        assert_eq!(clean("a\u{1b}[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
    }
}
