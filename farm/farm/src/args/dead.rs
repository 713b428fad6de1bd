//! `sidecore farm dead`.

use super::Farm;
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Dead {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// Only these events
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Feed them once more, under the same ids
    #[arg(long)]
    pub(crate) again: bool,
    /// One JSON object for each
    #[arg(long)]
    pub(crate) json: bool,
    /// Most that are listed
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) most: usize,
}
