//! The most important figure of a section.

use super::{Column, Headline, Row, column, counted, ratio};

pub(crate) fn most(rows: &[&Row], key: &'static Column, label: &str) -> Option<Headline> {
    // A baseline is not a candidate.
    let is_compared = |row: &&&Row| row.text(column::BASELINE).is_some();
    let compared = rows.iter().any(|row| is_compared(&row));
    let own = rows.iter().filter(|row| is_compared(row) || !compared);
    let valued = own.filter_map(|row| Some((row.figure(key)?, *row)));
    let (largest, row) = valued.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let names = [column::VARIANT, column::BALANCE, column::DEVICES].map(|key| row.text(key).map(str::to_owned));
    let clients = row.number(column::CLIENTS).map(|n| counted(n, "client"));
    let mut words: Vec<_> = names.into_iter().chain([clients]).flatten().collect();
    words.dedup();
    let value = key.writer()(largest);
    Some(Headline { value, label: label.to_owned(), detail: words.join(", ") })
}

/// The median of the ratios, and their range: one good row must not represent the others.
pub(crate) fn typical_ratio(scenario: &str, rows: &[&Row]) -> Option<Headline> {
    let mut ratios: Vec<_> = rows.iter().filter_map(|row| row.number(column::RATIO)).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (*ratios.first()?, *ratios.last()?);
    Some(Headline {
        value: ratio(ratios[ratios.len() / 2]),
        label: format!("{scenario}: median ratio to the baseline"),
        detail: format!("{} to {} over {} rows", ratio(least), ratio(most), ratios.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{sample, section};
    use super::*;

    #[test]
    fn each_scenario_has_its_headline() {
        let headlines = sample().headlines();
        assert_eq!(headlines.len(), 6);
        assert_eq!(headlines[0].value, "17.2 M/s");
        assert_eq!(headlines[0].detail, "pipelined");
    }

    #[test]
    fn the_typical_ratio_names_its_range() {
        let row = |ratio: f64| Row::new("crypto", "v").with(column::RATIO, ratio);
        let (a, b, c) = (row(2.0), row(0.5), row(0.9));
        let headline = typical_ratio("crypto", &[&a, &b, &c]).unwrap();
        assert_eq!((headline.value.as_str(), headline.detail.as_str()), ("0.90 x", "0.50 x to 2.00 x over 3 rows"));
    }

    #[test]
    fn without_data_there_is_none() {
        for name in ["lane", "crypto", "ocf", "notify", "balance", "scaling", "net-where"] {
            assert_eq!((section(name).headline)(name, &[&Row::new(name, "v")]), None);
        }
    }
}
