//! A table of text, and its drawing in limited room.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement};
use ratatui::Frame;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

/// Columns between two columns.
const GAP: u16 = 2;
/// The name of a row is not cut shorter than that.
const NAME: u16 = 12;

/// A table as text.
#[derive(Debug, Default)]
pub struct Rows {
    /// Headings, and whether the column holds numbers.
    pub columns: Vec<(String, bool)>,
    /// One cell for each column.
    pub cells: Vec<Vec<String>>,
}

impl Rows {
    /// Rows with these columns: heading, and whether it holds numbers.
    pub fn new<const N: usize>(columns: [(&str, bool); N], cells: impl IntoIterator<Item = [String; N]>) -> Self {
        let columns = columns.map(|(heading, number)| (heading.to_owned(), number)).to_vec();
        Self { columns, cells: cells.into_iter().map(Vec::from).collect() }
    }

    /// All of it, without lines between cells. The last line has no end.
    pub fn to_text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(self.columns.iter().map(|(heading, _)| heading)).add_rows(&self.cells);
        for (column, (_, number)) in table.column_iter_mut().zip(&self.columns) {
            column.set_padding((0, 2));
            column.set_cell_alignment(if *number { CellAlignment::Right } else { CellAlignment::Left });
        }
        table.trim_fmt()
    }
}

/// Draws the columns and rows that have room, and a line with the number of the others. The last line stays empty.
/// `skipped` columns after the first and rows are left out; returns how many could be.
pub fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    rows: &Rows,
    sorted: Option<&str>,
    skipped: (usize, usize),
) -> (usize, usize) {
    let room = usize::from(area.height.saturating_sub(2));
    let cut = rows.cells.len() > room;
    let shown = if cut { room.saturating_sub(1) } else { rows.cells.len() };
    let skipped = (skipped.0.min(last_shift(rows, area.width)), skipped.1.min(rows.cells.len() - shown));
    let columns = fitting(rows, area.width, skipped.0);
    let lines = rows.cells.iter().skip(skipped.1).take(shown).map(|cells| line(rows, cells, &columns));
    let widths = columns.iter().map(|column| width(rows, *column, area.width));
    let table = Table::new(lines, widths).header(heading(rows, sorted, &columns));
    frame.render_widget(table.column_spacing(GAP), area);
    if cut && room > 0 {
        let last = Rect { y: area.y + room as u16, height: 1.min(area.height), ..area };
        let above = if skipped.1 > 0 { format!(", {} above", skipped.1) } else { String::new() };
        let below = rows.cells.len() - shown - skipped.1;
        frame.render_widget(Paragraph::new(format!("and {below} more{above}")), last);
    }
    skipped
}

fn heading(rows: &Rows, sorted: Option<&str>, columns: &[usize]) -> Row<'static> {
    let cells = columns.iter().map(|column| {
        let (name, number) = &rows.columns[*column];
        let style = if sorted == Some(name.as_str()) { Modifier::BOLD | Modifier::REVERSED } else { Modifier::BOLD };
        cell(name, *number).style(Style::new().add_modifier(style))
    });
    Row::new(cells)
}

fn line(rows: &Rows, cells: &[String], columns: &[usize]) -> Row<'static> {
    Row::new(columns.iter().map(|column| cell(&cells[*column], rows.columns[*column].1)))
}

fn cell(text: &str, number: bool) -> Cell<'static> {
    let alignment = if number { Alignment::Right } else { Alignment::Left };
    Cell::from(Line::raw(text.to_owned()).alignment(alignment))
}

/// The first column holds clients' names and gets at most a third of the room.
fn width(rows: &Rows, column: usize, room: u16) -> u16 {
    let cells = rows.cells.iter().map(|cells| cells[column].chars().count());
    let most = if column == 0 { room.div_ceil(3).max(NAME) } else { u16::MAX };
    (cells.chain([rows.columns[column].0.len()]).max().unwrap_or(0) as u16).min(most)
}

/// Columns that stay when others are skipped: the name, and a process number after it.
fn frozen(rows: &Rows) -> usize {
    if rows.columns.get(1).is_some_and(|(heading, _)| heading == "PID") { 2 } else { 1 }
}

/// The columns that have room: frozen ones, then those after the skipped. At least one.
fn fitting(rows: &Rows, room: u16, skipped: usize) -> Vec<usize> {
    let (mut used, frozen) = (0_u16, frozen(rows));
    let fits = |column: &usize| {
        used = used.saturating_add(width(rows, *column, room)).saturating_add(GAP);
        used <= room.saturating_add(GAP) || *column == 0
    };
    (0..frozen).chain(frozen + skipped..rows.columns.len()).take_while(fits).collect()
}

/// Columns to skip until the last one is in sight.
fn last_shift(rows: &Rows, room: u16) -> usize {
    let last = rows.columns.len() - 1;
    let most = last.saturating_sub(frozen(rows));
    (0..most).find(|skipped| fitting(rows, room, *skipped).contains(&last)).unwrap_or(most)
}
