//! What iperf3 says with `-J`.

use serde::Deserialize;

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

/// Bytes a second that were sent, and that were received.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    pub(super) sent: f64,
    pub(super) received: f64,
}

/// Reads the report of a client.
///
/// # Errors
/// What iperf3 says is wrong, or that this is no such report.
pub(super) fn read(report: &str) -> Result<Rates, String> {
    let Report { end, error } =
        serde_json::from_str(report).map_err(|error| format!("iperf3 said what is no report: {error}"))?;
    if let Some(error) = error {
        return Err(format!("iperf3: {error}"));
    }
    let rate = |sum: Option<Sum>| sum.map(|sum| sum.bytes / sum.seconds).filter(|rate| rate.is_finite() && *rate > 0.0);
    match (rate(end.sum_sent), rate(end.sum_received)) {
        (Some(sent), Some(received)) => Ok(Rates { sent, received }),
        _ => Err("iperf3 moved nothing".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_from_what_was_recorded() {
        assert_eq!(
            read(include_str!("recorded/iperf3-tcp.json")),
            Ok(Rates { sent: 1_278_607_360.0 / 1.000_081, received: 1_263_599_616.0 / 1.012_327 })
        );
        assert_eq!(
            read(include_str!("recorded/iperf3-udp.json")),
            Ok(Rates { sent: 119_953_280.0 / 1.000_031, received: 44_430_848.0 / 1.002_723 }),
            "what was lost has not come through"
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = read(include_str!("recorded/iperf3-refused.json"));
        assert_eq!(refused, Err("iperf3: unable to connect to server: Connection refused".to_owned()));
        assert!(read("").is_err_and(|why| why.contains("no report")));
        assert_eq!(read(r#"{"end":{}}"#), Err("iperf3 moved nothing".to_owned()));
        let still = r#"{"end":{"sum_sent":{"bytes":1,"seconds":0},"sum_received":{"bytes":0,"seconds":1}}}"#;
        assert_eq!(read(still), Err("iperf3 moved nothing".to_owned()));
    }
}
