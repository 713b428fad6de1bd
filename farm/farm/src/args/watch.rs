//! Arguments of `farm status`, `farm top` and `farm export`.

use super::Farm;
use clap::Args;
use std::net::SocketAddr;

#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// Print JSON, one object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// Print once and end
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) farm: Farm,
    /// Address and port to answer at
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9788")]
    pub(crate) listen: SocketAddr,
}
