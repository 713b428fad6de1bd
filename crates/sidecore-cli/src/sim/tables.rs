//! Plans as tables: their own, their variants, and beside published figures.

use super::plots::{self, Plot};
use super::stop::Steps;
use super::{bench_rows, output};
use crate::args::Plans;
use crate::machine;
use crate::report::{Grid, Row, digits};
use serde::Serialize;
use sidecore_sim::compare::{Cell, Comparison, Published, compare};
use sidecore_sim::plan::{Axis, Plan, Settings, Source};
use sidecore_sim::table::{self, Shape, Table};
use std::path::Path;

/// Name of a plan's own table beside its variants.
const OWN: &str = "as published";

/// A table with what it is a table of.
pub(super) struct Sheet {
    pub(super) variant: String,
    pub(super) table: Table,
}

pub(super) fn run(args: &Plans) -> Result<bool, String> {
    if args.compare.is_some() && args.files.len() != 1 {
        return Err("--compare takes one plan: name the one that the table is about".to_owned());
    }
    let mut plans = Vec::new();
    for path in &args.files {
        plans.push(read(path, &args.set)?);
    }
    if args.parameters {
        for plan in &plans {
            println!("{}", parameters(plan).to_text());
        }
        return Ok(true);
    }
    match &args.compare {
        Some(path) if path.extension().is_some_and(|extension| extension == "json") => {
            bench_rows::compare(&plans[0], path, args)
        }
        Some(path) => compare_one(&plans[0], path, args),
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
        grid.rows.push(vec![parameter.name.to_owned(), value.to_string(), unit, origin, meaning]);
    }
    grid
}

fn compare_one(plan: &Plan, path: &Path, args: &Plans) -> Result<bool, String> {
    let published = Published::read(path).map_err(|error| error.to_string())?;
    let kept: Vec<&str> = plan.settings.iter().filter(|(_, set)| by_hand(*set)).map(|(known, _)| known.name).collect();
    let mut steps = Steps::new("sim", published.rows.len() * published.columns.len())?;
    let found = compare(plan, &published, &kept, args.seed, &mut |done, _| steps.done(done));
    drop(steps);
    let comparison = found.map_err(|error| error.to_string())?;
    let grid = comparison_grid(plan, &comparison);
    print!("{}", grid.to_text());
    let lines: Vec<CellLine> = comparison.cells.iter().map(CellLine::of).collect();
    output::write(&args.output, &lines, || comparison_page(path, args, &grid), &[])?;
    Ok(true)
}

fn comparison_page(path: &Path, args: &Plans, grid: &Grid) -> String {
    let plan = args.files[0].display();
    let command = format!("sidecore sim {plan} --compare {} --seed {}", path.display(), args.seed);
    format!("# {}, beside published figures\n\nSimulated by `{command}`.\n\n{}", grid.title, grid.to_markdown())
}

fn by_hand(set: Option<&(sidecore_sim::plan::Value, Source)>) -> bool {
    matches!(set, Some((_, Source::CommandLine)))
}

/// A cell of a comparison as one line of JSON.
#[derive(Serialize)]
pub(super) struct CellLine<'a> {
    row: &'a str,
    column: &'a str,
    published: f64,
    predicted: f64,
    error: f64,
}

impl<'a> CellLine<'a> {
    pub(super) fn of(cell: &'a Cell) -> Self {
        let Cell { row, column, published, predicted, error } = cell;
        Self { row, column, published: *published, predicted: *predicted, error: *error }
    }
}

/// A signed share, without a sign before nothing.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:+.1} %", share * 100.0);
    if text == "-0.0 %" { "+0.0 %".to_owned() } else { text }
}

fn comparison_grid(plan: &Plan, comparison: &Comparison) -> Grid {
    let titles = (comparison.table.shape.rows.title(), comparison.table.shape.columns.title());
    let mut grid = Grid::new(&plan.title, &[titles.0, titles.1, "published", "predicted", "error"]);
    for cell in &comparison.cells {
        let error = percent(cell.error);
        let fields = [cell.row.clone(), cell.column.clone(), digits(cell.published), digits(cell.predicted), error];
        grid.rows.push(fields.to_vec());
    }
    if let Some(worst) = comparison.worst() {
        grid.notes.push(format!(
            "{} cells: median error {:.1} %, worst {:.1} % at {} {}",
            comparison.cells.len(),
            comparison.median_error() * 100.0,
            worst.error.abs() * 100.0,
            worst.row,
            worst.column
        ));
    }
    if !comparison.left_out.is_empty() {
        grid.notes.push(format!("Left out, for the plan has no such metric: {}", comparison.left_out.join(", ")));
    }
    if !comparison.understood.is_empty() {
        grid.notes.push(format!("From the table's heading: {}", comparison.understood.join(", ")));
    }
    if comparison.table.stopped {
        grid.notes.push(STOPPED.to_owned());
    }
    grid
}

const STOPPED: &str = "Stopped before its end: what is missing was not run.";

fn tables(plans: &[Plan], args: &Plans) -> Result<bool, String> {
    let (mut rows, mut sections, mut drawn) = (Vec::new(), String::new(), Vec::new());
    let mut summary =
        Grid::new("In one table", &["system", "figure", "as published", "with", "", "gain", "limited by"]);
    for plan in plans {
        let sheets = sheets(plan, args.seed)?;
        let grids = grids(plan, &sheets);
        for (grid, limits) in &grids {
            println!("{}", grid.to_text());
            if let Some(limits) = limits {
                println!("{}", limits.to_text());
            }
        }
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
    Ok(true)
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
    let figures: Vec<(usize, usize)> = match plan.cell {
        Some(metric) => [last + 1 - plan.columns.len(), last].map(|run| (run, metric)).to_vec(),
        None => plan.plot.iter().map(|metric| (last, *metric)).collect(),
    };
    let rows = figures
        .into_iter()
        .flat_map(|figure| variants.iter().filter_map(move |variant| summary_row(plan, &own.table, variant, figure)));
    rows.collect()
}

fn summary_row(plan: &Plan, own: &Table, sheet: &Sheet, (run, metric): (usize, usize)) -> Option<Vec<String>> {
    let known = &plan.system.metrics()[metric];
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

/// The plan's own table and those of its variants.
fn sheets(plan: &Plan, seed: u64) -> Result<Vec<Sheet>, String> {
    let shape = Shape::of(plan);
    let mut all: Vec<(String, Settings)> = vec![(OWN.to_owned(), plan.settings.clone())];
    for variant in &plan.variants {
        all.push((variant.name.clone(), plan.with(&variant.set).map_err(|error| error.to_string())?));
    }
    let runs = |axis: &Axis| if axis.is_metrics() { 1 } else { axis.len() };
    let each = runs(&shape.rows) * runs(&shape.columns);
    let mut steps = Steps::new("sim", all.len() * each)?;
    let mut sheets = Vec::new();
    for (variant, settings) in all {
        let before = sheets.len() * each;
        let table = table::run(plan, &settings, &shape, seed, &mut |done, _| steps.done(before + done));
        let table = table.map_err(|error| error.to_string())?;
        let stopped = table.stopped;
        sheets.push(Sheet { variant, table });
        if stopped {
            break;
        }
    }
    Ok(sheets)
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
    let unit = plan.cell.map(|metric| &plan.system.metrics()[metric]);
    let what = unit.map_or(String::new(), |metric| format!(", {} in {}", metric.name, metric.unit));
    let mut grid = Grid::new(format!("{}: {}{what}", plan.title, sheet.variant), &[]);
    grid.headings.push(format!("{} \\ {}", shape.rows.title(), shape.columns.title()));
    grid.headings.extend(table.column_labels());
    for (r, label) in table.row_labels().into_iter().enumerate() {
        let cells = (0..shape.columns.len()).map(|c| cell(table.value(r, c), own.and_then(|own| own.value(r, c))));
        grid.rows.push([label].into_iter().chain(cells).collect());
    }
    grid.notes.extend(limits(table));
    if table.stopped {
        grid.notes.push(STOPPED.to_owned());
    }
    grid
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
    let mut grid = Grid::new(format!("What limits: {}", sheet.variant), &[]);
    grid.headings.push(format!("{} \\ {}", shape.rows.title(), shape.columns.title()));
    grid.headings.extend(table.column_labels());
    for (r, label) in table.row_labels().into_iter().enumerate() {
        let parts = (0..shape.columns.len()).map(|c| table.run_of(r, c).map_or("-", part).to_owned());
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
        let metrics = plan.system.metrics().iter().zip(&run.outcome.values);
        let metric = |name: &str| {
            let found = plan.system.metrics().iter().position(|metric| metric.name == name);
            found.map(|index| run.outcome.values[index]).filter(|value| value.is_finite())
        };
        let set =
            |name: &str| run.case.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.parse().ok());
        Row {
            clients: set("client.threads").map(|threads: u64| threads as u32),
            size: set("client.size"),
            ops_per_s: metric("ops_per_s"),
            mbit_per_s: metric("mbit_per_s"),
            settings: Some(run.case.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()),
            metrics: Some(
                metrics.filter(|(_, value)| value.is_finite()).map(|(m, value)| (m.name.to_owned(), *value)).collect(),
            ),
            limit: Some(run.outcome.limit.clone()),
            seed: Some(seed),
            commit: Some(commit.clone()),
            ..Row::new(&stem, &sheet.variant)
        }
    };
    sheet.table.runs.iter().map(row).collect()
}
