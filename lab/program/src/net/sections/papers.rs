//! Plots of repeated papers: two links compared, and their effects compared with the published ones.

use super::CPU_BYTE;
use crate::net::columns;
use crate::report::figures::{Along, LARGE, Series, along, bar_chart, differ, figure};
use crate::report::plot::{Bar, Scale};
use crate::report::{Column, Group, Row, column, grouped};

const CONNECTIONS: Along = ("connections", Scale::Log2, column::CLIENTS);

pub(super) fn links(rows: &[&Row]) -> Group {
    let mut series = Series::of(rows, &[column::OP, column::SIZE, column::CLIENTS]);
    let mut figures = Vec::new();
    for (what, along) in
        [("Payload", along::PAYLOAD), ("CPU time per byte", CPU_BYTE), ("Median round trip", along::MEDIAN)]
    {
        let is_of = |row: &&Row| row.number(along.2).is_some() && (along.2 != column::MBIT_PER_S || !is_trip(row));
        let rows: Vec<_> = rows.iter().copied().filter(is_of).collect();
        let along = (along.0, Scale::Linear, along.2);
        for (op, rows) in grouped(&rows, |row| row.text(column::OP)) {
            let op = op.unwrap_or_default();
            // With several links the links are compared, and few points make no curve.
            let is_pair = grouped(&rows, Row::variant).len() <= 2;
            let drawn = if is_pair { curves(&mut series, &rows, along) } else { Vec::new() };
            if drawn.is_empty() {
                figures.push(figure(&format!("{what}, {op}"), series.bar_plot(LARGE.0, &rows, along, None)));
            }
            figures.extend(drawn.into_iter().map(|(by, svg)| figure(&format!("{what} by {by}, {op}"), svg)));
        }
    }
    Group { legend: series.names, figures }
}

fn is_trip(row: &Row) -> bool {
    row.text(column::OP).is_some_and(|op| op.ends_with("round trip"))
}

/// Curves over sizes and over connections. The other property is fixed at the value with the most rows.
fn curves(series: &mut Series<'_>, rows: &[&Row], y: Along) -> Vec<(&'static str, String)> {
    let mut curve = |by, x: Along, fixed: &'static Column| {
        let groups = grouped(rows, |row| row.get(fixed)).into_iter().map(|(_, rows)| rows);
        let rows = groups.max_by_key(|rows| grouped(rows, |row| row.get(x.2)).len())?;
        // A point for each link is no curve.
        differ(&rows, x.2).then(|| (by, series.line_plot(LARGE, &rows, x, y)))
    };
    [curve("size", along::SIZE, column::CLIENTS), curve("connections", CONNECTIONS, column::SIZE)]
        .into_iter()
        .flatten()
        .collect()
}

pub(super) fn effects(rows: &[&Row]) -> Group {
    let kinds = [("published", columns::PUBLISHED), ("simulated", columns::SIMULATED), ("measured", columns::MEASURED)];
    let bars = |row: &&Row| {
        let bar = |(colour, (kind, key)): (usize, (&str, &'static Column))| {
            let text = format!("{kind} {}", key.cell(row)?);
            Some(Bar { name: String::new(), parts: vec![(colour, row.number(key)?)], text, range: None })
        };
        let mut bars: Vec<_> = kinds.into_iter().enumerate().filter_map(bar).collect();
        bars.iter_mut().take(1).for_each(|bar| row.variant().clone_into(&mut bar.name));
        bars
    };
    let is_ratio = |row: &&&Row| row.text(columns::EFFECT_UNIT) == Some("x");
    let bars: Vec<_> = rows.iter().filter(is_ratio).flat_map(bars).collect();
    let svg = bar_chart(2 * LARGE.0, ("how much it changes", Scale::Log2, column::RATIO), &bars, Some(1.0));
    let legend = kinds.map(|(kind, _)| (kind.to_owned(), false)).into();
    Group { legend, figures: vec![figure("How much each figure changes: to the right is more", svg)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(group: &Group) -> Vec<&str> {
        let drawn = group.figures.iter().filter(|figure| !figure.svg.is_empty());
        drawn.map(|figure| figure.title.as_str()).collect()
    }

    fn row(variant: &str, op: &str, size: u32, clients: u32) -> Row {
        let row =
            Row::new("net-hoti", variant).with(column::OP, op).with(column::SIZE, size).with(column::CLIENTS, clients);
        if is_trip(&row) { row.with(column::TOTAL_P50, size) } else { row.with(column::MBIT_PER_S, size) }
    }

    #[test]
    fn curves_go_over_what_differs() {
        let mut rows = Vec::new();
        for variant in ["integrated", "discrete"] {
            rows.extend([(64, 32), (128, 32), (128, 1)].map(|(size, clients)| row(variant, "tcp send", size, clients)));
            rows.extend([64, 128].map(|size| row(variant, "tcp round trip", size, 1)));
        }
        let found = links(&rows.iter().collect::<Vec<_>>());
        let expected = [
            "Payload by size, tcp send",
            "Payload by connections, tcp send",
            "Median round trip by size, tcp round trip",
        ];
        assert_eq!(titles(&found), expected);
    }

    #[test]
    fn several_links_are_bars() {
        let names = ["mtu=1500", "mtu=9000", "coalescence_us=32", "coalescence_us=1024"];
        let rows = names.map(|name| row(name, "udp send", if name == "mtu=9000" { 8_972 } else { 1_472 }, 1));
        assert_eq!(titles(&links(&rows.iter().collect::<Vec<_>>())), ["Payload, udp send"]);
    }

    #[test]
    fn an_effect_is_a_bar_for_each_source() {
        let effect = Row::new("net-hoti-effects", "CPU time").with(columns::EFFECT_UNIT, "x");
        let effect = effect.with(columns::PUBLISHED, 1.3).with(columns::MEASURED, 1.25);
        let other =
            Row::new("net-hoti-effects", "round trip").with(columns::EFFECT_UNIT, "us").with(columns::MEASURED, 6.0);
        let svg = &effects(&[&effect, &other]).figures[0].svg;
        assert!(svg.contains("published 1.30 x") && svg.contains("measured 1.25 x"), "{svg}");
        assert!(!svg.contains("simulated") && !svg.contains("6.0"), "{svg}");
    }
}
