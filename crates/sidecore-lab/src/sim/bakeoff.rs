//! `sidecore sim bakeoff`: balance policies on random pools of devices.

use super::output;
use super::stop::Steps;
use crate::args::Bakeoff;
use crate::report::{Grid, digits};
use serde::Serialize;
use sidecore_sim::bakeoff::{self, Line, NEAR, Summary};

/// Steps of the progress bar.
const SHOWN: usize = 100;

pub(super) fn run(args: &Bakeoff) -> Result<bool, String> {
    let mut steps = Steps::new("bakeoff", SHOWN)?;
    let mut last = (0, 0);
    let found = bakeoff::run(args.seeds, &mut |done, total| {
        last = (done, total);
        steps.done(done * SHOWN / total.max(1))
    });
    drop(steps);
    let mut pools = pools(&found.summaries());
    if last.0 + 1 < last.1 {
        pools.notes.push("Stopped before its end: cases that were not run are missing.".to_owned());
    }
    let singles = singles(&found.lines);
    let text = format!("{}\n{}", pools.to_text(), singles.to_text());
    let rows: Vec<Row> = found.lines.iter().map(Row::of).collect();
    output::show(&text, &args.output, &rows, || page(args, &[pools, singles]), &[])?;
    Ok(true)
}

fn page(args: &Bakeoff, grids: &[Grid]) -> String {
    let tables: Vec<String> = grids.iter().map(Grid::to_markdown).collect();
    let command = format!("sidecore sim bakeoff --seeds {}", args.seeds);
    format!("# Bake-off of balance policies\n\nSimulated by `{command}`.\n\n{}", tables.join("\n"))
}

fn pools(summaries: &[Summary]) -> Grid {
    let headings = ["policy", "load", "pools", "stable", "mean near best", "p99 near best", "worst p99 / best"];
    let mut grid = Grid::new("Random pools: how often each policy is stable and as good as the best", &headings);
    for summary in summaries {
        let Summary { load, balance, pools, stable, near_mean, near_p99, worst } = *summary;
        let worst = if stable > 0 { format!("{worst:.2}") } else { "-".to_owned() };
        let counts = [pools, stable, near_mean, near_p99].map(|count| count.to_string());
        let fields = [balance.name().to_owned(), format!("{load:.2}")].into_iter().chain(counts).chain([worst]);
        grid.rows.push(fields.collect());
    }
    grid.notes.push(format!(
        "load: part of what the linear program lets the devices carry. near best: within {NEAR} x of the best policy of \
         that pool and load. Devices: 3 to 8, 0.1 to 5 us + 0.02 to 2 ns/B; 2 to 4 kinds of requests up to 16 KiB."
    ));
    grid
}

fn singles(lines: &[Line]) -> Grid {
    let headings = ["case", "load", "policy", "order", "stable", "carried", "mean us", "p99 us", "p99 / best"];
    let mut grid = Grid::new("Cases made to tell policies apart", &headings);
    for line in lines.iter().filter(|line| line.scenario != "pools") {
        let load = line.load.map_or_else(|| "saturated".to_owned(), |load| format!("{load:.2}"));
        let names = [line.scenario.to_owned(), load, line.balance.name().to_owned(), line.order.name().to_owned()];
        let measured = match line.ratio {
            Some((_, p99)) => [digits(line.found.mean / 1e3), digits(line.found.p99 / 1e3), format!("{p99:.2}")],
            None => ["-", "-", "-"].map(str::to_owned),
        };
        let stable = if line.found.stable { "yes" } else { "no" }.to_owned();
        grid.rows
            .push(names.into_iter().chain([stable, format!("{:.3}", line.found.carried)]).chain(measured).collect());
    }
    grid.notes.push("carried: requests done, as a part of what the linear program allows.".to_owned());
    grid
}

/// A line as JSON. What an unstable run has no value for is left out.
#[derive(Serialize)]
struct Row {
    scenario: &'static str,
    seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<f64>,
    balance: &'static str,
    order: &'static str,
    stable: bool,
    carried: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_to_best: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_to_best: Option<f64>,
}

impl Row {
    fn of(line: &Line) -> Self {
        let if_stable = |value: f64| line.found.stable.then_some(value);
        Self {
            scenario: line.scenario,
            seed: line.seed,
            load: line.load,
            balance: line.balance.name(),
            order: line.order.name(),
            stable: line.found.stable,
            carried: line.found.carried,
            mean_us: if_stable(line.found.mean / 1e3),
            p99_us: if_stable(line.found.p99 / 1e3),
            mean_to_best: line.ratio.map(|ratio| ratio.0),
            p99_to_best: line.ratio.map(|ratio| ratio.1),
        }
    }
}
