//! The most important figures of a report: one for each scenario.

use super::column::Key;
use super::format::{counted, ratio};
use super::{Report, Row, grouped};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Headline {
    pub(crate) value: String,
    pub(crate) label: String,
    /// The figure's row, or the range over the rows.
    pub(crate) detail: String,
}

/// In the order of the scenarios.
pub(crate) fn headlines(report: &Report) -> Vec<Headline> {
    report.by_scenario().into_iter().filter_map(|(name, rows)| headline(name, &rows)).collect()
}

fn headline(scenario: &str, rows: &[&Row]) -> Option<Headline> {
    match scenario {
        "lane" => most(rows, Key::OpsPerS, "messages a second through a lane"),
        "ocf" => most(rows, Key::MbitPerS, "payload through the devices"),
        "scaling" => most(rows, Key::OpsPerS, "operations a second at the most"),
        "notify" => closest(rows),
        "net-where" => largest(rows),
        "net-tune" => recommended(rows),
        // Its rows are not comparable with each other.
        "link" => None,
        "balance" => most(rows, Key::Ratio, "of the highest load the devices could carry"),
        _ => typical_ratio(scenario, rows),
    }
}

/// The largest value and its row.
fn most(rows: &[&Row], key: Key, label: &str) -> Option<Headline> {
    // A baseline is not a candidate.
    let is_compared = |row: &&&Row| row.text(Key::Baseline).is_some();
    let compared = rows.iter().any(|row| is_compared(&row));
    let own = rows.iter().filter(|row| is_compared(row) || !compared);
    let valued = own.filter_map(|row| Some((row.figure(key)?, *row)));
    let (largest, row) = valued.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let names = [Key::Variant, Key::Balance, Key::Devices].map(|key| row.text(key).map(str::to_owned));
    let clients = row.number(Key::Clients).map(|n| counted(n, "client"));
    let mut words: Vec<_> = names.into_iter().chain([clients]).flatten().collect();
    words.dedup();
    let value = key.column().writer()(largest);
    Some(Headline { value, label: label.to_owned(), detail: words.join(", ") })
}

/// The component of a network path with the most CPU time.
fn largest(rows: &[&Row]) -> Option<Headline> {
    let shares = rows.iter().filter_map(|row| Some((row.number(Key::CpuShare)?, row)));
    let (_, row) = shares.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let words = |key: Key| key.column().cell(row);
    let label = format!("of the CPU time goes into: {}", row.text(Key::Component)?);
    Some(Headline { value: words(Key::CpuShare)?, label, detail: format!("95 % within {}", words(Key::ShareBounds)?) })
}

/// The gain of the recommended settings. `None`: there are none.
fn recommended(rows: &[&Row]) -> Option<Headline> {
    let row = rows.iter().find(|row| row.text(Key::Op) == Some("recommended"))?;
    let words = |key: Key| key.column().cell(row);
    let label = format!("the gain of what is recommended: {}", row.variant());
    Some(Headline { value: words(Key::Ratio)?, label, detail: format!("95 % within {}", words(Key::Interval)?) })
}

/// The median of the ratios, and their range: one good row must not represent the others.
fn typical_ratio(scenario: &str, rows: &[&Row]) -> Option<Headline> {
    let mut ratios: Vec<_> = rows.iter().filter_map(|row| row.number(Key::Ratio)).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (*ratios.first()?, *ratios.last()?);
    Some(Headline {
        value: ratio(ratios[ratios.len() / 2]),
        label: format!("{scenario}: median ratio to the baseline"),
        detail: format!("{} to {} over {} rows", ratio(least), ratio(most), ratios.len()),
    })
}

/// The policy whose worst load is least bad: its latency compared with spinning, its CPU time compared with parking.
fn closest(rows: &[&Row]) -> Option<Headline> {
    let of = |name| rows.iter().copied().filter(|row| policy(row) == name).collect::<Vec<_>>();
    let (spin, park) = (of("spin"), of("park"));
    let others = grouped(rows, policy).into_iter().filter(|(name, _)| *name != "spin" && *name != "park");
    let judged = others.filter_map(|(name, rows)| {
        Some((name, worst(&rows, &spin, Key::TotalP50)?, worst(&rows, &park, Key::ClientCpu)?))
    });
    let (name, latency, cpu) = judged.min_by(|a, b| a.1.max(a.2).total_cmp(&b.1.max(b.2)))?;
    Some(Headline {
        value: format!("{latency:.2} / {}", ratio(cpu)),
        label: "latency of spinning / CPU time of parking, each at its worst load".to_owned(),
        detail: name.to_owned(),
    })
}

fn policy(row: &Row) -> &str {
    row.text(Key::Notify).unwrap_or_else(|| row.variant())
}

/// The largest ratio of a value to the yardstick's at the same load, operation and size.
fn worst(rows: &[&Row], yardstick: &[&Row], key: Key) -> Option<f64> {
    let same = [Key::Load, Key::Op, Key::Size, Key::Clients];
    let ratios = rows.iter().filter_map(|row| {
        let unit = yardstick.iter().find(|unit| same.iter().all(|key| row.get(*key) == unit.get(*key)))?;
        Some(row.figure(key)? / unit.figure(key)?).filter(|ratio| ratio.is_finite())
    });
    ratios.max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::Times;
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn each_scenario_has_its_headline() {
        let headlines = headlines(&sample());
        assert_eq!(headlines.len(), 6);
        assert_eq!(headlines[0].value, "17.2 M/s");
        assert_eq!(headlines[0].detail, "pipelined");
    }

    #[test]
    fn the_typical_ratio_names_its_range() {
        let row = |ratio: f64| Row::new("crypto", "v").with(Key::Ratio, ratio);
        let (a, b, c) = (row(2.0), row(0.5), row(0.9));
        let headline = headline("crypto", &[&a, &b, &c]).unwrap();
        assert_eq!((headline.value.as_str(), headline.detail.as_str()), ("0.90 x", "0.50 x to 2.00 x over 3 rows"));
    }

    fn waiting(policy: &str, load: f64, p50: f64, service: f64) -> Row {
        Row::new("notify", policy)
            .with(Key::Load, load)
            .with_times(Key::TotalMean, Some(Times { p50, ..Times::default() }))
            .with(Key::ClientCpu, 0.0)
            .with(Key::ServiceCpu, service)
    }

    #[test]
    fn a_policy_is_judged_at_its_worst_load() {
        let rows = [
            waiting("spin", 0.1, 1.0, 100.0),
            waiting("spin", 0.9, 1.0, 10.0),
            waiting("park", 0.1, 50.0, 10.0),
            waiting("park", 0.9, 50.0, 5.0),
            waiting("learn", 0.1, 1.1, 20.0),
            waiting("learn", 0.9, 1.2, 5.0),
            waiting("timer", 0.1, 9.0, 10.0),
        ];
        let headline = headline("notify", &rows.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((headline.value.as_str(), headline.detail.as_str()), ("1.20 / 2.00 x", "learn"));
    }

    #[test]
    fn the_largest_component_speaks_for_a_path() {
        let row = |component: &str, share: f64| {
            let row = Row::new("net-where", "iperf3").with(Key::Component, component).with(Key::CpuShare, share);
            row.with(Key::ShareLow, share - 0.01).with(Key::ShareHigh, share + 0.01)
        };
        let (a, b, sum) = (row("socket", 0.2), row("copy", 0.4), Row::new("net-where", "v").with(Key::Ratio, 1.0));
        let headline = headline("net-where", &[&a, &b, &sum]).unwrap();
        assert_eq!((headline.value.as_str(), headline.detail.as_str()), ("40.0 %", "95 % within 39.0 % to 41.0 %"));
        assert!(headline.label.ends_with("copy"), "{headline:?}");
    }

    #[test]
    fn what_is_recommended_speaks_for_a_tuning() {
        let row = |op: &str, ratio: f64| Row::new("net-tune", "mtu 9000").with(Key::Op, op).with(Key::Ratio, ratio);
        let (alone, all) =
            (row("alone", 0.5), row("recommended", 2.0).with(Key::RatioLow, 1.5).with(Key::RatioHigh, 3.0));
        let found = headline("net-tune", &[&alone, &all]).unwrap();
        assert_eq!((found.value.as_str(), found.detail.as_str()), ("2.00 x", "95 % within 1.50 x to 3.00 x"));
        assert_eq!(headline("net-tune", &[&alone]), None);
    }

    #[test]
    fn without_data_there_is_none() {
        for name in ["lane", "crypto", "ocf", "notify", "balance", "scaling", "net-where"] {
            assert_eq!(headline(name, &[&Row::new(name, "v")]), None);
        }
    }
}
