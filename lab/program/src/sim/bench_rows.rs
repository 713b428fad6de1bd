//! Compares the rows of a fresh `sidecore bench` with predictions of this machine's plan. Rows of `net papers` go to
//! [`paper_rows`], rows of `farm bench` to [`farm_rows`].

use super::compare::percent;
use super::output::{predict, read_rows, show_cells};
use super::{farm_rows, paper_rows};
use crate::args::Plans;
use crate::error::LabError;
use crate::report::{Column, Grid, Row, column, digits};
use sidecore::core::session::Class;
use sidecore_sim::compare::Cell;
use sidecore_sim::estimate::Effort;
use sidecore_sim::plan::{Changes, Plan};
use sidecore_sim::settings::Parameter;
use std::path::Path;

/// Largest accepted errors. Latencies of the system `machine` are not predicted: they depend on the machine's other load.
const WITHIN: [(&str, &str, f64); 3] =
    [("ops_per_s", "rates", 0.05), ("rate_per_s", "rates under random arrivals", 0.03), ("p50_us", "medians", 0.15)];

const MIN_REQUESTS: f64 = 100.0;

struct Case {
    name: String,
    set: Changes,
    measured: Vec<(&'static str, f64)>,
}

pub(super) fn compare(plan: &Plan, path: &Path, args: &Plans) -> Result<bool, LabError> {
    if let Some(scenario) = paper_rows::scenario(plan) {
        return paper_rows::compare(plan, (path, scenario), &read(path)?, args);
    }
    if plan.system.name == "farm" {
        return farm_rows::compare(plan, path, args);
    }
    let scenarios: &[&str] = match plan.system.name {
        "pool" => &["pool"],
        "machine" => &["crypto", "notify"],
        _ => return Err(not_predicted(path)),
    };
    let mut rows = read(path)?;
    rows.retain(|row| scenarios.contains(&row.scenario()));
    if rows.is_empty() {
        return Err(not_predicted(path));
    }
    let is_pool = plan.system.name == "pool";
    let (mut cells, mut left_out) = (Vec::<Cell>::new(), 0);
    predict(&rows, |row| {
        match if is_pool { pool_case(plan, row) } else { case(plan, row) } {
            Some(case) if cells.iter().any(|known| known.row == case.name) => {}
            Some(case) => cells.extend(predicted(plan, case, &args.effort.effort())?),
            None => left_out += usize::from(is_pool || row.scenario() == "notify" || row.variant() == "sidecore"),
        }
        Ok(())
    })?;
    let grid = grid(&cells, is_pool, left_out);
    show_cells(&args.output, &cells, &grid)
}

fn not_predicted(path: &Path) -> LabError {
    LabError::Usage(format!(
        "{} holds no row that this plan predicts: those of `bench crypto` and `bench notify` are predicted by a plan of \
         `bench calibrate`, those of `bench pool` by one of the system pool, those of `net papers lhcb` by plans/lhcb.toml, \
         those of `farm bench` by plans/farm.toml",
        path.display()
    ))
}

fn predicted(plan: &Plan, Case { name, set, measured }: Case, effort: &Effort) -> Result<Vec<Cell>, LabError> {
    let settings = plan.with(&set)?;
    let number = |metric: &str| plan.system.metrics.iter().position(|known| known.name == metric);
    let wanted: Vec<usize> = measured.iter().filter_map(|(metric, _)| number(metric)).collect();
    let (_, estimates) = plan.system.estimate(&settings, &wanted, effort);
    let cell = |(metric, published): (&str, f64)| {
        let estimate = estimates[number(metric)?];
        Some(Cell::new(&name, metric, published, estimate.mean).sure(&estimate))
    };
    Ok(measured.into_iter().filter_map(cell).collect())
}

fn read(path: &Path) -> Result<Vec<Row>, LabError> {
    read_rows(path, "a bench", Row::from_json_line)
}

fn case(plan: &Plan, row: &Row) -> Option<Case> {
    let (depth, load) = driven(plan, row)?;
    let op = [
        ("client.op", row.text(column::OP).unwrap_or_default().to_owned()),
        ("client.size", row.number(column::SIZE).unwrap_or_default().to_string()),
        ("service.sample_every", if row.scenario() == "notify" { "4" } else { "64" }.to_owned()),
    ];
    // The plan's capacity may differ from the measured one: the offered requests a second must be the same.
    let offered = row.number(column::SENT_PER_S).filter(|_| load > 0.0).unwrap_or(0.0);
    let of = |key: &'static Column| row.number(key).filter(|_| load > 0.0).unwrap_or(0.0);
    // The number of requests that the bench offered in one repeat, and its arrival times.
    let requests = (offered * of(column::OFFERED_S)).round();
    let requests = (requests > 0.0).then(|| ("client.requests", requests.max(MIN_REQUESTS).to_string()));
    let arrivals = [
        ("client.arrivals_seed", of(column::SEED).to_string()),
        ("client.arrivals_repeats", (of(column::REPEATS) * f64::from(row.number(column::SEED).is_some())).to_string()),
    ];
    // The policies use the park times that the bench's service measured at its start.
    let park = [("wake.park_cost_ns", column::PARK_COST_NS), ("wake.time_ns", column::WAKE_TIME_NS)];
    let park = park.into_iter().filter_map(|(name, key)| Some((name, row.number(key)?.to_string())));
    let set = op.into_iter().chain(arrivals).chain(park).chain(requests).chain([
        ("client.depth", depth.to_string()),
        ("client.load", load.to_string()),
        ("client.rate_per_s", offered.to_string()),
        ("service.notify", row.text(column::NOTIFY).unwrap_or_default().to_owned()),
    ]);
    let set = set.map(|(name, value)| (name.to_owned(), value)).collect();
    let how = if load > 0.0 { format!("load {load}") } else { format!("{depth} in flight") };
    let (op, size, notify) = (row.text(column::OP)?, row.number(column::SIZE)?, row.text(column::NOTIFY)?);
    let name = format!("{} {op} {size} B, {how}, {notify}", row.scenario());
    Some(Case { name, set, measured: vec![("ops_per_s", row.number(column::OPS_PER_S)?)] })
}

/// Requests in flight of the row, or its load. `None`: the plan cannot run it.
fn driven(plan: &Plan, row: &Row) -> Option<(u32, f64)> {
    let op = row.text(column::OP)?;
    let is_measured = |parameter: &Parameter| parameter.name.strip_suffix(".at_64_ns") == Some(op);
    let is_known =
        plan.settings.iter().any(|(parameter, _)| is_measured(parameter)) && row.number(column::CLIENTS) == Some(1.0);
    if !is_known || row.number(column::SIZE).is_none() || row.text(column::NOTIFY).is_none() {
        return None;
    }
    match (row.scenario(), row.variant()) {
        ("crypto", "sidecore") => Some((64, 0.0)),
        ("notify", "open") => Some((1, row.number(column::LOAD)?)),
        ("notify", "closed") => Some((1, 0.0)),
        _ => None,
    }
}

fn grid(cells: &[Cell], is_pool: bool, left_out: usize) -> Grid {
    let headings = ["case", "metric", "measured", "predicted", "error", ""];
    let mut grid = Grid::new("This machine, measured and predicted", &headings);
    let is_met = |cell: &Cell| WITHIN.iter().any(|(name, _, bound)| *name == cell.column && cell.error.abs() <= *bound);
    for cell in cells {
        let mark = if is_met(cell) { "" } else { "miss" }.to_owned();
        let figures = [digits(cell.published), digits(cell.predicted), percent(cell.error), mark];
        grid.push([cell.row.clone(), cell.column.clone()].into_iter().chain(figures));
    }
    for (column, what, bound) in WITHIN {
        let of: Vec<&Cell> = cells.iter().filter(|cell| cell.column == column).collect();
        if !of.is_empty() {
            let met = of.iter().filter(|cell| is_met(cell)).count();
            grid.notes.push(format!("{what}: {met} of {} within {:.0} %", of.len(), bound * 100.0));
        }
    }
    if left_out > 0 {
        let why = if is_pool {
            "their operation is not among the plan's work"
        } else {
            "several clients on one core, or operations that calibrate does not measure"
        };
        grid.notes.push(format!("{left_out} rows are left out: {why}."));
    }
    grid
}

/// `None`: the plan does not have the row's operation, or the row lacks something.
fn pool_case(plan: &Plan, row: &Row) -> Option<Case> {
    let (op, size, load) = (row.text(column::OP)?, row.number(column::SIZE)?, row.number(column::LOAD)?);
    let (notify, offered) = (row.text(column::NOTIFY)?, row.number(column::SENT_PER_S)?);
    let class = Class::from_name(op)?;
    let works: Vec<&str> = plan
        .settings
        .iter()
        .filter_map(|(parameter, _)| parameter.name.strip_prefix("work.")?.strip_suffix(".share"))
        .collect();
    let own = works.iter().copied().filter(|name| class.belongs_to(name)).max_by_key(|name| name.len())?;
    let share = |name: &&str| (format!("work.{name}.share"), u8::from(*name == own).to_string());
    let shares = works.iter().map(share);
    let mut set = vec![("requests.rate_per_s".to_owned(), offered.to_string())];
    set.extend(shares);
    set.push((format!("work.{own}.bytes"), size.to_string()));
    set.push(("host.notify".to_owned(), notify.to_owned()));
    if notify != "spin" {
        // A sleeping sidecore is woken for the first of several answers.
        set.push(("host.interrupt_us".to_owned(), plan.settings.text("host.wake_us")?.to_owned()));
    }
    let median = row.number(column::TOTAL_P50).map(|median| ("p50_us", median));
    let measured = [("rate_per_s", row.number(column::OPS_PER_S)?)].into_iter().chain(median).collect();
    Some(Case { name: format!("pool {op} {size} B, load {load}, {notify}"), set, measured })
}
