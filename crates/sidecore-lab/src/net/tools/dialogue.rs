//! What each tool is told for a load, and what it says of it.

use super::case::Found;
use super::program::{Port, Tool};
use super::{iperf, sockperf};
use crate::net::protocol::{Load, Transport};
use std::time::Duration;

impl Tool {
    /// What its server is told.
    pub(super) fn server(self, load: &Load, port: Port) -> Vec<String> {
        words(&match self {
            Self::Iperf3 => iperf::server(port),
            Self::Sockperf => sockperf::server(load, port),
        })
    }

    /// What its client is told, which is to measure for so long.
    pub(super) fn client(self, load: &Load, port: Port, time: Duration) -> Vec<String> {
        words(&match self {
            Self::Iperf3 => iperf::client(load, port, time),
            Self::Sockperf => sockperf::client(load, port, time),
        })
    }

    /// Whether clients come to its server by TCP, to talk about a load if not for the load itself.
    pub(super) fn meets_by_tcp(self, load: &Load) -> bool {
        self != Self::Sockperf || load.transport == Transport::Tcp
    }

    /// Reads what its client said.
    ///
    /// # Errors
    /// What it says is wrong, or that this is not what it is known to say.
    pub(super) fn read(self, said: &str, load: &Load) -> Result<Found, String> {
        match self {
            Self::Iperf3 => iperf::found(said, load),
            Self::Sockperf => sockperf::read(said),
        }
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}
