//! Rows as JSON, one object a line.

use super::{About, Report, Row, caveat, column};
use serde_json::Value;
use std::io::{self, Write};

impl Report {
    /// One JSON object a line. Each row gets the run and, if missing, the report's machine and commit, so that a line
    /// is readable alone.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let About { commit, machine, .. } = &self.about;
        let from = Row::default().with(column::COMMIT, commit.as_str()).with(column::MACHINE, machine.as_str());
        let from = from.with(column::RUN, self.run()?);
        for row in &self.rows {
            serde_json::to_writer(&mut *out, &from.clone().and(row))?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn run(&self) -> io::Result<Value> {
        let mut run = serde_json::to_value(&self.about)?;
        run["stopped"] = self.is_stopped().into();
        run["doubts"] = caveat::to_json(&self.caveats).into();
        Ok(run)
    }
}
