//! Plots of rows and their contents. A scenario's own plots stand in its file.

pub mod along;
mod series;

use crate::headline::typical_ratio;
use crate::plot::{Scale, Size};
pub use series::{Along, Series, bar_chart, differ};
use sidecore_report::{Column, Figure, Group, Row, Section, column, grouped};

/// Size of one of several plots in a line, pixels.
pub const SMALL: Size = (364, 290);
/// Size of a plot with a line of its own, pixels.
pub const LARGE: Size = (556, 330);

/// A section with bars of rates and ratios, and the median ratio as its headline.
pub const fn section(name: &'static str, title: &'static str, reading: &'static str) -> Section {
    Section::new(name, title, reading).plots(|rows| vec![bare(rows)]).headline(typical_ratio)
}

/// A plot of rates for each operation.
pub fn by_operation(rows: &[&Row]) -> Group {
    let mut series = Series::of(rows, &[column::OP, column::SIZE, column::LOAD]);
    let figures = grouped(rows, |row| row.text(column::OP))
        .into_iter()
        .map(|(op, rows)| figure(op.unwrap_or("all operations"), rates(&mut series, &rows)));
    let figures = figures.collect();
    Group { legend: series.names, figures }
}

/// Rates by size, or as bars where sizes do not differ.
pub fn rates(series: &mut Series<'_>, rows: &[&Row]) -> String {
    let drawn = series.lines(rows, column::SIZE, column::OPS_PER_S);
    if drawn.iter().any(|line| line.points.windows(2).any(|pair| pair[0].0 < pair[1].0)) {
        series.line_plot(SMALL, rows, along::SIZE, (along::RATE.0, Scale::Log10, along::RATE.2))
    } else {
        series.bar_plot(SMALL.0, rows, along::RATE, None)
    }
}

/// Bars of rates and of ratios.
pub fn bare(rows: &[&Row]) -> Group {
    let rates = figure("Operations a second", Series::of(rows, &[]).bar_plot(LARGE.0, rows, along::RATE, None));
    let Group { figures, .. } = ratios(rows);
    Group { legend: Vec::new(), figures: [rates].into_iter().chain(figures).collect() }
}

/// Bars of ratios, apart for each better direction.
pub fn ratios(rows: &[&Row]) -> Group {
    let rows: Vec<_> = rows.iter().copied().filter(|row| row.number(column::RATIO).is_some()).collect();
    let figures = grouped(&rows, |row| row.text(column::RATIO_BETTER)).into_iter().map(|(better, rows)| {
        let along = match better {
            Some("more") => along::RATIO,
            Some(_) => along::RATIO_OF_TIMES,
            None => along::RATIO_OF_BOTH,
        };
        figure(&ratio_title(&rows), Series::of(&rows, &[]).bar_plot(LARGE.0, &rows, along, Some(1.0)))
    });
    Group { legend: Vec::new(), figures: figures.collect() }
}

/// Title of a plot of ratios: the baseline, if it is one.
pub fn ratio_title(rows: &[&Row]) -> String {
    let mut names: Vec<_> = rows.iter().filter_map(|row| row.text(column::BASELINE)).collect();
    names.dedup();
    match names[..] {
        [name] => format!("Ratio to the baseline: {name}"),
        _ => "Ratio to each row's baseline".to_owned(),
    }
}

/// A plot for each text of that column.
pub fn panels(
    rows: &[&Row],
    key: &'static Column,
    title: &str,
    mut plot: impl FnMut(&[&Row]) -> String,
) -> Vec<Figure> {
    let groups = grouped(rows, |row| row.text(key));
    let alone = groups.len() == 1;
    let figures = groups.into_iter().map(|(key, rows)| {
        let title = key.filter(|_| !alone).map_or_else(|| title.to_owned(), |key| format!("{title}, {key}"));
        figure(&title, plot(&rows))
    });
    figures.collect()
}

/// A plot with its title.
pub fn figure(title: &str, svg: String) -> Figure {
    Figure { title: title.to_owned(), svg }
}
