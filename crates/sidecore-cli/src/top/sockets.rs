//! The programs of a service of sockets: messages through their rings, and the CPU time that this saves.

use super::live::{Shown, areas, draw_table, leaves, pass_over, pause, show, warning, wrapped};
use super::rows::Rows;
use super::table;
use super::units::{NONE, amount, count, signed_time};
use crate::sockets::listed;
use crate::sockets::programs::{Counts, Seen, Way};
use crate::users::Users;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};
use sidecore_sockets::protocol::Row;
use sidecore_terminal::output;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Headings, and whether the column holds numbers. A star marks values of the program, and values derived from
/// them.
const COLUMNS: [(&str, bool); 11] = [
    ("PROGRAM*", false),
    ("PID", true),
    ("USER", false),
    ("RINGS", true),
    ("KERNEL*", true),
    ("MSG*/S", true),
    ("A SEND*", true),
    ("BYTES/S", true),
    ("KMSG*/S", true),
    ("WAITING", true),
    ("SAVED*/S", true),
];
const ALLEGED: &str = "* as the program itself says; SAVED: CPU time, an estimate";

type List = (Vec<Row>, Instant);

/// Shows the programs of that service until the user quits.
///
/// # Errors
/// No service answers there, or the terminal cannot be used.
pub(super) fn run(socket: &Path, interval: Duration) -> Result<(), String> {
    let mut screen = Screen { view: View::default(), skipped: (0, 0), paused: false, quit: false, error: None };
    screen.view.take(list(socket)?);
    show(&mut screen, || list(socket), interval)
}

/// Prints the programs once, with the rates of one interval.
///
/// # Errors
/// No service answers there, or standard output cannot be written.
pub(super) fn print(socket: &Path, interval: Duration) -> Result<(), String> {
    let mut view = View::default();
    view.take(list(socket)?);
    std::thread::sleep(interval);
    view.take(list(socket)?);
    output::print(&render(&view))
}

fn list(socket: &Path) -> Result<List, String> {
    Ok((listed(socket)?.rows, Instant::now()))
}

fn render(view: &View) -> String {
    let rows = view.rows();
    let tables = if rows.cells.is_empty() { String::new() } else { format!("\n{}\n\n{ALLEGED}\n", table(&rows)) };
    view.header() + "\n" + &tables
}

/// The programs at the last list.
#[derive(Debug, Default)]
struct View {
    seen: Seen,
    taken: Option<Instant>,
    /// Interval of the rates. `None`: there are no rates yet.
    over: Option<Duration>,
    programs: Vec<Program>,
    users: Users,
}

#[derive(Debug)]
struct Program {
    name: String,
    pid: u32,
    uid: u32,
    rings: u64,
    kernel: u64,
    waiting: u64,
    /// Over the interval of the rates.
    recent: Counts,
}

impl View {
    /// Replaces the list. Rates are those since the one before.
    fn take(&mut self, (rows, now): List) {
        self.over = self.taken.replace(now).map(|before| now.saturating_duration_since(before));
        let mut programs: BTreeMap<u32, Program> = BTreeMap::new();
        let counted = rows.iter().zip(self.seen.take(&rows));
        for (row, recent) in counted.filter(|(row, _)| row.gone_ns.is_none()) {
            programs.entry(row.serial).or_insert_with(|| Program::of(row)).add(row, &recent);
        }
        self.programs = programs.into_values().collect();
        self.programs.sort_by_key(|program| (Reverse(program.recent.messages), program.pid));
    }

    fn header(&self) -> String {
        let sum = |of: fn(&Program) -> u64| self.programs.iter().map(of).sum::<u64>();
        let programs = self.programs.len();
        if programs == 0 {
            return "no sockets: programs that `sidecore run --sockets` starts have some once they send small messages"
                .to_owned();
        }
        let (rings, kernel) = (sum(|program| program.rings), sum(|program| program.kernel));
        format!("service of sockets; programs: {programs}; connections in rings: {rings}, on the kernel: {kernel}")
    }

    fn rows(&self) -> Rows {
        let columns = COLUMNS.map(|(heading, number)| (heading.to_owned(), number)).to_vec();
        Rows { columns, cells: self.programs.iter().map(|program| self.cells(program)).collect() }
    }

    fn cells(&self, program: &Program) -> Vec<String> {
        let seconds = self.over.map(|over| over.as_secs_f64()).filter(|seconds| *seconds > 0.0);
        let rate = |sum: u64| seconds.map_or_else(|| NONE.to_owned(), |seconds| amount(sum as f64 / seconds));
        let Counts { messages, kernel_messages, bytes, saved_ns, .. } = program.recent;
        let a_send = program.recent.messages_a_send().filter(|_| seconds.is_some());
        let saved = saved_ns.zip(seconds).map(|(saved, seconds)| signed_time((saved as f64 / seconds) as i64));
        vec![
            program.name.clone(),
            program.pid.to_string(),
            self.users.name(program.uid),
            count(program.rings),
            count(program.kernel),
            rate(messages),
            a_send.map_or_else(|| NONE.to_owned(), amount),
            rate(bytes),
            rate(kernel_messages),
            count(program.waiting),
            saved.unwrap_or_else(|| NONE.to_owned()),
        ]
    }
}

impl Program {
    /// The program without its sockets.
    fn of(row: &Row) -> Self {
        let (name, pid, uid) = (row.program.clone(), row.pid, row.uid);
        Self { name, pid, uid, rings: 0, kernel: 0, waiting: 0, recent: Counts::default() }
    }

    fn add(&mut self, row: &Row, recent: &Counts) {
        match Way::of(row) {
            Some(Way::Ring) => self.rings += 1,
            Some(Way::Kernel(_)) => self.kernel += 1,
            None => {}
        }
        self.waiting = self.waiting.saturating_add(row.waiting);
        self.recent.add(recent);
    }
}

#[derive(Debug)]
struct Screen {
    view: View,
    /// Rows and columns scrolled past.
    skipped: (usize, usize),
    paused: bool,
    quit: bool,
    /// Why the numbers are not current.
    error: Option<String>,
}

impl Shown for Screen {
    type Numbers = List;

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let mut head = vec![Line::raw(self.view.header())];
        head.extend(self.error.clone().map(|error| Line::styled(error, warning())));
        head.push(Line::default());
        let parts = ["q quit".to_owned(), pause(self.paused), "arrows move".to_owned(), ALLEGED.to_owned()];
        let foot = wrapped(&parts, usize::from(frame.area().width));
        let [head_area, table, foot_area] = areas(frame, &head, &foot);
        frame.render_widget(Paragraph::new(head).wrap(Wrap { trim: true }), head_area);
        self.skipped = draw_table(frame, table, &self.view.rows(), Some(COLUMNS[5].0), self.skipped);
        frame.render_widget(Paragraph::new(foot).style(Style::new().add_modifier(Modifier::DIM)), foot_area);
    }

    fn key(&mut self, key: KeyEvent) {
        match key.code {
            _ if key.kind == KeyEventKind::Release => {}
            _ if leaves(key) => self.quit = true,
            KeyCode::Char('p') => self.paused = !self.paused,
            _ => pass_over(&mut self.skipped, key),
        }
    }

    fn refresh(&mut self, read: impl FnOnce() -> Result<List, String>) {
        if self.paused {
            return;
        }
        match read() {
            Ok(list) => {
                self.error = None;
                self.view.take(list);
            }
            Err(error) => self.error = Some(error),
        }
    }

    fn quit(&self) -> bool {
        self.quit
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{drawn, line, press};
    use super::*;
    use crate::sockets::programs::made_up::row;

    /// Two programs, with two lists half a second apart.
    fn view() -> View {
        let (mut view, start) = (View::default(), Instant::now());
        let mut rows = vec![row("shell", 7, 0), row("broker", 90, 0), row("broker", 90, 1)];
        view.take((rows.clone(), start));
        (rows[1].messages, rows[1].bytes, rows[1].transfers) = (26_000, 1_664_000, 256);
        rows[1].saved_ns = Some(103_968_000);
        (rows[2].open, rows[2].why, rows[2].kernel_messages) = (false, 2, 106);
        rows[0].saved_ns = Some(3_918_000);
        rows.push(Row { gone_ns: Some(1), open: false, ..row("ended", 91, 0) });
        view.take((rows, start + Duration::from_millis(500)));
        view
    }

    #[test]
    fn programs_are_told_with_the_rates_of_the_interval() {
        let text = render(&view());
        assert!(text.starts_with("service of sockets; programs: 2; connections in rings: 2, on the kernel: 1\n"));
        let broker = ["broker", "90", "root", "1", "1", "50.0k", "100", "3.20M", "200", "1280", "200ms"];
        assert_eq!(line(&text, "broker"), broker);
        assert_eq!(line(&text, "shell"), ["shell", "7", "root", "1", "0", "0", "-", "0", "0", "640", "-100us"]);
        assert!(text.find("broker") < text.find("shell"), "the busiest is first");
        assert!(text.ends_with(&format!("{ALLEGED}\n")));
        assert!(render(&View::default()).starts_with("no sockets: "));
    }

    #[test]
    fn before_the_second_list_there_are_no_rates() {
        let mut view = View::default();
        view.take((vec![row("broker", 90, 0)], Instant::now()));
        assert_eq!(line(&render(&view), "broker")[3..], ["1", "0", "-", "-", "-", "-", "640", "-"]);
    }

    #[test]
    fn the_live_view_goes_on_with_the_last_numbers_and_ends_with_q() {
        let mut screen = Screen { view: view(), skipped: (0, 0), paused: false, quit: false, error: None };
        assert!(drawn(&mut screen, 120, 12).contains("50.0k"));
        screen.refresh(|| Err("it is gone".to_owned()));
        let text = drawn(&mut screen, 120, 12);
        assert!(text.contains("it is gone") && text.contains("50.0k"), "{text}");
        press(&mut screen, 'p');
        screen.refresh(|| panic!("nobody asks while it is paused"));
        assert!(drawn(&mut screen, 120, 12).contains("p go on (paused)"));
        press(&mut screen, 'p');
        screen.refresh(|| Ok((Vec::new(), Instant::now())));
        assert!(drawn(&mut screen, 120, 12).contains("no sockets") && !screen.quit());
        press(&mut screen, 'q');
        assert!(screen.quit());
    }
}
