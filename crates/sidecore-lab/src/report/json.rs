//! Rows as JSON, one object a line.

use super::column::Key;
use super::{About, Report, Row, caveat};
use serde_json::Value;
use std::io::{self, Write};

impl Report {
    /// One JSON object a line. Each row gets the run and, if missing, the report's machine and commit, so that a line
    /// is readable alone.
    pub(crate) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let About { commit, machine, .. } = &self.about;
        let from = Row::default().with(Key::Commit, commit.as_str()).with(Key::Machine, machine.as_str());
        let from = from.with(Key::Run, self.run()?);
        for row in &self.rows {
            serde_json::to_writer(&mut *out, &from.clone().and(row))?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// The part about the whole run.
    fn run(&self) -> io::Result<Value> {
        let mut run = serde_json::to_value(&self.about)?;
        run["stopped"] = self.is_stopped().into();
        run["doubts"] = caveat::to_json(&self.caveats).into();
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::super::{Caveat, Reason};
    use super::*;

    #[test]
    fn every_row_is_one_line_that_reads_back() {
        let report = sample();
        let mut out = Vec::new();
        report.write_json(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), report.rows.len());
        for (line, row) in text.lines().zip(&report.rows) {
            let own = Row::from_json_line(line).unwrap();
            assert_eq!(own.text(Key::Machine), Some(report.about.machine.as_str()));
            assert_eq!(own.text(Key::Commit), Some(report.about.commit.as_str()));
            // The parser may round the last bit of a number, so the expected row passes through it as well.
            let row = Row::from_json_line(&serde_json::to_string(row).unwrap()).unwrap();
            assert_eq!(own, own.clone().and(&row));
        }
    }

    #[test]
    fn a_rows_own_commit_is_kept() {
        let row = Row::new("lane", "ring").with(Key::Commit, "1234567");
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
}
