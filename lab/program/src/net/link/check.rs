//! `bench link`: compares a link with its settings. Its throughput is compared with veth, and the effect of its
//! moderation on datagrams with core's policy at their sending times.

mod datagrams;
mod policy;

use super::super::measure::{Instruments, Run};
use super::super::protocol::{Direction, Load, Transport};
use super::{Link, Settings};
use crate::error::LabError;
use crate::net::columns;
use crate::report::{Outcome, Row, column};
use datagrams::{Sending, Went};
use policy::Announced;
use sidecore::core::policy::notify::Notify;
use sidecore_measure::interrupt::STOPPED;
use sidecore_measure::progress::Progress;
use sidecore_report::statistics::{median, ratio, spread};
use std::time::Duration;

const SCENARIO: &str = "link";
/// Polling time of the link before an instant, ns. The delay of a sleep's end would belong to the machine and not to
/// the policy.
const SPIN: u64 = 60_000;
const WITHIN: (f64, f64) = (0.9, 1.1);

struct Stream {
    name: &'static str,
    /// `None`: a veth pair.
    link: Option<Settings>,
    /// Promised least throughput, Mbit/s.
    reach: Option<f64>,
    mbit_per_s: Vec<f64>,
}

struct Moderated {
    policy: Notify,
    sending: Sending,
    runs: Vec<Compared>,
}

struct Compared {
    moderated: Went,
    plain: Went,
    simulated: Announced,
}

/// Measures both. Afterwards the calling thread is in its own network namespace.
pub(crate) fn measure(quick: bool, seed: u64, progress: &Progress) -> Outcome {
    let (mut streams, mut moderated) = (streams(), moderated(quick, seed));
    let repeats = if quick { 1 } else { 5 };
    let window = Duration::from_millis(if quick { 500 } else { 2_000 });
    progress.extend((streams.len() + moderated.len()) * repeats);
    let mut outcome = Outcome::default();
    'rounds: for _ in 0..repeats {
        let parts = streams.iter_mut().map(Part::Stream).chain(moderated.iter_mut().map(Part::Moderated));
        for mut part in parts {
            if progress.is_stopped() {
                outcome.lacks(STOPPED);
                break 'rounds;
            }
            progress.begin(&part.words());
            // Earlier results are kept, and the next part may succeed.
            if let Err(why) = part.run(window) {
                outcome.lacks(format!("link: {}: {why}", part.words()));
            }
            progress.advance();
        }
    }
    let base = streams[0].mbit_per_s.clone();
    outcome
        .add_rows(streams.iter().filter(|stream| !stream.mbit_per_s.is_empty()).flat_map(|stream| stream.rows(&base)));
    outcome.add_rows(moderated.iter().filter(|case| !case.runs.is_empty()).flat_map(Moderated::rows));
    outcome.noted(format!(
        "link: one TCP connection, writes of 64 KiB, for {} ms; no thread is pinned, none has a real-time priority. \
         Datagrams are sent at random with the rate as their mean, over links with --spin-us 60. What the link adds is the mean from send to the arrival \
         that the kernel stamps, less the same on a link that does not moderate, in turn. Simulated is core's policy on the \
         instants at which the program sent.",
        window.as_millis(),
    ))
}

fn streams() -> [Stream; 3] {
    let stream = |name, link, reach| Stream { name, link, reach, mbit_per_s: Vec::new() };
    let without = Settings { offload: false, ..Settings::default() };
    [
        stream("veth", None, None),
        stream("link", Some(Settings::default()), Some(5_000.0)),
        stream("link, no offload", Some(without), Some(1_000.0)),
    ]
}

fn moderated(quick: bool, seed: u64) -> [Moderated; 4] {
    let case = |count, micros: u64, rate: u32| Moderated {
        policy: Notify::Coalesce { count, delay: micros * 1_000 },
        sending: Sending { rate: f64::from(rate), count: if quick { rate / 2 } else { rate * 2 }, seed },
        runs: Vec::new(),
    };
    [case(8, 1_024, 4_000), case(4_096, 500, 4_000), case(32, 5_000, 4_000), case(32, 1_024, 20_000)]
}

enum Part<'m> {
    Stream(&'m mut Stream),
    Moderated(&'m mut Moderated),
}

impl Part<'_> {
    fn words(&self) -> String {
        match self {
            Self::Stream(stream) => stream.name.to_owned(),
            Self::Moderated(case) => case.policy.to_string(),
        }
    }

    fn run(&mut self, window: Duration) -> Result<(), LabError> {
        match self {
            Self::Stream(stream) => stream.run(window),
            Self::Moderated(case) => case.run(),
        }
    }
}

impl Stream {
    fn run(&mut self, window: Duration) -> Result<(), LabError> {
        let (mut pair, _link) = Link::or_veth(self.link.as_ref())?;
        let load = Load::new(Transport::Tcp, Direction::Send, 65_536, 1);
        let run = Run::of(&mut pair.path()?, &load, window, &mut Instruments::default())?;
        self.mbit_per_s.push(load.mbit_per_s(run.rate(&load)));
        Ok(())
    }

    fn rows(&self, base: &[f64]) -> Vec<Row> {
        let row = Row::new(SCENARIO, self.name)
            .with(column::OP, "tcp stream")
            .with(column::MBIT_PER_S, median(&self.mbit_per_s))
            .with(column::SPREAD, spread(&self.mbit_per_s))
            .with(column::REPEATS, self.mbit_per_s.len());
        let Some(reach) = self.reach else { return vec![row] };
        let against = |ratio: Option<f64>, baseline: String| {
            row.clone().with(column::RATIO, ratio).with(column::BASELINE, baseline).with(column::RATIO_BETTER, "more")
        };
        let reached = against(Some(median(&self.mbit_per_s) / reach), format!("{} Gbit/s", reach / 1e3));
        vec![reached.with(column::AT_LEAST, 1.0), against(ratio(&self.mbit_per_s, base), "veth".to_owned())]
    }
}

impl Moderated {
    fn run(&mut self) -> Result<(), LabError> {
        let over = |moderation| {
            let settings = Settings { moderation, spin: SPIN, ..Settings::default() };
            let (pair, link) = Link::start(&settings)?;
            self.sending.over(&pair, &link)
        };
        let (plain, moderated) = (over(None)?, over(Some(self.policy))?);
        let simulated = Announced::of(self.policy, &moderated.sent_at);
        self.runs.push(Compared { moderated, plain, simulated });
        Ok(())
    }

    fn rows(&self) -> Vec<Row> {
        let figures = |of: fn(&Compared) -> f64| self.runs.iter().map(of).collect::<Vec<_>>();
        let packets = figures(|run| run.moderated.per_interrupt);
        let packets_simulated = figures(|run| run.simulated.per_interrupt);
        let added = figures(|run| run.moderated.latency_us - run.plain.latency_us);
        let held = figures(|run| run.simulated.held_us);
        let row = |variant| {
            Row::new(SCENARIO, variant)
                .with(column::OP, self.policy.to_string())
                .with(column::SENT_PER_S, self.sending.rate)
                .with(column::REPEATS, self.runs.len())
        };
        let against = |row: Row, found: &[f64], simulated: &[f64], baseline| {
            row.with(column::RATIO, ratio(found, simulated))
                .with(column::BASELINE, baseline)
                .with(column::AT_LEAST, WITHIN.0)
                .with(column::AT_MOST, WITHIN.1)
                .with(column::SPREAD, spread(found))
        };
        let simulated = row("simulated").with(columns::FRAMES_PER_INTERRUPT, median(&packets_simulated));
        let link = row("link").with(columns::FRAMES_PER_INTERRUPT, median(&packets));
        vec![
            simulated.with(column::TOTAL_MEAN, median(&held)),
            against(link, &packets, &packets_simulated, "packets simulated"),
            against(row("link, added").with(column::TOTAL_MEAN, median(&added)), &added, &held, "time simulated"),
        ]
    }
}
