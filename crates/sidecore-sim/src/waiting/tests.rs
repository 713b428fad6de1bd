//! The bounds that policies promise, on every process.

use super::*;

fn of(lines: &[Line], policy: Notify) -> impl Iterator<Item = &Line> {
    lines.iter().filter(move |line| line.policy == policy)
}

fn show(line: &Line) -> String {
    let Line { process, policy, ratio, worst_ratio, added_p50, added_p99, cpu_to_park, p99_to_spin, .. } = line;
    format!(
        "{process} {policy}: {ratio:.3} x optimum, at worst {worst_ratio:.3}; added {added_p50} and {added_p99} ns; CPU \
         {cpu_to_park:.3} x park, p99 {p99_to_spin:.3} x spin"
    )
}

#[test]
fn bounds_hold_at_each_point_of_every_run() {
    for seed in 1..=2 {
        let lines = table(seed);
        for line in &lines {
            println!("{}", show(line));
        }
        for (policy, bound) in [(Notify::BreakEven, 2.0), (Notify::Learn, 3.0)] {
            for line in of(&lines, policy) {
                assert!(line.worst_ratio <= bound && line.ratio <= bound * 1.01, "{}", show(line));
            }
        }
    }
}

#[test]
fn learn_keeps_its_bound_where_a_wake_up_takes_longer_than_a_park_costs() {
    for tenths in [12, 15, 40, 200] {
        let park_cost = Machine::default().park_cost;
        let machine = Machine { wake_latency: park_cost * tenths / 10, wake_jitter: 0, ..Machine::default() };
        for process in Process::all(&machine) {
            let line = run(&machine, process, Notify::Learn, 1);
            assert!(line.worst_ratio <= 3.0 && line.ratio <= 3.03, "{tenths} tenths: {}", show(&line));
        }
    }
}

#[test]
fn the_adversary_brings_each_policy_to_its_bound() {
    let lines = compare(&Machine::default(), Process::Adversary, 1);
    let ratios = [Notify::BreakEven, Notify::Learn].map(|policy| of(&lines, policy).next().unwrap().worst_ratio);
    assert!(ratios[0] > 1.99 && ratios[1] > 2.95, "{ratios:?}");
}

#[test]
fn learn_is_within_a_tenth_of_the_better_pure_policy_at_steady_loads() {
    let machine = Machine::default();
    for process in Process::all(&machine) {
        let Process::Poisson { .. } = process else { continue };
        let lines = compare(&machine, process, 3);
        let [spin, park, learn] =
            [Notify::Spin, Notify::Park, Notify::Learn].map(|policy| of(&lines, policy).next().unwrap().cpu_per_wait);
        let ratio = learn / spin.min(park);
        println!("{process}: {ratio:.3}");
        assert!(ratio <= 1.1, "{process}: {ratio}");
    }
}

/// Latency like spin's at the CPU time of park.
#[test]
fn predict_is_as_late_as_spin_and_as_cheap_as_park_where_times_are_known() {
    let machine = Machine::default();
    for process in Process::all(&machine) {
        let Process::Predictable { .. } = process else { continue };
        let lines = compare(&machine, process, 4);
        let predict = of(&lines, Notify::Predict).next().unwrap();
        println!("{}", show(predict));
        assert!(predict.cpu_to_park <= 1.26 && predict.p99_to_spin <= 1.17, "{}", show(predict));
    }
}

/// With a wake-up of twice what a park costs, completions of 1.25 parks up to a wake-up leave the choice only between
/// spinning through them and being late.
#[test]
fn what_comes_sooner_than_a_wake_up_is_late_or_spun_for() {
    let machine = Machine { wake_latency: 10_000, wake_jitter: 1_000, ..Machine::default() };
    let predict = |time| {
        let lines = compare(&machine, Process::Predictable { time, permille: 10 }, 5);
        of(&lines, Notify::Predict).next().unwrap().clone()
    };
    for time in [3_000, 15_000, 30_000, 60_000] {
        let line = predict(time);
        assert!(line.cpu_to_park <= 1.26 && line.p99_to_spin <= 1.17, "{}", show(&line));
    }
    let line = predict(5_000);
    assert!(line.cpu_to_park > 1.26 || line.p99_to_spin > 1.17, "{}", show(&line));
}

#[test]
fn a_seed_gives_its_table() {
    let process = Process::Bursty { on: 600, off: 160_000, stay: 64 };
    let lines = |seed| compare(&Machine::default(), process, seed);
    assert_eq!(lines(1), lines(1));
    assert_ne!(lines(1), lines(2));
}
