//! Properties of the notify policies: bounds on the cost of waiting and on the delay of announcements.

use proptest::prelude::*;
use sidecore_core::policy::notify::{Audit, Moderator, Notify, Step, Waiter, WakeDecision};
use sidecore_core::time::Nanos;

fn interval() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        Just(Notify::MIN_INTERVAL),
        Notify::MIN_INTERVAL..20_000,
        Notify::MIN_INTERVAL..=Notify::MAX_INTERVAL,
        Just(Notify::MAX_INTERVAL)
    ]
}

fn coalesce() -> impl Strategy<Value = Notify> {
    let count = prop_oneof![1..=20_u32, 1..=Notify::MAX_COUNT];
    (count, interval()).prop_map(|(count, delay)| Notify::Coalesce { count, delay })
}

fn notify() -> impl Strategy<Value = Notify> {
    prop_oneof![
        Just(Notify::Spin),
        Just(Notify::Park),
        Just(Notify::BreakEven),
        Just(Notify::Learn),
        interval().prop_map(|period| Notify::Timer { period }),
        coalesce(),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    length: Nanos,
    poll: Nanos,
    latency: Nanos,
}

fn gaps() -> impl Strategy<Value = Vec<Gap>> {
    let gap = (0..20_000_u64, 10..200_u64, 0..5_000_u64);
    prop::collection::vec(gap.prop_map(|(length, poll, latency)| Gap { length, poll, latency }), 1..20)
}

fn wait(waiter: &mut Waiter, start: Nanos, gap: Gap) -> Nanos {
    let arrival = start + gap.length;
    let mut now = start;
    waiter.begin(now);
    while now < arrival {
        let woken = match waiter.step(now) {
            Step::Spin => {
                now += gap.poll;
                continue;
            }
            Step::Nap { until } => until + gap.latency,
            Step::Park => arrival + gap.latency,
        };
        waiter.parked(now, woken);
        now = woken;
    }
    waiter.end(now);
    now
}

fn cost_of(waiter: &mut Waiter, start: Nanos, gap: Gap) -> (Nanos, Nanos) {
    let before = *waiter.audit();
    wait(waiter, start, gap);
    (waiter.audit().cost_ns - before.cost_ns, waiter.audit().optimum_ns - before.optimum_ns)
}

proptest! {
    #[test]
    fn break_even_costs_at_most_twice_the_optimum(gaps in gaps(), park_cost in 0..10_000_u64) {
        let mut waiter = Waiter::new(Notify::BreakEven, park_cost, true);
        let mut start = 0;
        for gap in gaps {
            // The last poll ends after the threshold, unless the threshold is a whole number of polls.
            let overshoot = park_cost.next_multiple_of(gap.poll) - park_cost;
            let (cost, optimum) = cost_of(&mut waiter, start, gap);
            prop_assert!(cost <= 2 * optimum + overshoot, "{cost} for {optimum} in {gap:?}");
            start += 1_000_000;
        }
    }

    /// At every point of every run, within one poll in all: an excess in one wait is saved in the next. The run is
    /// long and changes its character, so that savings are made and spent. No poll takes longer than a park. For the
    /// true lengths the bound holds within one poll in each wait, if no wake-up takes longer than a park.
    #[test]
    fn learn_costs_at_most_three_times_the_optimum_on_every_run(
        phases in prop::collection::vec((1..40_000_u64, 1..60_u64), 1..12),
        spread in 0..20_u64,
        park_cost in 200..10_000_u64,
        poll in 10..200_u64,
        latency in 0..5_000_u64,
    ) {
        let mut waiter = Waiter::new(Notify::Learn, park_cost, true);
        let (mut start, mut optimum) = (0, 0);
        for (base, count) in phases {
            for i in 0..count {
                let length = base + i * 7_919 % (base * spread / 10 + 1);
                wait(&mut waiter, start, Gap { length, poll, latency });
                start += 1_000_000;
                optimum += length.min(park_cost);
                let Audit { cost_ns, optimum_ns, waits, .. } = *waiter.audit();
                prop_assert!(cost_ns < 3 * optimum_ns + poll, "{cost_ns} for {optimum_ns}");
                let true_bound = 3 * optimum + poll * (waits + 1);
                prop_assert!(cost_ns < true_bound || latency > park_cost, "{cost_ns} for {optimum}");
            }
        }
    }

    /// The opponent sees the threshold, and sends the message just after the park began.
    #[test]
    fn learn_stands_an_opponent(park_cost in 200..10_000_u64, poll in 1..200_u64, friendly in 0..200_u64, base in 1..8_u64) {
        let mut waiter = Waiter::new(Notify::Learn, park_cost, true);
        let mut optimum = 0;
        for i in 0..300_u64 {
            let start = i * 1_000_000;
            if i < friendly {
                let length = base * park_cost / 2 + i * i * 31 % park_cost;
                wait(&mut waiter, start, Gap { length, poll, latency: park_cost });
                optimum += length.min(park_cost);
                continue;
            }
            let mut now = start;
            while waiter.step(now) == Step::Spin {
                now += poll;
            }
            optimum += (now + 1 - start).min(park_cost);
            waiter.parked(now, now + 1 + park_cost);
            waiter.end(now + 1 + park_cost);
            let Audit { cost_ns, waits, .. } = *waiter.audit();
            prop_assert!(cost_ns < 3 * optimum + poll * (waits + 1), "{cost_ns} for {optimum}");
        }
    }

    #[test]
    fn the_audit_adds_up(policy in notify(), gaps in gaps(), park_cost in 0..10_000_u64, may_spin: bool) {
        let mut waiter = Waiter::new(policy, park_cost, may_spin);
        let (mut start, mut waited, mut optimum) = (0, 0, 0);
        for gap in &gaps {
            let end = wait(&mut waiter, start, *gap);
            waited += end - start;
            optimum += park_cost.min(end - start);
            start = end + 7;
        }
        let Audit { waits, naps, parks, empty_polls, spun_ns, slept_ns, cost_ns, optimum_ns } = *waiter.audit();
        prop_assert_eq!((waits, optimum_ns, spun_ns + slept_ns), (gaps.len() as u64, optimum, waited));
        prop_assert_eq!(cost_ns, spun_ns + (naps + parks) * park_cost);
        prop_assert!(cost_ns >= optimum_ns && waiter.audit().ratio() >= 1.0);
        prop_assert!(may_spin || (empty_polls, spun_ns) == (0, 0));
    }

    #[test]
    fn a_timer_looks_at_each_point_of_its_grid(period in interval(), begun in 0..1_u64 << 40, late in 0..1_u64 << 32) {
        let mut waiter = Waiter::new(Notify::Timer { period }, 0, true);
        waiter.begin(begun);
        let Step::Nap { until } = waiter.step(begun + late) else { panic!("a timer naps") };
        prop_assert!(until > begun + late && until <= begun + late + period);
        prop_assert_eq!((until - begun) % period, 0);
    }

    #[test]
    fn any_calls_in_any_order_are_survived(
        policies in prop::collection::vec(notify(), 1..8),
        calls in prop::collection::vec((0..6_u8, any::<u64>()), 0..64),
    ) {
        let mut waiter = Waiter::new(policies[0], u64::MAX, true);
        let mut moderator = Moderator::new(policies[0]);
        for (call, word) in calls {
            match call {
                0 => waiter.begin(word),
                1 => waiter.parked(word, word.rotate_left(7)),
                2 => waiter.end(word),
                3 => waiter.set_policy(policies[word as usize % policies.len()]),
                4 => moderator.rung(),
                _ => drop((waiter.step(word), moderator.completed(word, word as u32, word % 2 == 0))),
            }
        }
    }

    #[test]
    fn words_and_texts_come_back(policy in notify()) {
        prop_assert_eq!(Notify::from_word(policy.to_word()), Some(policy));
        prop_assert_eq!(Notify::parse(&policy.to_string()), Ok(policy));
    }

    #[test]
    fn hostile_words_make_valid_policies_or_none(kind in 0..10_u64, rest: u64) {
        for word in [rest, rest & !0xff | kind, (rest & 0xffff_ffff) << 32 | kind, rest & !0xff_ff00 | kind] {
            if let Some(policy) = Notify::from_word(word) {
                prop_assert_eq!(policy.to_word(), word);
                prop_assert_eq!(Notify::parse(&policy.to_string()), Ok(policy));
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(timer|coalesce|spin|learn)?[ (),.0-9a-z-]{0,24}|\\PC{0,40}") {
        if let Err(error) = Notify::parse(&text) {
            prop_assert!(error.to_string().contains("accepted: spin, park"));
        }
    }
}

const PARK_COST: Nanos = 5_000;

/// Numbers from 0 to below 1.
fn uniform(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn cost_under(policy: Notify, mut length: impl FnMut() -> Nanos) -> Nanos {
    let mut waiter = Waiter::new(policy, PARK_COST, true);
    for i in 0..20_000 {
        wait(&mut waiter, i * 100_000_000, Gap { length: length(), poll: 20, latency: 3_000 });
    }
    waiter.audit().cost_ns
}

fn against_the_better<L: FnMut() -> Nanos>(lengths: impl Fn() -> L) -> f64 {
    let [spin, park, learn] =
        [Notify::Spin, Notify::Park, Notify::Learn].map(|policy| cost_under(policy, lengths()) as f64);
    learn / spin.min(park)
}

#[test]
fn learn_is_within_a_tenth_of_the_better_pure_policy_at_steady_loads() {
    for eighths in [1, 2, 4, 6, 7, 8, 9, 10, 12, 16, 24, 32, 64, 128, 256] {
        let mean = PARK_COST as f64 * f64::from(eighths) / 8.0;
        let random = against_the_better(|| {
            let mut uniform = uniform(u64::from(eighths as u32));
            move || (-mean * (1.0 - uniform()).ln()) as Nanos
        });
        let constant = against_the_better(|| move || mean as Nanos);
        let two = against_the_better(|| {
            let mut uniform = uniform(u64::from(eighths as u32) + 1_000);
            move || if uniform() < 0.5 { 100 } else { (mean * 2.0) as Nanos }
        });
        println!("mean {eighths}/8 of a park: random {random:.3}, constant {constant:.3}, two lengths {two:.3}");
        assert!(random <= 1.1 && constant <= 1.1 && two <= 1.1);
    }
}

struct Pair {
    waiters: [Waiter; 2],
    /// Time when each side last answered and began to wait.
    since: [Nanos; 2],
    wake_up: Box<dyn FnMut() -> f64>,
}

const PAIR_PARK: Nanos = 2_000;

impl Pair {
    fn new(policy: Notify) -> Self {
        let waiters = [Waiter::new(policy, PAIR_PARK, true), Waiter::new(policy, PAIR_PARK, true)];
        Self { waiters, since: [0; 2], wake_up: Box::new(uniform(9)) }
    }

    /// Both answer after `answer` ns, in turn, `count` times each; returns the mean time of a round.
    fn rounds(&mut self, count: u32, answer: Nanos) -> Nanos {
        let begun = self.since[1];
        for _ in 0..count {
            for side in [0, 1] {
                let now = self.receive(side, self.since[1 - side]);
                self.since[side] = now + answer;
            }
        }
        (self.since[1] - begun) / Nanos::from(count)
    }

    fn receive(&mut self, side: usize, answered: Nanos) -> Nanos {
        let mut now = self.since[side];
        self.waiters[side].begin(now);
        while now < answered {
            if self.waiters[side].step(now) == Step::Spin {
                now += 20;
                continue;
            }
            // A wake-up takes from one and a half to two and a half parks.
            let woken = answered + PAIR_PARK * 3 / 2 + ((self.wake_up)() * PAIR_PARK as f64) as Nanos;
            self.waiters[side].parked(now, woken);
            now = woken;
        }
        self.waiters[side].end(now);
        now
    }
}

#[test]
fn two_who_learn_of_each_other_do_not_put_each_other_to_sleep_for_good() {
    for ahead in (0..400_u64).step_by(25) {
        let mut pair = Pair::new(Notify::Learn);
        for i in 0..ahead {
            let length = 100_000 + i;
            wait(&mut pair.waiters[0], i * 1_000_000, Gap { length, poll: 20, latency: 3_000 });
        }
        // Both have learnt from a slow partner.
        pair.since = [1 << 40; 2];
        pair.rounds(1_000, 100_000);
        let first = pair.rounds(10, 400);
        let found = (0..200).position(|_| pair.rounds(100, 400) < 1_000);
        println!("{ahead} waits ahead: {first} ns at first, awake after {found:?} hundred rounds");
        assert!(found.is_some());
        assert!(pair.rounds(10_000, 400) < 1_000, "they stay awake");
    }
}

/// The waking side of a hop, whose decisions are followed exactly.
struct Hop {
    moderator: Moderator,
    alarm: Option<Nanos>,
    unannounced: Vec<Nanos>,
    longest: Nanos,
}

impl Hop {
    fn new(policy: Notify) -> Self {
        Self { moderator: Moderator::new(policy), alarm: None, unannounced: Vec::new(), longest: 0 }
    }

    fn complete(&mut self, now: Nanos, count: u32, urgent: bool) {
        self.unannounced.extend((0..count).map(|_| now));
        let ring = self.moderator.completed(now, count, urgent);
        self.obey(now, ring);
    }

    fn switch(&mut self, now: Nanos, policy: Notify) {
        self.moderator.set_policy(policy);
        let ring = self.moderator.due(now);
        self.obey(now, ring);
    }

    fn obey(&mut self, now: Nanos, ring: WakeDecision) {
        self.alarm = None;
        match ring {
            WakeDecision::Now => {
                self.longest = self.unannounced.drain(..).map(|came| now - came).fold(self.longest, Nanos::max);
                self.moderator.rung();
            }
            WakeDecision::At(time) => {
                assert!(time > now);
                self.alarm = Some(time);
            }
            WakeDecision::Nothing => assert!(self.unannounced.is_empty()),
        }
        assert_eq!(self.moderator.pending() as usize, self.unannounced.len());
    }

    fn pass_until(&mut self, now: Nanos) {
        while let Some(time) = self.alarm.filter(|&time| time <= now) {
            let ring = self.moderator.due(time);
            self.obey(time, ring);
        }
    }
}

fn limits(policy: Notify) -> (usize, Nanos) {
    match policy {
        Notify::Coalesce { count, delay } => (count as usize, delay),
        _ => (1, 0),
    }
}

proptest! {
    #[test]
    fn every_completion_is_announced_in_time(
        policy in coalesce(),
        events in prop::collection::vec((0..5_000_u64, 0..5_u32, any::<bool>()), 1..200),
    ) {
        let (most, delay) = limits(policy);
        let (mut hop, mut now) = (Hop::new(policy), 0);
        for (pause, count, urgent) in events {
            now += pause;
            hop.pass_until(now);
            hop.complete(now, count, urgent);
            prop_assert!(hop.unannounced.len() < most);
            prop_assert!(!(urgent && count > 0) || hop.unannounced.is_empty());
        }
        hop.pass_until(Nanos::MAX);
        prop_assert!(hop.unannounced.is_empty() && hop.longest <= delay, "{} of {delay}", hop.longest);
    }

    #[test]
    fn a_switch_of_policy_strands_nothing(
        first in coalesce(),
        events in prop::collection::vec((0..5_000_u64, 1..3_u32, notify()), 1..50),
    ) {
        let (mut hop, mut now, mut longest) = (Hop::new(first), 0, limits(first).1);
        for (pause, count, policy) in events {
            now += pause;
            hop.pass_until(now);
            hop.complete(now, count, false);
            hop.switch(now, policy);
            longest = longest.max(limits(policy).1);
        }
        hop.pass_until(Nanos::MAX);
        prop_assert!(hop.unannounced.is_empty() && hop.longest <= longest);
    }
}
