//! What each tool is told for a load, and what it says of it.

use super::case::Found;
use super::program::{Port, Tool};
use super::{iperf, neper, netperf, netpipe, sockperf};
use crate::net::protocol::{Load, Transport};
use std::time::Duration;

impl Tool {
    /// What its server is told.
    pub(super) fn server(self, load: &Load, port: Port) -> Vec<String> {
        words(&match self {
            Self::Iperf3 => iperf::server(port),
            Self::Sockperf => sockperf::server(load, port),
            Self::Netperf => netperf::server(port),
            Self::NetPipe => netpipe::server(load, port),
            Self::NeperStream | Self::NeperTcpTrips | Self::NeperUdpTrips => neper::server(load, port),
        })
    }

    /// What its client is told, which is to measure for so long.
    pub(super) fn client(self, load: &Load, port: Port, time: Duration) -> Vec<String> {
        words(&match self {
            Self::Iperf3 => iperf::client(load, port, time),
            Self::Sockperf => sockperf::client(load, port, time),
            Self::Netperf => netperf::client(load, port, time),
            Self::NetPipe => netpipe::client(load, port),
            Self::NeperStream | Self::NeperTcpTrips | Self::NeperUdpTrips => neper::client(load, port, time),
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
            Self::Netperf => netperf::read(said, load),
            Self::NetPipe => netpipe::read(said, load),
            Self::NeperStream | Self::NeperTcpTrips | Self::NeperUdpTrips => neper::read(said, load),
        }
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}
