//! `sidecore net where`: use of CPU time while a command runs, or on the whole machine for a fixed time.

use super::packets::Packets;
use super::sampling::{Breakdown, COMPONENTS, Component, Idling, Profile, Rules, Sampler, Setup, Share, Whose, online};
use crate::args::NetWhere;
use crate::error::LabError;
use crate::net::columns;
use crate::net::sections::export;
use crate::net::tune::location::here_in_words;
use crate::report::{Outcome, Row, column, digits};
use sidecore_measure::export::write;
use sidecore_measure::host_monitor::{HostMonitor, caveats_since};
use sidecore_measure::interrupt::SignalError;
use signal_hook::{consts::SIGINT, consts::SIGTERM, flag};
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SCENARIO: &str = "net-where";
const SECONDS: u64 = 10;
const PAUSE: Duration = Duration::from_millis(20);
const MAX_NAMED: usize = 8;
/// Accepted ratio of the components' sum to the CPU time that the kernel accounts.
const AGREEMENT: (f64, f64) = (0.97, 1.03);
const MAX_MISSING: f64 = 0.02;
const MAX_UNPLACED: f64 = 0.05;

pub(super) fn run(args: &NetWhere) -> Result<(), LabError> {
    let rules = rules(args.rules.as_deref())?;
    let known = online()?;
    let cpus = args.cpus.as_ref().map_or(&known, |cpus| &cpus.0);
    if let Some(cpu) = cpus.iter().find(|cpu| !known.contains(cpu)) {
        return Err(LabError::Usage(format!("CPU {cpu} is not online here: `lscpu` lists those that are")));
    }
    let path = here_in_words(args.interface.as_deref());
    let began = HostMonitor::now();
    let watched = watch(args, cpus)?;
    let caveats = caveats_since(began);
    let whose = watched.process.as_ref().map_or(Whose::Everyones, |process| Whose::Of(std::slice::from_ref(process)));
    let breakdown = watched.profile.breakdown(&rules, whose);
    write(args.folded.as_deref(), &(watched.profile.folded().join("\n") + "\n"))?;
    let variant = args.command.first().map_or("machine", String::as_str);
    let rows = rows(&Row::new(SCENARIO, variant), &watched.profile, &breakdown, watched.packets);
    let mut outcome = Outcome::new(rows, notes(&watched, &breakdown), left_out(args, &watched));
    // On the whole machine there are no others.
    outcome.caveats = watched.process.map_or_else(Vec::new, |_| caveats);
    Ok(export("sidecore net where", &args.files, outcome, path)?)
}

struct Watched {
    profile: Profile,
    packets: Option<u64>,
    process: Option<u32>,
    seconds: f64,
}

fn rules(file: Option<&Path>) -> Result<Rules, LabError> {
    let Some(file) = file else { return Ok(Rules::own()) };
    let text = fs::read_to_string(file)
        .map_err(|error| LabError::failed(format!("{}: cannot be read", file.display()), error))?;
    Rules::parse(&text).map_err(|error| LabError::failed(file.display().to_string(), error))
}

fn watch(args: &NetWhere, cpus: &[usize]) -> Result<Watched, LabError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, stop.clone()).map_err(SignalError::from)?;
    }
    let limit = args.seconds.or(args.command.is_empty().then_some(SECONDS)).map(Duration::from_secs);
    let idling = if args.awake { Idling::Kept } else { Idling::Let };
    let sampler = Sampler::start(&Setup::new(cpus, idling)?)?;
    if let Some(missing) = sampler.sees_only_own().filter(|_| args.command.is_empty()) {
        return Err(LabError::failed("without a command this measures the whole machine, and cannot", missing));
    }
    let mut packets = Packets::here();
    let began = Instant::now();
    let mut started = match args.command.split_first() {
        Some((program, arguments)) => Some(Started::start(program, arguments)?),
        None => None,
    };
    while !stop.load(Ordering::Relaxed) && limit.is_none_or(|limit| began.elapsed() < limit) {
        packets.look(started.as_ref().map(|started| started.0.id()));
        if let Some(started) = &mut started
            && started.has_ended()?
        {
            break;
        }
        thread::sleep(PAUSE);
    }
    let seconds = began.elapsed().as_secs_f64();
    packets.look(None);
    let packets = packets.passed(args.interface.as_deref());
    let profile = sampler.stop()?;
    let process = started.as_ref().map(|started| started.0.id());
    // A command that still runs continues to its end, unless this process is to end.
    while let Some(started) = &mut started {
        if stop.load(Ordering::Relaxed) || started.has_ended()? {
            break;
        }
        thread::sleep(PAUSE);
    }
    Ok(Watched { profile, packets, process, seconds })
}

struct Started(Child);

impl Started {
    fn start(program: &str, arguments: &[String]) -> Result<Self, LabError> {
        let started = Command::new(program).args(arguments).spawn();
        started.map(Self).map_err(|error| LabError::failed(format!("cannot start {program}"), error))
    }

    fn has_ended(&mut self) -> Result<bool, LabError> {
        Ok(self.0.try_wait()?.is_some())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // The child is not reaped yet, so its number is valid. It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Rows for each component, for unplaced, idle and other time, and for the sum. Each has the values of `like`: its
/// scenario and the properties of the run. Without packets there is no time per packet.
pub(super) fn rows(like: &Row, profile: &Profile, breakdown: &Breakdown, packets: Option<u64>) -> Vec<Row> {
    let row = |name: &str, samples: u64, time_us: f64| {
        let per_packet = packets.map(|packets| time_us / packets as f64);
        like.clone()
            .with(columns::COMPONENT, name)
            .with(columns::CPU_SECONDS, time_us / 1e6)
            .with(columns::US_PER_PACKET, per_packet)
            .with(columns::SAMPLES, samples)
    };
    let part = |name: &str, samples: u64| {
        with_share(row(name, samples, profile.time_us(breakdown, samples)), breakdown.share(samples))
    };
    let component = |component: Component| part(component.name(), breakdown.samples(component));
    // Without the kernel's symbols only its total time is known.
    let mut rows: Vec<Row> = if profile.knows_kernel {
        COMPONENTS.into_iter().map(component).chain([part("unplaced", breakdown.unplaced)]).collect()
    } else {
        vec![component(Component::Program), part("kernel", breakdown.unplaced)]
    };
    let all = row("sum", breakdown.of_path(), profile.time_us(breakdown, breakdown.of_path()));
    let agreement = profile.agreement(breakdown);
    rows.push(
        all.with(columns::PACKETS, packets)
            .with(column::RATIO, agreement)
            .with(column::BASELINE, agreement.map(|_| "CPU time accounted"))
            .with(column::AT_LEAST, agreement.map(|_| AGREEMENT.0))
            .with(column::AT_MOST, agreement.map(|_| AGREEMENT.1)),
    );
    if breakdown.elsewhere > 0 {
        rows.push(row("elsewhere", breakdown.elsewhere, profile.time_us(breakdown, breakdown.elsewhere)));
    }
    let spare_us = profile.time_us(breakdown, breakdown.spare);
    rows.extend(profile.idle_us.map(|idle_us| row("idle", breakdown.idle + breakdown.spare, idle_us + spare_us)));
    rows
}

fn with_share(row: Row, share: Option<Share>) -> Row {
    let Some(Share { seen, low, high }) = share else { return row };
    row.with(columns::CPU_SHARE, seen).with(columns::SHARE_LOW, low).with(columns::SHARE_HIGH, high)
}

fn notes(watched: &Watched, breakdown: &Breakdown) -> Vec<String> {
    let mut notes = vec![format!("Sampled for {} s", digits(watched.seconds))];
    if watched.process.is_some() {
        notes.push("Elsewhere: other programs than the command, and the sampling itself".to_owned());
    }
    if watched.profile.lost > 0 {
        notes.push(format!("{} samples were lost: the components are without them", watched.profile.lost));
    }
    if let Some(missing) = watched.profile.missing().filter(|missing| *missing > MAX_MISSING) {
        let percent = digits(100.0 * missing);
        notes.push(format!("{percent} % of the samples did not come, as happens on idle CPUs of virtual machines: --awake keeps them from idling"));
    }
    if breakdown.unplaced > 0 && watched.profile.knows_kernel {
        let share = |samples: u64| digits(100.0 * samples as f64 / breakdown.of_path().max(1) as f64);
        let named = breakdown.unplaced_functions.iter().take(MAX_NAMED);
        let named: Vec<_> = named.map(|(name, samples)| format!("{name} {} %", share(*samples))).collect();
        let verdict = if breakdown.unplaced as f64 > MAX_UNPLACED * breakdown.of_path() as f64 {
            " That is more than it should be: --rules takes a table of your own"
        } else {
            ""
        };
        notes.push(format!("No rule places {}.{verdict}", named.join(", ")));
    }
    notes
}

fn left_out(args: &NetWhere, watched: &Watched) -> Vec<String> {
    let mut left_out = watched.profile.left_out.clone();
    if watched.packets.is_none() {
        let of = args.interface.as_ref().map_or_else(String::new, |name| format!(" on {name}"));
        left_out.push(format!("time per packet: no packet passed{of} in the command's network namespaces"));
    }
    left_out
}
