//! `sidecore net measure`: goodput, packets, CPU time and latency of a path, load by load.

use super::account::{Account, Figure, Processor};
use super::end::{End, Order};
use super::flow::Latencies;
use super::hardware::{Counters, Found as Hardware};
use super::link::{Link, Settings};
use super::pair::{FAR, Pair};
use super::path::{Both, Path};
use super::protocol::{Direction, Load, PORT, Transport};
use crate::args::{NetJoint, NetMeasure, NetTraffic};
use crate::bench::{Outcome, median, spread};
use crate::interrupt::{Interrupt, STOPPED};
use crate::progress::Progress;
use crate::report::{Key, Row, Times};
use serde_json::json;
use std::net::{SocketAddr, ToSocketAddrs};
use std::thread;
use std::time::Duration;

/// What every load has before it counts.
const WARM_UP: Duration = Duration::from_millis(200);
/// Rates of the round trips that come by the clock, each connection's, a second.
const PACED: f64 = 2_000.0;

/// One load, again and again.
pub(super) struct Case {
    pub(super) load: Load,
    pub(super) runs: Vec<Run>,
}

/// What one run of a load came to.
pub(super) struct Run {
    pub(super) both: Both,
    pub(super) latencies: Latencies,
    hardware: Option<Hardware>,
}

/// Measures what was asked for.
///
/// # Errors
/// There is no path, or it was lost: what to do.
pub(super) fn measure(args: &NetMeasure) -> Result<Outcome, String> {
    let (mut path, _made) = find(args)?;
    let processors = Account::of_kernel().processors.len();
    let mut hardware = Counters::open(processors);
    let mut outcome = Outcome::default();
    if let Err(why) = &hardware {
        outcome.lacks(why.clone());
    }
    let mut cases: Vec<_> = loads(args).into_iter().map(|load| Case { load, runs: Vec::new() }).collect();
    let repeats = args.repeats.unwrap_or(if args.quick { 1 } else { 3 });
    let mut progress = Progress::new(cases.len() * repeats);
    progress.scenario("net");
    let window = Duration::from_millis(args.ms.unwrap_or(if args.quick { 300 } else { 2_000 }));
    let interrupt = Interrupt::new()?;
    'runs: for _ in 0..repeats {
        for case in &mut cases {
            progress.begin(&case.words());
            match run(&mut path, &case.load, window, hardware.as_mut().ok()) {
                Ok(run) => case.runs.push(run),
                Err(why) if cases.iter().all(|case| case.runs.is_empty()) => return Err(why),
                // What was measured until then is not lost.
                Err(why) => {
                    outcome.lacks(why);
                    break 'runs;
                }
            }
            progress.advance();
            if interrupt.came() {
                outcome.lacks(STOPPED);
                break 'runs;
            }
        }
    }
    outcome.add_rows(cases.iter().filter(|case| !case.runs.is_empty()).map(Case::row));
    Ok(outcome)
}

/// What has to stay while a path is measured that was made for it.
struct Made {
    _far: End,
    _link: Option<Link>,
}

/// The path that was named, or one that is made.
fn find(args: &NetMeasure) -> Result<(Path, Option<Made>), String> {
    let Some(peer) = &args.peer else {
        let (mut pair, link) = match args.by {
            NetJoint::Veth => (Pair::by_veth()?, None),
            NetJoint::Link => Link::start(&Settings::of(&args.link)?).map(|(pair, link)| (pair, Some(link)))?,
        };
        let at = SocketAddr::from((FAR, PORT));
        pair.far.order(&Order::Listen { at })?;
        return Ok((Path::to(at)?, Some(Made { _far: pair.far, _link: link })));
    };
    Ok((find_peer(peer)?, None))
}

/// The path to the peer that was named.
///
/// # Errors
/// Nobody answers there.
pub(super) fn find_peer(peer: &str) -> Result<Path, String> {
    let with_port = if peer.contains(':') { peer.to_owned() } else { format!("{peer}:{PORT}") };
    let found = with_port.to_socket_addrs().map_err(|error| format!("no peer {peer}: {error}"))?.next();
    Path::to(found.ok_or_else(|| format!("{peer} has no address"))?)
}

fn loads(args: &NetMeasure) -> Vec<Load> {
    let wants = |traffic| args.traffic.is_empty() || args.traffic.contains(&traffic);
    let mut loads = Vec::new();
    let mut add = |transport, direction, sizes: &[usize], connections: &[usize], rate| {
        let sizes = if args.size.is_empty() { sizes } else { &args.size };
        let connections = if args.connections.is_empty() { connections } else { &args.connections };
        let each = sizes.iter().flat_map(|size| connections.iter().map(move |count| (*size, *count)));
        loads.extend(each.map(|(size, connections)| Load { transport, direction, size, connections, rate }));
    };
    let (streams, many): (&[usize], &[usize]) = if args.quick {
        (&[64, 1_448, 65_536], &[1, 8])
    } else {
        (&[1, 64, 256, 1_448, 8_192, 65_536, 1 << 20], &[1, 4, 16, 64])
    };
    let datagrams: &[usize] = if args.quick { &[64, 1_472] } else { &[1, 64, 512, 1_472, 8_192] };
    let trips: &[usize] = if args.quick { &[1, 1_024, 16_384] } else { &[1, 64, 512, 1_024, 4_096, 16_384, 65_536] };
    for direction in [Direction::Send, Direction::Receive] {
        if wants(NetTraffic::Tcp) {
            add(Transport::Tcp, direction, streams, many, None);
        }
        if wants(NetTraffic::Udp) {
            add(Transport::Udp, direction, datagrams, &many[..1], None);
        }
    }
    if wants(NetTraffic::RoundTrip) {
        add(Transport::Tcp, Direction::RoundTrip, trips, &[1], None);
        add(Transport::Udp, Direction::RoundTrip, &trips[..2], &[1], None);
    }
    if wants(NetTraffic::Paced) {
        add(Transport::Tcp, Direction::RoundTrip, &trips[..2], &many[..2], Some(PACED));
    }
    loads
}

/// What both ends count on the path under that load for so long, after a warm-up.
///
/// # Errors
/// The path is lost.
pub(super) fn run(
    path: &mut Path,
    load: &Load,
    window: Duration,
    mut counters: Option<&mut Counters>,
) -> Result<Run, String> {
    let mut running = path.begin(load)?;
    thread::sleep(WARM_UP);
    if let Some(counters) = &mut counters {
        counters.reset();
    }
    running.keep_latencies(true);
    let before = running.count()?;
    thread::sleep(window);
    let both = running.count()?.since(&before);
    running.keep_latencies(false);
    let hardware = counters.and_then(Counters::read);
    Ok(Run { both, latencies: running.end()?, hardware })
}

impl Case {
    fn words(&self) -> String {
        let Load { size, connections, .. } = self.load;
        format!("{} {}, {size} B, {connections} connections", self.traffic(), self.direction())
    }

    fn traffic(&self) -> &'static str {
        match (self.load.transport, self.load.direction, self.load.rate) {
            (Transport::Tcp, Direction::RoundTrip, Some(_)) => "tcp paced",
            (Transport::Tcp, ..) => "tcp",
            (Transport::Udp, ..) => "udp",
        }
    }

    fn direction(&self) -> &'static str {
        match self.load.direction {
            Direction::Send => "send",
            Direction::Receive => "receive",
            Direction::RoundTrip => "round trip",
        }
    }

    /// The medians of its runs.
    pub(super) fn row(&self) -> Row {
        let figure = |of: &dyn Fn(&Run) -> Option<f64>| {
            let found: Vec<f64> = self.runs.iter().filter_map(of).collect();
            (!found.is_empty()).then(|| median(&found))
        };
        let figures = |figure_of| figure(&|run: &Run| run.both.near.per_second(figure_of));
        let kind = |of: fn(&Processor) -> f64| figure(&|run: &Run| Some(run.percent(of)));
        let rates: Vec<f64> = self.runs.iter().map(|run| run.rate(&self.load)).collect();
        let mut row = Row::new("net", self.direction())
            .with(Key::Op, self.traffic())
            .with(Key::Size, self.load.size)
            .with(Key::Clients, self.load.connections)
            .with(Key::OpsPerS, median(&rates))
            .with(Key::MbitPerS, median(&rates) * self.load.size as f64 * 8.0 / 1e6)
            .with(Key::Lost, figure(&|run: &Run| run.lost(&self.load)))
            .with(Key::PacketsPerS, figure(&|run: &Run| run.packets().map(|packets| packets / run.seconds())))
            .with(Key::CpuPerPacket, figure(&Run::cpu_per_packet))
            .with(Key::User, kind(|cpu| cpu.user))
            .with(Key::System, kind(|cpu| cpu.system))
            .with(Key::Softirq, kind(|cpu| cpu.softirq + cpu.interrupt))
            .with(Key::Idle, kind(|cpu| cpu.idle))
            .with(Key::SwitchesPerS, figures(Figure::ContextSwitches))
            .with(Key::InterruptsPerS, figures(Figure::Interrupts))
            .with(Key::ReschedulesPerS, figures(Figure::Reschedules))
            .with(Key::SoftirqsPerS, figure(&Run::softirqs))
            .with(Key::DroppedPerS, figure(&|run: &Run| run.of_both(Figure::Dropped)))
            .with(Key::RetransmittedPerS, figure(&|run: &Run| run.of_both(Figure::Retransmitted)))
            .with(Key::InstructionsPerPacket, figure(&|run| Some(run.hardware?.instructions as f64 / run.packets()?)))
            .with(Key::MissesPerPacket, figure(&|run| Some(run.hardware?.misses as f64 / run.packets()?)))
            .with(Key::Processors, self.runs.last().map(|run| json!(run.both.near.processors)))
            .with(Key::Spread, spread(&rates))
            .with(Key::Repeats, self.runs.len());
        if self.load.direction == Direction::RoundTrip {
            row = row.with_times(Key::TotalMean, self.times());
        }
        row
    }

    fn times(&self) -> Option<Times> {
        let mut all = self.runs.first()?.latencies.clone();
        for run in &self.runs[1..] {
            // All have the same bounds.
            let _ = all.add(&run.latencies);
        }
        let us = |ns: f64| ns / 1000.0;
        (!all.is_empty()).then(|| Times {
            mean: us(all.mean()),
            p50: us(all.value_at_quantile(0.5) as f64),
            p99: us(all.value_at_quantile(0.99) as f64),
        })
    }
}

impl Run {
    fn seconds(&self) -> f64 {
        self.both.near.seconds()
    }

    /// Messages a second that came through.
    pub(super) fn rate(&self, load: &Load) -> f64 {
        let end = if load.direction == Direction::Send { &self.both.far } else { &self.both.near };
        let messages = match load.transport {
            Transport::Tcp => end.received.bytes as f64 / load.size as f64,
            Transport::Udp => end.received.messages as f64,
        };
        messages / end.seconds()
    }

    /// Share of datagrams that did not come through. `None`: a stream loses nothing.
    fn lost(&self, load: &Load) -> Option<f64> {
        let Both { near, far } = &self.both;
        let (sender, receiver) = if load.direction == Direction::Receive { (far, near) } else { (near, far) };
        let receiver = if load.direction == Direction::RoundTrip { near } else { receiver };
        let per_second = |counted: u64, account: &Account| counted as f64 / account.seconds();
        let sent = per_second(sender.sent.messages, sender);
        let lost = sent - per_second(receiver.received.messages, receiver);
        (load.transport == Transport::Udp && sent > 0.0).then(|| (lost / sent).max(0.0))
    }

    /// Packets of the near end, both ways. `None`: there were none, or the kernel did not say.
    fn packets(&self) -> Option<f64> {
        let figures = &self.both.near.figures;
        let packets = *figures.get(&Figure::PacketsSent)? + *figures.get(&Figure::PacketsReceived)?;
        (packets > 0).then_some(packets as f64)
    }

    fn cpu_per_packet(&self) -> Option<f64> {
        let busy: f64 = self.both.near.processors.iter().map(|cpu| cpu.busy()).sum();
        Some(busy * 1e6 / self.packets()?)
    }

    /// Of one processor, as a share.
    fn percent(&self, of: fn(&Processor) -> f64) -> f64 {
        self.both.near.processors.iter().map(of).sum::<f64>() / self.seconds()
    }

    /// Context switches of the whole machine, a second.
    pub(super) fn switches_per_s(&self) -> Option<f64> {
        self.both.near.per_second(Figure::ContextSwitches)
    }

    fn softirqs(&self) -> Option<f64> {
        let near = &self.both.near;
        Some(near.per_second(Figure::ReceiveSoftirqs)? + near.per_second(Figure::SendSoftirqs)?)
    }

    fn of_both(&self, figure: Figure) -> Option<f64> {
        Some(self.both.near.per_second(figure)? + self.both.far.per_second(figure)?)
    }
}
