//! The output of `sockperf ping-pong --full-rtt`: coloured text.

use super::case::Found;
use super::program::Port;
use crate::net::error::ToolError;
use crate::net::pair::FAR;
use crate::net::protocol::{Load, Transport};
use crate::report::Times;
use std::time::Duration;

fn both(load: &Load, Port(port): Port) -> String {
    let tcp = if load.transport == Transport::Tcp { "--tcp" } else { "" };
    format!("{tcp} -i {FAR} -p {port}")
}

pub(super) fn server(load: &Load, port: Port) -> String {
    format!("server {}", both(load, port))
}

pub(super) fn client(load: &Load, port: Port, time: Duration) -> String {
    format!("ping-pong {} -t {} -m {} --full-rtt", both(load, port), time.as_secs(), load.size)
}

pub(super) fn read(said: &str) -> Result<Found, ToolError> {
    if let Some((_, error)) = said.split_once("ERROR: ") {
        return Err(ToolError::Reported {
            tool: "sockperf",
            text: error.lines().next().unwrap_or_default().to_owned(),
        });
    }
    let after = |text: &str, name: &'static str| {
        let found = text.split_once(name).and_then(|(_, rest)| first_number(rest)).filter(|number| *number > 0.0);
        found.ok_or(ToolError::NoFigure(name))
    };
    // An earlier line of the same form covers the whole run, with warm-up.
    let valid = said.split_once("[Valid Duration]").map_or("", |(_, rest)| rest);
    let rate = after(valid, "ReceivedMessages=")? / after(valid, "RunTime=")?;
    let times = Times {
        mean: after(valid, "avg-rtt=")?,
        p50: after(valid, "percentile 50.000 =")?,
        p99: after(valid, "percentile 99.000 =")?,
    };
    Ok(Found { rate, sent: rate, trip: Some(times), cpu: None })
}

/// The number at the beginning of a text, after spaces. `None`: the text may end within the number.
fn first_number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = include_str!("recorded/sockperf-tcp.txt");

    #[test]
    fn times_and_rate_come_from_what_was_recorded() {
        let times = Times { mean: 88.741, p50: 14.131, p99: 1856.048 };
        let found = read(RECORDED).unwrap();
        assert!((found.rate - 6195.0 / 0.550).abs() < 1e-6 && found.cpu.is_none());
        assert_eq!(found.trip, Some(times));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = read(include_str!("recorded/sockperf-refused.txt"));
        assert_eq!(
            refused.err().map(|why| why.to_string()).as_deref(),
            Some("sockperf: Can`t connect socket (errno=111 Connection refused)")
        );
        assert_eq!(
            read("").err().map(|why| why.to_string()).as_deref(),
            Some("sockperf did not say ReceivedMessages=")
        );
    }

    #[test]
    fn a_text_that_ends_anywhere_is_read_or_refused() {
        let ends = (0..RECORDED.len()).filter(|end| RECORDED.is_char_boundary(*end));
        let read: Vec<_> = ends.map(|end| read(&RECORDED[..end])).collect();
        let first = read.iter().position(Result::is_ok).expect("the whole text is read");
        assert!(first > RECORDED.find("percentile 50.000").unwrap(), "the median is needed");
        assert!(read[first..].iter().all(Result::is_ok), "more text takes nothing away");
    }
}
