//! Arguments of each tool for a load, and the meaning of its output.

use super::case::Found;
use super::program::Port;
use super::tool::Tool;
use super::{iperf, sockperf};
use crate::net::error::ToolError;
use crate::net::protocol::{Load, Transport};
use std::time::Duration;

impl Tool {
    pub(super) fn server(self, load: &Load, port: Port) -> Vec<String> {
        words(&match self {
            Self::Iperf3 => iperf::server(port),
            Self::Sockperf => sockperf::server(load, port),
        })
    }

    pub(super) fn client(self, load: &Load, port: Port, time: Duration) -> Vec<String> {
        words(&match self {
            Self::Iperf3 => iperf::client(load, port, time),
            Self::Sockperf => sockperf::client(load, port, time),
        })
    }

    /// Whether clients connect to the server by TCP, for control if not for the load itself.
    pub(super) fn meets_by_tcp(self, load: &Load) -> bool {
        self != Self::Sockperf || load.transport == Transport::Tcp
    }

    pub(super) fn read(self, said: &str, load: &Load) -> Result<Found, ToolError> {
        match self {
            Self::Iperf3 => iperf::found(said, load),
            Self::Sockperf => sockperf::read(said),
        }
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}
