//! Plots of the laboratory's scenarios.

use super::{sample, section};
use crate::report::figures::ratios;
use crate::report::{Group, Row, column};
use sidecore_report::Figure;

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
        let row =
            Row::new("sockets", "direct").with(column::OP, op).with(column::CLIENTS, clients).with(column::SIZE, size);
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
