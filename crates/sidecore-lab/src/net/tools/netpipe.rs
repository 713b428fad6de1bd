//! `NetPIPE`: half round trips by size, in text for people.

use super::case::{Found, Trip};
use super::program::{Port, last_line};
use crate::net::pair::FAR;
use crate::net::protocol::Load;

/// What both ends are told: one size only. How often is its own choice, for a quarter of a second or less.
pub(super) fn server(load: &Load, Port(port): Port) -> String {
    format!("-P {port} -l {0} -u {0} -p 0", load.size)
}

/// And to whom, and that its table is not kept.
pub(super) fn client(load: &Load, port: Port) -> String {
    format!("-h {FAR} {} -o /dev/null", server(load, port))
}

/// Reads what a client said: the lowest of its means.
///
/// # Errors
/// What it did not say.
pub(super) fn read(said: &str, load: &Load) -> Result<Found, String> {
    let found = said.lines().find_map(|line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let ["bytes", _, "times", "-->", _, "Mbps", "in", half, "usec"] = words.get(2..)? else { return None };
        let size: usize = words[1].parse().ok()?;
        half.parse::<f64>().ok().filter(|half| size == load.size && half.is_finite() && *half > 0.0)
    });
    let half =
        found.ok_or_else(|| format!("NetPIPE did not say how long {} bytes took: {}", load.size, last_line(said)))?;
    let trip = Trip { figure: 2.0 * half, times: None };
    let rate = 1e6 / trip.figure;
    Ok(Found { rate, sent: rate, trip: Some(trip), cpu: None })
}

#[cfg(test)]
mod tests {
    use super::super::case::{Way, cases};
    use super::*;

    #[test]
    fn times_come_from_what_was_recorded() {
        let load = Load { size: 64, ..cases(Way::Veth, true)[0].load };
        let found = read(include_str!("recorded/netpipe.txt"), &load).unwrap();
        assert!((found.trip.unwrap().figure - 2.0 * 13.55).abs() < 1e-9, "both halves");
    }

    #[test]
    fn what_is_wrong_or_unknown_is_said() {
        let load = Load { size: 64, ..cases(Way::Veth, true)[0].load };
        let why = |said: &str| read(said, &load).unwrap_err();
        let refused = why(include_str!("recorded/netpipe-refused.txt"));
        assert!(refused.ends_with("Client: Cannot Connect! errno=111"), "{refused}");
        assert!(why("").contains("it said nothing"));
        let recorded = include_str!("recorded/netpipe.txt");
        for (known, other) in
            [("usec", "nsec"), ("64 bytes", "63 bytes"), ("bytes", "B"), ("in  ", "in -"), ("in  ", "in NaN ")]
        {
            assert!(why(&recorded.replace(known, other)).contains("did not say how long"), "{other}");
        }
    }

    #[test]
    fn a_text_that_ends_anywhere_is_read_or_refused() {
        let load = Load { size: 64, ..cases(Way::Veth, true)[0].load };
        let recorded = include_str!("recorded/netpipe.txt");
        let read = (0..recorded.len()).filter(|end| read(&recorded[..*end], &load).is_ok()).min();
        assert!(read.is_some_and(|first| recorded[..first].ends_with("usec")));
    }
}
