//! A live view of the whole terminal: keys, refreshing, and the terminal's return.

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Rates over shorter intervals are noise.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// A view.
pub trait Shown {
    /// Its input.
    type Numbers;

    /// Draws everything.
    fn draw(&mut self, frame: &mut Frame<'_>);

    /// Handles a pressed key.
    fn key(&mut self, key: KeyEvent);

    /// Reads newer numbers unless paused. Without newer ones it shows the last.
    fn refresh(&mut self, read: impl FnOnce() -> Result<Self::Numbers, String>);

    /// True once the user has quit.
    fn quit(&self) -> bool;
}

/// Shows a view until the user quits, with new numbers at each interval.
///
/// # Errors
/// The terminal cannot be used.
pub fn show<S: Shown>(
    screen: &mut S,
    read: impl Fn() -> Result<S::Numbers, String>,
    interval: Duration,
) -> Result<(), String> {
    go_on(screen, read, interval.max(MIN_INTERVAL)).map_err(|error| unusable(&error))
}

/// The message for a terminal that cannot show a view.
pub fn unusable(error: &io::Error) -> String {
    format!("the terminal cannot show the live view: {error}; use --once")
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

fn go_on<S: Shown>(
    screen: &mut S,
    read: impl Fn() -> Result<S::Numbers, String>,
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

/// Gives the terminal back.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        // After a panic it was given back before the message; once more would move the cursor into the message.
        if !thread::panicking() {
            ratatui::restore();
        }
    }
}

/// True for keys that end a view.
pub fn leaves(key: KeyEvent) -> bool {
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

/// Changes with arrow keys how many columns and rows are skipped.
pub fn pass_over(skipped: &mut (usize, usize), key: KeyEvent) {
    match key.code {
        KeyCode::Right => skipped.0 += 1,
        KeyCode::Left => skipped.0 = skipped.0.saturating_sub(1),
        KeyCode::Down => skipped.1 += 1,
        KeyCode::Up => skipped.1 = skipped.1.saturating_sub(1),
        _ => {}
    }
}

/// The legend of the key for a pause.
pub fn pause(paused: bool) -> String {
    if paused { "p go on (paused)" } else { "p pause" }.to_owned()
}

/// The style of warnings.
pub fn warning() -> Style {
    Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
}

/// Areas from top to bottom: for the head's lines, for tables, for the foot.
pub fn areas(frame: &Frame<'_>, head: &[Line<'_>], foot: &str) -> [Rect; 3] {
    let heights = [wrapped_height(head, frame.area().width), foot.lines().count() as u16].map(Constraint::Length);
    Layout::vertical([heights[0], Constraint::Fill(1), heights[1]]).areas(frame.area())
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

/// Height of these lines at this width.
fn wrapped_height(lines: &[Line<'_>], columns: u16) -> u16 {
    let columns = usize::from(columns).max(1);
    lines.iter().map(|line| line.width().div_ceil(columns).max(1) as u16).sum()
}
