//! Tables for a terminal.

use comfy_table::{Cell, CellAlignment, LineStyle, Table as Drawn, TableStyle};

use super::format::clean;
use super::table::{Column, Table};
use super::{Report, Row, scenario};

/// Width that tables keep to where they can.
const WIDTH: usize = 100;
/// Columns are this far apart.
const GAP: usize = 2;
pub(super) const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// The whole report as text.
pub(crate) fn render(report: &Report) -> String {
    let from = format!("{}, commit {}", clean(&report.machine), clean(&report.commit));
    let mut lines = vec![clean(&report.title), from];
    for (name, rows) in report.by_scenario() {
        lines.extend(section(name, &rows));
    }
    lines.extend(list("Notes", &report.notes));
    lines.extend(list("Left out", &report.left_out));
    lines.join("\n") + "\n"
}

fn section(name: &str, rows: &[&Row]) -> Vec<String> {
    let table = Table::of(rows);
    let (kept, dropped) = fit(&table);
    let mut lines = vec![String::new(), clean(scenario::title(name))];
    if !table.shared.is_empty() {
        let shared: Vec<_> = table.shared.iter().map(|(header, value)| format!("{header} {value}")).collect();
        lines.push(format!("All rows: {}", shared.join(", ")));
    }
    lines.extend([String::new(), draw(&table, &kept)]);
    if !dropped.is_empty() {
        lines.extend(wrapped(&format!("No room here, but in the other formats: {}", dropped.join(", "))));
    }
    lines
}

/// The words in lines of that width.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn list(heading: &str, items: &[String]) -> Vec<String> {
    if items.is_empty() {
        return Vec::new();
    }
    let items = items.iter().map(|item| format!("- {}", clean(item)));
    [String::new(), heading.to_owned()].into_iter().chain(items).collect()
}

/// The indices of the columns that fit, and the headers of those that do not.
fn fit(table: &Table) -> (Vec<usize>, Vec<&'static str>) {
    let widths: Vec<_> = (0..table.columns.len()).map(|index| width(table, index)).collect();
    let mut kept: Vec<_> = (0..table.columns.len()).collect();
    let mut dropped = Vec::new();
    while kept.iter().map(|&index| widths[index] + GAP).sum::<usize>() > WIDTH + GAP {
        let least = kept.iter().copied().max_by_key(|&index| table.columns[index].expendable);
        let Some(least) = least.filter(|&index| table.columns[index].expendable > 0) else { break };
        kept.retain(|&index| index != least);
        dropped.push(table.columns[least].header);
    }
    (kept, dropped)
}

fn width(table: &Table, index: usize) -> usize {
    let cells = table.cells.iter().map(|cells| cells[index].chars().count());
    cells.chain([table.columns[index].header.len()]).max().unwrap_or(0)
}

fn draw(table: &Table, kept: &[usize]) -> String {
    let mut drawn = Drawn::new();
    drawn.load_style(STYLE);
    drawn.set_header(kept.iter().map(|&index| cell(table.columns[index], table.columns[index].header)));
    for cells in &table.cells {
        drawn.add_row(kept.iter().map(|&index| cell(table.columns[index], &cells[index])));
    }
    for (position, column) in drawn.column_iter_mut().enumerate() {
        // comfy-table adds one space between columns itself.
        column.set_padding((0, if position + 1 < kept.len() { GAP as u16 - 1 } else { 0 }));
    }
    drawn.trim_fmt()
}

fn cell(column: &Column, content: &str) -> Cell {
    Cell::new(content).set_alignment(if column.numeric { CellAlignment::Right } else { CellAlignment::Left })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{full_row, sample};
    use super::*;

    #[test]
    fn every_scenario_has_a_table_of_its_rows() {
        let report = sample();
        let text = render(&report);
        for (name, rows) in report.by_scenario() {
            assert!(text.contains(scenario::title(name)), "{name} in\n{text}");
            for row in rows {
                assert!(text.contains(&row.variant), "{} in\n{text}", row.variant);
            }
        }
        assert!(text.contains("17.2 M/s"), "{text}");
        assert!(text.contains("Left out\n- "), "{text}");
    }

    #[test]
    fn tables_keep_to_the_width_and_say_which_columns_did_not_fit() {
        let report = Report { rows: vec![full_row(), full_row()], ..Report::default() };
        let text = render(&report);
        let table: Vec<_> = text.lines().filter(|line| !line.contains("All rows")).collect();
        assert!(table.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("No room here, but in the other formats: empty polls"), "{text}");
        let sample = render(&sample());
        assert!(sample.lines().all(|line| line.chars().count() <= WIDTH), "{sample}");
    }

    #[test]
    fn a_hostile_name_cannot_drive_the_terminal() {
        let rows = vec![Row { op: Some("\u{1b}]0;owned\u{7}".into()), ..Row::new("la\u{1b}ne", "a\rb") }];
        let text = render(&Report { rows, notes: vec!["\u{1b}[2J".into()], ..Report::default() });
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}
