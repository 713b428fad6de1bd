//! `sidecore sim faults`: random schedules with faults.

use super::output::progress;
use crate::args::Faults;
use crate::report::{Grid, count};
use sidecore_report::machine;
use sidecore_sim::faults::{self, FAULTS, Failure, Report, Sabotage};
use sidecore_terminal::output::print;

/// `false`: an invariant was broken.
pub(super) fn run(args: &Faults) -> Result<bool, String> {
    let sabotage = args.sabotage.as_deref().map(sabotage).transpose()?;
    let mut progress = progress("faults")?;
    let report = faults::run(args.first, args.seeds, sabotage, &mut |done, all| progress(done as usize, all as usize));
    drop(progress);
    let broken = report.broken.as_ref().map_or_else(String::new, |failure| in_words(args, failure));
    print(&(grid(args, &report).to_text() + &broken))?;
    Ok(report.broken.is_none())
}

fn sabotage(name: &str) -> Result<Sabotage, String> {
    name.parse().map_err(|_| {
        let names: Vec<String> = Sabotage::ALL.iter().map(Sabotage::to_string).collect();
        format!("no sabotage {name:?}; there are {}", names.join(", "))
    })
}

fn grid(args: &Faults, report: &Report) -> Grid {
    let mut grid = Grid::new(format!("Faults by seed, commit {}", machine::commit()), &["what", "count"]);
    let last = args.first + report.seeds.max(1) - 1;
    let mut row = |what: &str, value: u64| grid.push([what.to_owned(), count(value)]);
    row("runs", report.seeds);
    row("events, with all invariants checked after each", report.events);
    row("requests", report.requests);
    for (fault, times) in FAULTS.iter().zip(report.faults) {
        row(&fault.replace('-', " "), times);
    }
    row("broken invariants", u64::from(report.broken.is_some()));
    grid.notes.push(format!("Seeds {} to {last}, hash of all events {:016x}.", args.first, report.trace));
    if report.seeds < args.seeds && report.broken.is_none() {
        grid.notes.push("Stopped before its end.".to_owned());
    }
    grid
}

fn in_words(args: &Faults, failure: &Failure) -> String {
    let with = args.sabotage.as_ref().map_or(String::new(), |name| format!(" --sabotage {name}"));
    let Failure { seed, invariant, what, scenario, trace } = failure;
    format!(
        "\nBroken by seed {seed}: {invariant}: {what}\nAgain: sidecore sim faults --first {seed} --seeds 1{with}\n\n\
         A smaller run that breaks it too:\n{scenario}\n\nIts last events:\n{}\n",
        trace.join("\n")
    )
}
