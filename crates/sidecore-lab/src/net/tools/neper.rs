//! neper: a program for each kind of traffic, and lines of names and values.

use super::case::{Found, Trip};
use super::program::{Port, last_line};
use crate::net::pair::FAR;
use crate::net::protocol::{Direction, Load, Transport};
use std::time::Duration;

/// What both ends are told: the port of the control connection, and the one beside it for data.
fn both(load: &Load, Port(port): Port) -> String {
    let Load { transport, direction, size, connections, .. } = load;
    let own = match (transport, direction) {
        (Transport::Tcp, Direction::RoundTrip) => format!("-Q {size} -R {size} --no-delay"),
        (Transport::Udp, _) => format!("-Q {size} -R {size}"),
        (Transport::Tcp, _) => format!("-B {size} --no-delay --no-cork"),
    };
    // A thread for each connection, as ours have.
    format!("-C {port} -P {} -H {FAR} -F {connections} -T {connections} {own} --nolog", port + 1)
}

pub(super) fn server(load: &Load, port: Port) -> String {
    both(load, port)
}

pub(super) fn client(load: &Load, port: Port, time: Duration) -> String {
    format!("{} -c -l {}", both(load, port), time.as_secs())
}

/// Reads what a client said, which sends or asks.
///
/// # Errors
/// What it did not say.
pub(super) fn read(said: &str, load: &Load) -> Result<Found, String> {
    let number = |name: &str| {
        let found =
            said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')?.trim().parse::<f64>().ok());
        let found = found.filter(|number| number.is_finite() && *number > 0.0);
        found.ok_or_else(|| format!("neper did not say {name}: {}", last_line(said)))
    };
    if load.direction == Direction::RoundTrip {
        let rate = number("throughput")?;
        let trip = Trip { figure: number("latency_mean")? * 1e6, times: None };
        return Ok(Found { rate, sent: rate, trip: Some(trip), cpu: None });
    }
    // In bits, and by the receiver.
    let rate = number("remote_throughput")? / 8.0 / load.size as f64;
    Ok(Found { rate, sent: rate, trip: None, cpu: None })
}

#[cfg(test)]
mod tests {
    use super::super::case::{Way, cases};
    use super::*;

    #[test]
    fn figures_come_from_what_was_recorded() {
        let send = cases(Way::Veth, true)[0].load;
        let stream = read(include_str!("recorded/neper-stream.txt"), &send).unwrap();
        assert!((stream.rate - 28_389_039_549.0 / 8.0 / 65_536.0).abs() < 1e-6);
        let trips =
            read(include_str!("recorded/neper-rr.txt"), &Load { direction: Direction::RoundTrip, ..send }).unwrap();
        assert!((trips.rate - 24_288.13).abs() < 1e-6 && (trips.trip.unwrap().figure - 39.571).abs() < 1e-6);
    }

    #[test]
    fn what_is_wrong_or_unknown_is_said() {
        let trips = Load { direction: Direction::RoundTrip, ..cases(Way::Veth, true)[0].load };
        let why = |said: &str| read(said, &trips).unwrap_err();
        assert!(why("connect: Connection refused\nCould not connect\n").ends_with("Could not connect"));
        assert!(why("").contains("it said nothing"));
        let recorded = include_str!("recorded/neper-rr.txt");
        assert!(
            why(&recorded.replace("latency_mean", "latency_average")).contains("latency_mean"),
            "another version's name"
        );
        assert!(why(&recorded.replace("latency_mean=", "latency_mean=-")).contains("latency_mean"));
        assert!(why(&recorded.replace("throughput", "rate")).contains("throughput"));
    }
}
