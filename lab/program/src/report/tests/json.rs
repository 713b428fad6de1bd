//! Rows as JSON, of the laboratory's scenarios.

use super::sample;
use crate::report::{Caveat, Reason, Report, Row, column};
use serde_json::Value;
use sidecore_report::About;

#[test]
fn every_row_is_one_line_that_reads_back() {
    let report = sample();
    let mut out = Vec::new();
    report.write_json(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().count(), report.rows.len());
    for (line, row) in text.lines().zip(&report.rows) {
        let own = Row::from_json_line(line).unwrap();
        assert_eq!(own.text(column::MACHINE), Some(report.about.machine.as_str()));
        assert_eq!(own.text(column::COMMIT), Some(report.about.commit.as_str()));
        // The parser may round the last bit of a number, so the expected row passes through it as well.
        let row = Row::from_json_line(&serde_json::to_string(row).unwrap()).unwrap();
        assert_eq!(own, own.clone().and(&row));
    }
}

#[test]
fn a_rows_own_commit_is_kept() {
    let row = Row::new("lane", "ring").with(column::COMMIT, "1234567");
    let about = About { commit: "abcdef0".into(), ..About::default() };
    let report = Report { about, rows: vec![row], ..Report::default() };
    let mut out = Vec::new();
    report.write_json(&mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().contains(r#""commit":"1234567""#));
}

#[test]
fn each_line_says_what_was_run_and_what_is_doubtful() {
    let about = About { command: "sidecore bench lane".into(), cores: 2, ..About::default() };
    let caveats = vec![Caveat::new(Reason::Stopped, "in lane")];
    let report = Report { about, rows: vec![Row::new("lane", "v")], caveats, ..Report::default() };
    let mut out = Vec::new();
    report.write_json(&mut out).unwrap();
    let line: Value = serde_json::from_slice(&out).unwrap();
    let run = &line["run"];
    assert_eq!((&run["command"], &run["cores"]), (&"sidecore bench lane".into(), &2.into()));
    assert_eq!((&run["stopped"], &run["doubts"][0]["seen"]), (&true.into(), &"in lane".into()));
}

#[test]
fn an_error_of_the_writer_is_returned() {
    let mut full: &mut [u8] = &mut [0; 10];
    assert!(sample().write_json(&mut full).is_err());
}
