//! Tables for a terminal, of the laboratory's scenarios.

use super::{full_row, sample};
use crate::report::{Caveat, Reason, Report, Row, Times, caveat, column};

const WIDTH: usize = 100;

#[test]
fn every_scenario_has_a_table_of_its_rows() {
    let report = sample();
    let text = report.to_text(WIDTH);
    for (name, rows) in report.by_scenario() {
        assert!(text.contains(super::section(name).title), "{name} in\n{text}");
        for row in rows {
            assert!(text.contains(row.variant()), "{} in\n{text}", row.variant());
        }
    }
    assert!(text.contains("17.2 M/s"), "{text}");
    assert!(text.contains("Left out\n- "), "{text}");
}

#[test]
fn tables_keep_to_the_width_and_say_which_columns_did_not_fit() {
    let report = Report { rows: vec![full_row(), full_row()], ..Report::default() };
    let text = report.to_text(WIDTH);
    let table: Vec<_> = text.lines().filter(|line| !line.contains("All rows")).collect();
    assert!(table.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
    assert!(text.contains("No room here, but in the other formats: empty polls"), "{text}");
    for width in [80, WIDTH] {
        let sample = sample().to_text(width);
        assert!(sample.lines().all(|line| line.chars().count() <= width), "{sample}");
    }
}

#[test]
fn a_narrow_table_keeps_spread_and_doubt() {
    let times = Times { mean: 1_234.5, p50: 1_230.0, p99: 45_678.9 };
    let row = |variant: &str, spread: f64| {
        let row = Row::new("lane", variant).with(column::OP, "aes-256-gcm-decrypt").with(column::SIZE, spread);
        let row = row.with_times(column::TOTAL, Some(times)).with_times(column::QUEUE, Some(times));
        let row =
            row.with(column::OPS_PER_S, 1e6).with(column::RATIO, 1.5).with(column::BASELINE, "a long baseline's name");
        row.with(column::SPREAD, spread).with(column::DOUBTS, caveat::to_json(&[Caveat::new(Reason::Spread, "20 %")]))
    };
    let rows = vec![row("one", 0.2), row("other", 0.4), Row::new("lane", "plain")];
    let text = Report { rows, ..Report::default() }.to_text(80);
    let heading = text.lines().find(|line| line.starts_with("variant")).unwrap();
    assert!(heading.contains("spread") && heading.contains("doubt"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_hostile_name_cannot_drive_the_terminal() {
    let rows = vec![Row::new("la\u{1b}ne", "a\rb").with(column::OP, "\u{1b}]0;owned\u{7}")];
    let text = Report { rows, notes: vec!["\u{1b}[2J".into()], ..Report::default() }.to_text(WIDTH);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}
