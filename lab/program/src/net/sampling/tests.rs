//! The rules on recorded stacks, and the sampler on work of the test.

use super::events::{Clock, Events, Reach};
use super::rules::Placement;
use super::*;
use sidecore_ipc::sys::clock;
use sidecore_testing::skipped;
use std::collections::BTreeMap;
use std::path::Path;

/// Recorded by `sidecore net where`, processes' names first: TCP and UDP streams and a ping-pong over veth, TAP and
/// loopback.
const RECORDED: &str = include_str!("fixtures/linux-6.18.folded");
const OLDER: &str = include_str!("fixtures/linux-6.1.txt");

fn functions(stack: &str) -> Vec<&str> {
    stack.split(';').rev().collect()
}

fn name(place: Option<Placement>) -> &'static str {
    match place {
        Some(Placement::In(component)) => component.name(),
        Some(Placement::Idle) => "idle",
        Some(Placement::Caller) | None => "unplaced",
    }
}

#[test]
fn the_rules_place_what_was_recorded() {
    let rules = Rules::own();
    let mut found = BTreeMap::new();
    for line in RECORDED.lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        let mut stack = functions(stack);
        let process = stack.pop();
        assert!(process.is_some());
        let placed = if stack == ["[program]"] { "program" } else { name(rules.place(&stack)) };
        *found.entry(placed).or_insert(0) += count.parse::<u64>().unwrap();
    }
    let all: u64 = found.values().sum();
    let unplaced = found.get("unplaced").copied().unwrap_or(0);
    assert!(unplaced * 20 <= all, "{unplaced} of {all}");
    // A change of the rules changes these numbers.
    let expected = [
        ("buffers", 25),
        ("copy", 2618),
        ("driver", 534),
        ("entry", 384),
        ("idle", 238),
        ("other", 45),
        ("program", 953),
        ("protocol", 2961),
        ("scheduler", 2793),
        ("socket", 73),
    ];
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn what_a_timers_interrupt_runs_on_its_way_out_is_pacing_and_no_driver() {
    let rules = Rules::own();
    let of = |stack: &str| name(rules.place(&functions(stack)));
    let timer = "asm_sysvec_apic_timer_interrupt;sysvec_apic_timer_interrupt;__irq_exit_rcu;handle_softirqs";
    assert_eq!(of(timer), "protocol");
    assert_eq!(
        of(&format!("{timer};hrtimer_run_softirq;__hrtimer_run_queues;_raw_spin_unlock_irqrestore")),
        "protocol"
    );
    assert_eq!(of(&format!("{timer};net_rx_action;__napi_poll;process_backlog")), "driver");
    assert_eq!(of("asm_common_interrupt;common_interrupt;__irq_exit_rcu;handle_softirqs"), "driver");
}

#[test]
fn the_rules_know_the_names_of_older_kernels() {
    let rules = Rules::own();
    for line in OLDER.lines().filter(|line| !line.starts_with('#')) {
        let (component, stack) = line.split_once(' ').unwrap();
        assert_eq!(name(rules.place(&functions(stack))), component, "{stack}");
    }
}

fn work() {
    let until = clock::thread_cpu() + 200_000_000;
    while clock::thread_cpu() < until {
        fs::read("/proc/self/stat").unwrap();
    }
}

#[test]
fn what_a_thread_does_is_seen_without_the_right_to_see_all() {
    let cpus = online().unwrap();
    for reach in [Reach::Own, Reach::OwnOutside] {
        let events = match Events::open_from(reach, &cpus) {
            Ok(events) if events.reach == reach => events,
            Ok(events) => return skipped(&events.left_out.join(", ")),
            Err(why) => return skipped(&why.to_string()),
        };
        let is_of_time = events.clock == Clock::Time;
        let sampler = Sampler::begin(events, &Setup::new(&cpus, Idling::Let).unwrap()).unwrap();
        assert!(sampler.sees_only_own().is_some());
        work();
        let profile = sampler.stop().unwrap();
        let all: u64 = profile.counts.values().sum();
        assert!(all > 0 && profile.busy_us >= 200_000.0, "{all} in {} us", profile.busy_us);
        assert_eq!(profile.idle_us, None);
        // The sampling process itself: it does not belong to the work of others.
        let rules = Rules::own();
        let of_others = profile.breakdown(&rules, Whose::Everyones);
        let own = profile.breakdown(&rules, Whose::Of(&[std::process::id()]));
        assert!(own.of_path() > of_others.of_path(), "{own:?} {of_others:?}");
        let is_seen = |part: &str| profile.folded().iter().any(|stack| stack.contains(part));
        assert_eq!(profile.knows_kernel && reach == Reach::Own, is_seen(";vfs_read"), "{reach:?}");
        assert!(!is_seen("sampling") || own.elsewhere > 0, "{own:?}");
        assert_eq!(profile.agreement(&own).is_some(), is_of_time && profile.knows_kernel);
    }
}

#[test]
fn cpus_are_kept_awake_each_by_a_thread_until_nobody_asks_for_it() {
    let cpus = online().unwrap();
    let thread = |number: &u32| Path::new("/proc/self/task").join(number.to_string()).exists();
    let awake = Awake::keep(&cpus).unwrap();
    let numbers = awake.numbers.clone();
    assert_eq!((numbers.len(), numbers.iter().all(thread)), (cpus.len(), true));
    // Dropping waits for the threads' end.
    drop(awake);
}
