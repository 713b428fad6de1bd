//! Eight clients on one, two and four sidecores.

use super::crew::{BenchError, Crew, Pinning, Plan};
use super::series::{median, ratio, spread, total_per_s, with_stages};
use super::task::Task;
use super::{Outcome, Settings};
use crate::progress::Progress;
use crate::report::Row;
use sidecore::config::NotifyConfig;
use sidecore::core::policy::notify::Notify;
use sidecore::sys::cpu;

const CLIENTS: usize = 8;
const SIDECORES: [usize; 3] = [1, 2, 4];
/// Operations with their sizes.
const CASES: [(&str, u32); 3] = [("aes-256-gcm", 64), ("aes-256-gcm", 16_384), ("rsa-2048-sign", 32)];
/// In flight for each client.
const DEPTH: u32 = 32;

/// What this machine has the cores for.
struct Choice {
    counts: Vec<usize>,
    cases: &'static [(&'static str, u32)],
    left_out: Vec<String>,
}

fn repeats(settings: &Settings) -> usize {
    if settings.quick { 2 } else { 5 }
}

fn duration(settings: &Settings) -> u64 {
    if settings.quick { 100_000_000 } else { 300_000_000 }
}

/// As many cores for clients as for sidecores, or the clients are what is measured.
fn choose(cores: usize) -> Choice {
    let (fit, too_many): (Vec<usize>, Vec<usize>) = SIDECORES.iter().partition(|n| **n == 1 || 2 * **n <= cores);
    let available = if cores == 1 { "there is 1".to_owned() } else { format!("there are {cores}") };
    let short =
        |n: &usize| format!("scaling: {n} sidecores and {n} cores for clients take {} cores, {available}", 2 * n);
    let mut left_out: Vec<String> = too_many.iter().map(short).collect();
    let alone = fit.len() == 1;
    if alone {
        let others: Vec<String> = CASES[1..].iter().map(|(op, size)| format!("{op} {size} B")).collect();
        left_out.push(format!("scaling: {}: with one sidecore there is nothing to compare", others.join(" and ")));
    }
    Choice { counts: fit, cases: if alone { &CASES[..1] } else { &CASES }, left_out }
}

pub(super) fn steps(_settings: &Settings) -> usize {
    let choice = choose(cpu::allowed().len());
    choice.counts.len() * choice.cases.len()
}

pub(super) fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let choice = choose(cpu::allowed().len());
    let mut outcome = Outcome { left_out: choice.left_out, ..Outcome::default() };
    // Rates with one sidecore, case by case.
    let mut single: Vec<Vec<f64>> = Vec::new();
    for count in choice.counts {
        let mut crew = start(count)?;
        for (number, (op, size)) in choice.cases.iter().enumerate() {
            progress.begin(&format!("{op} {size} B, {count} sidecores"));
            let (mut row, rates) = one_case(&mut crew, count, op, *size, settings)?;
            if count == 1 {
                single.push(rates.clone());
            }
            row.ratio = single.get(number).and_then(|single| ratio(&rates, single));
            outcome.rows.push(row);
            progress.advance();
        }
    }
    outcome.notes.push(
        "scaling: 8 clients with 32 requests in flight each; they spin if each has a core, else they park. Ratios are \
         against one sidecore."
            .to_owned(),
    );
    Ok(outcome)
}

fn start(sidecores: usize) -> Result<Crew, BenchError> {
    let pinning = Pinning::new(sidecores).unwrap_or_else(Pinning::none);
    let notify = NotifyConfig { client: pinning.client_policy(CLIENTS), ..NotifyConfig::all(Notify::Spin) };
    Crew::start(&Plan { pinning, notify, ..Plan::inline(CLIENTS) })
}

fn one_case(
    crew: &mut Crew,
    sidecores: usize,
    op: &str,
    size: u32,
    settings: &Settings,
) -> Result<(Row, Vec<f64>), BenchError> {
    let (mut rates, mut measured) = (Vec::new(), Vec::new());
    for _ in 0..repeats(settings) {
        let ns = duration(settings);
        let closed = |_, start| Task::Closed { op: op.to_owned(), size, depth: DEPTH, start, ns };
        let together = crew.together(CLIENTS, closed)?;
        rates.push(total_per_s(&together));
        measured.extend(together);
    }
    let row = Row {
        op: Some(op.to_owned()),
        size: Some(u64::from(size)),
        devices: Some(if sidecores == 1 { "1 sidecore".to_owned() } else { format!("{sidecores} sidecores") }),
        notify: Some(crew.pinning.client_policy(CLIENTS).to_string()),
        clients: Some(CLIENTS as u32),
        ops_per_s: Some(median(&rates)),
        baseline: Some("1 sidecore".to_owned()),
        pinned: Some(crew.pinning.describe(CLIENTS)),
        repeats: Some(rates.len() as u32),
        spread: Some(spread(&rates)),
        ..Row::new("scaling", "sidecore")
    };
    Ok((with_stages(row, &measured), rates))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_more_cores_than_there_are_is_left_out_with_the_reason() {
        let two = choose(2);
        assert_eq!((two.counts, two.cases.len()), (vec![1], 1));
        assert_eq!(two.left_out[1], "scaling: 4 sidecores and 4 cores for clients take 8 cores, there are 2");
        let six = choose(6);
        assert_eq!((six.counts, six.cases.len(), six.left_out.len()), (vec![1, 2], 3, 1));
        assert!(choose(8).left_out.is_empty());
        assert_eq!(choose(1).counts, [1]);
    }
}
