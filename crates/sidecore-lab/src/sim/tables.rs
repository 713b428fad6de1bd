//! Plans as tables: their own, and their variants.

use super::plots::{self, Plot};
use super::sheet::{OWN, Sheet, sheets};
use super::stop::STOPPED;
use super::{bench_rows, compare, output};
use crate::args::Plans;
use crate::machine;
use crate::output::print;
use crate::report::{Grid, Key, Row, digits};
use serde_json::Map;
use sidecore_sim::plan::Plan;
use sidecore_sim::settings::Source;
use sidecore_sim::table::{self, Table};
use std::path::Path;

pub(super) fn run(args: &Plans) -> Result<bool, String> {
    if args.compare.is_some() && args.files.len() != 1 {
        return Err("--compare takes one plan: name the one that the table is about".to_owned());
    }
    let mut plans = Vec::new();
    for path in &args.files {
        plans.push(read(path, &args.set)?);
    }
    if args.parameters {
        let text: String = plans.iter().map(|plan| parameters(plan).to_text() + "\n").collect();
        return print(&text).map(|()| true);
    }
    match &args.compare {
        Some(path) if path.extension().is_some_and(|extension| extension == "json") => {
            bench_rows::compare(&plans[0], path, args)
        }
        Some(path) => compare::run(&plans[0], path, args),
        None => tables(&plans, args),
    }
}

fn read(path: &Path, set: &[String]) -> Result<Plan, String> {
    let mut plan = Plan::read(path).map_err(|error| error.to_string())?;
    plan.set_all(set).map_err(|error| error.to_string())?;
    Ok(plan)
}

fn parameters(plan: &Plan) -> Grid {
    let mut grid = Grid::new(&plan.title, &["parameter", "value", "unit", "origin", "meaning"]);
    for (parameter, value) in plan.settings.iter() {
        let Some((value, source)) = value else { continue };
        let (origin, meaning) = match source {
            Source::Documented(origin, meaning) => (origin.to_string(), meaning.clone()),
            Source::Plan => ("plan".to_owned(), String::new()),
            Source::CommandLine => ("command line".to_owned(), String::new()),
        };
        let unit = parameter.unit.to_owned();
        grid.rows.push(vec![parameter.name.clone(), value.clone(), unit, origin, meaning]);
    }
    grid
}

fn tables(plans: &[Plan], args: &Plans) -> Result<bool, String> {
    let (mut rows, mut sections, mut drawn) = (Vec::new(), String::new(), Vec::new());
    let mut printed = Ok(());
    let mut summary =
        Grid::new("In one table", &["system", "figure", "as published", "with", "", "gain", "limited by"]);
    for plan in plans {
        let sheets = sheets(plan, args.seed)?;
        let grids = grids(plan, &sheets);
        let text = grids.iter().flat_map(|(grid, limits)| [Some(grid), limits.as_ref()]).flatten();
        let text: String = text.map(|grid| grid.to_text() + "\n").collect();
        printed = printed.and_then(|()| print(&text));
        let plots = if args.output.markdown.is_some() { plots::plots(plan, &sheets) } else { Vec::new() };
        sections += &section(plan, &grids, &plots);
        summary.rows.extend(summary_rows(plan, &sheets));
        drawn.extend(plots.into_iter().map(|plot| (plot.file, plot.svg)));
        rows.extend(sheets.iter().flat_map(|sheet| sheet_rows(plan, sheet, args.seed)));
        if sheets.iter().any(|sheet| sheet.table.stopped) {
            break;
        }
    }
    let page = || page(args, &summary, &sections);
    output::write(&args.output, &rows, page, &drawn)?;
    printed.map(|()| true)
}

fn page(args: &Plans, summary: &Grid, sections: &str) -> String {
    let files: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
    let command = format!("sidecore sim {} --seed {}", files.join(" "), args.seed);
    let summary = if summary.rows.is_empty() { String::new() } else { summary.to_markdown() + "\n" };
    format!("# {}\n\nSimulated by `{command}`.\n\n{summary}{sections}", args.title)
}

/// Each variant where the load is highest, at both ends of the columns: what it gains, and what stops it from gaining
/// more.
fn summary_rows(plan: &Plan, sheets: &[Sheet]) -> Vec<Vec<String>> {
    let Some((own, variants)) = sheets.split_first().filter(|(own, _)| !own.table.stopped) else { return Vec::new() };
    let last = own.table.runs.len() - 1;
    let figures: Vec<(usize, usize)> = match plan.shape.cell {
        Some(metric) => [last + 1 - plan.shape.columns.labels.len(), last].map(|run| (run, metric)).to_vec(),
        None => plan.plot.iter().map(|metric| (last, *metric)).collect(),
    };
    let rows = figures
        .into_iter()
        .flat_map(|figure| variants.iter().filter_map(move |variant| summary_row(plan, &own.table, variant, figure)));
    rows.collect()
}

fn summary_row(plan: &Plan, own: &Table, sheet: &Sheet, (run, metric): (usize, usize)) -> Option<Vec<String>> {
    let known = &plan.system.metrics[metric];
    let (before, after) = (own.runs.get(run)?, sheet.table.runs.get(run)?);
    let case: Vec<String> = before
        .case
        .iter()
        .map(|(name, value)| format!("{} {value}", name.rsplit('.').next().unwrap_or(name)))
        .collect();
    let figure = format!("{} in {}, {}", known.name, known.unit, case.join(", "));
    let values = [before, after].map(|run| run.outcome.values[metric]);
    let gain = format!("{:.2} x", values[1] / values[0]);
    let fields = [
        plan.title.clone(),
        figure,
        digits(values[0]),
        sheet.variant.clone(),
        digits(values[1]),
        gain,
        after.outcome.limit.clone(),
    ];
    Some(fields.to_vec())
}

fn section(plan: &Plan, grids: &[(Grid, Option<Grid>)], plots: &[Plot]) -> String {
    let tables = grids.iter().map(|(grid, _)| grid.to_markdown());
    let plots = plots.iter().map(|plot| format!("![{}]({})\n\n{}\n", plan.title, plot.file, plot.caption));
    let parts: Vec<String> = plots.chain(tables).collect();
    format!("## {}\n\n{}\n\n{}\n", plan.title, plan.about, parts.join("\n"))
}

/// The own table, then each variant with its gain over the own table; each with what limits it.
fn grids(plan: &Plan, sheets: &[Sheet]) -> Vec<(Grid, Option<Grid>)> {
    let own = |sheet: &Sheet| (sheet.variant != OWN).then(|| &sheets[0].table);
    sheets.iter().map(|sheet| (value_grid(plan, sheet, own(sheet)), limit_grid(sheet))).collect()
}

fn value_grid(plan: &Plan, sheet: &Sheet, own: Option<&Table>) -> Grid {
    let table = &sheet.table;
    let shape = &table.shape;
    let unit = plan.shape.cell.map(|metric| &plan.system.metrics[metric]);
    let what = unit.map_or(String::new(), |metric| format!(", {} in {}", metric.name, metric.unit));
    let mut grid = Grid::new(format!("{}: {}{what}", plan.title, sheet.variant), &headings(table));
    for (r, label) in shape.rows.labels.iter().cloned().enumerate() {
        let cells =
            (0..shape.columns.labels.len()).map(|c| cell(table.value(r, c), own.and_then(|own| own.value(r, c))));
        grid.rows.push([label].into_iter().chain(cells).collect());
    }
    grid.notes.extend(limits(table));
    if table.stopped {
        grid.notes.push(STOPPED.to_owned());
    }
    grid
}

fn headings(table: &Table) -> Vec<String> {
    let corner = format!("{} \\ {}", table.shape.rows.title(), table.shape.columns.title());
    [corner].into_iter().chain(table.shape.columns.labels.iter().cloned()).collect()
}

/// A value, with its multiple of the own table's.
fn cell(value: Option<f64>, own: Option<f64>) -> String {
    match (value, own) {
        (None, _) => "-".to_owned(),
        (Some(value), Some(own)) if own != 0.0 => format!("{} ({:.2} x)", digits(value), value / own),
        (Some(value), _) => digits(value),
    }
}

/// The part that limits a run, without what is said of it.
fn part(run: &table::Run) -> &str {
    run.outcome.limit.split_whitespace().next().unwrap_or("-")
}

/// The part that limits each cell, where cells are runs of their own and not all limited by the same.
fn limit_grid(sheet: &Sheet) -> Option<Grid> {
    let table = &sheet.table;
    let shape = &table.shape;
    if shape.rows.is_metrics() || shape.columns.is_metrics() || same_part(table) {
        return None;
    }
    let mut grid = Grid::new(format!("What limits: {}", sheet.variant), &headings(table));
    for (r, label) in shape.rows.labels.iter().cloned().enumerate() {
        let parts = (0..shape.columns.labels.len()).map(|c| table.run_of(r, c).map_or("-", part).to_owned());
        grid.rows.push([label].into_iter().chain(parts).collect());
    }
    Some(grid)
}

fn same_part(table: &Table) -> bool {
    table.runs.windows(2).all(|pair| part(&pair[0]) == part(&pair[1]))
}

/// What limits, where a line can say it.
fn limits(table: &Table) -> Vec<String> {
    let Some(first) = table.runs.first() else { return Vec::new() };
    if table.runs.len() > 1 && same_part(table) {
        return vec![format!("Limited by {} everywhere.", part(first))];
    }
    if !table.shape.rows.is_metrics() && !table.shape.columns.is_metrics() {
        return Vec::new();
    }
    let line = |run: &table::Run| {
        let values: Vec<&str> = run.case.iter().map(|(_, value)| value.as_str()).collect();
        format!("Limit at {}: {}.", values.join("/"), run.outcome.limit)
    };
    table.runs.iter().map(line).collect()
}

fn sheet_rows(plan: &Plan, sheet: &Sheet, seed: u64) -> Vec<Row> {
    let stem = plan.path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    let commit = machine::commit();
    let row = |run: &table::Run| {
        let metrics = plan.system.metrics.iter().zip(&run.outcome.values);
        let metrics: Map<_, _> = metrics.map(|(metric, value)| (metric.name.to_owned(), (*value).into())).collect();
        let settings: Map<_, _> = run.case.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let set = |name: &str| {
            run.case.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.parse::<u64>().ok())
        };
        let row = Row::new(&stem, &sheet.variant).with(Key::Clients, set("client.threads"));
        row.with(Key::Size, set("client.size"))
            .with(Key::OpsPerS, metrics.get("ops_per_s").cloned())
            .with(Key::MbitPerS, metrics.get("mbit_per_s").cloned())
            .with(Key::Settings, settings)
            .with(Key::Metrics, metrics.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
            .with(Key::Limit, run.outcome.limit.as_str())
            .with(Key::Seed, seed)
            .with(Key::Commit, commit.as_str())
    };
    sheet.table.runs.iter().map(row).collect()
}
