//! The JSON output of iperf3 (`-J`).

use super::case::Found;
use super::program::Port;
use crate::net::error::ToolError;
use crate::net::pair::FAR;
use crate::net::protocol::{Direction, Load, Transport};
use serde::Deserialize;
use std::time::Duration;

#[derive(Debug, Deserialize)]
struct Report {
    end: End,
    error: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct End {
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
}

#[derive(Debug, Deserialize)]
struct Sum {
    bytes: f64,
    seconds: f64,
}

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    sent: f64,
    received: f64,
}

pub(super) fn server(Port(port): Port) -> String {
    format!("-s -p {port}")
}

/// Without delay, as for connections of the laboratory; datagrams without a rate.
pub(super) fn client(load: &Load, Port(port): Port, time: Duration) -> String {
    let Load { transport, direction, size, connections, .. } = load;
    let transport = if *transport == Transport::Tcp { "-N" } else { "-u -b 0" };
    let reverse = if *direction == Direction::Receive { "-R" } else { "" };
    let seconds = time.as_secs();
    format!("-c {FAR} -p {port} -J -i 0 -t {seconds} -l {size} -P {connections} {transport} {reverse}")
}

pub(super) fn found(report: &str, load: &Load) -> Result<Found, ToolError> {
    let Rates { sent, received } = read(report)?;
    let messages = |bytes: f64| bytes / load.size as f64;
    Ok(Found { rate: messages(received), sent: messages(sent), trip: None, cpu: None })
}

fn read(report: &str) -> Result<Rates, ToolError> {
    let Report { end, error } = serde_json::from_str(report).map_err(ToolError::NoReport)?;
    if let Some(text) = error {
        return Err(ToolError::Reported { tool: "iperf3", text });
    }
    let rate = |sum: Option<Sum>| sum.map(|sum| sum.bytes / sum.seconds).filter(|rate| rate.is_finite() && *rate > 0.0);
    match (rate(end.sum_sent), rate(end.sum_received)) {
        (Some(sent), Some(received)) => Ok(Rates { sent, received }),
        _ => Err(ToolError::Nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_from_what_was_recorded() {
        assert_eq!(
            read(include_str!("recorded/iperf3-tcp.json")).unwrap(),
            Rates { sent: 1_278_607_360.0 / 1.000_081, received: 1_263_599_616.0 / 1.012_327 }
        );
        assert_eq!(
            read(include_str!("recorded/iperf3-udp.json")).unwrap(),
            Rates { sent: 119_953_280.0 / 1.000_031, received: 44_430_848.0 / 1.002_723 },
            "what was lost has not come through"
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = read(include_str!("recorded/iperf3-refused.json"));
        assert_eq!(refused.unwrap_err().to_string(), "iperf3: unable to connect to server: Connection refused");
        assert!(read("").is_err_and(|why| why.to_string().contains("no report")));
        assert_eq!(read(r#"{"end":{}}"#).unwrap_err().to_string(), "iperf3 moved nothing");
        let still = r#"{"end":{"sum_sent":{"bytes":1,"seconds":0},"sum_received":{"bytes":0,"seconds":1}}}"#;
        assert_eq!(read(still).unwrap_err().to_string(), "iperf3 moved nothing");
    }
}
