//! Choices on hardware with known limits.

use super::plan_of;
use sidecore_sim::choose::{Answer, MAX_COMBINATIONS, Question, Verdict, choose};
use sidecore_sim::estimate::Effort;
use sidecore_sim::plan::Plan;
use std::ops::ControlFlow;

/// Four chips and eight threads, each with requests of 1 KiB: a chip alone does about 8,500 per second.
fn plan() -> Plan {
    let mut plan = plan_of("ocf-hifn7751x4", &["threads=8", "size=1024"]);
    plan.variants.retain(|variant| variant.name == "sidecore, one request in flight");
    plan
}

fn question(plan: &Plan, load: f64, bound: f64) -> Question {
    let mut choice = plan.choice.clone().unwrap();
    choice.over = vec![("card.count".to_owned(), ["1", "2", "3", "4"].map(str::to_owned).to_vec())];
    Question { load, bound, choice, effort: Effort { seed: 1, runs: 6, precision: 0.05 }, all: true }
}

fn answer(load: f64, bound: f64) -> Answer {
    let plan = plan();
    choose(&plan, &question(&plan, load, bound), &mut |_, _| ControlFlow::Continue(())).unwrap()
}

#[test]
fn the_answer_is_the_cheapest_that_keeps_the_bound() {
    let mut costs = Vec::new();
    for load in [2_000.0, 12_000.0] {
        let answer = answer(load, 1_500.0);
        assert_eq!(answer.candidates.len(), 8);
        let best = &answer.candidates[answer.best.unwrap()];
        let meets = answer.candidates.iter().filter(|it| it.verdict == Verdict::Meets);
        assert!(
            meets.clone().all(|it| it.cost >= best.cost) && best.tail.mean + best.tail.within <= 1_500.0,
            "{best:?}"
        );
        let margin = answer.margin.unwrap();
        assert!(margin.carries.0 >= load && margin.carries.1.is_none_or(|most| most > margin.carries.0), "{margin:?}");
        costs.push(best.cost);
    }
    assert!(costs[0] < costs[1], "more load takes more cards: {costs:?}");
}

#[test]
fn what_one_card_cannot_carry_is_overload_and_what_nothing_keeps_has_no_answer() {
    let answer = answer(20_000.0, 50.0);
    assert_eq!((answer.best, answer.margin.is_some()), (None, false));
    let one = answer.candidates.iter().filter(|it| it.set[0].1 == "1").map(|it| it.verdict).collect::<Vec<_>>();
    assert_eq!(one, [Verdict::Overloaded; 2]);
    let frontier = answer.frontier();
    assert!(!frontier.is_empty() && frontier.iter().all(|it| answer.candidates[*it].verdict == Verdict::TooSlow));
    let tails: Vec<f64> = frontier.iter().map(|it| answer.candidates[*it].tail.mean).collect();
    assert!(tails.windows(2).all(|pair| pair[1] < pair[0]), "{tails:?}");
}

#[test]
fn a_price_of_the_processor_changes_the_answer() {
    let plan = plan();
    let best = |cost: &str| {
        let mut question = question(&plan, 12_000.0, 1_500.0);
        question.choice.cost = vec![(cost.to_owned(), 1.0)];
        let answer = choose(&plan, &question, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let best = &answer.candidates[answer.best.unwrap()];
        let least = |costs: &mut dyn Iterator<Item = f64>| costs.fold(f64::INFINITY, f64::min);
        let mut meeting = answer.candidates.iter().filter(|it| it.verdict == Verdict::Meets).map(|it| it.cost);
        assert!(least(&mut meeting) >= best.cost);
        best.cost
    };
    // Percent of a processor, and cards.
    assert!(best("cpu_percent") > 10.0 && best("card.count") <= 4.0);
    let mut wrong = question(&plan, 1_000.0, 1_000.0);
    wrong.choice.cost = vec![("cards.price".to_owned(), 1.0)];
    let said = choose(&plan, &wrong, &mut |_, _| ControlFlow::Continue(())).unwrap_err().to_string();
    assert!(said.contains("`cards.price`: that is no parameter and no metric"), "{said}");
}

#[test]
fn it_can_be_stopped_and_has_its_limits() {
    let plan = plan();
    let stopped = choose(&plan, &question(&plan, 2_000.0, 1_500.0), &mut |done, _| {
        if done == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let stopped = stopped.unwrap();
    assert!(stopped.stopped && stopped.candidates.len() == 2 && stopped.margin.is_none());
    let mut many = question(&plan, 2_000.0, 1_500.0);
    many.choice.over.push(("client.size".to_owned(), (1..=300).map(|size| (size * 8).to_string()).collect()));
    let said = choose(&plan, &many, &mut |_, _| ControlFlow::Continue(())).unwrap_err().to_string();
    assert!(said.contains(&format!("more than {MAX_COMBINATIONS} combinations")), "{said}");
}
