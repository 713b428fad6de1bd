//! The counters as they change, on the whole terminal.

use super::read;
use super::rows::{ALLEGED, SORTS, View, classes, clients, devices, header, keys, short_header, sidecores};
use crate::error::WatchError;
use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use sidecore_counters::Snapshot;
use sidecore_terminal::screen::{Shown, show, warning, wrapped};
use sidecore_terminal::table::{Rows, draw_table};
use std::path::Path;
use std::time::Duration;

/// Lines of a table with little room: heading, one row, the number of further rows, and the empty line below.
const SMALL_TABLE: u16 = 4;

pub(super) fn run(counters: &Path, interval: Duration) -> Result<(), WatchError> {
    Ok(show(Pages::new(read(counters)?), || latest(counters), interval)?)
}

/// The service removes its counter file when it ends.
pub(super) fn latest(counters: &Path) -> Result<Snapshot, WatchError> {
    read(counters).map_err(|error| if counters.exists() { error } else { WatchError::Ended })
}

const PAGES: [&str; 3] = ["overview", "clients", "keys"];
const OVERVIEW: usize = 0;
const CLIENTS: usize = 1;
const KEYS: usize = 2;

/// Least width that shows the head's lines whole: most then fit in one line.
const WIDE: u16 = 120;
const HELP: &str = "\
q, Esc   quit; Esc leaves this help first
?        this help, or the tables again
tab      the next page; o overview, c clients, k keys
p        pause, or go on
s        sort the clients by the next column; not on the page of keys
arrows   bring hidden columns and rows into sight, here hidden lines

REQ/S, SIGN/S    requests, signatures in the last second
FLIGHT           requests that devices have now
DONE, FAILED     since the start: done; lost with their device
REFUSED          since the start: refused with a reason, which the log has
                 (events `refused` and `key-limited`, at a limited rate)
QUEUE, DEVICE    submission to device; device to its reply; HOST is both
SPIN*, WAIT/OPT  time polled; cost of waiting against the least possible
p50/p99          median and 99th percentile of sampled requests
*                as the client itself says";

#[derive(Debug)]
pub(super) struct Pages {
    view: View,
    page: usize,
    sort: usize,
    /// Shows [`HELP`], and the head's lines whole.
    help: bool,
}

impl Pages {
    /// Rates are those since the start until there is a second snapshot.
    pub(super) fn new(first: Snapshot) -> Self {
        Self { view: View::new(first, None, true), page: OVERVIEW, sort: 0, help: false }
    }

    fn draw_overview(&mut self, frame: &mut Frame<'_>, area: Rect, skipped: &mut (usize, usize)) {
        let [stored, cards, cores, kinds] =
            [keys(&self.view), devices(&self.view), sidecores(&self.view), classes(&self.view)];
        let rows = clients(&self.view, self.sort);
        let wanted = [&rows, &stored, &cards, &cores, &kinds].map(table_height);
        let [_, of_stored, of_cards, of_cores, of_kinds] = shares(wanted, area.height);
        let below = [of_cards, of_cores, of_kinds].map(Constraint::Length);
        let heights = [Constraint::Length(of_stored), Constraint::Fill(1), below[0], below[1], below[2]];
        let [stored_area, lanes, cards_area, cores_area, kinds_area] = Layout::vertical(heights).areas(area);
        let others = [(stored, stored_area), (cards, cards_area), (cores, cores_area), (kinds, kinds_area)];
        for (rows, area) in &others {
            draw_table(frame, *area, rows, None, (0, 0));
        }
        *skipped = draw_table(frame, lanes, &rows, Some(SORTS[self.sort].0), *skipped);
    }
}

impl Shown for Pages {
    type Numbers = Snapshot;
    type Error = WatchError;

    fn take(&mut self, now: Snapshot) {
        let users = std::mem::take(&mut self.view.users);
        self.view = View { users, ..View::new(now, Some(&self.view.total), true) };
    }

    /// Another page is shown from its beginning. The first page follows the last.
    fn key(&mut self, key: KeyCode, skipped: &mut (usize, usize)) {
        let page = match key {
            KeyCode::Char('?') => {
                self.help = !self.help;
                return *skipped = (0, 0);
            }
            _ if self.help => return,
            KeyCode::Char('s') => return self.sort = (self.sort + 1) % SORTS.len(),
            KeyCode::Tab => self.page + 1,
            KeyCode::BackTab => self.page + PAGES.len() - 1,
            KeyCode::Char('o') => OVERVIEW,
            KeyCode::Char('c') => CLIENTS,
            KeyCode::Char('k') => KEYS,
            _ => return,
        };
        (self.page, *skipped) = (page % PAGES.len(), (0, 0));
    }

    fn step_back(&mut self) -> bool {
        std::mem::take(&mut self.help)
    }

    fn head(&self, columns: u16) -> Vec<Line<'static>> {
        let styled = |(i, line)| if i < 2 { Line::raw(line) } else { Line::styled(line, warning()) };
        let whole = self.help || columns >= WIDE;
        let lines = if whole { header(&self.view) } else { short_header(&self.view) };
        lines.into_iter().enumerate().map(styled).collect()
    }

    /// The keyboard commands that fit in one line.
    fn foot(&self, pause: String, columns: usize) -> String {
        let pages = PAGES.map(|page| if page == PAGES[self.page] { format!("[{page}]") } else { page.to_owned() });
        let mut parts = vec!["q quit".to_owned(), "? help".to_owned(), format!("tab {}", pages.join(" ")), pause];
        if self.page != KEYS {
            parts.push(format!("s sort ({})", SORTS[self.sort].0));
        }
        parts.push("arrows move".to_owned());
        if self.page != KEYS {
            parts.push(ALLEGED.to_owned());
        }
        wrapped(&parts, columns).lines().next().unwrap_or_default().to_owned()
    }

    fn body(&mut self, frame: &mut Frame<'_>, area: Rect, skipped: &mut (usize, usize)) {
        let (rows, sorted) = match self.page {
            _ if self.help => {
                let hidden = HELP.lines().count().saturating_sub(area.height.into());
                *skipped = (0, skipped.1.min(hidden));
                return frame.render_widget(Paragraph::new(HELP).scroll((skipped.1 as u16, 0)), area);
            }
            OVERVIEW => return self.draw_overview(frame, area, skipped),
            CLIENTS => (clients(&self.view, self.sort), Some(SORTS[self.sort].0)),
            _ => (keys(&self.view), None),
        };
        if self.page == KEYS && rows.cells.is_empty() {
            frame.render_widget(Paragraph::new("no key is stored: see `sidecore keys`"), area);
        } else {
            *skipped = draw_table(frame, area, &rows, sorted, *skipped);
        }
    }
}

/// Shares lines among tables: first a small table for each, in order while there is room, then line by line in turn to
/// each table that needs more.
fn shares<const N: usize>(wanted: [u16; N], mut room: u16) -> [u16; N] {
    let mut given = wanted.map(|wanted| {
        let small = wanted.min(SMALL_TABLE);
        let small = if small <= room { small } else { 0 };
        room -= small;
        small
    });
    while room > 0 {
        let want_more = |given: &[u16; N], i: &usize| (1..wanted[*i]).contains(&given[*i]);
        let more: Vec<usize> = (0..N).filter(|i| want_more(&given, i)).take(usize::from(room)).collect();
        if more.is_empty() {
            break;
        }
        room -= more.len() as u16;
        for i in more {
            given[i] += 1;
        }
    }
    given
}

fn table_height(rows: &Rows) -> u16 {
    if rows.cells.is_empty() { 0 } else { rows.cells.len() as u16 + 2 }
}
