//! One run of a load over a path, and its result.

use super::parts::Parts;
use crate::error::LabError;
use crate::net::account::{Account, Figure, Processor};
use crate::net::flow::Latencies;
use crate::net::hardware::{Counters, Found as Hardware};
use crate::net::link::Link;
use crate::net::path::{AFTER, Both, Path, Running};
use crate::net::protocol::{Direction, Load, Transport, Window};
use crate::net::sampling::{Idling, Profile, Rules, Sampler, Setup, online};
use sidecore_measure::interrupt::Interrupt;
use std::thread;
use std::time::{Duration, Instant};

const WARM_UP: Duration = Duration::from_millis(200);
/// Start of the sampling in it: starting a sampler takes time.
const SAMPLED: Duration = Duration::from_millis(150);
const ARRIVAL: Duration = Duration::from_secs(8);
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Run {
    pub(crate) both: Both,
    pub(crate) latencies: Latencies,
    hardware: Hardware,
    pub(crate) breakdown: Option<Parts>,
    pub(super) stacks: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Instruments {
    warm_up: Duration,
    hardware: Option<Counters>,
    sampling: Option<Sampling>,
    interrupt: Option<Interrupt>,
}

#[derive(Debug)]
struct Sampling {
    setup: Setup,
    rules: Rules,
    /// Processes of the ends on this machine.
    processes: Vec<u32>,
    keeps_stacks: bool,
}

impl Default for Instruments {
    fn default() -> Self {
        Self { warm_up: WARM_UP, hardware: None, sampling: None, interrupt: None }
    }
}

impl Instruments {
    /// No instruments, and another warm-up.
    pub(crate) fn warmed_up_for(warm_up: Duration) -> Self {
        Self { warm_up, ..Self::default() }
    }

    pub(crate) fn counters(left_out: &mut Vec<String>) -> Self {
        let hardware = Counters::open(Account::of_kernel().processors.len(), left_out);
        Self { hardware: Some(hardware), ..Self::default() }
    }

    #[must_use]
    pub(crate) fn until(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = Some(interrupt.clone());
        self
    }

    /// Adds samples of CPU time: of this process, and of the peer if it is on this machine. Missing features go to
    /// `left_out`. Threads of a link made here count as device and driver.
    #[must_use]
    pub(crate) fn with_breakdown(mut self, far: Option<u32>, keeps_stacks: bool, left_out: &mut Vec<String>) -> Self {
        let processes = [std::process::id()].into_iter().chain(far).collect();
        match Sampling::open(processes, keeps_stacks) {
            Ok((sampling, unseen)) => {
                self.sampling = Some(sampling);
                left_out.extend(unseen);
            }
            Err(why) => left_out.push(format!("where the time goes: {why}")),
        }
        self
    }

    fn wait(&self, running: &mut Running<'_>, until: Instant) -> Result<(), LabError> {
        while let Some(rest) = until.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero()) {
            if self.interrupt.as_ref().is_some_and(Interrupt::came) {
                return Err(LabError::Stopped);
            }
            running.check()?;
            thread::sleep(rest.min(CHECK_INTERVAL));
        }
        Ok(())
    }

    fn first(&self, running: &mut Running<'_>) -> Result<Instant, LabError> {
        let until = Instant::now() + ARRIVAL;
        while !running.has_traffic() && Instant::now() < until {
            self.wait(running, Instant::now() + Duration::from_millis(1))?;
        }
        Ok(Instant::now())
    }

    /// Counts the window at this end. Its distance from this end's first message is the same as at the peer.
    fn count(&mut self, running: &mut Running<'_>, window: Duration) -> Result<Seen, LabError> {
        let first = self.first(running)?;
        let begins = first + self.warm_up;
        let mut sampler = None;
        if let Some(sampling) = &self.sampling {
            self.wait(running, first + SAMPLED)?;
            sampler = Some(Sampler::start(&sampling.setup)?);
        }
        let spare = || sampler.as_ref().map_or_else(Vec::new, Sampler::spare_s);
        self.wait(running, begins)?;
        if let Some(hardware) = &mut self.hardware {
            hardware.reset();
        }
        running.keep_latencies(true);
        let (before, spare_before) = (running.count_near(), spare());
        self.wait(running, begins + window)?;
        let mut near = running.count_near().since(&before);
        running.keep_latencies(false);
        near.leave_out(&spare_before, &spare());
        let hardware = self.hardware.as_mut().map(Counters::read).unwrap_or_default();
        let profile = sampler.map(Sampler::stop).transpose()?;
        self.wait(running, begins + window + AFTER)?;
        Ok(Seen { near, hardware, profile })
    }
}

struct Seen {
    near: Account,
    hardware: Hardware,
    profile: Option<Profile>,
}

impl Sampling {
    fn open(processes: Vec<u32>, keeps_stacks: bool) -> Result<(Self, Vec<String>), LabError> {
        let setup = Setup::new(&online()?, Idling::KeptForTimer)?.with_device(Link::threads());
        let tried = Sampler::start(&setup)?;
        if let Some(missing) = tried.sees_only_own() {
            return Err(LabError::broken(missing.to_owned()));
        }
        let unseen = tried.stop()?.left_out;
        Ok((Self { setup, rules: Rules::own(), processes, keeps_stacks }, unseen))
    }

    fn parts(&self, profile: &Profile, near: &Account) -> Parts {
        Parts::of(profile, &self.rules, &self.processes, near.busy_s() * 1e6)
    }
}

impl Run {
    pub(crate) fn of(
        path: &mut Path,
        load: &Load,
        window: Duration,
        instruments: &mut Instruments,
    ) -> Result<Self, LabError> {
        let ms = |time: Duration| time.as_millis() as u64;
        let window_ms = Window { warm_up_ms: ms(instruments.warm_up), counted_ms: ms(window) };
        let mut running = path.begin_window(load, window_ms)?;
        let seen = instruments.count(&mut running, window);
        // Also after an error here, the peer must be ready for the next load.
        let ended = running.end_window();
        let Seen { near, hardware, profile } = seen?;
        let (far, latencies) = ended?;
        let both = Both { near, far };
        let seen = profile.as_ref().zip(instruments.sampling.as_ref());
        let breakdown = seen.map(|(profile, sampling)| sampling.parts(profile, &both.near));
        let stacks = seen.filter(|(_, sampling)| sampling.keeps_stacks).map(|(profile, _)| profile.folded());
        Ok(Self { both, latencies, hardware, breakdown, stacks: stacks.unwrap_or_default() })
    }

    pub(super) fn seconds(&self) -> f64 {
        self.both.near.seconds()
    }

    pub(crate) fn rate(&self, load: &Load) -> f64 {
        let end = if load.direction == Direction::Send { &self.both.far } else { &self.both.near };
        let messages = match load.transport {
            Transport::Tcp => end.received.bytes as f64 / load.size as f64,
            Transport::Udp => end.received.messages as f64,
        };
        messages / end.seconds()
    }

    /// Share of lost datagrams. `None`: the load is a stream.
    pub(super) fn lost(&self, load: &Load) -> Option<f64> {
        let Both { near, far } = &self.both;
        let (sender, receiver) = if load.direction == Direction::Receive { (far, near) } else { (near, far) };
        let receiver = if load.direction == Direction::RoundTrip { near } else { receiver };
        let per_second = |counted: u64, account: &Account| counted as f64 / account.seconds();
        let sent = per_second(sender.sent.messages, sender);
        let lost = sent - per_second(receiver.received.messages, receiver);
        (load.transport == Transport::Udp && sent > 0.0).then(|| (lost / sent).max(0.0))
    }

    /// Packets of the local end, both ways. `None`: there were none, or the kernel does not count them.
    pub(crate) fn packets(&self) -> Option<f64> {
        let figures = &self.both.near.figures;
        let packets = *figures.get(&Figure::PacketsSent)? + *figures.get(&Figure::PacketsReceived)?;
        (packets > 0).then_some(packets as f64)
    }

    pub(crate) fn instructions_per_packet(&self) -> Option<f64> {
        Some(self.hardware.instructions? as f64 / self.packets()?)
    }

    pub(crate) fn first_misses_per_packet(&self) -> Option<f64> {
        Some(self.hardware.first_misses? as f64 / self.packets()?)
    }

    pub(crate) fn misses_per_packet(&self) -> Option<f64> {
        Some(self.hardware.misses? as f64 / self.packets()?)
    }

    pub(crate) fn cpu_per_packet(&self) -> Option<f64> {
        Some(self.both.near.busy_s() * 1e6 / self.packets()?)
    }

    /// Mean use in processors: 1 is one processor.
    pub(super) fn percent(&self, of: fn(&Processor) -> f64) -> f64 {
        self.both.near.processors.iter().map(of).sum::<f64>() / self.seconds()
    }

    pub(super) fn softirqs(&self) -> Option<f64> {
        let near = &self.both.near;
        Some(near.per_second(Figure::ReceiveSoftirqs)? + near.per_second(Figure::SendSoftirqs)?)
    }

    pub(super) fn of_both(&self, figure: Figure) -> Option<f64> {
        Some(self.both.near.per_second(figure)? + self.both.far.per_second(figure)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::peer::serve;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{Ipv4Addr, TcpListener};

    const LOAD: Load =
        Load { transport: Transport::Tcp, direction: Direction::Send, size: 100, connections: 1, rate: None };

    #[test]
    fn a_peer_that_dies_ends_the_wait_for_a_window() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let peer = thread::spawn(move || {
            let (mut control, _) = listener.accept().unwrap();
            BufReader::new(&control).read_line(&mut String::new()).unwrap();
            let port = at.port();
            let said = format!("{{\"Ready\":{{\"ports\":[{port}],\"token\":1}}}}\n\"Begun\"\n");
            control.write_all(said.as_bytes()).unwrap();
            // The peer dies as soon as the load has begun.
            drop(listener.accept().unwrap());
        });
        let mut path = Path::to(at).unwrap();
        let mut running = path.begin_window(&LOAD, Window { warm_up_ms: 0, counted_ms: 60_000 }).unwrap();
        peer.join().unwrap();
        let hour = Instant::now() + Duration::from_secs(3_600);
        let wrong = Instruments::default().wait(&mut running, hour).unwrap_err().to_string();
        assert!(wrong.contains("the peer is lost"), "{wrong}");
        drop(running);
        assert!(path.is_lost());
    }

    #[test]
    fn a_run_that_fails_here_leaves_the_peer_for_the_next() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut path = Path::to(listener.local_addr().unwrap()).unwrap();
        thread::spawn(move || serve(&listener));
        // No machine has that processor.
        let setup = Setup::new(&[1 << 20], Idling::Let).unwrap();
        let sampling = Sampling { setup, rules: Rules::own(), processes: Vec::new(), keeps_stacks: false };
        let mut instruments = Instruments { sampling: Some(sampling), ..Instruments::default() };
        let window = Duration::from_millis(1);
        assert!(Run::of(&mut path, &LOAD, window, &mut instruments).is_err());
        instruments.sampling = None;
        assert!(Run::of(&mut path, &LOAD, window, &mut instruments).is_ok());
    }
}
