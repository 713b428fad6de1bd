//! `sidecore net measure`: goodput, packets, CPU time and latency of a path, load by load.

mod case;
mod parts;
mod run;

use super::end::End;
use super::flow::{Side, choose_cpus};
use super::link::{Link, Settings};
use super::path::Path;
use super::protocol::{Direction, Load, Transport};
use crate::args::{NetJoint, NetMeasure, NetTraffic, PORT};
use crate::error::LabError;
use crate::net::sections::export;
use crate::net::tune::location::in_words;
use crate::report::Outcome;
pub(super) use case::Case;
pub(super) use run::{Instruments, Run};
use sidecore_measure::export::write;
use sidecore_measure::host_monitor::{HostMonitor, caveats_since};
use sidecore_measure::interrupt::{Interrupt, STOPPED};
use sidecore_measure::progress::Progress;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path as file;
use std::time::Duration;

/// Rates of paced round trips a second, for each connection. A gap is not a simple fraction of a kernel's tick of 1, 4
/// or 10 ms: kernels that account CPU time by ticks would otherwise always sample the same part of a trip.
const PACED: f64 = 1_973.0;
const MAX_NAMED: usize = 8;
const HOW: &str = "driver to other: CPU time by component for each packet of the near end, from samples; with --pair that of both ends, and of the \
     threads of a link as its driver. Where samples come from a timer, no CPU sleeps meanwhile: a sleeping one would miss samples, and \
     wakes later, so round trips are not those of a run without --where. Interrupts count those of the sampling.";

pub(super) fn run(args: &NetMeasure) -> Result<(), LabError> {
    let mut left_out = Vec::new();
    let mut cases = cases(args, &mut left_out)?;
    let (mut path, made) = find(args)?;
    let interrupt = Interrupt::new()?;
    let path_in_words = in_words(path.peer());
    let began = HostMonitor::now();
    path.until(&interrupt);
    let mut instruments = Instruments::counters(&mut left_out).until(&interrupt);
    if args.takes_apart {
        let far = made.as_ref().map(|made| made.far.id());
        instruments = instruments.with_breakdown(far, args.folded.is_some(), &mut left_out);
    }
    let done = rounds(args, &mut cases, &mut path, &mut instruments, &interrupt);
    let wrong = cases.iter().filter_map(|case| Some(format!("{}: {}", case.words(), case.wrong.as_ref()?)));
    let wrong: Vec<_> = wrong.collect();
    let said = done.as_ref().err().map(LabError::to_string);
    cases.retain(|case| !case.runs.is_empty());
    if cases.is_empty() && !interrupt.came() {
        return Err(LabError::broken(wrong.into_iter().chain(said).collect::<Vec<_>>().join("\n")));
    }
    left_out.extend(wrong);
    if interrupt.came() {
        left_out.push(STOPPED.to_owned());
    }
    left_out.extend(said);
    let rows = cases.iter().map(Case::doubted_row).chain(cases.iter().filter_map(Case::parts_row)).collect();
    let mut outcome = Outcome::new(rows, notes(&cases), left_out);
    outcome.caveats = caveats_since(began);
    export("sidecore net measure", &args.files, outcome, path_in_words)?;
    write_stacks(args.folded.as_deref(), &cases)?;
    done
}

fn rounds(
    args: &NetMeasure,
    cases: &mut [Case],
    path: &mut Path,
    instruments: &mut Instruments,
    interrupt: &Interrupt,
) -> Result<(), LabError> {
    let repeats = args.repeats.unwrap_or(if args.quick { 1 } else { 3 });
    let window = Duration::from_millis(args.ms.unwrap_or(if args.quick { 300 } else { 2_000 }));
    let mut progress = Progress::new(cases.len() * usize::from(repeats));
    progress.scenario("net");
    for _ in 0..repeats {
        for case in cases.iter_mut().filter(|case| case.wrong.is_none()) {
            progress.begin(&case.words());
            path.use_cpus(case.cpus);
            match Run::of(path, &case.load, window, instruments) {
                Ok(run) => case.runs.push(run),
                Err(_) if interrupt.came() => return Ok(()),
                Err(why) if path.is_lost() => return Err(why),
                // Other loads may succeed.
                Err(why) => case.wrong = Some(why),
            }
            progress.advance();
        }
    }
    Ok(())
}

fn notes(cases: &[Case]) -> Vec<String> {
    let mut parts = cases.iter().filter_map(Case::parts);
    let Some(mut all) = parts.next() else { return Vec::new() };
    parts.for_each(|more| all.add(&more));
    let mut notes = vec![HOW.to_owned()];
    let unplaced: Vec<_> = all.unplaced_functions().iter().take(MAX_NAMED).map(|(name, _)| name.as_str()).collect();
    if !unplaced.is_empty() {
        notes.push(format!("No rule places {}", unplaced.join(", ")));
    }
    notes
}

fn write_stacks(file: Option<&file::Path>, cases: &[Case]) -> Result<(), LabError> {
    let Some(file) = file else { return Ok(()) };
    let mut lines: Vec<_> = cases.iter().flat_map(Case::stacks).collect();
    lines.push(String::new());
    Ok(write(Some(file), &lines.join("\n"))?)
}

struct Made {
    far: End,
    _link: Option<Link>,
}

fn find(args: &NetMeasure) -> Result<(Path, Option<Made>), LabError> {
    let Some(peer) = &args.peer else {
        let settings = (args.by == NetJoint::Link).then(|| Settings::of(&args.link)).transpose()?;
        let (mut pair, link) = Link::or_veth(settings.as_ref())?;
        return Ok((pair.path()?, Some(Made { far: pair.far, _link: link })));
    };
    Ok((find_peer(peer)?, None))
}

pub(super) fn find_peer(peer: &str) -> Result<Path, LabError> {
    Path::to(address_of(peer)?)
}

pub(super) fn address_of(peer: &str) -> Result<SocketAddr, LabError> {
    // An address of IPv6 has colons without a port, too.
    let bare = peer.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(peer);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, PORT));
    }
    let with_port = if peer.contains(':') { peer.to_owned() } else { format!("{peer}:{PORT}") };
    let found = with_port
        .to_socket_addrs()
        .map_err(|error| LabError::missing(format!("no peer {peer:?}"), error, "write HOST or HOST:PORT"))?
        .next();
    found.ok_or_else(|| LabError::Usage(format!("{peer} has no address")))
}

fn cases(args: &NetMeasure, left_out: &mut Vec<String>) -> Result<Vec<Case>, LabError> {
    let counts: Vec<_> = args.cpus.iter().copied().map(Some).collect();
    let counts = if counts.is_empty() { vec![None] } else { counts };
    let mut cases = Vec::new();
    for load in loads(args) {
        for cpus in &counts {
            let case = Case::new(load).on(*cpus);
            match load.check().and_then(|()| choose_cpus(Side::Near, *cpus)) {
                Ok(_) => cases.push(case),
                Err(why) => left_out.push(format!("{}: {why}", case.words())),
            }
        }
    }
    if cases.is_empty() { Err(LabError::Usage(left_out.join("\n"))) } else { Ok(cases) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_named_by_an_address_of_either_family_with_a_port_or_without() {
        for (peer, meant) in [
            ("192.0.2.1", "192.0.2.1:5217"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("fd00::2", "[fd00::2]:5217"),
            ("[fd00::2]", "[fd00::2]:5217"),
            ("[fd00::2]:80", "[fd00::2]:80"),
        ] {
            assert_eq!(address_of(peer).unwrap(), meant.parse().unwrap(), "{peer}");
        }
        for wrong in ["[fd00::2", "192.0.2.1:99999", ":80", ""] {
            assert!(address_of(wrong).is_err(), "{wrong}");
        }
    }
}
