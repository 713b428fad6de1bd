//! Tests of the waiter, step by step.

use super::*;

#[test]
fn spin_polls_and_costs_its_time() {
    let mut waiter = Waiter::new(Notify::Spin, 100, true);
    waiter.begin(1_000);
    for now in [1_000, 1_100, 1_200] {
        assert_eq!(waiter.step(now), Step::Spin);
    }
    assert!(waiter.is_waiting());
    waiter.end(1_250);
    let expected = Audit { waits: 1, empty_polls: 3, spun_ns: 250, cost_ns: 250, optimum_ns: 100, ..Audit::default() };
    assert_eq!((*waiter.audit(), waiter.is_waiting()), (expected, false));
}

#[test]
fn park_sleeps_at_once() {
    for policy in [Notify::Park, Notify::Coalesce { count: 8, delay: 1_000 }] {
        let mut waiter = Waiter::new(policy, 100, true);
        waiter.begin(0);
        assert_eq!(waiter.step(0), Step::Park);
        waiter.parked(5, 45);
        waiter.end(50);
        let expected = Audit { waits: 1, parks: 1, slept_ns: 40, cost_ns: 100, optimum_ns: 50, ..Audit::default() };
        assert_eq!(*waiter.audit(), expected);
    }
}

#[test]
fn timer_naps_on_its_grid() {
    let mut waiter = Waiter::new(Notify::Timer { period: 1_000 }, 100, true);
    waiter.begin(500);
    assert_eq!(waiter.step(500), Step::Nap { until: 1_500 });
    waiter.parked(510, 1_560);
    assert_eq!(waiter.step(1_560), Step::Nap { until: 2_500 });
    waiter.parked(1_560, 4_600);
    assert_eq!(waiter.step(4_600), Step::Nap { until: 5_500 });
    waiter.end(4_700);
    let audit = waiter.audit();
    assert_eq!((audit.naps, audit.parks, audit.cost_ns, audit.optimum_ns), (2, 0, 200, 100));
}

#[test]
fn break_even_spins_as_long_as_a_park_costs() {
    let mut waiter = Waiter::new(Notify::BreakEven, 100, true);
    waiter.begin(0);
    assert_eq!((waiter.step(0), waiter.step(99), waiter.step(100)), (Step::Spin, Step::Spin, Step::Park));
    waiter.parked(100, 900);
    waiter.end(910);
    assert_eq!((waiter.audit().cost_ns, waiter.audit().optimum_ns), (200, 100));
    assert!((waiter.audit().ratio() - 2.0).abs() < 1e-9);
}

#[test]
fn a_core_that_is_not_owned_never_spins() {
    for policy in [Notify::Spin, Notify::BreakEven, Notify::Learn] {
        let mut waiter = Waiter::new(policy, 100, false);
        assert_eq!((waiter.step(0), waiter.step(10_000)), (Step::Park, Step::Park));
    }
}

#[test]
fn a_park_found_unnecessary_costs_nothing() {
    let mut waiter = Waiter::new(Notify::Park, 100, true);
    assert_eq!(waiter.step(0), Step::Park);
    waiter.end(10);
    assert_eq!(*waiter.audit(), Audit { waits: 1, optimum_ns: 10, ..Audit::default() });
}

#[test]
fn a_new_policy_holds_within_a_wait() {
    let mut waiter = Waiter::new(Notify::Spin, 100, true);
    assert_eq!(waiter.step(0), Step::Spin);
    waiter.set_policy(Notify::Timer { period: 1 });
    assert_eq!(waiter.policy(), Notify::Timer { period: Notify::MIN_INTERVAL });
    assert_eq!(waiter.step(1_700), Step::Nap { until: 2_000 });
    waiter.set_policy(Notify::BreakEven);
    waiter.set_park_cost(5_000);
    assert_eq!(waiter.step(2_000), Step::Spin);
}

#[test]
fn calls_outside_a_wait_change_nothing() {
    let mut waiter = Waiter::new(Notify::Park, 100, true);
    waiter.parked(0, 10);
    waiter.end(10);
    assert_eq!(*waiter.audit(), Audit::default());
}

#[test]
fn time_that_runs_backwards_or_out_is_survived() {
    let mut waiter = Waiter::new(Notify::Timer { period: 1_000 }, u64::MAX, true);
    waiter.begin(u64::MAX - 5);
    assert_eq!(waiter.step(3), Step::Nap { until: u64::MAX });
    waiter.parked(10, 3);
    waiter.parked(3, 3);
    waiter.end(0);
    assert_eq!((waiter.audit().cost_ns, waiter.audit().slept_ns), (u64::MAX, 0));
}

#[test]
fn learn_takes_over_within_a_wait() {
    let mut waiter = Waiter::new(Notify::Park, 1_000, true);
    assert_eq!(waiter.step(0), Step::Park);
    waiter.set_policy(Notify::Learn);
    assert_eq!((waiter.step(999), waiter.step(1_000)), (Step::Spin, Step::Park));
}
