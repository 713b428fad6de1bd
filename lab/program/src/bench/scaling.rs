//! Eight clients on one, two and four sidecores.

use super::error::BenchError;
use super::experiment::{By, Case, Turn, Variant, measure_all};
use super::scenario::{SERVICES, Scenario, Settings};
use super::testbed::{Plan, Testbed};
use crate::report::figures::{LARGE, Series, along, differ, panels};
use crate::report::plot::Scale;
use crate::report::{Group, Outcome, Row, column, most, section};
use sidecore::config::NotifyConfig;
use sidecore::core::policy::notify::Notify;
use sidecore_daemon::sys::cpu;
use sidecore_measure::pinning::of_crowd;
use sidecore_measure::progress::Progress;

pub(super) static SCENARIO: Scenario = Scenario::new(
    "scaling",
    "More clients and more sidecores",
    measure,
    &[section(
        "scaling",
        "Scaling: more clients, more devices",
        "Operations a second as clients or devices are added. A straight line through the origin is ideal.",
    )
    .plots(|rows| vec![by_number(rows)])
    .headline(|_, rows| most(rows, column::OPS_PER_S, "operations a second at the most"))],
)
.by_default()
.alone(SERVICES);

const CLIENTS: usize = 8;
const SIDECORES: [usize; 3] = [1, 2, 4];
const SINGLE: &str = "1 sidecore";
const CASES: [(&str, u32); 3] = [("aes-256-gcm", 64), ("aes-256-gcm", 16_384), ("rsa-2048-sign", 32)];
const DEPTH: u32 = 32;

struct Choice {
    counts: Vec<usize>,
    cases: &'static [(&'static str, u32)],
    left_out: Vec<String>,
}

/// At least one core for a client for each sidecore: otherwise the clients would be the bottleneck.
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

fn measure(settings: &Settings, progress: &Progress) -> Result<Outcome, BenchError> {
    let choice = choose(cpu::allowed().len());
    let (repeats, ns) = settings.pick((2, 100_000_000), (5, 300_000_000));
    let mut testbeds = choice.counts.iter().map(|count| start(*count)).collect::<Result<Vec<_>, _>>()?;
    // All testbeds exist from the beginning, so that they take turns. Testbeds without a turn sleep.
    testbeds.iter_mut().try_for_each(|testbed| testbed.set("notify=park"))?;
    let cases = choice.cases.iter().map(|case| one_case(&testbeds, &choice.counts, *case, ns)).collect();
    let mut outcome = measure_all(&mut testbeds, cases, repeats, progress)?;
    outcome.left_out.extend(choice.left_out);
    Ok(outcome.noted(
        "scaling: 8 clients with 32 requests in flight each; they spin if each has a core, else they park. Ratios are \
         against one sidecore.",
    ))
}

fn start(sidecores: usize) -> Result<Testbed, BenchError> {
    let plan = Plan::on(sidecores, CLIENTS);
    let notify = NotifyConfig { client: plan.pinning.client_policy(CLIENTS), ..NotifyConfig::all(Notify::Spin) };
    Testbed::start(&Plan { notify, ..plan })
}

fn one_case(
    testbeds: &[Testbed],
    counts: &[usize],
    (op, size): (&'static str, u32),
    ns: u64,
) -> Case<'static, Vec<Testbed>> {
    let case = Case::new("scaling").with(column::OP, op).with(column::SIZE, size).with(column::CLIENTS, CLIENTS);
    let case = case.crowded(testbeds.first().and_then(|testbed| of_crowd(&testbed.pinning, CLIENTS)));
    counts.iter().zip(testbeds).enumerate().fold(case, |case, (index, (count, testbed))| {
        let policy = testbed.pinning.client_policy(CLIENTS);
        let run = move |testbeds: &mut Vec<Testbed>, _: &Turn<'_>| {
            testbeds[index].set("notify=spin")?;
            testbeds[index].set(&format!("notify.client={policy}"))?;
            let run = testbeds[index].closed(CLIENTS, (op, size), DEPTH, ns)?;
            testbeds[index].set("notify=park")?;
            Ok(run)
        };
        let variant = Variant::new("sidecore", run)
            .with(column::DEVICES, if *count == 1 { SINGLE.to_owned() } else { format!("{count} sidecores") })
            .with(column::NOTIFY, policy.to_string())
            .with(column::PINNED, testbed.pinning.describe(CLIENTS));
        case.variant(variant.against(By::Rate, SINGLE))
    })
}

fn by_number(rows: &[&Row]) -> Group {
    let key = if differ(rows, column::CLIENTS) { column::CLIENTS } else { column::DEVICES };
    let name = key.header;
    let mut series = Series::of(rows, &[column::OP, column::NOTIFY, key]);
    // A single point is no line.
    let rows = if differ(rows, key) { rows } else { &[] };
    let figures = panels(rows, column::OP, &format!("Operations a second by {name}"), |rows| {
        series.line_plot(LARGE, rows, (name, Scale::Linear, key), along::RATE)
    });
    Group { legend: series.names, figures }
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
