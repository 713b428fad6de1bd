//! The farm as it changes, on the whole terminal.

use super::rows::{header, nodes, trouble};
use crate::args::Farm;
use crate::status_watch::{StatusWatch, View, Words};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};
use sidecore_terminal::screen::{Shown, areas, leaves, pass_over, pause, show, warning, wrapped};
use sidecore_terminal::table::draw_table;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

/// Interval of the dispatchers' status messages.
const INTERVAL: Duration = Duration::from_millis(250);

/// Shows this farm until the user quits. The screen has a separate thread, which waits for keys.
pub(super) async fn run(farm: &Farm) -> Result<(), String> {
    let mut words = Words::of(farm).await?;
    let watch = Arc::new(Mutex::new(Ok(words.now().await?)));
    let (shown, name) = (Arc::clone(&watch), farm.farm.clone());
    let screen = spawn_blocking(move || {
        let read = || view(&shown);
        show(&mut Screen::new(name, read()?), read, INTERVAL)
    });
    tokio::select! {
        ended = screen => ended.map_err(|error| format!("the view ended: {error}"))?,
        never = follow(&mut words, &watch) => match never {},
    }
}

/// Status messages so far, or the error that ended them.
type Known = Mutex<Result<StatusWatch, String>>;

/// Takes status messages. After their end it stores the error and waits forever, and the screen goes on.
async fn follow(words: &mut Words, known: &Known) -> Infallible {
    loop {
        let word = words.next().await;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        match (word, &mut *known) {
            (Ok(status), Ok(watch)) => watch.take(status, Instant::now()),
            (Err(error), _) => *known = Err(error),
            (Ok(_), Err(_)) => {}
        }
        if known.is_err() {
            break;
        }
    }
    pending().await
}

fn view(known: &Known) -> Result<View, String> {
    let known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.as_ref().map(|watch| watch.view(Instant::now())).map_err(Clone::clone)
}

#[derive(Debug)]
pub(super) struct Screen {
    farm: String,
    view: View,
    /// Columns and rows scrolled past.
    skipped: (usize, usize),
    paused: bool,
    quit: bool,
    /// Why the view is not current.
    error: Option<String>,
}

impl Screen {
    pub(super) fn new(farm: String, view: View) -> Self {
        Self { farm, view, skipped: (0, 0), paused: false, quit: false, error: None }
    }

    fn head(&self) -> Vec<Line<'static>> {
        let styled = |line| if self.view.active.is_some() { Line::raw(line) } else { Line::styled(line, warning()) };
        let mut lines: Vec<Line<'static>> = header(&self.farm, &self.view).into_iter().map(styled).collect();
        let wrong = trouble(&self.view).into_iter().chain(self.error.clone());
        lines.extend(wrong.map(|wrong| Line::styled(wrong, warning())));
        lines.push(Line::default());
        lines
    }
}

impl Shown for Screen {
    type Numbers = View;

    fn refresh(&mut self, read: impl FnOnce() -> Result<View, String>) {
        if self.paused {
            return;
        }
        match read() {
            Ok(view) => (self.view, self.error) = (view, None),
            Err(error) => self.error = Some(error),
        }
    }

    fn key(&mut self, key: KeyEvent) {
        match key.code {
            _ if key.kind == KeyEventKind::Release => {}
            _ if leaves(key) => self.quit = true,
            KeyCode::Char('p') => self.paused = !self.paused,
            _ => pass_over(&mut self.skipped, key),
        }
    }

    fn quit(&self) -> bool {
        self.quit
    }

    /// Limits the scrolled position to the last row and column.
    fn draw(&mut self, frame: &mut Frame<'_>) {
        let parts = ["q quit".to_owned(), pause(self.paused), "arrows move".to_owned()];
        let foot = wrapped(&parts, usize::from(frame.area().width));
        let head = self.head();
        let [head_area, table, foot_area] = areas(frame, &head, &foot);
        frame.render_widget(Paragraph::new(head).wrap(Wrap { trim: true }), head_area);
        match &self.view.active {
            Some(status) if !status.nodes.is_empty() => {
                self.skipped = draw_table(frame, table, &nodes(status), None, self.skipped);
            }
            Some(_) => frame.render_widget(Paragraph::new("no node has joined: see `sidecore farm work`"), table),
            None => {}
        }
        frame.render_widget(Paragraph::new(foot).style(Style::new().add_modifier(Modifier::DIM)), foot_area);
    }
}
