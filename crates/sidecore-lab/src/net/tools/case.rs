//! One load, carried in turn by the laboratory and by another tool, and its rows.

use super::tool::Tool;
use crate::error::LabError;
use crate::net::protocol::{Direction, Load, Serving, Transport};
use crate::net::tune::estimate::Estimate;
use crate::report::{Row, Times, column};
use Direction::{Receive, RoundTrip, Send};
use Transport::{Tcp, Udp};
use sidecore_report::statistics::{median, spread};

const OWN: &str = "sidecore";
/// Largest accepted difference of goodput and of times.
const REACH: f64 = 0.03;
const ERROR: f64 = 0.05;
const FEWEST: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A pair of virtual interfaces. The programs are the limit: it compares their speed.
    Veth,
    /// A line with less throughput than all programs, and more latency. It compares their counts.
    Line,
}

impl Way {
    pub(super) const ALL: [Self; 2] = [Self::Veth, Self::Line];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Veth => "veth",
            Self::Line => "line",
        }
    }

    fn scenario(self) -> &'static str {
        match self {
            Self::Veth => "net-tools",
            Self::Line => "net-tools-line",
        }
    }
}

#[derive(Debug)]
pub(super) struct Case {
    pub(super) way: Way,
    pub(super) load: Load,
    pub(super) tool: Tool,
    pub(super) own: Vec<Found>,
    /// Runs with the laboratory's own way to serve a load, if the tool has another way.
    pub(super) plain: Option<Vec<Found>>,
    pub(super) other: Vec<Found>,
    pub(super) wrong: Option<LabError>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Received messages a second.
    pub(super) rate: f64,
    /// Messages a second.
    pub(super) sent: f64,
    /// Times of round trips, us. Medians are compared.
    pub(super) trip: Option<Times>,
    /// CPU time of a message at the near end and at the far end, us. `None`: unknown so far.
    pub(super) cpu: Option<[f64; 2]>,
}

type Kind = (Tool, Transport, Direction, &'static [usize], &'static [usize]);

const ALL: [Kind; 8] = [
    (Tool::Iperf3, Tcp, Send, &[1_448], &[1]),
    (Tool::Iperf3, Tcp, Send, &[65_536], &[1, 4]),
    (Tool::Iperf3, Tcp, Receive, &[1_448], &[1]),
    (Tool::Iperf3, Tcp, Receive, &[65_536], &[1, 4]),
    (Tool::Iperf3, Udp, Send, &[1_472], &[1]),
    (Tool::Iperf3, Udp, Receive, &[1_472], &[1]),
    (Tool::Sockperf, Tcp, RoundTrip, &[64, 1_024, 16_384], &[1]),
    (Tool::Sockperf, Udp, RoundTrip, &[64, 1_024], &[1]),
];

const LINE: [Kind; 5] = [
    (Tool::Iperf3, Tcp, Send, &[65_536], &[1, 4]),
    (Tool::Iperf3, Tcp, Receive, &[65_536], &[1]),
    (Tool::Iperf3, Udp, Send, &[1_472], &[1]),
    (Tool::Sockperf, Tcp, RoundTrip, &[64, 1_024], &[1]),
    (Tool::Sockperf, Udp, RoundTrip, &[64], &[1]),
];

const QUICK_LINE: [Kind; 2] =
    [(Tool::Iperf3, Tcp, Send, &[65_536], &[1]), (Tool::Sockperf, Tcp, RoundTrip, &[64], &[1])];

const QUICK: [Kind; 5] = [
    (Tool::Iperf3, Tcp, Send, &[65_536], &[1]),
    (Tool::Iperf3, Tcp, Receive, &[65_536], &[4]),
    (Tool::Iperf3, Udp, Send, &[1_472], &[1]),
    (Tool::Sockperf, Tcp, RoundTrip, &[64], &[1]),
    (Tool::Sockperf, Udp, RoundTrip, &[64], &[1]),
];

pub(super) fn cases(way: Way, quick: bool) -> Vec<Case> {
    let kinds: &[Kind] = match (way, quick) {
        (Way::Veth, true) => &QUICK,
        (Way::Veth, false) => &ALL,
        (Way::Line, true) => &QUICK_LINE,
        (Way::Line, false) => &LINE,
    };
    let mut cases = Vec::new();
    for (tool, transport, direction, sizes, connections) in kinds {
        for size in *sizes {
            let loads = connections.iter().map(|connections| Load::new(*transport, *direction, *size, *connections));
            cases.extend(loads.map(|load| Case::new(way, *tool, load)));
        }
    }
    cases
}

impl Case {
    fn new(way: Way, tool: Tool, mut load: Load) -> Self {
        let plain = load.serving;
        if load.transport == Tcp && load.direction != RoundTrip {
            // iperf3 has one thread that selects. It reads and writes pieces of the same size, according to its system calls.
            load.serving = Serving::OnePolls;
        }
        let plain = (way == Way::Veth && load.serving != plain).then(Vec::new);
        Self { way, load, tool, own: Vec::new(), plain, other: Vec::new(), wrong: None }
    }

    pub(super) fn words(&self) -> String {
        format!(
            "{} by {}, {} B, {} connections",
            self.load.op(),
            self.tool.name(),
            self.load.size,
            self.load.connections
        )
    }

    pub(super) fn rows(&self, places: &str) -> Vec<Row> {
        if self.own.is_empty() {
            return Vec::new();
        }
        let name = self.tool.name();
        let figure = |found: &Found| Some(found.trip.map_or(found.rate, |trip| trip.p50));
        // The threads of a line belong to this program: their CPU time is not the load's.
        let both_ends = |found: &Found| found.cpu.filter(|_| self.way == Way::Veth).map(|[near, far]| near + far);
        let ratio =
            |own: &[Found], of: &dyn Fn(&Found) -> Option<f64>| Ratio::of(&figures(own, of), &figures(&self.other, of));
        // More goodput is better, and less time of a round trip.
        let better = if self.own.iter().any(|found| found.trip.is_some()) { "less" } else { "more" };
        let mut rows = vec![self.row(name, &self.other)];
        if let Some(ratio) = ratio(&self.own, &figure) {
            let row = ratio.show(self.row(OWN, &self.own), name).with(column::RATIO_BETTER, better);
            rows.push(row.with(column::AT_LEAST, 1.0 - REACH).with(column::AT_MOST, 1.0 + REACH));
        }
        if let Some(ratio) = ratio(&self.own, &both_ends) {
            let row = ratio.show(self.base("sidecore, CPU", &self.own), &format!("{name}'s CPU"));
            rows.push(row.with(column::AT_MOST, 1.0).with(column::RATIO_BETTER, "less"));
        }
        if let Some((plain, ratio)) = self.plain.as_ref().and_then(|plain| Some((plain, ratio(plain, &figure)?))) {
            rows.push(ratio.show(self.row("sidecore, its own way", plain), name).with(column::RATIO_BETTER, better));
        }
        rows.into_iter().map(|row| row.with(column::PINNED, places)).collect()
    }

    fn base(&self, variant: &str, found: &[Found]) -> Row {
        let end = |end: usize| {
            let known = figures(found, &|found: &Found| Some(found.cpu?[end]));
            (!known.is_empty() && self.way == Way::Veth).then(|| median(&known))
        };
        Row::new(self.way.scenario(), variant)
            .with(column::OP, self.load.op())
            .with(column::SIZE, self.load.size)
            .with(column::CLIENTS, self.load.connections)
            .with(column::CLIENT_CPU, end(0))
            .with(column::SERVICE_CPU, end(1))
            .with(column::REPEATS, found.len())
    }

    fn row(&self, variant: &str, found: &[Found]) -> Row {
        let rates = figures(found, &|found| Some(found.rate));
        let row = self.base(variant, found).with(column::OPS_PER_S, median(&rates));
        let trips: Vec<Times> = found.iter().filter_map(|found| found.trip).collect();
        if trips.is_empty() {
            let payload = self.load.mbit_per_s(median(&rates));
            return row.with(column::MBIT_PER_S, payload).with(column::SPREAD, spread(&rates));
        }
        let each = |of: fn(&Times) -> f64| trips.iter().map(of).collect::<Vec<_>>();
        let [mean, p50, p99] = [each(|times| times.mean), each(|times| times.p50), each(|times| times.p99)];
        let all = Times { mean: median(&mean), p50: median(&p50), p99: median(&p99) };
        row.with(column::SPREAD, spread(&p50)).with_times(column::TOTAL, Some(all))
    }
}

struct Ratio(Estimate);

impl Ratio {
    fn of(own: &[f64], other: &[f64]) -> Option<Self> {
        let quotients: Vec<f64> = own.iter().zip(other).map(|(own, other)| own / other).collect();
        (!quotients.is_empty()).then(|| Self(Estimate::of_ratios(&quotients, ERROR)))
    }

    fn show(&self, row: Row, baseline: &str) -> Row {
        let known = Some(self.0).filter(|ratio| ratio.pairs >= FEWEST);
        row.with(column::RATIO, self.0.mean.exp())
            .with(column::RATIO_LOW, known.map(|ratio| ratio.low.exp()))
            .with(column::RATIO_HIGH, known.map(|ratio| ratio.high.exp()))
            .with(column::BASELINE, baseline)
    }
}

fn figures(found: &[Found], of: &dyn Fn(&Found) -> Option<f64>) -> Vec<f64> {
    found.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(own: &[f64], other: &[f64]) -> Vec<Row> {
        let found = |rates: &[f64]| {
            let found =
                |rate: &f64| Found { rate: *rate, sent: *rate, trip: None, cpu: Some([1e3 / rate, 1e3 / rate]) };
            rates.iter().map(found).collect::<Vec<_>>()
        };
        let mut case = cases(Way::Veth, false).remove(0);
        (case.own, case.other) = (found(own), found(other));
        case.rows("here")
    }

    #[test]
    fn a_ratio_comes_from_pairs_and_has_its_interval() {
        let rows = rows(&[100.0, 210.0, 330.0], &[100.0, 200.0, 300.0]);
        let number = |row: usize, key| rows[row].number(key);
        assert!((number(1, column::RATIO).unwrap() - (1.05_f64 * 1.1).cbrt()).abs() < 1e-9);
        let [low, high] = [column::RATIO_LOW, column::RATIO_HIGH].map(|key| number(1, key).unwrap());
        assert!(low < 1.0 && high > 1.1, "{low} {high}");
        assert!(number(2, column::RATIO).unwrap() < 1.0, "who is faster with as much takes less for each");
        assert_eq!(number(0, column::RATIO), None);
    }

    #[test]
    fn one_pair_has_no_interval() {
        let rows = rows(&[1.0], &[2.0]);
        assert_eq!((rows[1].number(column::RATIO), rows[1].number(column::RATIO_LOW)), (Some(0.5), None));
        assert!(self::rows(&[], &[]).is_empty());
    }

    #[test]
    fn on_a_line_only_what_is_counted_is_compared() {
        let found = Found { rate: 1.0, sent: 1.0, trip: None, cpu: Some([1.0, 1.0]) };
        let mut case = cases(Way::Line, true).remove(0);
        (case.own, case.other) = (vec![found], vec![found]);
        let variants: Vec<_> = case.rows("here").iter().map(|row| row.variant().to_owned()).collect();
        assert_eq!(variants, ["iperf3", "sidecore"]);
    }

    #[test]
    fn every_tool_has_its_part_in_a_whole_run_and_in_a_short_one() {
        for quick in [false, true] {
            let cases: Vec<_> = Way::ALL.into_iter().flat_map(|way| cases(way, quick)).collect();
            for name in ["iperf3", "sockperf"] {
                assert!(cases.iter().any(|case| case.tool.name() == name), "{name} {quick}");
            }
            assert!(cases.iter().all(|case| case.load.check().is_ok()));
        }
    }
}
