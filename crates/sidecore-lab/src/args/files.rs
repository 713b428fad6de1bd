//! Files of a measurement.

use clap::Args;
use std::path::PathBuf;

/// Files for rows, in addition to standard output.
#[derive(Debug, Args)]
pub(crate) struct Files {
    /// Write rows as JSON, one object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write tables as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write one self-contained page with plots
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}
