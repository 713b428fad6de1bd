//! Plots of a plan's tables: the published software compared with each variant.

use crate::report::plot::{Axis, Bar, Line, Scale, bars, colour_name, lines, on_white};
use crate::report::{bytes, digits};
use sidecore_sim::plan::Plan;
use sidecore_sim::table::Table;

pub(super) const SIZE: (u32, u32) = (760, 360);

pub(super) struct Sheet {
    pub(super) variant: String,
    pub(super) table: Table,
}

pub(super) struct Plot {
    pub(super) file: String,
    pub(super) svg: String,
    pub(super) caption: String,
}

pub(super) fn plots(plan: &Plan, sheets: &[Sheet]) -> Vec<Plot> {
    let stem = stem(plan);
    match plan.shape.cell {
        Some(metric) => vec![curves(plan, sheets, metric, format!("{stem}.svg"))],
        None => plan.plot.iter().map(|metric| bar_plot(plan, sheets, *metric, &stem)).collect(),
    }
}

pub(super) fn stem(plan: &Plan) -> String {
    plan.path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned())
}

fn curves(plan: &Plan, sheets: &[Sheet], metric: usize, file: String) -> Plot {
    let metric = &plan.system.metrics[metric];
    let shape = &plan.shape;
    let last = shape.rows.labels.len() - 1;
    let line = |(colour, sheet): (usize, &Sheet)| {
        let labels = &sheet.table.shape.columns.labels;
        let point = |c: usize| Some((labels[c].parse().ok()?, sheet.table.value(last, c)?));
        Line { colour, dashed: colour == 0, points: (0..labels.len()).filter_map(point).collect(), ..Line::default() }
    };
    let of_size = shape.columns.title() == "size";
    let across =
        Axis::new(shape.columns.title(), Scale::Log2, if of_size { |size| bytes(size.round() as u64) } else { digits });
    let up = Axis::new(format!("{}, {}", metric.name, metric.unit), Scale::Linear, digits);
    let drawn: Vec<Line> = sheets.iter().enumerate().map(line).collect();
    let names = sheets.iter().enumerate().map(|(i, sheet)| format!("{} {}", colour_name(i), sheet.variant));
    let rows = &shape.rows;
    let row = if rows.is_metrics() { String::new() } else { format!("{} {}", rows.title(), rows.labels[last]) };
    let caption = format!("{} at {row}: {}.", metric.meaning, names.collect::<Vec<_>>().join(", "));
    Plot { file, svg: on_white(&lines(SIZE, &across, &up, &drawn)), caption }
}

fn bar_plot(plan: &Plan, sheets: &[Sheet], metric: usize, stem: &str) -> Plot {
    let name = &plan.system.metrics[metric];
    let mut all = Vec::new();
    for (number, sheet) in sheets.iter().enumerate() {
        let values: Vec<f64> = sheet.table.runs.iter().map(|run| run.outcome.values[metric]).collect();
        let bar =
            |name: String, value: f64| Bar { name, parts: vec![(number, value)], text: digits(value), range: None };
        if values.windows(2).all(|pair| pair[0].to_bits() == pair[1].to_bits()) {
            all.extend(values.first().map(|value| bar(sheet.variant.clone(), *value)));
            continue;
        }
        let labels = &sheet.table.shape.columns.labels;
        all.extend(labels.iter().zip(values).map(|(label, value)| bar(format!("{}: {label}", sheet.variant), value)));
    }
    let axis = Axis::new(format!("{}, {}", name.name, name.unit), Scale::Linear, digits);
    let file = format!("{stem}-{}.svg", name.name.to_lowercase().replace('_', "-"));
    Plot { file, svg: on_white(&bars(SIZE.0, &axis, &all, None)), caption: format!("{}.", name.meaning) }
}
