//! Rows as JSON, one object a line.

use super::column::Key;
use super::{Report, Row};
use std::io::{self, Write};

impl Report {
    /// One JSON object a line; rows without machine and commit get the report's, so that a line can be read on its own.
    pub(crate) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let from = Row::default().with(Key::Commit, self.commit.as_str()).with(Key::Machine, self.machine.as_str());
        for row in &self.rows {
            serde_json::to_writer(&mut *out, &from.clone().and(row))?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
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
            assert_eq!(own.text(Key::Machine), Some(report.machine.as_str()));
            assert_eq!(own.text(Key::Commit), Some(report.commit.as_str()));
            // The parser may round the last bit of a number, so compare with what it makes of the row itself.
            let row = Row::from_json_line(&serde_json::to_string(row).unwrap()).unwrap();
            assert_eq!(own, own.clone().and(&row));
        }
    }

    #[test]
    fn a_rows_own_commit_is_kept() {
        let row = Row::new("lane", "ring").with(Key::Commit, "1234567");
        let report = Report { commit: "abcdef0".into(), rows: vec![row], ..Report::default() };
        let mut out = Vec::new();
        report.write_json(&mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains(r#""commit":"1234567""#));
    }

    #[test]
    fn an_error_of_the_writer_is_returned() {
        let mut full: &mut [u8] = &mut [0; 10];
        assert!(sample().write_json(&mut full).is_err());
    }
}
