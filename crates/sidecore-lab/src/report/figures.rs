//! Plots of rows and their contents. A scenario's own plots stand in its file.

pub(crate) mod along;
mod series;

use super::plot::{Scale, Size};
use super::{Column, Figure, Group, Row, column, grouped};
pub(crate) use series::{Along, Series, bar_chart, differ};

pub(crate) const SMALL: Size = (364, 290);
pub(crate) const LARGE: Size = (556, 330);

pub(crate) fn by_operation(rows: &[&Row]) -> Group {
    let mut series = Series::of(rows, &[column::OP, column::SIZE, column::LOAD]);
    let figures = grouped(rows, |row| row.text(column::OP))
        .into_iter()
        .map(|(op, rows)| figure(op.unwrap_or("all operations"), rates(&mut series, &rows)));
    let figures = figures.collect();
    Group { legend: series.names, figures }
}

pub(crate) fn rates(series: &mut Series<'_>, rows: &[&Row]) -> String {
    let drawn = series.lines(rows, column::SIZE, column::OPS_PER_S);
    if drawn.iter().any(|line| line.points.windows(2).any(|pair| pair[0].0 < pair[1].0)) {
        series.line_plot(SMALL, rows, along::SIZE, (along::RATE.0, Scale::Log10, along::RATE.2))
    } else {
        series.bar_plot(SMALL.0, rows, along::RATE, None)
    }
}

pub(crate) fn bare(rows: &[&Row]) -> Group {
    let rates = figure("Operations a second", Series::of(rows, &[]).bar_plot(LARGE.0, rows, along::RATE, None));
    let Group { figures, .. } = ratios(rows);
    Group { legend: Vec::new(), figures: [rates].into_iter().chain(figures).collect() }
}

pub(crate) fn ratios(rows: &[&Row]) -> Group {
    let rows: Vec<_> = rows.iter().copied().filter(|row| row.number(column::RATIO).is_some()).collect();
    let figures = grouped(&rows, |row| row.text(column::RATIO_BETTER)).into_iter().map(|(better, rows)| {
        let along = match better {
            Some("more") => along::RATIO,
            Some(_) => along::RATIO_OF_TIMES,
            None => along::RATIO_OF_BOTH,
        };
        figure(&ratio_title(&rows), Series::of(&rows, &[]).bar_plot(LARGE.0, &rows, along, Some(1.0)))
    });
    Group { legend: Vec::new(), figures: figures.collect() }
}

pub(crate) fn ratio_title(rows: &[&Row]) -> String {
    let mut names: Vec<_> = rows.iter().filter_map(|row| row.text(column::BASELINE)).collect();
    names.dedup();
    match names[..] {
        [name] => format!("Ratio to the baseline: {name}"),
        _ => "Ratio to each row's baseline".to_owned(),
    }
}

pub(crate) fn panels(
    rows: &[&Row],
    key: &'static Column,
    title: &str,
    mut plot: impl FnMut(&[&Row]) -> String,
) -> Vec<Figure> {
    let groups = grouped(rows, |row| row.text(key));
    let alone = groups.len() == 1;
    let figures = groups.into_iter().map(|(key, rows)| {
        let title = key.filter(|_| !alone).map_or_else(|| title.to_owned(), |key| format!("{title}, {key}"));
        figure(&title, plot(&rows))
    });
    figures.collect()
}

pub(crate) fn figure(title: &str, svg: String) -> Figure {
    Figure { title: title.to_owned(), svg }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{sample, section};
    use super::*;

    fn figures(scenario: &str, rows: &[&Row]) -> Vec<Group> {
        section(scenario).figures(rows)
    }

    fn titles(groups: &[Group]) -> Vec<&str> {
        groups.iter().flat_map(|group| &group.figures).map(|figure| figure.title.as_str()).collect()
    }

    #[test]
    fn each_scenario_gets_its_plots() {
        let report = sample();
        for (name, rows) in report.by_scenario() {
            let groups = figures(name, &rows);
            let expected: &[&str] = match name {
                "lane" => &[
                    "Round trips a second, one after the other",
                    "Messages a second, 128 in flight",
                    "Ratio to the baseline: bare ping-pong",
                    "Ratio to the baseline: bare echo",
                ],
                "crypto" => &["aes-256-gcm", "sha-256", "rsa-2048-sign"],
                "ocf" => &["Payload by message size, 4 hifn-7751", "Payload by message size, 4 bcm-5820"],
                "notify" => &[
                    "Median latency",
                    "Latency, 99th percentile",
                    "CPU time, clients and service together",
                    "Median latency against CPU time",
                    "Where the time goes, at load 0.5",
                ],
                "balance" => &["Ratio to the baseline: linear program", "Latency, 99th percentile"],
                _ => &["Operations a second by clients"],
            };
            assert_eq!(titles(&groups), expected, "{name}");
        }
    }

    #[test]
    fn sockets_get_a_curve_one_way_and_one_there_and_back() {
        let row = |op: &str, clients: u32, size: u32| {
            let row = Row::new("sockets", "direct")
                .with(column::OP, op)
                .with(column::CLIENTS, clients)
                .with(column::SIZE, size);
            row.with(column::OPS_PER_S, 1e3).with(column::MBIT_PER_S, f64::from(size) * 8e-3)
        };
        let rows: Vec<_> = ["stream", "echo"].iter().flat_map(|op| [row(op, 1, 64), row(op, 1, 128)]).collect();
        let all: Vec<_> = rows.iter().collect();
        let curves = ["Payload on one connection", "Payload of echoes on one connection"];
        let found = figures("sockets", &all);
        assert_eq!(titles(&found)[..2], ["stream, 1 connection", "echo, 1 connection"]);
        assert_eq!(titles(&found)[2..], curves);
        let several = [row("echo", 4, 64), row("echo", 4, 128)];
        assert_eq!(titles(&figures("sockets", &several.iter().collect::<Vec<_>>())), ["echo, 4 connections"]);
    }

    #[test]
    fn no_chart_shows_ratios_of_times_beside_ratios_of_rates() {
        let report = sample();
        let lane: Vec<_> = report.rows.iter().filter(|row| row.scenario() == "lane").collect();
        let charts = ratios(&lane).figures;
        let words = |figure: &Figure| ["more is better", "less is better"].map(|words| figure.svg.contains(words));
        assert_eq!(charts.iter().map(words).collect::<Vec<_>>(), [[false, true], [true, false]]);
        // All other charts of the bench name the better direction, and only one.
        for (name, rows) in report.by_scenario() {
            for figure in figures(name, &rows).iter().flat_map(|group| &group.figures) {
                assert!(words(figure).contains(&true) && words(figure).contains(&false), "{name}: {}", figure.title);
            }
        }
    }

    #[test]
    fn a_baseline_is_dashed_in_the_legend() {
        let report = sample();
        let crypto: Vec<_> = report.rows.iter().filter(|row| row.scenario() == "crypto").collect();
        let legend = &figures("crypto", &crypto)[0].legend;
        let dashed: Vec<_> = legend.iter().filter(|(_, dashed)| *dashed).map(|(name, _)| name.as_str()).collect();
        assert!(dashed.iter().all(|name| name.starts_with("in process")) && !dashed.is_empty(), "{legend:?}");
    }

    #[test]
    fn rows_without_figures_make_no_plots() {
        for name in ["lane", "crypto", "ocf", "notify", "balance", "scaling", "sockets", "net", "net-where", "plan"] {
            assert!(figures(name, &[&Row::new(name, "bare")]).is_empty(), "{name}");
        }
    }
}
