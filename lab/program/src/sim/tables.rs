//! Plans as tables: their own, and their variants.

use super::output::{self, STOPPED, progress};
use super::plots::{self, Plot, Sheet};
use crate::args::Plans;
use crate::error::LabError;
use crate::report::{Grid, Row, column, digits};
use serde_json::{Map, Value};
use sidecore_measure::export::print;
use sidecore_report::machine;
use sidecore_sim::estimate::{Effort, Estimate};
use sidecore_sim::plan::Plan;
use sidecore_sim::settings::Settings;
use sidecore_sim::system::Metric;
use sidecore_sim::table::{self, Table};
use std::path::PathBuf;

pub(super) const OWN: &str = "as published";

pub(super) fn read(files: &[PathBuf], set: &[String]) -> Result<Vec<Plan>, LabError> {
    let read = |path: &PathBuf| {
        let mut plan = Plan::read(path)?;
        plan.set_all(set)?;
        Ok(plan)
    };
    files.iter().map(read).collect()
}

pub(super) fn show(plans: &[Plan], args: &Plans) -> Result<bool, LabError> {
    let (mut rows, mut sections, mut drawn) = (Vec::new(), String::new(), Vec::new());
    let mut printed = Ok(());
    let mut summary =
        Grid::new("In one table", &["system", "figure", "as published", "with", "", "gain", "limited by"]);
    for plan in plans {
        let sheets = sheets(plan, &args.effort.effort())?;
        let own = |index: usize| (index > 0).then(|| &sheets[0].table);
        let grids = sheets.iter().enumerate().map(|(index, sheet)| value_grid(plan, sheet, own(index)));
        let grids: Vec<Grid> = grids.collect();
        let shown = sheets.iter().zip(&grids).flat_map(|(sheet, grid)| [Some(grid.clone()), limit_grid(sheet)]);
        let text: String = shown.flatten().map(|grid| grid.to_text() + "\n").collect();
        printed = printed.and_then(|()| print(&text));
        let plots = if args.output.markdown.is_some() { plots::plots(plan, &sheets) } else { Vec::new() };
        sections += &section(plan, &grids, &plots);
        summary.rows.extend(summary_rows(plan, &sheets));
        drawn.extend(plots.into_iter().map(|plot| (plot.file, plot.svg)));
        rows.extend(sheets.iter().flat_map(|sheet| sheet_rows(plan, sheet, args.effort.seed)));
        if sheets.iter().any(|sheet| sheet.table.stopped) {
            break;
        }
    }
    let files: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
    let command = format!("{} {}", files.join(" "), args.effort.arguments());
    let summary = if summary.rows.is_empty() { String::new() } else { summary.to_markdown() + "\n" };
    output::write(&args.output, &rows, &output::page(&args.title, &command, &(summary + &sections)), &drawn)?;
    printed?;
    Ok(true)
}

fn sheets(plan: &Plan, effort: &Effort) -> Result<Vec<Sheet>, LabError> {
    let mut all: Vec<(&str, Settings)> = vec![(OWN, plan.settings.clone())];
    for variant in &plan.variants {
        all.push((&variant.name, plan.with(&variant.set)?));
    }
    let progress = progress("sim")?;
    let mut sheets: Vec<Sheet> = Vec::new();
    for (index, (variant, settings)) in all.iter().enumerate() {
        let mut progress = |done, each| progress(index * each + done, all.len() * each);
        let table = table::run(plan, settings, &plan.shape, effort, &mut progress);
        sheets.push(Sheet { variant: (*variant).to_owned(), table: table? });
        if sheets[index].table.stopped {
            break;
        }
    }
    Ok(sheets)
}

fn summary_rows(plan: &Plan, sheets: &[Sheet]) -> Vec<Vec<String>> {
    let Some((own, variants)) = sheets.split_first().filter(|(own, _)| !own.table.stopped) else { return Vec::new() };
    let last = own.table.runs.len() - 1;
    let figures: Vec<(usize, usize)> = match plan.shape.cell {
        Some(metric) => [last + 1 - plan.shape.columns.labels.len(), last].map(|run| (run, metric)).to_vec(),
        None => plan.plot.iter().map(|metric| (last, *metric)).collect(),
    };
    let mut rows = Vec::new();
    for (run, metric) in figures {
        let (known, before) = (&plan.system.metrics[metric], &own.table.runs[run]);
        let short = |(name, value): &(String, String)| format!("{} {value}", name.rsplit('.').next().unwrap_or(name));
        let case: Vec<String> = before.case.iter().map(short).collect();
        let figure = format!("{} in {}, {}", known.name, known.unit, case.join(", "));
        for Sheet { variant, table } in variants {
            // A stopped table may lack this cell.
            let Some(after) = table.runs.get(run) else { continue };
            let [old, new] = [before, after].map(|run| run.outcome.values[metric]);
            let (gain, limit) = (format!("{:.2} x", new / old), after.outcome.limit.clone());
            let (before, after) = ([plan.title.clone(), figure.clone(), digits(old)], [digits(new), gain, limit]);
            rows.push(before.into_iter().chain([variant.clone()]).chain(after).collect());
        }
    }
    rows
}

fn section(plan: &Plan, grids: &[Grid], plots: &[Plot]) -> String {
    let plots = plots.iter().map(|plot| format!("![{}]({})\n\n{}\n", plan.title, plot.file, plot.caption));
    let parts: Vec<String> = plots.chain(grids.iter().map(Grid::to_markdown)).collect();
    format!("## {}\n\n{}\n\n{}\n", plan.title, plan.about, parts.join("\n"))
}

fn value_grid(plan: &Plan, sheet: &Sheet, own: Option<&Table>) -> Grid {
    let table = &sheet.table;
    let metric = plan.shape.cell.map(|metric| &plan.system.metrics[metric]);
    let what = metric.map_or(String::new(), |metric| format!(", {} in {}", metric.name, metric.unit));
    let mut grid = grid(format!("{}: {}{what}", plan.title, sheet.variant), table, |r, c| {
        match (table.value(r, c), own.and_then(|own| own.value(r, c))) {
            (None, _) => "-".to_owned(),
            (Some(value), Some(own)) if own != 0.0 => format!("{} ({:.2} x)", digits(value), value / own),
            (Some(value), _) => digits(value),
        }
    });
    grid.notes.extend(limits(table));
    grid.notes.extend(sureness(table));
    grid.notes.extend(plan.system.note(&plan.settings));
    grid.notes.extend(table.stopped.then(|| STOPPED.to_owned()));
    grid
}

fn sureness(table: &Table) -> Vec<String> {
    let (rows, columns) = (&table.shape.rows.labels, &table.shape.columns.labels);
    let at = |(r, c): (usize, usize)| format!("{} {}", rows[r], columns[c]);
    let places = (0..rows.len()).flat_map(|r| (0..columns.len()).map(move |c| (r, c)));
    let cells: Vec<((usize, usize), Estimate)> =
        places.filter_map(|at| Some((at, table.estimate(at.0, at.1)?))).collect();
    let widest = cells.iter().filter(|(_, estimate)| estimate.runs > 1).max_by(|a, b| {
        let width = |cell: &((usize, usize), Estimate)| cell.1.relative();
        width(a).total_cmp(&width(b))
    });
    let mut notes: Vec<String> = widest
        .map(|(place, estimate)| {
            let (half, at, runs) = (estimate.relative() * 100.0, at(*place), estimate.runs);
            format!("95 % intervals are within {half:.1} % of the means, the widest at {at} ({runs} runs).")
        })
        .into_iter()
        .collect();
    for (place, estimate) in &cells {
        let Some([low, high]) = estimate.regimes else { continue };
        let [low, high] = [low, high].map(|it| format!("{} in {} runs", digits(it.mean), it.runs));
        notes.push(format!("Two regimes by seed at {}: {low}, {high}.", at(*place)));
    }
    notes
}

fn limit_grid(sheet: &Sheet) -> Option<Grid> {
    let table = &sheet.table;
    let part = |r, c| table.run_of(r, c).map_or("-", part).to_owned();
    let is_told = is_of_metrics(table) || same_part(table);
    (!is_told).then(|| grid(format!("What limits: {}", sheet.variant), table, part))
}

fn grid(title: String, table: &Table, cell: impl Fn(usize, usize) -> String) -> Grid {
    let corner = format!("{} \\ {}", table.shape.rows.title(), table.shape.columns.title());
    let headings: Vec<String> = [corner].into_iter().chain(table.shape.columns.labels.iter().cloned()).collect();
    let mut grid = Grid::new(title, &headings);
    for (r, label) in table.shape.rows.labels.iter().cloned().enumerate() {
        grid.push([label].into_iter().chain((1..headings.len()).map(|c| cell(r, c - 1))));
    }
    grid
}

fn part(run: &table::Run) -> &str {
    run.outcome.limit.split_whitespace().next().unwrap_or("-")
}

fn same_part(table: &Table) -> bool {
    table.runs.windows(2).all(|pair| part(&pair[0]) == part(&pair[1]))
}

fn is_of_metrics(table: &Table) -> bool {
    table.shape.rows.is_metrics() || table.shape.columns.is_metrics()
}

fn limits(table: &Table) -> Vec<String> {
    let line = |run: &table::Run| {
        let values: Vec<&str> = run.case.iter().map(|(_, value)| value.as_str()).collect();
        format!("Limit at {}: {}.", values.join("/"), run.outcome.limit)
    };
    match &table.runs[..] {
        [first, _, ..] if same_part(table) => vec![format!("Limited by {} everywhere.", part(first))],
        runs if is_of_metrics(table) => runs.iter().map(line).collect(),
        _ => Vec::new(),
    }
}

fn sheet_rows(plan: &Plan, sheet: &Sheet, seed: u64) -> Vec<Row> {
    let (stem, commit) = (plots::stem(plan), machine::commit());
    let row = |run: &table::Run| {
        let metrics = plan.system.metrics.iter().zip(&run.outcome.values);
        let metrics = metrics.map(|(metric, value)| (metric.name.to_owned(), Value::from(*value)));
        let metrics: Map<_, _> = metrics.filter(|(_, value)| !value.is_null()).collect();
        let half = |(metric, estimate): (&Metric, &Estimate)| {
            estimate.within.is_finite().then(|| (metric.name.to_owned(), Value::from(estimate.within)))
        };
        let within: Map<_, _> = plan.system.metrics.iter().zip(&run.estimates).filter_map(half).collect();
        let within = (!within.is_empty()).then_some(within);
        let seeds = run.estimates.iter().map(|estimate| u64::from(estimate.runs)).max();
        let settings: Map<_, _> = run.case.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let set = |name| settings.get(name).and_then(|value| value.as_str()?.parse::<u64>().ok());
        Row::new(&stem, &sheet.variant)
            .with(column::CLIENTS, set("client.threads"))
            .with(column::SIZE, set("client.size"))
            .with(column::OPS_PER_S, metrics.get("ops_per_s").cloned())
            .with(column::MBIT_PER_S, metrics.get("mbit_per_s").cloned())
            .with(column::SETTINGS, settings)
            .with(column::METRICS, metrics)
            .with(column::WITHIN, within)
            .with(column::SEEDS, seeds)
            .with(column::LIMIT, run.outcome.limit.as_str())
            .with(column::SEED, seed)
            .with(column::COMMIT, commit.as_str())
    };
    sheet.table.runs.iter().map(row).collect()
}
