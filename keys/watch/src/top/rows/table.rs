//! Builds a table column by column.

use super::View;
use crate::top::units::{amount, count, percent, quantiles, time};
use sidecore_core::stage::Stage;
use sidecore_counters::{Counter, Kind, Snapshot, Stats};
use sidecore_terminal::table::Rows;

pub(in crate::top) struct Seen<'a, C: Counter> {
    pub(super) total: &'a Stats<C>,
    pub(super) recent: &'a Stats<C>,
    pub(super) times: &'a Stats<C>,
}

pub(super) struct Table<'a, C: Counter> {
    pub(super) rows: Rows,
    view: &'a View,
    seen: Vec<Seen<'a, C>>,
}

pub(super) fn seen<'a, C: Counter>(
    view: &'a View,
    all: impl Fn(&'a Snapshot) -> &'a Vec<Stats<C>>,
) -> Vec<Seen<'a, C>> {
    let [total, recent, times] = [&view.total, &view.recent, view.times()].map(|snapshot| all(snapshot).iter());
    total.zip(recent).zip(times).map(|((total, recent), times)| Seen { total, recent, times }).collect()
}

impl<'a, C: Counter> Table<'a, C> {
    pub(super) fn new(view: &'a View, seen: Vec<Seen<'a, C>>) -> Self {
        Self { rows: Rows { columns: Vec::new(), cells: vec![Vec::new(); seen.len()] }, view, seen }
    }

    pub(super) fn text(self, heading: &str, cell: impl Fn(&Seen<'_, C>) -> String) -> Self {
        self.column(heading, false, cell)
    }

    pub(super) fn number(self, heading: &str, cell: impl Fn(&Seen<'_, C>) -> String) -> Self {
        self.column(heading, true, cell)
    }

    pub(super) fn times(self, heading: &str, stage: Stage) -> Self {
        self.number(&format!("{heading} p50/p99"), |one| quantiles(&one.times.stage(stage).summary()))
    }

    /// A column for each counter: its rate, its share of the time, or its sum, by its heading and kind.
    pub(super) fn counters(self, counters: &[C]) -> Self {
        counters.iter().fold(self, |table, counter| {
            let (row, recent) = (C::ROWS[counter.index()], &table.view.recent);
            table.number(row.heading, |one| match row.kind {
                Kind::Time => percent(recent.per_second(one.recent.get(*counter))),
                Kind::TimeLevel => time(one.total.get(*counter) as f64),
                _ if row.heading.ends_with("/S") => amount(recent.per_second(one.recent.get(*counter))),
                _ => count(one.total.get(*counter)),
            })
        })
    }

    fn column(mut self, heading: &str, number: bool, cell: impl Fn(&Seen<'_, C>) -> String) -> Self {
        self.rows.columns.push((heading.to_owned(), number));
        self.rows.cells.iter_mut().zip(&self.seen).for_each(|(cells, one)| cells.push(cell(one)));
        self
    }
}
