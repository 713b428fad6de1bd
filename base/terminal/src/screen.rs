//! A live view of the whole terminal: keys, refreshing, and the terminal's return.

use crate::error::TerminalError;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::fmt::Display;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Rates over shorter intervals are noise.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// A view: head, body and foot of a screen.
pub trait Shown {
    /// Its input.
    type Numbers;
    /// Why there are no newer numbers.
    type Error: Display;

    /// Replaces the numbers.
    fn take(&mut self, numbers: Self::Numbers);

    /// The lines of the head, for this width.
    fn head(&self, columns: u16) -> Vec<Line<'static>>;

    /// The text of the foot, with the legend of the key for a pause.
    fn foot(&self, pause: String, columns: usize) -> String;

    /// Draws the rest, without the skipped columns and rows. Limits `skipped` to the last column and row.
    fn body(&mut self, frame: &mut Frame<'_>, area: Rect, skipped: &mut (usize, usize));

    /// Leaves what lies over the view, e.g. its help. `false`: there is nothing, and Esc ends the whole.
    fn step_back(&mut self) -> bool {
        false
    }

    /// Handles a key that has no meaning in every view.
    fn key(&mut self, _key: KeyCode, _skipped: &mut (usize, usize)) {}
}

/// A view with the state that every view has.
#[derive(Debug)]
pub struct Screen<V> {
    view: V,
    /// Columns and rows scrolled past.
    skipped: (usize, usize),
    paused: bool,
    quit: bool,
    /// Why the numbers are not current.
    error: Option<String>,
}

impl<V: Shown> Screen<V> {
    /// Shows the beginning of this view.
    pub fn new(view: V) -> Self {
        Self { view, skipped: (0, 0), paused: false, quit: false, error: None }
    }

    /// Draws everything.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let columns = frame.area().width;
        let mut head = self.view.head(columns);
        head.extend(self.error.clone().map(|error| Line::styled(error, warning())));
        head.push(Line::default());
        let pause = if self.paused { "p go on (paused)" } else { "p pause" };
        let foot = self.view.foot(pause.to_owned(), columns.into());
        let wrapped = |line: &Line<'_>| line.width().div_ceil(usize::from(columns).max(1)).max(1);
        let [above, below] = [head.iter().map(wrapped).sum(), foot.lines().count()].map(|lines| lines as u16);
        let heights = [Constraint::Length(above), Constraint::Fill(1), Constraint::Length(below)];
        let [head_area, body, foot_area] = Layout::vertical(heights).areas(frame.area());
        frame.render_widget(Paragraph::new(head).wrap(Wrap { trim: true }), head_area);
        self.view.body(frame, body, &mut self.skipped);
        frame.render_widget(Paragraph::new(foot).style(Style::new().add_modifier(Modifier::DIM)), foot_area);
    }

    /// Handles a pressed key.
    pub fn key(&mut self, key: KeyEvent) {
        let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        let (columns, rows) = &mut self.skipped;
        match key.code {
            _ if key.kind == KeyEventKind::Release => {}
            _ if interrupt => self.quit = true,
            KeyCode::Esc if self.view.step_back() => self.skipped = (0, 0),
            KeyCode::Char('q') | KeyCode::Esc => self.quit = true,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Right => *columns += 1,
            KeyCode::Left => *columns = columns.saturating_sub(1),
            KeyCode::Down => *rows += 1,
            KeyCode::Up => *rows = rows.saturating_sub(1),
            other => self.view.key(other, &mut self.skipped),
        }
    }

    /// Reads newer numbers unless paused. Without newer ones it shows the last.
    pub fn refresh(&mut self, read: impl FnOnce() -> Result<V::Numbers, V::Error>) {
        if self.paused {
            return;
        }
        match read() {
            Ok(numbers) => {
                self.error = None;
                self.view.take(numbers);
            }
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    /// True once the user has quit.
    pub fn quit(&self) -> bool {
        self.quit
    }
}

/// Shows a view until the user quits, with new numbers at each interval.
///
/// # Errors
/// The terminal cannot be used.
pub fn show<V: Shown>(
    view: V,
    read: impl Fn() -> Result<V::Numbers, V::Error>,
    interval: Duration,
) -> Result<(), TerminalError> {
    go_on(&mut Screen::new(view), read, interval.max(MIN_INTERVAL)).map_err(TerminalError::View)
}

/// Makes signals give the terminal back and end the program. A thread does so: without a terminal, waiting for a key
/// never returns.
fn end_on_signals() -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGHUP])?;
    let wait = move || {
        for signal in signals.forever() {
            // Nothing is drawn any more.
            let _quiet = io::stdout().lock();
            ratatui::restore();
            // The parent sees the signal in the exit status.
            let _ = emulate_default_handler(signal);
        }
    };
    thread::Builder::new().name("sidecore-signals".to_owned()).spawn(wait).map(|_| ())
}

fn go_on<V: Shown>(
    screen: &mut Screen<V>,
    read: impl Fn() -> Result<V::Numbers, V::Error>,
    interval: Duration,
) -> io::Result<()> {
    end_on_signals()?;
    // From here on a panic gives the terminal back before its message.
    let mut terminal = ratatui::try_init()?;
    let _restored = Restore;
    let mut next = Instant::now() + interval;
    while !screen.quit() {
        terminal.draw(|frame| screen.draw(frame))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            if let Event::Key(key) = event::read()? {
                screen.key(key);
            }
        } else {
            next = Instant::now() + interval;
            screen.refresh(&read);
        }
    }
    Ok(())
}

struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        // After a panic it was given back before the message; once more would move the cursor into the message.
        if !thread::panicking() {
            ratatui::restore();
        }
    }
}

/// The style of warnings.
pub fn warning() -> Style {
    Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
}

/// Joins parts with a gap, and begins a new line where one has no room.
pub fn wrapped(parts: &[String], columns: usize) -> String {
    const GAP: &str = "   ";
    let (mut text, mut used) = (String::new(), 0);
    for part in parts {
        let width = part.chars().count();
        let fits = used + GAP.len() + width <= columns;
        let (gap, before) = if used == 0 {
            ("", 0)
        } else if fits {
            (GAP, used + GAP.len())
        } else {
            ("\n", 0)
        };
        text = text + gap + part;
        used = before + width;
    }
    text
}
