//! Files of a measurement.

use clap::Args;
use sidecore_report::paths::Named;
use std::path::PathBuf;

/// Files for rows, in addition to standard output.
#[derive(Debug, Args)]
pub struct Files {
    /// Write rows as JSON, one object a line
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write tables as Markdown
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write one self-contained page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Files {
    /// The named files, each with its argument.
    pub fn named(&self) -> Vec<Named<'_>> {
        given([("--json", &self.json), ("--markdown", &self.markdown), ("--html", &self.html)])
    }
}

/// The named ones of these arguments.
pub fn given<'p>(named: impl IntoIterator<Item = (&'static str, &'p Option<PathBuf>)>) -> Vec<Named<'p>> {
    named.into_iter().filter_map(|(argument, path)| Some((argument, path.as_deref()?))).collect()
}
