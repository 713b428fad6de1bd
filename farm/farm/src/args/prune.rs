//! `sidecore farm prune` and `sidecore farm delete`.

use super::{Farm, name};
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Prune {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// A taker that does not come back: results no longer wait for it
    #[arg(long, value_name = "TAKER", value_parser = name)]
    pub(crate) forget: Vec<String>,
    /// Remove all dead letters too
    #[arg(long)]
    pub(crate) dead: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// Do it; without it, only what would be lost is said
    #[arg(long)]
    pub(crate) yes: bool,
}
