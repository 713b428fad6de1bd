//! Plots of repeated papers: two links compared, and their effects compared with the published ones.

use super::super::column::Key;
use super::super::plot::{Bar, Scale};
use super::super::{Row, grouped};
use super::series::{Along, Series, bar_chart, differ};
use super::{CPU_BYTE, Figure, Group, LARGE, MEDIAN, PAYLOAD, PER_PACKET, SIZE, figure};

const CONNECTIONS: Along = ("connections", Scale::Log2, Key::Clients);

/// Each figure by size and by connections if there are several, a line for each link; otherwise a bar for each link.
pub(super) fn links(rows: &[&Row]) -> Group {
    let mut series = Series::of(rows, &[Key::Op, Key::Size, Key::Clients]);
    let mut figures = Vec::new();
    for (what, along) in [("Payload", PAYLOAD), ("CPU time per byte", CPU_BYTE), ("Median round trip", MEDIAN)] {
        let is_of = |row: &&Row| row.number(along.2).is_some() && (along.2 != Key::MbitPerS || !is_trip(row));
        let rows: Vec<_> = rows.iter().copied().filter(is_of).collect();
        let along = (along.0, Scale::Linear, along.2);
        for (op, rows) in grouped(&rows, |row| row.text(Key::Op)) {
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
    row.text(Key::Op).is_some_and(|op| op.ends_with("round trip"))
}

/// Curves over sizes and over connections. The other property is fixed at the value with the most rows.
fn curves(series: &mut Series<'_>, rows: &[&Row], y: Along) -> Vec<(&'static str, String)> {
    let mut curve = |by, x: Along, fixed: Key| {
        let groups = grouped(rows, |row| row.get(fixed)).into_iter().map(|(_, rows)| rows);
        let rows = groups.max_by_key(|rows| grouped(rows, |row| row.get(x.2)).len())?;
        // A point for each link is no curve.
        differ(&rows, x.2).then(|| (by, series.line_plot(LARGE, &rows, x, y)))
    };
    [curve("size", SIZE, Key::Clients), curve("connections", CONNECTIONS, Key::Size)].into_iter().flatten().collect()
}

/// Effects that are ratios: published, simulated and measured.
pub(super) fn effects(rows: &[&Row]) -> Group {
    let kinds = [("published", Key::Published), ("simulated", Key::Simulated), ("measured", Key::Measured)];
    let bars = |row: &&Row| {
        let bar = |(colour, (kind, key)): (usize, (&str, Key))| {
            let text = format!("{kind} {}", key.column().cell(row)?);
            Some(Bar { name: String::new(), parts: vec![(colour, row.number(key)?)], text, range: None })
        };
        let mut bars: Vec<_> = kinds.into_iter().enumerate().filter_map(bar).collect();
        bars.iter_mut().take(1).for_each(|bar| row.variant().clone_into(&mut bar.name));
        bars
    };
    let is_ratio = |row: &&&Row| row.text(Key::EffectUnit) == Some("x");
    let bars: Vec<_> = rows.iter().filter(is_ratio).flat_map(bars).collect();
    let svg = bar_chart(2 * LARGE.0, ("how much it changes", Scale::Log2, Key::Ratio), &bars, Some(1.0));
    let legend = kinds.map(|(kind, _)| (kind.to_owned(), false)).into();
    Group { legend, figures: vec![figure("How much each figure changes: to the right is more", svg)] }
}

/// A bar for each link, composed of the path's components.
pub(super) fn components(rows: &[&Row]) -> Group {
    let figures = grouped(rows, |row| row.text(Key::Op)).into_iter().map(|(op, rows)| {
        let bar = |row: &&Row| {
            let parts: Vec<_> = PER_PACKET.iter().filter_map(|key| row.number(*key)).enumerate().collect();
            let sum = parts.iter().map(|part| part.1).sum();
            Bar { name: row.variant().to_owned(), text: (Key::UsPerPacket.column().writer())(sum), parts, range: None }
        };
        let bars: Vec<_> = rows.iter().map(bar).filter(|bar| !bar.parts.is_empty()).collect();
        let along = ("CPU time per packet", Scale::Linear, Key::UsPerPacket);
        figure(&format!("CPU time per packet, {}", op.unwrap_or_default()), bar_chart(2 * LARGE.0, along, &bars, None))
    });
    let figures: Vec<Figure> = figures.collect();
    let names = PER_PACKET.map(|key| key.column().place().1.unwrap_or_default().to_owned());
    Group { figures, legend: names.map(|name| (name, false)).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(group: &Group) -> Vec<&str> {
        let drawn = group.figures.iter().filter(|figure| !figure.svg.is_empty());
        drawn.map(|figure| figure.title.as_str()).collect()
    }

    fn row(variant: &str, op: &str, size: u32, clients: u32) -> Row {
        let row = Row::new("net-hoti", variant).with(Key::Op, op).with(Key::Size, size).with(Key::Clients, clients);
        if is_trip(&row) { row.with(Key::TotalP50, size) } else { row.with(Key::MbitPerS, size) }
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
        let effect = Row::new("net-hoti-effects", "CPU time").with(Key::EffectUnit, "x");
        let effect = effect.with(Key::Published, 1.3).with(Key::Measured, 1.25);
        let other = Row::new("net-hoti-effects", "round trip").with(Key::EffectUnit, "us").with(Key::Measured, 6.0);
        let svg = &effects(&[&effect, &other]).figures[0].svg;
        assert!(svg.contains("published 1.30 x") && svg.contains("measured 1.25 x"), "{svg}");
        assert!(!svg.contains("simulated") && !svg.contains("6.0"), "{svg}");
    }
}
