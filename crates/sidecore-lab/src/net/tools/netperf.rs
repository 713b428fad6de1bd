//! netperf: a request for figures by name, and lines of names and values.

use super::case::{Found, Trip};
use super::program::{Port, last_line};
use crate::net::pair::FAR;
use crate::net::protocol::{Direction, Load, Transport};
use crate::report::Times;
use std::time::Duration;

/// What a server is told: it serves by itself, in its own process.
pub(super) fn server(Port(port): Port) -> String {
    format!("-D -f -4 -L {FAR} -p {port}")
}

/// What a client is told: the same bytes are sent again and again, and read to where the last ones were, as ours are.
pub(super) fn client(load: &Load, Port(port): Port, time: Duration) -> String {
    let Load { transport, direction, size, .. } = load;
    let test = match (transport, direction) {
        (Transport::Tcp, Direction::Send) => "TCP_STREAM",
        (Transport::Tcp, Direction::Receive) => "TCP_MAERTS",
        (Transport::Tcp, Direction::RoundTrip) => "TCP_RR",
        (Transport::Udp, Direction::RoundTrip) => "UDP_RR",
        (Transport::Udp, _) => "UDP_STREAM",
    };
    let asks = if *direction == Direction::RoundTrip {
        format!("-r {size},{size} -k THROUGHPUT,THROUGHPUT_UNITS,MEAN_LATENCY,P50_LATENCY,P99_LATENCY")
    } else {
        format!("-m {size} -M {size} -W 1,1 -R 1 -k THROUGHPUT,REMOTE_RECV_THROUGHPUT,THROUGHPUT_UNITS")
    };
    let no_delay = if *transport == Transport::Tcp { "-D" } else { "" };
    format!("-4 -H {FAR} -p {port} -t {test} -l {} -P 0 -- {no_delay} {asks}", time.as_secs())
}

/// Reads what a client said.
///
/// # Errors
/// What netperf says is wrong, or what it did not say.
pub(super) fn read(said: &str, load: &Load) -> Result<Found, String> {
    let text = |name: &str| {
        let found = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.ok_or_else(|| format!("netperf did not say {name}: {}", last_line(said)))
    };
    let number = |name: &str| {
        let found = text(name)?.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        found.ok_or_else(|| format!("netperf said {name}={}", text(name).unwrap_or_default()))
    };
    let unit = |known: &str| match text("THROUGHPUT_UNITS")? {
        unit if unit == known => Ok(()),
        other => Err(format!("netperf counts in {other}, not in {known}: take version 2.7")),
    };
    if load.direction == Direction::RoundTrip {
        unit("Trans/s")?;
        let [mean, p50, p99] = ["MEAN_LATENCY", "P50_LATENCY", "P99_LATENCY"].map(number);
        let times = Times { mean: mean?, p50: p50?, p99: p99? };
        let rate = number("THROUGHPUT")?;
        // Its percentiles are whole microseconds.
        return Ok(Found { rate, sent: rate, trip: Some(Trip { figure: times.mean, times: Some(times) }), cpu: None });
    }
    unit("10^6bits/s")?;
    let messages = |megabits: f64| megabits * 1e6 / 8.0 / load.size as f64;
    let sent = messages(number("THROUGHPUT")?);
    // Of a stream the first is what arrived as well.
    let rate = if load.transport == Transport::Udp { messages(number("REMOTE_RECV_THROUGHPUT")?) } else { sent };
    Ok(Found { rate, sent, trip: None, cpu: None })
}

#[cfg(test)]
mod tests {
    use super::super::case::{Way, cases};
    use super::*;

    fn load(transport: Transport, direction: Direction, size: usize) -> Load {
        Load { transport, direction, size, ..cases(Way::Veth, true)[0].load }
    }

    #[test]
    fn figures_come_from_what_was_recorded() {
        let stream = read(include_str!("recorded/netperf-tcp.txt"), &load(Transport::Tcp, Direction::Send, 65_536));
        assert!((stream.unwrap().rate - 4221.93e6 / 8.0 / 65_536.0).abs() < 1e-6);
        let datagrams =
            read(include_str!("recorded/netperf-udp.txt"), &load(Transport::Udp, Direction::Send, 1_472)).unwrap();
        assert!(
            (datagrams.rate - 823.55e6 / 8.0 / 1_472.0).abs() < 1e-6
                && (datagrams.sent - 823.55e6 / 8.0 / 1_472.0).abs() < 1e-6
        );
        let trips =
            read(include_str!("recorded/netperf-rr.txt"), &load(Transport::Tcp, Direction::RoundTrip, 64)).unwrap();
        let times = Times { mean: 57.46, p50: 14.0, p99: 1850.0 };
        assert_eq!(trips.trip, Some(Trip { figure: 57.46, times: Some(times) }));
    }

    #[test]
    fn what_is_wrong_or_unknown_is_said() {
        let load = load(Transport::Tcp, Direction::RoundTrip, 64);
        let why = |said: &str| read(said, &load).unwrap_err();
        let refused = why(include_str!("recorded/netperf-refused.txt"));
        assert!(refused.contains("could not establish the control connection"), "{refused}");
        assert!(why("").contains("it said nothing"));
        let recorded = include_str!("recorded/netperf-rr.txt");
        assert!(why(&recorded.replace("Trans/s", "KTrans/s")).contains("KTrans/s"), "another version's unit");
        assert!(
            why(&recorded.replace("MEAN_LATENCY", "LATENCY_MEAN")).contains("MEAN_LATENCY"),
            "another version's name"
        );
        assert!(why(&recorded.replace("THROUGHPUT=1", "THROUGHPUT=-1")).contains("THROUGHPUT=-1"));
    }
}
