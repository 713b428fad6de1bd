//! The laboratory's own figures against those of other tools, on the same path: the same load by each of them, in turn.

mod iperf;
mod program;
mod sockperf;

use super::end::Order;
use super::pair::{FAR, Pair};
use super::path::{Both, Path};
use super::protocol::{Direction, Load, PORT, Transport};
use crate::bench::{Outcome, median, ratio, spread};
use crate::interrupt::{Interrupt, STOPPED};
use crate::report::{Key, Row, Times};
use indicatif::ProgressBar;
use program::Port;
pub(super) use program::Tool;
use sidecore::sys::cpu;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::Duration;

const SCENARIO: &str = "net-tools";
const OWN: &str = "sidecore";
/// How far goodput and median times may be apart.
const REACH: f64 = 0.03;
/// What a load of our own has before it counts, as others have theirs.
const WARM_UP: Duration = Duration::from_millis(200);
/// Tools for the same that are not run here: program and package.
const OTHERS: [(&str, &str); 2] = [("netperf", "netperf, in Debian's non-free"), ("NPtcp", "netpipe-tcp")];

/// One load, again and again, by both.
struct Case {
    load: Load,
    tool: Tool,
    own: Vec<Found>,
    other: Vec<Found>,
    /// Why it goes no further.
    wrong: Option<String>,
}

/// What one run of a load came to.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Messages a second that came through.
    rate: f64,
    /// Of round trips, us.
    times: Option<Times>,
    /// CPU time of a message at the near end, and at the far end, us.
    cpu: [f64; 2],
}

/// The path, and who else is on it.
struct Laboratory {
    pair: Pair,
    path: Path,
    servers: BTreeMap<u16, u32>,
    time: Duration,
}

/// Measures all that can be.
///
/// The calling thread is in a network namespace of its own afterwards, and on one core.
///
/// # Errors
/// The system takes no handler of an interrupt.
pub(crate) fn measure(quick: bool, bar: &ProgressBar) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let mut cases = cases(quick);
    cases.retain(|case| is_there(case.tool.name()));
    for tool in [Tool::Iperf3, Tool::Sockperf].into_iter().filter(|tool| !is_there(tool.name())) {
        outcome.lacks(format!("net: {} is not installed: apt-get install {}", tool.name(), tool.name()));
    }
    for (name, package) in OTHERS {
        outcome.lacks(other(name, package));
    }
    if cases.is_empty() {
        return Ok(outcome);
    }
    let made = Laboratory::new(Duration::from_secs(if quick { 1 } else { 2 }));
    let (mut laboratory, places) = match made {
        Ok(made) => made,
        Err(why) => {
            outcome.lacks(format!("net: {why}"));
            return Ok(outcome);
        }
    };
    if !rounds(&mut cases, &mut laboratory, if quick { 1 } else { 5 }, bar)? {
        outcome.lacks(STOPPED);
    }
    for case in &cases {
        case.wrong.iter().for_each(|why| outcome.lacks(format!("net: {}: {why}", case.words())));
    }
    outcome.add_rows(cases.iter().flat_map(|case| case.rows(&places)));
    Ok(outcome.noted(format!(
        "net-tools: two namespaces joined by veth, {places}; both programs inherit their end's core, and so do their servers. \
         iperf3 runs for {0} s with -N, sockperf ping-pong with --full-rtt; this program counts for {0} s after {1} ms. They take \
         turns, and change who begins. CPU time is that of the processes at the near end (client CPU) and at the far end (service \
         CPU), for each message, without what a tool does before it measures. A ratio to a tool's CPU is of both ends together.",
        laboratory.time.as_secs(),
        WARM_UP.as_millis(),
    )))
}

/// Runs each case so often. Whether it came to its end.
fn rounds(cases: &mut [Case], laboratory: &mut Laboratory, repeats: usize, bar: &ProgressBar) -> Result<bool, String> {
    bar.inc_length((cases.len() * repeats) as u64);
    let interrupt = Interrupt::new()?;
    for round in 0..repeats {
        for case in cases.iter_mut().filter(|case| case.wrong.is_none()) {
            bar.set_message(case.words());
            // What was measured until then is not lost.
            case.wrong = case.run(laboratory, round % 2 == 0).err();
            bar.inc(1);
            if interrupt.came() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

/// What is said of a tool that has no place here.
fn other(name: &str, package: &str) -> String {
    let state = if is_there(name) { "is installed, but not compared yet" } else { "is not installed" };
    format!("net: {name} (package {package}) {state}")
}

fn cases(quick: bool) -> Vec<Case> {
    use Direction::{Receive, RoundTrip, Send};
    use Transport::{Tcp, Udp};
    let mut cases = Vec::new();
    let mut add = |transport, direction, sizes: &[usize], connections: &[usize]| {
        let tool = if direction == RoundTrip { Tool::Sockperf } else { Tool::Iperf3 };
        for size in sizes.iter().copied() {
            cases.extend(connections.iter().map(|connections| Case {
                load: Load { transport, direction, size, connections: *connections, rate: None },
                tool,
                own: Vec::new(),
                other: Vec::new(),
                wrong: None,
            }));
        }
    };
    let streams: &[usize] = if quick { &[65_536] } else { &[1_448, 65_536] };
    let trips: &[usize] = if quick { &[64] } else { &[64, 1_024, 16_384] };
    for direction in [Send, Receive] {
        add(Tcp, direction, streams, &[1, 4]);
    }
    add(Udp, Send, &[1_472], &[1]);
    if !quick {
        add(Udp, Receive, &[1_472], &[1]);
    }
    add(Tcp, RoundTrip, trips, &[1]);
    add(Udp, RoundTrip, &trips[..trips.len().min(2)], &[1]);
    cases
}

impl Laboratory {
    /// And where its ends are, in words.
    fn new(time: Duration) -> Result<(Self, String), String> {
        let allowed = cpu::allowed();
        let (first, last) = allowed.first().zip(allowed.last()).ok_or("no core may be used")?;
        let pin = |core: &usize| cpu::pin(*core).map_err(|error| format!("cannot go to core {core}: {error}"));
        // The far end inherits its core, as all that either end starts.
        pin(last)?;
        let mut pair = Pair::by_veth()?;
        pin(first)?;
        let at = SocketAddr::from((FAR, PORT));
        pair.far.order(&Order::Listen { at })?;
        let path = Path::to(at)?;
        let places = format!("the near end on core {first}, the far end on core {last}");
        Ok((Self { pair, path, servers: BTreeMap::new(), time }, places))
    }

    /// The process of a server of that tool, which is started where there is none.
    fn server(&mut self, tool: Tool, transport: Transport) -> Result<(Port, u32), String> {
        let (port, arguments) = server(tool, transport);
        if let Some(server) = self.servers.get(&port) {
            return Ok((Port(port), *server));
        }
        let server = self.pair.far.ask(&Order::Run { tool, arguments })?;
        Port(port).wait_for(server, tool == Tool::Iperf3 || transport == Transport::Tcp)?;
        self.servers.insert(port, server);
        Ok((Port(port), server))
    }

    fn own(&mut self, load: &Load) -> Result<Found, String> {
        let mut running = self.path.begin(load)?;
        thread::sleep(WARM_UP);
        running.keep_latencies(true);
        let before = running.count()?;
        thread::sleep(self.time);
        let Both { near, far } = running.count()?.since(&before);
        running.keep_latencies(false);
        let latencies = running.end()?;
        let us = |ns: f64| ns / 1e3;
        let quantile = |part| us(latencies.value_at_quantile(part) as f64);
        let times = || Times { mean: us(latencies.mean()), p50: quantile(0.5), p99: quantile(0.99) };
        let receiver = if load.direction == Direction::Send { &far } else { &near };
        let messages = |bytes: u64| bytes as f64 / load.size as f64;
        let cpu = [&near, &far].map(|end| us(end.process_ns as f64) / messages(end.sent.bytes.max(end.received.bytes)));
        Ok(Found {
            rate: messages(receiver.received.bytes) / receiver.seconds(),
            times: (!latencies.is_empty()).then(times),
            cpu,
        })
    }

    fn other(&mut self, tool: Tool, load: &Load) -> Result<Found, String> {
        let (port, server) = self.server(tool, load.transport)?;
        let said = tool.run(&client(load, port, self.time), self.time, server)?;
        let (rate, times, ends) = match tool {
            Tool::Iperf3 => {
                let rates = iperf::read(&said.output)?;
                let [sent, received] = [rates.sent, rates.received].map(|bytes| bytes / load.size as f64);
                let ends = if load.direction == Direction::Send { [sent, received] } else { [received, sent] };
                (received, None, ends)
            }
            Tool::Sockperf => {
                let trips = sockperf::read(&said.output)?;
                (trips.rate, Some(trips.times), [trips.rate; 2])
            }
        };
        // What it said comes first: it may be why it was so short.
        let spent = said.cpu.ok_or_else(|| format!("{} ended before its time", tool.name()))?;
        Ok(Found { rate, times, cpu: [spent[0] * 1e6 / ends[0], spent[1] * 1e6 / ends[1]] })
    }
}

impl Drop for Laboratory {
    fn drop(&mut self) {
        // A far end that is gone has taken its servers with it.
        let _ = self.pair.far.order(&Order::End);
    }
}

/// What a server is told, and its port.
fn server(tool: Tool, transport: Transport) -> (u16, Vec<String>) {
    let port = match (tool, transport) {
        (Tool::Iperf3, _) => PORT + 1,
        (Tool::Sockperf, Transport::Tcp) => PORT + 2,
        (Tool::Sockperf, Transport::Udp) => PORT + 3,
    };
    let line = match (tool, transport) {
        (Tool::Iperf3, _) => format!("-s -p {port}"),
        (Tool::Sockperf, Transport::Tcp) => format!("server --tcp -i {FAR} -p {port}"),
        (Tool::Sockperf, Transport::Udp) => format!("server -i {FAR} -p {port}"),
    };
    (port, words(&line))
}

/// What a client is told.
fn client(load: &Load, Port(port): Port, time: Duration) -> Vec<String> {
    let Load { transport, direction, size, connections, .. } = load;
    let (is_tcp, seconds) = (*transport == Transport::Tcp, time.as_secs());
    words(&if *direction == Direction::RoundTrip {
        let tcp = if is_tcp { "--tcp" } else { "" };
        format!("ping-pong {tcp} -i {FAR} -p {port} -t {seconds} -m {size} --full-rtt")
    } else {
        // Without delay, as our own connections are; datagrams without a rate.
        let transport = if is_tcp { "-N" } else { "-u -b 0" };
        let reverse = if *direction == Direction::Receive { "-R" } else { "" };
        format!("-c {FAR} -p {port} -J -i 0 -t {seconds} -l {size} -P {connections} {transport} {reverse}")
    })
}

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}

impl Case {
    fn op(&self) -> &'static str {
        match (self.load.transport, self.load.direction) {
            (Transport::Tcp, Direction::Send) => "tcp send",
            (Transport::Tcp, Direction::Receive) => "tcp receive",
            (Transport::Tcp, Direction::RoundTrip) => "tcp round trip",
            (Transport::Udp, Direction::Send) => "udp send",
            (Transport::Udp, Direction::Receive) => "udp receive",
            (Transport::Udp, Direction::RoundTrip) => "udp round trip",
        }
    }

    fn words(&self) -> String {
        format!("{}, {} B, {} connections", self.op(), self.load.size, self.load.connections)
    }

    /// Once by each; both or none count.
    fn run(&mut self, laboratory: &mut Laboratory, own_first: bool) -> Result<(), String> {
        let early = if own_first { Some(laboratory.own(&self.load)?) } else { None };
        let other = laboratory.other(self.tool, &self.load)?;
        let own = early.map_or_else(|| laboratory.own(&self.load), Ok)?;
        self.own.push(own);
        self.other.push(other);
        Ok(())
    }

    /// The other tool's, ours against it, and the same of CPU time.
    fn rows(&self, places: &str) -> Vec<Row> {
        if self.own.is_empty() {
            return Vec::new();
        }
        let name = self.tool.name();
        let cpu_ratio = ratio(&figures(&self.own, Found::both), &figures(&self.other, Found::both));
        let figure = |found: &Found| found.times.map_or(found.rate, |times| times.p50);
        let ratio = ratio(&figures(&self.own, figure), &figures(&self.other, figure));
        let own = |found: Row, baseline: String, ratio| found.with(Key::Ratio, ratio).with(Key::Baseline, baseline);
        let compared = own(self.row(OWN, &self.own), name.to_owned(), ratio);
        vec![
            self.row(name, &self.other).with(Key::Pinned, places),
            compared.with(Key::AtLeast, 1.0 - REACH).with(Key::AtMost, 1.0 + REACH).with(Key::Pinned, places),
            own(self.base("sidecore, CPU", &self.own), format!("{name}'s CPU"), cpu_ratio).with(Key::AtMost, 1.0),
        ]
    }

    fn base(&self, variant: &str, found: &[Found]) -> Row {
        let [near, far] = [0, 1].map(|end| median(&figures(found, |found| found.cpu[end])));
        Row::new(SCENARIO, variant)
            .with(Key::Op, self.op())
            .with(Key::Size, self.load.size)
            .with(Key::Clients, self.load.connections)
            .with(Key::ClientCpu, near)
            .with(Key::ServiceCpu, far)
            .with(Key::Spread, spread(&figures(found, Found::both)))
            .with(Key::Repeats, found.len())
    }

    fn row(&self, variant: &str, found: &[Found]) -> Row {
        let rates = figures(found, |found| found.rate);
        let row = self.base(variant, found).with(Key::OpsPerS, median(&rates));
        let times: Vec<Times> = found.iter().filter_map(|found| found.times).collect();
        if times.is_empty() {
            let payload = median(&rates) * self.load.size as f64 * 8.0 / 1e6;
            return row.with(Key::MbitPerS, payload).with(Key::Spread, spread(&rates));
        }
        let middle = |of: fn(&Times) -> f64| median(&times.iter().map(of).collect::<Vec<_>>());
        let medians: Vec<f64> = times.iter().map(|times| times.p50).collect();
        let all = Times { mean: middle(|times| times.mean), p50: median(&medians), p99: middle(|times| times.p99) };
        row.with_times(Key::TotalMean, Some(all)).with(Key::Spread, spread(&medians))
    }
}

impl Found {
    /// CPU time of a message at both ends, us.
    fn both(&self) -> f64 {
        self.cpu[0] + self.cpu[1]
    }
}

fn figures(found: &[Found], of: impl Fn(&Found) -> f64) -> Vec<f64> {
    found.iter().map(of).collect()
}
