//! Tests of each rule alone.

use super::*;
use alloc::string::ToString;

fn load(in_flight: u32, backlog: Nanos, weight: u32) -> Load {
    Load { in_flight, backlog, ..Load::idle(8, weight) }
}

fn choose(
    balancer: &mut Balancer,
    loads: &[Load],
    capable: impl Fn(usize) -> bool,
    estimate: impl Fn(usize) -> Nanos,
) -> Option<usize> {
    balancer.choose(loads, capable, estimate, |i, time| loads[i].finish(time))
}

#[test]
fn spellings_come_back() {
    for (balance, name) in Balance::ALL.into_iter().zip(NAMES) {
        assert_eq!((Balance::parse(name), balance.to_string().as_str()), (Ok(balance), name));
    }
    let error = Balance::parse("round_robin").unwrap_err().to_string();
    assert_eq!(error, "no such policy, did you mean `round-robin`?; accepted: round-robin, sed, eft, tokens, priced");
}

#[test]
fn round_robin_takes_turns_and_passes_over_the_full() {
    let mut balancer = Balancer::new(Balance::RoundRobin);
    let mut loads = [load(0, 0, 1); 3];
    let mut next = |loads: &[Load]| choose(&mut balancer, loads, |_| true, |_| 0);
    assert_eq!([next(&loads), next(&loads), next(&loads), next(&loads)], [Some(0), Some(1), Some(2), Some(0)]);
    loads[1].in_flight = 8;
    assert_eq!([next(&loads), next(&loads)], [Some(2), Some(0)]);
    assert_eq!(next(&loads[..2]), Some(0));
    for load in &mut loads {
        load.usable = false;
    }
    assert_eq!([next(&loads), next(&[])], [None, None]);
}

#[test]
fn sed_weighs_what_is_in_flight() {
    let mut balancer = Balancer::new(Balance::Sed);
    let mut next = |loads: &[Load]| choose(&mut balancer, loads, |_| true, |_| 0);
    assert_eq!(next(&[load(0, 0, 1), load(0, 0, 3)]), Some(1));
    assert_eq!(next(&[load(0, 0, 1), load(2, 0, 3)]), Some(0));
    assert_eq!(next(&[load(0, 0, 1), load(3, 0, 3)]), Some(0));
    assert_eq!(next(&[load(u32::MAX, 0, 0), load(7, 0, 0)]), Some(1));
}

#[test]
fn eft_finishes_earliest() {
    let mut balancer = Balancer::new(Balance::Eft);
    let loads = [load(0, 500, 1), load(0, 100, 1)];
    assert_eq!(choose(&mut balancer, &loads, |_| true, |i| [100, 600][i]), Some(0));
    assert_eq!(choose(&mut balancer, &loads, |_| true, |i| [100, 499][i]), Some(1));
    assert_eq!(choose(&mut balancer, &loads, |_| true, |i| [100, 500][i]), Some(0), "a tie");
    assert_eq!(choose(&mut balancer, &loads, |i| i == 1, |i| [100, 600][i]), Some(1));
    assert_eq!(choose(&mut balancer, &[load(0, u64::MAX, 1); 2], |_| true, |_| u64::MAX), Some(0));
}

#[test]
fn tokens_ask_with_credit_and_the_first_to_finish_gets_it() {
    let mut balancer = Balancer::new(Balance::Tokens);
    let loads = [load(1, 19_000, 1), load(0, 0, 1)];
    assert_eq!(
        choose(&mut balancer, &loads, |_| true, |i| [100, 20_000][i]),
        Some(0),
        "both ask, and the busy one is faster"
    );
    assert_eq!(choose(&mut balancer, &loads, |_| true, |i| [100, 19_000][i]), Some(1));
    let full = Load { window: 19_000, ..loads[0] };
    assert_eq!(choose(&mut balancer, &[full, loads[1]], |_| true, |i| [100, 20_000][i]), Some(1), "only one asks");
    assert_eq!(choose(&mut balancer, &[full, full], |_| true, |_| 1), None);
}

#[test]
fn a_single_device_is_taken_or_not() {
    for policy in Balance::ALL {
        let mut balancer = Balancer::new(policy);
        assert_eq!(choose(&mut balancer, &[load(7, 0, 1)], |_| true, |_| unreachable!()), Some(0));
        assert_eq!(choose(&mut balancer, &[load(8, 0, 1)], |_| true, |_| unreachable!()), None);
        assert_eq!(choose(&mut balancer, &[load(0, 0, 1)], |_| false, |_| unreachable!()), None);
    }
}
