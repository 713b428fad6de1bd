//! The most important figure of a section.

use sidecore_report::format::{counted, ratio};
use sidecore_report::{Column, Headline, Row, column};

/// The largest value of that column among rows with a baseline.
pub fn most(rows: &[&Row], key: &'static Column, label: &str) -> Option<Headline> {
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
pub fn typical_ratio(scenario: &str, rows: &[&Row]) -> Option<Headline> {
    let mut ratios: Vec<_> = rows.iter().filter_map(|row| row.number(column::RATIO)).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (*ratios.first()?, *ratios.last()?);
    Some(Headline {
        value: ratio(ratios[ratios.len() / 2]),
        label: format!("{scenario}: median ratio to the baseline"),
        detail: format!("{} to {} over {} rows", ratio(least), ratio(most), ratios.len()),
    })
}
