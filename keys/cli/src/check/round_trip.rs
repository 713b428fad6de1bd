//! Round trip of a word between two cores: the least cost of a request to a sidecore that spins.

use super::finding::{Finding, FindingState, topics};
use super::topology::Topology;
use crate::error::{CliError, failed};
use sidecore_daemon::sys::cpu;
use sidecore_daemon::sys::park::ParkTimes;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Nanoseconds. `None`: no word came back in time.
type Trip = Result<Option<f64>, CliError>;

#[derive(Debug)]
pub(super) struct Trips {
    pub(super) from: usize,
    pub(super) to: Vec<(usize, Trip)>,
    pub(super) park: Option<ParkTimes>,
}

topics! {
    ROUND_TRIP: "round trip",
        for "a sidecore that spins hears of a request sooner than a sleep and its wake-up take",
        do "tie sidecores and clients to cores near each other; where none are, notify = park loses nothing";
    PARK: "park cost",
        for "whether to spin or to park is decided by what a sleep costs",
        do "see why pipes cannot be made: the limit of open files";
}

/// Most pairs of cores that are measured, and the time for all of them. It suffices for one undisturbed run on a busy
/// machine.
const PAIRS: usize = 8;
const TIME: Duration = Duration::from_millis(80);
/// Round trips between two reads of the clock. Only the fastest batch counts: other programs delay the rest.
const BATCH: u32 = 64;
const POLLS: u32 = 256;
/// Value of the word that ends the other side.
const STOP: u64 = u64::MAX;
const DISTURBED: &str = "no word came back in time: other programs keep these cores busy; try again";

/// A word with two cache lines: the processor fetches the adjacent line too.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Word(AtomicU64);

/// Measures from a sidecore's core, or from the last core, to some of the others. Cores where a service spins are left
/// out, because its requests would wait. `None`: fewer than two cores are free.
pub(super) fn measure(allowed: &[usize], sidecores: &[usize], taken: &[usize]) -> Option<Trips> {
    let free: Vec<usize> = allowed.iter().copied().filter(|cpu| !taken.contains(cpu)).collect();
    let own = sidecores.iter().copied().find(|cpu| free.contains(cpu));
    let from = own.or(free.last().copied())?;
    let others: Vec<usize> = free.into_iter().filter(|cpu| *cpu != from).collect();
    let time = TIME / others.len().clamp(1, PAIRS) as u32;
    let to: Vec<(usize, Trip)> = spread(&others).map(|to| (to, trip(from, to, time))).collect();
    (!to.is_empty()).then(|| Trips { from, to, park: sidecore_daemon::sys::park::park_times().ok() })
}

/// At most [`PAIRS`] of these cores, always with the first and the last.
fn spread(cpus: &[usize]) -> impl Iterator<Item = usize> {
    let count = cpus.len().min(PAIRS);
    (0..count).map(move |index| cpus[index * (cpus.len() - 1) / (count - 1).max(1)])
}

fn trip(from: usize, to: usize, time: Duration) -> Trip {
    let (asked, answered, untied) = (Word::default(), Word::default(), AtomicBool::new(false));
    let deadline = Instant::now() + time;
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let tied = tie(to);
            untied.store(tied.is_err(), Ordering::Relaxed);
            tied.map(|()| answer(&asked.0, &answered.0, deadline))
        });
        let ask = scope.spawn(|| {
            let trip = tie(from).map(|()| ask(&asked.0, &answered.0, &untied, deadline));
            asked.0.store(STOP, Ordering::Release);
            trip
        });
        match (echo.join(), ask.join()) {
            (Ok(echo), Ok(ask)) => echo.and(ask),
            _ => Err(CliError::usage("a thread ended")),
        }
    })
}

fn tie(cpu: usize) -> Result<(), CliError> {
    cpu::pin(cpu).map_err(failed(format_args!("no thread can be tied to core {cpu}")))
}

/// The fastest batch, ns for each round trip.
fn ask(asked: &AtomicU64, answered: &AtomicU64, untied: &AtomicBool, deadline: Instant) -> Option<f64> {
    let mut fastest: Option<f64> = None;
    let mut number = 0;
    loop {
        let start = Instant::now();
        for _ in 0..BATCH {
            number += 1;
            asked.store(number, Ordering::Release);
            let there =
                until(deadline, || answered.load(Ordering::Acquire) == number || untied.load(Ordering::Relaxed));
            if !there || untied.load(Ordering::Relaxed) {
                return fastest;
            }
        }
        let nanos = start.elapsed().as_nanos() as f64 / f64::from(BATCH);
        fastest = Some(fastest.map_or(nanos, |fastest| fastest.min(nanos)));
    }
}

fn answer(asked: &AtomicU64, answered: &AtomicU64, deadline: Instant) {
    let mut last = 0;
    while last != STOP {
        let next = || asked.load(Ordering::Acquire) != last;
        if !until(deadline, next) {
            return;
        }
        last = asked.load(Ordering::Acquire);
        answered.store(last, Ordering::Release);
    }
}

/// Polls until the condition holds. `false`: the deadline passed.
fn until(deadline: Instant, is: impl Fn() -> bool) -> bool {
    loop {
        for _ in 0..POLLS {
            if is() {
                return true;
            }
            std::hint::spin_loop();
        }
        if Instant::now() >= deadline {
            return false;
        }
    }
}

pub(super) fn judge(trips: Option<&Trips>, taken: &[usize], topology: &Topology) -> Vec<Finding> {
    let Some(trips) = trips else {
        if let Some(cpu) = taken.first() {
            let why = format!("the service that runs has core {cpu} for itself: stop it to measure from there");
            return vec![ROUND_TRIP.is(FindingState::Unknown, why)];
        }
        return vec![
            ROUND_TRIP.is(FindingState::Unknown, "one core: there is no other to spin on, so leave everything parked"),
        ];
    };
    vec![round_trip(trips, topology), park_cost(trips)]
}

fn round_trip(trips: &Trips, topology: &Topology) -> Finding {
    let took = |(cpu, trip): &(usize, Trip)| Some((*cpu, (*trip.as_ref().ok()?)?));
    let mut took: Vec<(usize, f64)> = trips.to.iter().filter_map(took).collect();
    took.sort_by(|one, other| one.1.total_cmp(&other.1));
    let name = |(cpu, nanos): (usize, f64)| {
        let cache = match topology.one_cache(trips.from, cpu) {
            Some(true) => " (one third-level cache)",
            Some(false) => " (other third-level cache)",
            None => "",
        };
        format!("to core {cpu}{cache} and back {}", micros(nanos))
    };
    let (Some(near), Some(far)) = (took.first().copied(), took.last().copied()) else {
        // A core that cannot be used is a more useful reason than a busy one.
        let why = trips.to.iter().filter_map(|(_, trip)| trip.as_ref().err()).next_back();
        return ROUND_TRIP.is(FindingState::Unknown, why.map_or_else(|| DISTURBED.to_owned(), ToString::to_string));
    };
    let places = match took.len() {
        1 => name(near),
        2 => format!("{}, {}", name(near), name(far)),
        count => format!("{}, the nearest of {count} measured; {}, the farthest", name(near), name(far)),
    };
    let found = format!(
        "from core {} {places}: what a request to a sidecore that spins there takes at least, beside its work",
        trips.from
    );
    ROUND_TRIP.ok_if(trips.park.is_none_or(|park| near.1 < park.cost as f64), found)
}

fn park_cost(trips: &Trips) -> Finding {
    PARK.of(trips.park, |park| {
        let [cost, wake] = [park.cost, park.wake].map(|time| micros(time as f64));
        let meaning = "spinning is cheaper where the next request comes sooner than that, parking where it comes later";
        let learn = if park.wake > park.cost {
            "; a wake-up takes longer than it costs, and `learn` keeps its bound as long as none takes longer than that"
        } else {
            ""
        };
        (true, format!("a sleep and its wake-up take {cost} of CPU time and the wake-up {wake}: {meaning}{learn}"))
    })
}

fn micros(nanos: f64) -> String {
    format!("{:.2} us", nanos / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState::{self, Lacks, Unknown};
    use super::super::topology;
    use super::*;
    use std::fs;

    const LONG: Duration = Duration::from_secs(60);

    fn trips<const N: usize>(to: [(usize, Trip); N]) -> Trips {
        Trips { from: 1, to: to.into(), park: Some(ParkTimes { cost: 2_000, wake: 3_000 }) }
    }

    #[test]
    fn a_round_trip_says_what_spinning_costs_and_a_sleep_what_parking_does() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("cpu1/cache/index3")).unwrap();
        fs::write(root.path().join("cpu1/cache/index3/shared_cpu_list"), "0-1\n").unwrap();
        let topology = topology::read(root.path(), &[1]);
        let findings = judge(Some(&trips([(0, Ok(Some(110.0)))])), &[], &topology);
        let text = "from core 1 to core 0 (one third-level cache) and back 0.11 us: what a request to a sidecore that spins there \
                    takes at least, beside its work";
        assert_eq!((findings[0].state, findings[0].found.as_str()), (FindingState::Ok, text));
        let text = "a sleep and its wake-up take 2.00 us of CPU time and the wake-up 3.00 us: spinning is cheaper where the next \
                    request comes sooner than that, parking where it comes later; a wake-up takes longer than it costs, and \
                    `learn` keeps its bound as long as none takes longer than that";
        assert_eq!((findings[1].state, findings[1].found.as_str()), (FindingState::Ok, text));
        let far = trips([(7, Ok(Some(330.0))), (0, Ok(Some(110.0))), (3, Ok(None)), (4, Ok(Some(250.0)))]);
        let text = &judge(Some(&far), &[], &topology)[0].found;
        let begin = "from core 1 to core 0 (one third-level cache) and back 0.11 us, the nearest of 3 measured; to core 7 \
                     (other third-level cache) and back 0.33 us, the farthest";
        assert!(text.starts_with(begin), "{text}");
    }

    #[test]
    fn a_machine_on_which_nothing_can_be_measured_says_why() {
        let topology = Topology::default();
        let one = judge(None, &[], &topology);
        assert!(one[0].state == Unknown && one[0].found.starts_with("one core"), "{one:?}");
        let taken = judge(None, &[1], &topology);
        assert!(taken[0].state == Unknown && taken[0].found.contains("has core 1 for itself"), "{taken:?}");
        let untied = trips([(0, Err(CliError::usage("no thread can be tied to core 0: not permitted")))]);
        let text = &judge(Some(&untied), &[], &topology)[0].found;
        assert_eq!(text, "no thread can be tied to core 0: not permitted");
        let busy = &judge(Some(&trips([(0, Ok(None))])), &[], &topology)[0];
        assert!(busy.state == Unknown && busy.found.contains("busy"), "{busy:?}");
        let slow = &judge(Some(&trips([(0, Ok(Some(2_500.0)))])), &[], &topology)[0];
        assert_eq!(slow.state, Lacks);
    }

    #[test]
    fn some_of_many_cores_are_measured_with_the_first_and_the_last() {
        let many: Vec<usize> = (0..200).collect();
        let some: Vec<usize> = spread(&many).collect();
        assert_eq!((some.len(), some[0], some[PAIRS - 1]), (PAIRS, 0, 199));
        assert_eq!(spread(&[5]).collect::<Vec<_>>(), [5]);
        assert_eq!(spread(&[3, 5]).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(spread(&[]).count(), 0);
    }

    #[test]
    fn words_go_between_two_threads_and_a_core_that_is_not_there_is_told() {
        let allowed = cpu::allowed();
        // With one core both threads share it. A round trip then takes two turns of the scheduler and may time out.
        let trip = trip(allowed[0], allowed[allowed.len() - 1], TIME);
        assert!(trip.is_ok(), "{trip:?}");
        assert!(
            matches!(super::trip(allowed[0], 1 << 20, LONG), Err(why) if why.to_string().contains("tied to core 1048576"))
        );
        assert!(
            matches!(super::trip(1 << 20, allowed[0], LONG), Err(why) if why.to_string().contains("tied to core 1048576"))
        );
        assert_eq!(cpu::allowed(), allowed, "the calling thread stays where it was");
        assert!(measure(&[0], &[], &[]).is_none() && measure(&[], &[3], &[]).is_none());
        assert!(measure(&[0, 1], &[1], &[1]).is_none(), "a service that spins there is not disturbed");
    }
}
