//! The counters as they change, on the whole terminal.

use super::TopError;
use super::rows::{ALLEGED, Rows, Sort, View, classes, clients, devices, header, sidecores};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};
use ratatui::{DefaultTerminal, Frame};
use sidecore::counters::Snapshot;
use std::path::Path;
use std::time::{Duration, Instant};

/// Shortest interval: rates over less say nothing.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// Fewest and most lines of a table other than that of the clients, with its heading and the empty line below it.
const SMALL_TABLE: (u16, u16) = (4, 10);
/// Columns between two columns.
const GAP: u16 = 2;

/// Shows the counters of this file until the user quits.
pub(super) fn run(counters: &Path, interval: Duration) -> Result<(), TopError> {
    let mut screen = Screen::new(Snapshot::read(counters)?);
    // From here on a panic gives the terminal back before its message.
    let mut terminal = ratatui::try_init().map_err(TopError::Terminal)?;
    let _restored = Restore;
    show(&mut terminal, &mut screen, counters, interval.max(MIN_INTERVAL))
}

fn show(terminal: &mut DefaultTerminal, screen: &mut Screen, file: &Path, interval: Duration) -> Result<(), TopError> {
    let mut next = Instant::now() + interval;
    while !screen.quit {
        terminal.draw(|frame| screen.draw(frame)).map_err(TopError::Terminal)?;
        if event::poll(next.saturating_duration_since(Instant::now())).map_err(TopError::Terminal)? {
            if let Event::Key(key) = event::read().map_err(TopError::Terminal)? {
                screen.key(key);
            }
        } else {
            next = Instant::now() + interval;
            screen.refresh(|| Snapshot::read(file).map_err(|error| error.to_string()));
        }
    }
    Ok(())
}

/// Gives the terminal back, whatever else ended the view.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        // After a panic it was given back before the message; once more would move the cursor into the message.
        if !std::thread::panicking() {
            ratatui::restore();
        }
    }
}

/// What is on the screen.
#[derive(Debug)]
pub(super) struct Screen {
    view: View,
    sort: Sort,
    paused: bool,
    quit: bool,
    /// Why there are no newer numbers.
    error: Option<String>,
}

impl Screen {
    /// Shows this, with rates since the start until there is a second snapshot.
    pub(super) fn new(first: Snapshot) -> Self {
        Self { view: View::new(first, None, true), sort: Sort::default(), paused: false, quit: false, error: None }
    }

    /// Takes newer numbers, unless it is paused. Where there are none, it goes on showing the last ones.
    pub(super) fn refresh(&mut self, read: impl FnOnce() -> Result<Snapshot, String>) {
        if self.paused {
            return;
        }
        match read() {
            Ok(now) => {
                self.error = None;
                self.view = View::new(now, Some(&self.view.total), true);
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent) {
        let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            _ if key.kind == KeyEventKind::Release => {}
            KeyCode::Char('q') | KeyCode::Esc => self.quit = true,
            KeyCode::Char('c') if interrupt => self.quit = true,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('p') => self.paused = !self.paused,
            _ => {}
        }
    }

    /// Whether the user wants to leave.
    #[cfg(test)]
    pub(super) fn quit(&self) -> bool {
        self.quit
    }

    /// Draws everything.
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let head = self.head();
        let head_height = wrapped_height(&head, frame.area().width);
        // A third of what is left is for the clients, whatever else there is.
        let small = (frame.area().height.saturating_sub(head_height + 1) * 2 / 9).clamp(SMALL_TABLE.0, SMALL_TABLE.1);
        let others = [sidecores(&self.view), devices(&self.view), classes(&self.view)];
        let [cores, cards, kinds] = others.each_ref().map(|rows| Constraint::Length(table_height(rows).min(small)));
        let (first, last) = (Constraint::Length(head_height), Constraint::Length(1));
        let heights = [first, cores, cards, Constraint::Fill(1), kinds, last];
        let [head_area, cores, cards, lanes, kinds, foot] = Layout::vertical(heights).areas(frame.area());
        frame.render_widget(Paragraph::new(head).wrap(Wrap { trim: true }), head_area);
        for (rows, area) in others.iter().zip([cores, cards, kinds]) {
            draw_table(frame, area, rows, None);
        }
        draw_table(frame, lanes, &clients(&self.view, self.sort), Some(self.sort.column()));
        frame.render_widget(Paragraph::new(self.foot()).style(Style::new().add_modifier(Modifier::DIM)), foot);
    }

    fn head(&self) -> Vec<Line<'static>> {
        let warning = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
        let styled = |(i, line)| if i < 2 { Line::raw(line) } else { Line::styled(line, warning) };
        let mut lines: Vec<Line<'static>> = header(&self.view).into_iter().enumerate().map(styled).collect();
        lines.extend(self.error.clone().map(|error| Line::styled(error, warning)));
        lines.push(Line::default());
        lines
    }

    fn foot(&self) -> String {
        let pause = if self.paused { "p go on (paused)" } else { "p pause" };
        format!("q quit   s sort (now by {})   {pause}   {ALLEGED}", self.sort.column())
    }
}

/// Lines that these take in so many columns.
fn wrapped_height(lines: &[Line<'_>], columns: u16) -> u16 {
    let columns = usize::from(columns).max(1);
    lines.iter().map(|line| line.width().div_ceil(columns).max(1) as u16).sum()
}

/// Lines of a whole table. Without rows there is none.
fn table_height(rows: &Rows) -> u16 {
    if rows.cells.is_empty() { 0 } else { rows.cells.len() as u16 + 2 }
}

/// Draws the columns and rows that have room, and says how many rows have not. The last line stays empty.
fn draw_table(frame: &mut Frame<'_>, area: Rect, rows: &Rows, sorted: Option<&str>) {
    let widths = widths(rows, area.width);
    let room = usize::from(area.height.saturating_sub(2));
    let cut = rows.cells.len() > room;
    let shown = if cut { room.saturating_sub(1) } else { rows.cells.len() };
    let lines = rows.cells.iter().take(shown).map(|cells| line(rows, cells, widths.len()));
    let table = Table::new(lines, widths.iter().copied()).header(heading(rows, sorted, widths.len()));
    frame.render_widget(table.column_spacing(GAP), area);
    if cut {
        let last = Rect { y: area.y + room as u16, height: 1.min(area.height), ..area };
        frame.render_widget(Paragraph::new(format!("and {} more", rows.cells.len() - shown)), last);
    }
}

fn heading(rows: &Rows, sorted: Option<&str>, columns: usize) -> Row<'static> {
    let cells = rows.columns.iter().take(columns).map(|(name, number)| {
        let style = if sorted == Some(*name) { Modifier::BOLD | Modifier::REVERSED } else { Modifier::BOLD };
        cell(name, *number).style(Style::new().add_modifier(style))
    });
    Row::new(cells)
}

fn line(rows: &Rows, cells: &[String], columns: usize) -> Row<'static> {
    Row::new(cells.iter().zip(rows.columns).take(columns).map(|(text, (_, number))| cell(text, *number)))
}

fn cell(text: &str, number: bool) -> Cell<'static> {
    let alignment = if number { Alignment::Right } else { Alignment::Left };
    Cell::from(Line::raw(text.to_owned()).alignment(alignment))
}

/// Widths of the first columns, as many as have room.
fn widths(rows: &Rows, room: u16) -> Vec<u16> {
    let width = |column: usize| {
        let cells = rows.cells.iter().map(|cells| cells[column].chars().count());
        cells.chain([rows.columns[column].0.len()]).max().unwrap_or(0) as u16
    };
    let mut used = 0_u16;
    let fits = |width: &u16| {
        used = used.saturating_add(*width).saturating_add(GAP);
        used <= room.saturating_add(GAP)
    };
    (0..rows.columns.len()).map(width).take_while(fits).collect()
}
