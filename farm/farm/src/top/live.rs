//! The farm as it changes, on the whole terminal.

use super::rows::{header, nodes, trouble};
use crate::args::Farm;
use crate::error::FarmError;
use crate::status_watch::{StatusWatch, View, Words};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use sidecore_terminal::screen::{Shown, show, warning, wrapped};
use sidecore_terminal::table::draw_table;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

const INTERVAL: Duration = Duration::from_millis(250);

/// Shows this farm until the user quits. The screen has a separate thread, which waits for keys.
pub(super) async fn run(farm: &Farm) -> Result<(), FarmError> {
    let mut words = Words::of(farm).await?;
    let watch = Arc::new(Mutex::new(Ok(words.now().await?)));
    let (shown, name) = (Arc::clone(&watch), farm.farm.clone());
    let screen = spawn_blocking(move || {
        let read = || view(&shown);
        let first = FarmScreen { farm: name, view: read().map_err(FarmError::output)? };
        show(first, read, INTERVAL).map_err(FarmError::output)
    });
    tokio::select! {
        ended = screen => ended.map_err(|error| FarmError::output(format!("the view ended: {error}")))?,
        never = follow(&mut words, &watch) => match never {},
    }
}

type Known = Mutex<Result<StatusWatch, FarmError>>;

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
    known.as_ref().map(|watch| watch.view(Instant::now())).map_err(ToString::to_string)
}

#[derive(Debug)]
pub(super) struct FarmScreen {
    pub(super) farm: String,
    pub(super) view: View,
}

impl Shown for FarmScreen {
    type Numbers = View;
    type Error = String;

    fn take(&mut self, view: View) {
        self.view = view;
    }

    fn head(&self, _: u16) -> Vec<Line<'static>> {
        let styled = |line| if self.view.active.is_some() { Line::raw(line) } else { Line::styled(line, warning()) };
        let mut lines: Vec<Line<'static>> = header(&self.farm, &self.view).into_iter().map(styled).collect();
        lines.extend(trouble(&self.view).map(|wrong| Line::styled(wrong, warning())));
        lines
    }

    fn foot(&self, pause: String, columns: usize) -> String {
        wrapped(&["q quit".to_owned(), pause, "arrows move".to_owned()], columns)
    }

    fn body(&mut self, frame: &mut Frame<'_>, area: Rect, skipped: &mut (usize, usize)) {
        match &self.view.active {
            Some(status) if !status.nodes.is_empty() => {
                *skipped = draw_table(frame, area, &nodes(status), None, *skipped);
            }
            Some(_) => frame.render_widget(Paragraph::new("no node has joined: see `sidecore farm work`"), area),
            None => {}
        }
    }
}
