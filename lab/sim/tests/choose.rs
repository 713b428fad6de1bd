//! Choices against plain enumeration and against closed forms.

use sidecore_sim::choose::{Answer, Question, Verdict, choose};
use sidecore_sim::estimate::Effort;
use sidecore_sim::plan::{Changes, Plan};
use std::iter;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const EFFORT: Effort = Effort { seed: 1, runs: 6, precision: 0.02 };

const TABLE: &str = r#"
[table]
cell = "p99_us"
rows = { "requests.clients" = [0] }
columns = { "host.cores" = [1] }
[choose]
load = "requests.rate_per_s"
latency = "p99_us"
rate = "rate_per_s"
"#;

/// Cores of 257 us beside a fast and a slow card, with a variant.
const HOUSE: &str = r#"
[requests]
rate_per_s = 1000
count = 20_000
[work.sign]
[device.core]
count = 4
sign = { us = 257 }
[device.fast]
count = 0
engines = 4
ring = 32
latency_us = 30
sign = { us = 60 }
[device.slow]
count = 0
engines = 16
latency_us = 300
sign = { us = 900 }
[[variant]]
name = "sleeping"
set = { "host.notify" = "park", "host.wake_us" = 40 }
"#;

/// Two operations, of which one is done by one kind only.
const MIXED: &str = r"
[requests]
rate_per_s = 1000
count = 20_000
[work.sign]
share = 1
[work.seal]
share = 3
[device.core]
sign = { us = 200 }
seal = { us = 5 }
[device.signer]
count = 0
engines = 2
sign = { us = 80 }
";

fn pool(text: &str) -> Plan {
    let text = format!("system = \"pool\"\ntitle = \"A pool\"\n{text}\n{TABLE}");
    Plan::parse(Path::new("pool.toml"), &text).unwrap()
}

fn shipped(name: &str, set: &[&str]) -> Plan {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../plans/{name}.toml"));
    let mut plan = Plan::read(&path).unwrap();
    plan.set_all(set).unwrap();
    plan
}

fn question(plan: &Plan, (load, bound): (f64, f64), over: &[(&str, &[u32])]) -> Question {
    let mut choice = plan.choice.clone().unwrap();
    for (name, values) in over {
        choice.over.retain(|(known, _)| known != name);
        choice.over.push(((*name).to_owned(), values.iter().map(ToString::to_string).collect()));
    }
    Question { load, bound, choice, effort: EFFORT, all: false }
}

fn ask(plan: &Plan, question: &Question) -> Answer {
    choose(plan, question, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

fn metric(plan: &Plan, name: &str) -> usize {
    plan.system.metrics.iter().position(|metric| metric.name == name).unwrap()
}

fn products(over: &[(String, Vec<String>)]) -> Vec<Changes> {
    let Some(((name, values), others)) = over.split_first() else { return vec![Changes::new()] };
    let rest = products(others);
    let with = |value: &String| {
        let first = (name.clone(), value.clone());
        rest.iter().map(move |rest| iter::once(first.clone()).chain(rest.iter().cloned()).collect()).collect::<Vec<_>>()
    };
    values.iter().flat_map(with).collect()
}

/// Runs each combination with full effort. Cost and mean of the cheapest that meets the bound, of equal ones the
/// quickest.
fn enumerated(plan: &Plan, question: &Question) -> Option<(f64, f64)> {
    let choice = &question.choice;
    let own = Changes::new();
    let variants: Vec<&Changes> = iter::once(&own).chain(plan.variants.iter().map(|variant| &variant.set)).collect();
    let mut best: Option<(f64, f64)> = None;
    for set in products(&choice.over) {
        for variant in &variants {
            let load = (choice.load.clone(), question.load.to_string());
            let Ok(settings) = plan.with(&[&variant[..], &set[..], &[load]].concat()) else { continue };
            let (outcome, estimates) = plan.system.estimate(&settings, &[choice.latency], &question.effort);
            let found = &estimates[choice.latency];
            let more = (choice.load.clone(), (1.25 * question.load).to_string());
            let more = plan.with(&[&variant[..], &set[..], &[more]].concat()).unwrap();
            let most = plan.system.estimate(&more, &[choice.rate], &Effort::once(1)).1[choice.rate].mean;
            if most < question.load || found.mean + found.within > question.bound {
                continue;
            }
            let amount = |name: &str| match plan.full_name(name) {
                Ok(full) => settings.text(&full).unwrap().parse().unwrap(),
                Err(_) => outcome.values[metric(plan, name)],
            };
            let cost = choice.cost.iter().map(|(name, price)| price * amount(name)).sum();
            if best.is_none_or(|known| (cost, found.mean) < known) {
                best = Some((cost, found.mean));
            }
        }
    }
    best
}

/// Asserts that the answer is that of an enumeration, and returns it.
#[track_caller]
fn same(plan: &Plan, question: &Question) -> Answer {
    let answer = ask(plan, question);
    let found = answer.best.map(|best| &answer.candidates[best]);
    assert_eq!(found.map(|best| (best.cost, best.tail.mean)), enumerated(plan, question), "{found:?}");
    if let Some(best) = found {
        assert!(answer.untried.iter().all(|way| way.cost > best.cost));
        assert!(answer.cheaper().is_none_or(|it| it.cost < best.cost && it.verdict != Verdict::Meets));
    }
    assert!(!answer.stopped && (found.is_some() || answer.untried.is_empty()));
    answer
}

const CORES: &str = "device.core.count";

#[test]
fn six_questions_on_the_shipped_pools_are_answered_as_an_enumeration_does() {
    let set = ["requests.count=10000"];
    let cores = shipped("pool-cores", &set);
    let over: [(&str, &[u32]); 2] = [(CORES, &[0, 4, 8, 9]), ("device.wide.count", &[0, 2, 4])];
    for asked in [(40_000.0, 2_000.0), (30_000.0, 450.0), (40_000.0, 150.0)] {
        same(&cores, &question(&cores, asked, &over));
    }
    let card = shipped("pool-card", &set);
    let over: [(&str, &[u32]); 2] = [("device.card.count", &[0, 1, 2]), (CORES, &[0, 4, 16])];
    same(&card, &question(&card, (90_000.0, 400.0), &over));
    same(&card, &question(&card, (150_000.0, 250.0), &over));
    let gpu = shipped("pool-gpu", &set);
    let over: [(&str, &[u32]); 2] = [("device.gpu.count", &[0, 1]), (CORES, &[0, 8, 16])];
    same(&gpu, &question(&gpu, (60_000.0, 8_000.0), &over));
}

#[test]
fn two_questions_on_the_shipped_guests_are_answered_as_an_enumeration_does() {
    let mut plan = shipped("zvm", &[]);
    plan.variants.clear();
    for asked in [(30_000.0, 1_000.0), (60_000.0, 500.0)] {
        let mut asked = question(&plan, asked, &[("adapter.count", &[1, 2])]);
        asked.choice.error = None;
        asked.effort.runs = 3;
        same(&plan, &asked);
    }
}

#[test]
fn four_questions_on_other_pools_are_answered_as_an_enumeration_does() {
    let plan = pool(HOUSE);
    let over: [(&str, &[u32]); 3] =
        [(CORES, &[0, 4, 8]), ("device.fast.count", &[0, 1]), ("device.slow.count", &[0, 1])];
    let mut asked = question(&plan, (25_000.0, 900.0), &over);
    asked.choice.cost = [(CORES, 1.0), ("device.fast.count", 9.0), ("device.slow.count", 2.5)]
        .map(|(name, price)| (name.to_owned(), price))
        .to_vec();
    same(&plan, &asked);
    // A mean is bounded as well as a tail, and a metric has a price.
    asked.choice.latency = metric(&plan, "mean_us");
    asked.bound = 320.0;
    same(&plan, &asked);
    asked.choice.cost.push(("host_use".to_owned(), 3.0));
    asked.choice.cost.push(("device_use".to_owned(), 5.0));
    same(&plan, &asked);
    let plan = pool(MIXED);
    let mut asked = question(&plan, (20_000.0, 600.0), &[(CORES, &[1, 3, 5, 7]), ("device.signer.count", &[0, 1, 2])]);
    asked.choice.cost = vec![(CORES.to_owned(), 1.0), ("device.signer.count".to_owned(), 1.5)];
    same(&plan, &asked);
}

fn count_of(answer: &Answer, name: &str) -> u32 {
    let best = &answer.candidates[answer.best.unwrap()];
    best.set.iter().find(|(known, _)| known == name).unwrap().1.parse().unwrap()
}

#[test]
fn eight_cores_of_257_us_carry_31_100_requests_a_second() {
    let plan = pool(HOUSE);
    let most = 8.0 / 257e-6;
    for (load, cores) in [(0.95 * most, 8), (1.03 * most, 9)] {
        let mut asked = question(&plan, (load, 20_000.0), &[(CORES, &[5, 6, 7, 8, 9, 10])]);
        asked.choice.cost = vec![(CORES.to_owned(), 1.0)];
        let answer = ask(&plan, &asked);
        assert_eq!(count_of(&answer, CORES), cores);
        assert_eq!(answer.cheaper().unwrap().verdict, Verdict::Overloaded);
    }
}

/// Requests that queue forever, so slowly that a run ends before they exceed the bound.
#[test]
fn a_load_just_above_the_capacity_is_not_carried() {
    let plan = pool("[requests]\nrate_per_s = 1000\ncount = 20_000\n[work.sign]\n[device.core]\nsign = { us = 200 }");
    for (load, cores) in [(49_700.0, 10), (50_300.0, 11)] {
        let mut question = question(&plan, (load, 40_000.0), &[(CORES, &[9, 10, 11])]);
        question.choice.cost.push((CORES.to_owned(), 1.0));
        let answer = ask(&plan, &question);
        assert_eq!(count_of(&answer, CORES), cores, "{answer:?}");
    }
}

#[test]
fn no_answer_has_less_capacity_than_the_load() {
    let set = ["requests.count=20000"];
    // Requests a second of one device of each kind: 1 / 197 us, eight in 638 us, eight engines of 80 us, 4096 in
    // 2000 us and 2.5 us each.
    let (core, wide, card, gpu) = (1e6 / 197.0, 8e6 / 638.0, 1e5, 4096e6 / (2000.0 + 2.5 * 4096.0));
    for (name, kind, each, prices, load, bound) in [
        ("pool-cores", "device.wide.count", wide, [1.0, 1.0], 40_000.0, 2_000.0),
        ("pool-card", "device.card.count", card, [1.0, 6.0], 130_000.0, 1_000.0),
        ("pool-gpu", "device.gpu.count", gpu, [1.0, 10.0], 100_000.0, 20_000.0),
    ] {
        let plan = shipped(name, &set);
        let answer =
            ask(&plan, &question(&plan, (load, bound), &[(CORES, &[0, 2, 4, 8, 16, 24]), (kind, &[0, 1, 2, 4])]));
        let best = &answer.candidates[answer.best.unwrap()];
        let (cores, others) = (f64::from(count_of(&answer, CORES)), f64::from(count_of(&answer, kind)));
        assert!(cores * core + others * each >= load, "{best:?}");
        assert!((best.cost - cores * prices[0] - others * prices[1]).abs() < 1e-9, "{best:?}");
        for way in answer.candidates.iter().filter(|way| way.verdict != Verdict::Overloaded) {
            let amount = |at: usize| way.set[at].1.parse::<f64>().unwrap();
            let [cores, others] = if way.set[0].0 == CORES { [amount(0), amount(1)] } else { [amount(1), amount(0)] };
            assert!(cores * core + others * each >= load, "{way:?}");
        }
    }
}

/// Probability of waiting with Poisson arrivals and exponential service. Source: Erlang's C formula.
fn erlang_c(servers: u32, offered: f64) -> f64 {
    let inverse = (1..=servers).fold(1.0, |inverse, n| 1.0 + inverse * f64::from(n) / offered);
    1.0 / inverse / (1.0 - offered / f64::from(servers) * (1.0 - 1.0 / inverse))
}

/// Mean time in an M/M/c queue, us.
fn mean_us(servers: u32, us: f64, rate_per_s: f64) -> f64 {
    let offered = rate_per_s * us / 1e6;
    us + erlang_c(servers, offered) * us / (f64::from(servers) - offered)
}

/// Few enough cores wait too long by Erlang's formula, and one more does not.
#[test]
fn the_number_of_cores_is_erlangs() {
    // One queue for all cores: none has a ring of its own.
    let set = ["requests.count=50000", "device.core.work=exponential", "device.core.ring=1"];
    let plan = shipped("pool-cores", &set);
    let load = 40_000.0;
    for servers in [10, 12] {
        let bound = f64::midpoint(mean_us(servers, 197.0, load), mean_us(servers - 1, 197.0, load));
        let mut asked = question(&plan, (load, bound), &[(CORES, &[9, 10, 11, 12]), ("device.wide.count", &[0])]);
        asked.choice.latency = metric(&plan, "mean_us");
        let answer = ask(&plan, &asked);
        assert_eq!(count_of(&answer, CORES), servers, "{bound} us");
        assert_ne!(answer.cheaper().unwrap().verdict, Verdict::Meets);
    }
}

/// One card is an M/M/8 queue with a way of 60 us. Its mean decides whether one card is enough.
#[test]
fn one_card_is_a_queue_of_eight_engines() {
    let set = [
        "requests.count=50000",
        "device.card.work=exponential",
        "device.card.ring=16384",
        "host.notify=spin",
        "host.cores=4",
        "host.interrupt_us=0",
    ];
    let mut plan = shipped("pool-card", &set);
    plan.variants.clear();
    let mean = 0.4 + 60.0 + 0.6 + mean_us(8, 80.0, 90_000.0);
    for (part, cards) in [(1.06, 1), (0.94, 2)] {
        let over: [(&str, &[u32]); 2] = [("device.card.count", &[0, 1, 2]), (CORES, &[0])];
        let mut asked = question(&plan, (90_000.0, part * mean), &over);
        asked.choice.latency = metric(&plan, "mean_us");
        let answer = ask(&plan, &asked);
        assert_eq!(count_of(&answer, "device.card.count"), cards, "{mean} us: {:?}", answer.candidates);
        assert!(answer.impossible > 0, "neither cards nor cores");
    }
}

/// No batch is back before its launch, so a bound below needs cores for the whole load: 19.7 of them.
#[test]
fn a_bound_below_a_launch_excludes_the_device() {
    let plan = shipped("pool-gpu", &["requests.count=20000"]);
    let asked = question(&plan, (100_000.0, 1_900.0), &[("device.gpu.count", &[0, 1]), (CORES, &[16, 19, 21, 24])]);
    let answer = ask(&plan, &asked);
    assert_eq!((count_of(&answer, "device.gpu.count"), count_of(&answer, CORES)), (0, 21));
    let late =
        answer.candidates.iter().filter(|way| way.set.contains(&("device.gpu.count".to_owned(), "1".to_owned())));
    assert!(late.into_iter().all(|way| way.verdict != Verdict::Meets));
}

#[test]
fn what_a_stop_leaves_is_named_and_is_the_costliest() {
    let plan = shipped("pool-cores", &["requests.count=5000"]);
    let over: [(&str, &[u32]); 2] = [(CORES, &[0, 1, 2, 3, 4]), ("device.wide.count", &[0, 1])];
    // Nothing carries it. Break stands for a clock.
    let asked = question(&plan, (1e6, 500.0), &over);
    let until = |done, _| if done >= 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let answer = choose(&plan, &asked, &mut { until }).unwrap();
    assert!(answer.stopped && answer.best.is_none() && answer.margin.is_none());
    assert_eq!((answer.candidates.len(), answer.untried.len(), answer.impossible), (4, 5, 1));
    let costliest = answer.candidates.iter().map(|way| way.cost).fold(0.0, f64::max);
    assert!(answer.untried.iter().all(|way| way.cost >= costliest));
    // The end of the time within the runs of a case: the case counts as untried.
    let mut calls = 0;
    let answer = choose(&plan, &question(&plan, (5_000.0, 5_000.0), &over), &mut |_, _| {
        calls += 1;
        if calls == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let answer = answer.unwrap();
    assert!(answer.stopped && answer.candidates.len() + answer.untried.len() == 9);
}

#[test]
fn all_combinations_run_on_request() {
    let plan = shipped("pool-cores", &["requests.count=5000"]);
    let over: [(&str, &[u32]); 2] = [(CORES, &[1, 2, 3, 4]), ("device.wide.count", &[0, 1])];
    let mut asked = question(&plan, (4_000.0, 2_000.0), &over);
    let few = ask(&plan, &asked);
    asked.all = true;
    let all = ask(&plan, &asked);
    let best = |answer: &Answer| answer.candidates[answer.best.unwrap()].set.clone();
    assert_eq!(best(&few), best(&all));
    assert!(!few.untried.is_empty() && all.untried.is_empty() && all.candidates.len() > few.candidates.len());
    assert_eq!(few.candidates.len() + few.untried.len(), all.candidates.len());
}
