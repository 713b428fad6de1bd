//! `sidecore sim bakeoff`: balance policies on random pools of devices.

use super::output::{Members, progress, show};
use crate::args::Output;
use crate::error::LabError;
use crate::report::{Grid, digits};
use sidecore_sim::bakeoff::{self, Line, NEAR, Setup, Summary};

pub(super) fn run(setup: &Setup, files: &Output) -> Result<bool, LabError> {
    let progress = progress("bakeoff")?;
    let mut last = (0, 0);
    let found = bakeoff::run(setup, &mut |done, all| {
        last = (done, all);
        progress(done, all)
    });
    drop(progress);
    let mut pools = pools(&found.summaries(), setup);
    if last.0 + 1 < last.1 {
        pools.notes.push("Stopped before its end: cases that were not run are missing.".to_owned());
    }
    let rows: Vec<_> = found.lines.iter().map(members).collect();
    show(files, &rows, ("Bake-off of balance policies", &command(setup)), &[pools, singles(&found.lines)])
}

fn command(setup: &Setup) -> String {
    let Setup { seeds, depths, burst, slow } = setup;
    let depths: Vec<String> = depths.iter().flatten().map(u32::to_string).collect();
    let depths = if depths.is_empty() { String::new() } else { format!(" --depth {}", depths.join(",")) };
    let burst = if *burst > 0 { format!(" --burst {burst}") } else { String::new() };
    let slow = if *slow > 1.0 { format!(" --slow {slow}") } else { String::new() };
    format!("bakeoff --seeds {seeds}{depths}{burst}{slow}")
}

fn in_words(depth: Option<u32>) -> String {
    depth.map_or_else(|| "any".to_owned(), |depth| depth.to_string())
}

fn pools(summaries: &[Summary], setup: &Setup) -> Grid {
    let headings =
        ["policy", "depth", "load", "pools", "stable", "mean near best", "p99 near best", "worst p99 / best"];
    let mut grid = Grid::new("Random pools: how often each policy is stable and as good as the best", &headings);
    for summary in summaries {
        let Summary { depth, load, balance, pools, stable, near_mean, near_p99, worst } = *summary;
        let worst = if stable > 0 { format!("{worst:.2}") } else { "-".to_owned() };
        let counts = [pools, stable, near_mean, near_p99].map(|count| count.to_string());
        let fields =
            [balance.name().to_owned(), in_words(depth), format!("{load:.2}")].into_iter().chain(counts).chain([worst]);
        grid.push(fields);
    }
    grid.notes.push(format!(
        "load: part of what the linear program lets the devices carry. near best: within {NEAR} x of the best policy of \
         that pool and load. Devices: 3 to 8, 0.1 to 5 us + 0.02 to 2 ns/B; 2 to 4 kinds of requests up to 16 KiB. \
         depth: most requests that a device holds at a time."
    ));
    let Setup { burst, slow, .. } = setup;
    let when = if *slow > 1.0 { "half" } else { "a fifth" };
    if *burst > 0 {
        grid.notes.push(format!("After {when} of each run {burst} requests came at once."));
    }
    if *slow > 1.0 {
        grid.notes.push(format!(
            "After half of each run the quickest device took {slow} x as long. Only requests after that count, and load \
             is a part of what the devices carry then."
        ));
    }
    grid
}

fn singles(lines: &[Line]) -> Grid {
    let headings = ["case", "depth", "load", "policy", "stable", "carried", "mean us", "p99 us", "p99 / best"];
    let mut grid = Grid::new("Cases made to tell policies apart", &headings);
    for line in lines.iter().filter(|line| line.scenario != "pools") {
        let load = line.load.map_or_else(|| "saturated".to_owned(), |load| format!("{load:.2}"));
        let names = [line.scenario.to_owned(), in_words(line.depth), load, line.balance.name().to_owned()];
        let measured = match line.ratio {
            Some((_, p99)) => [digits(line.found.mean / 1e3), digits(line.found.p99 / 1e3), format!("{p99:.2}")],
            None => ["-", "-", "-"].map(str::to_owned),
        };
        let stable = if line.found.stable { "yes" } else { "no" }.to_owned();
        grid.push(names.into_iter().chain([stable, format!("{:.3}", line.found.carried)]).chain(measured));
    }
    grid.notes.push("carried: requests done, as a part of what the linear program allows.".to_owned());
    grid
}

fn members(line: &Line) -> Members<13> {
    let if_stable = |ns: f64| line.found.stable.then_some(ns / 1e3);
    Members([
        ("scenario", line.scenario.into()),
        ("seed", line.seed.into()),
        ("load", line.load.into()),
        ("depth", line.depth.into()),
        ("burst", line.burst.into()),
        ("slow", line.slow.into()),
        ("balance", line.balance.name().into()),
        ("stable", line.found.stable.into()),
        ("carried", line.found.carried.into()),
        ("mean_us", if_stable(line.found.mean).into()),
        ("p99_us", if_stable(line.found.p99).into()),
        ("mean_to_best", line.ratio.map(|ratio| ratio.0).into()),
        ("p99_to_best", line.ratio.map(|ratio| ratio.1).into()),
    ])
}
