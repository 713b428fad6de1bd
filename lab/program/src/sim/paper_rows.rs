//! Compares the rows of `sidecore net papers` with a paper's plan of the same links. It compares changes from one link
//! to the other, because absolute figures belong to other machines.

use super::compare::percent;
use super::output::{predict, show_cells};
use crate::args::Plans;
use crate::error::LabError;
use crate::report::{Grid, Row, bytes, column, digits};
use serde_json::Value;
use sidecore_sim::compare::Cell;
use sidecore_sim::plan::{Changes, MAX_CELLS, Plan};
use std::collections::BTreeMap;
use std::path::Path;

const SYSTEM: &str = "pair";
const SCENARIO: &str = "net-lhcb";
/// Bytes of an IP packet that are not a datagram's payload.
const HEADERS: u64 = 28;
/// Smaller changes count as none.
const STILL: f64 = 0.02;
const WHERE: &str = "-where";

pub(crate) struct Predictions {
    plan: Plan,
    seed: u64,
    seen: Vec<(Changes, BTreeMap<&'static str, f64>)>,
}

impl Predictions {
    pub(crate) fn read(path: &Path, seed: u64) -> Result<Self, LabError> {
        Ok(Self::new(Plan::read(path)?, seed))
    }

    fn new(plan: Plan, seed: u64) -> Self {
        Self { plan, seed, seen: Vec::new() }
    }

    /// All finite results of the plan. `None`: the row has no settings for a plan.
    pub(crate) fn of(&mut self, row: &Row) -> Result<Option<BTreeMap<&'static str, f64>>, LabError> {
        let Some(settings) = row.get(column::SETTINGS) else { return Ok(None) };
        let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        let set = settings.as_object().and_then(|settings| settings.iter().map(text).collect::<Option<Changes>>());
        let set = set.ok_or_else(|| LabError::Usage(format!("settings are names with texts, not {settings}")))?;
        if let Some((_, known)) = self.seen.iter().find(|(known, _)| *known == set) {
            return Ok(Some(known.clone()));
        }
        let settings = self.plan.with(&set)?;
        let outcome = self.plan.system.run(&settings, self.seed);
        let metrics = self.plan.system.metrics.iter().zip(outcome.values).filter(|(_, value)| value.is_finite());
        let metrics: BTreeMap<_, _> = metrics.map(|(metric, value)| (metric.name, value)).collect();
        self.seen.push((set, metrics.clone()));
        Ok(Some(metrics))
    }
}

/// The figure of that name, or the quotient of `one/other`.
pub(crate) fn value(metrics: &BTreeMap<&'static str, f64>, name: &str) -> Option<f64> {
    let one = |name: &str| metrics.get(name).copied();
    match name.split_once('/') {
        Some((above, below)) => Some(one(above)? / one(below)?),
        None => one(name),
    }
}

pub(super) fn scenario(plan: &Plan) -> Option<&'static str> {
    (plan.system.name == SYSTEM).then_some(SCENARIO)
}

pub(super) fn compare(
    plan: &Plan,
    (path, scenario): (&Path, &str),
    rows: &[Row],
    args: &Plans,
) -> Result<bool, LabError> {
    let (own, others): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.scenario().trim_end_matches(WHERE) == scenario);
    let wrong = |why: String| LabError::failed(path.display().to_string(), why);
    let paper = scenario.trim_start_matches("net-");
    if own.is_empty() {
        return Err(wrong(format!(
            "has no row that this plan can run: make some by `sidecore net papers {paper} --json FILE`"
        )));
    }
    if own.len() > MAX_CELLS {
        return Err(wrong(format!("has {} rows, at most {MAX_CELLS} are compared", own.len())));
    }
    let mut predictions = Predictions::new(plan.clone(), args.effort.seed);
    let (mut cells, mut unknown) = (Vec::new(), 0);
    predict(&own, |row| {
        let first = row.text(column::BASELINE).and_then(|name| own.iter().find(|first| is_first(first, row, name)));
        let found = first.map(|first| changes(&mut predictions, first, row)).transpose();
        let found = found.map_err(|why| LabError::failed(path.display().to_string(), why))?;
        match found.flatten() {
            Some(found) => cells.extend(found),
            None => unknown += usize::from(row.text(column::BASELINE).is_some()),
        }
        Ok(())
    })?;
    show_cells(&args.output, &cells, &grid(&cells, unknown, others.len()))
}

/// Of the same load: messages of one size, or datagrams that each fill a packet.
fn is_first(first: &Row, row: &Row, name: &str) -> bool {
    let same = |key| first.get(key) == row.get(key);
    let is_full = |row: &Row| {
        row.number(column::SIZE)
            .zip(row.number(column::MTU))
            .is_some_and(|(size, mtu)| size as u64 + HEADERS == mtu as u64)
    };
    first.variant() == name
        && same(column::SCENARIO)
        && same(column::OP)
        && same(column::CLIENTS)
        && (same(column::SIZE) || (is_full(first) && is_full(row)))
}

fn changes(predictions: &mut Predictions, first: &Row, row: &Row) -> Result<Option<Vec<Cell>>, LabError> {
    let Some((before, after)) = predictions.of(first)?.zip(predictions.of(row)?) else { return Ok(None) };
    let size = row.number(column::SIZE).map_or_else(String::new, |size| format!(", {}", bytes(size as u64)));
    let clients = row.number(column::CLIENTS).map_or_else(String::new, |clients| format!(", {clients} connections"));
    let name = format!(
        "{}{size}{clients}: {} against {}",
        row.text(column::OP).unwrap_or_default(),
        row.variant(),
        first.variant()
    );
    let measured = |row: &Row, metric: &str| row.get(column::METRICS)?.get(metric)?.as_f64();
    let cell = |(metric, before): (&&'static str, &f64)| {
        let published = measured(row, metric)? / measured(first, metric)?;
        let predicted = after.get(metric)? / before;
        let cell = Cell::new(&name, metric, published, predicted);
        cell.error.is_finite().then_some(cell)
    };
    Ok(Some(before.iter().filter_map(cell).collect()))
}

fn grid(cells: &[Cell], unknown: usize, others: usize) -> Grid {
    let headings = ["case", "metric", "measured", "predicted", "error", ""];
    let mut grid = Grid::new("How figures change, measured and predicted", &headings);
    let moves = |ratio: f64| (ratio - 1.0).abs() > STILL;
    let is_opposite = |cell: &&Cell| {
        let (measured, predicted) = (cell.published, cell.predicted);
        moves(measured) && moves(predicted) && (measured > 1.0) != (predicted > 1.0)
    };
    for cell in cells {
        let mark = if is_opposite(&cell) { "other way" } else { "" }.to_owned();
        let figures = [cell.published, cell.predicted].map(|ratio| format!("{} x", digits(ratio)));
        let fields = [cell.row.clone(), cell.column.clone()].into_iter().chain(figures);
        grid.push(fields.chain([percent(cell.error), mark]));
    }
    let same = cells.len() - cells.iter().filter(is_opposite).count();
    grid.notes.push(format!("{same} of {} go the same way, or stay within {:.0} %.", cells.len(), STILL * 100.0));
    for (count, why) in [(unknown, "the plan has no such case"), (others, "they are of another scenario")] {
        grid.notes.extend((count > 0).then(|| format!("{count} rows are left out: {why}.")));
    }
    grid
}
