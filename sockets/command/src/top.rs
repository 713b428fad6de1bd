//! `sidecore sockets top`: the programs of a service of sockets, messages through their rings, and the CPU time that this
//! saves.

use crate::args::Top;
use crate::error::CommandError;
use crate::list::{NO_SOCKETS, listed};
use crate::programs::{Account, Counts, Seen};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use sidecore_sockets::ask::ListError;
use sidecore_sockets::protocol::Row;
use sidecore_terminal::output;
use sidecore_terminal::screen::{Shown, show, wrapped};
use sidecore_terminal::table::{Rows, draw_table};
use sidecore_terminal::units::{amount, count, known, signed_time};
use sidecore_terminal::users::Users;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(1);
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

/// Shows programs until the user quits. With `once`, or if standard output is no terminal, prints them once as text. Rates
/// are those over one interval.
pub(crate) fn run(args: &Top) -> Result<(), CommandError> {
    let socket = &args.service.socket;
    let mut view = View::default();
    view.take(list(socket)?);
    if args.once || !io::stdout().is_terminal() {
        std::thread::sleep(INTERVAL);
        view.take(list(socket)?);
        return Ok(output::print(&render(&view))?);
    }
    Ok(show(view, || list(socket), INTERVAL)?)
}

fn list(socket: &Path) -> Result<List, ListError> {
    Ok((listed(socket)?.rows, Instant::now()))
}

fn render(view: &View) -> String {
    let rows = view.rows();
    let tables = if rows.cells.is_empty() { String::new() } else { format!("\n{}\n\n{ALLEGED}\n", rows.to_text()) };
    view.header() + "\n" + &tables
}

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
    /// Counts are those over the interval of the rates.
    account: Account,
}

impl Program {
    fn on_kernel(&self) -> u64 {
        self.account.on_kernel.values().sum()
    }
}

impl View {
    fn header(&self) -> String {
        let sum = |of: fn(&Program) -> u64| self.programs.iter().map(of).sum::<u64>();
        let programs = self.programs.len();
        if programs == 0 {
            return NO_SOCKETS.trim_end().to_owned();
        }
        let (rings, kernel) = (sum(|program| program.account.in_rings), sum(Program::on_kernel));
        format!("service of sockets; programs: {programs}; connections in rings: {rings}, on the kernel: {kernel}")
    }

    fn rows(&self) -> Rows {
        Rows::new(COLUMNS, self.programs.iter().map(|program| self.cells(program)))
    }

    fn cells(&self, program: &Program) -> [String; 11] {
        let seconds = self.over.map(|over| over.as_secs_f64()).filter(|seconds| *seconds > 0.0);
        let rate = |sum: u64| known(seconds, |seconds| amount(sum as f64 / seconds));
        let Counts { messages, kernel_messages, bytes, saved_ns, .. } = program.account.sum;
        let a_send = program.account.sum.messages_a_send().filter(|_| seconds.is_some());
        let saved = saved_ns.zip(seconds).map(|(saved, seconds)| (saved as f64 / seconds) as i64);
        [
            program.name.clone(),
            program.pid.to_string(),
            self.users.name(program.uid),
            count(program.account.in_rings),
            count(program.on_kernel()),
            rate(messages),
            known(a_send, amount),
            rate(bytes),
            rate(kernel_messages),
            count(program.account.waiting),
            known(saved, signed_time),
        ]
    }
}

impl Shown for View {
    type Numbers = List;
    type Error = ListError;

    fn take(&mut self, (rows, now): List) {
        self.over = self.taken.replace(now).map(|before| now.saturating_duration_since(before));
        let mut programs: BTreeMap<u32, Program> = BTreeMap::new();
        let counted = rows.iter().zip(self.seen.take(&rows));
        for (row, recent) in counted.filter(|(row, _)| row.gone_ns.is_none()) {
            let new = || {
                let (name, pid, uid) = (row.program.clone(), row.pid, row.uid);
                Program { name, pid, uid, account: Account::default() }
            };
            programs.entry(row.serial).or_insert_with(new).account.take(row, &recent);
        }
        self.programs = programs.into_values().collect();
        self.programs.sort_by_key(|program| (Reverse(program.account.sum.messages), program.pid));
    }

    fn head(&self, _: u16) -> Vec<Line<'static>> {
        vec![Line::raw(self.header())]
    }

    fn foot(&self, pause: String, columns: usize) -> String {
        wrapped(&["q quit".to_owned(), pause, "arrows move".to_owned(), ALLEGED.to_owned()], columns)
    }

    fn body(&mut self, frame: &mut Frame<'_>, area: Rect, skipped: &mut (usize, usize)) {
        *skipped = draw_table(frame, area, &self.rows(), Some(COLUMNS[5].0), *skipped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::made_up::row;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;
    use sidecore_sockets::protocol::Refused;
    use sidecore_terminal::screen::Screen;

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

    fn line<'a>(text: &'a str, program: &str) -> Vec<&'a str> {
        text.lines().find(|line| line.starts_with(program)).unwrap().split_whitespace().collect()
    }

    fn drawn(screen: &mut Screen<View>) -> String {
        let mut terminal = Terminal::new(TestBackend::new(120, 12)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
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
        let mut screen = Screen::new(view());
        assert!(drawn(&mut screen).contains("50.0k"));
        screen.refresh(|| Err(ListError::Refused(Refused::limit("it is gone"))));
        let text = drawn(&mut screen);
        assert!(text.contains("it is gone") && text.contains("50.0k"), "{text}");
        screen.key(KeyCode::Char('p').into());
        screen.refresh(|| panic!("nobody asks while it is paused"));
        assert!(drawn(&mut screen).contains("p go on (paused)"));
        screen.key(KeyCode::Char('p').into());
        screen.refresh(|| Ok((Vec::new(), Instant::now())));
        assert!(drawn(&mut screen).contains("no sockets") && !screen.quit());
        screen.key(KeyCode::Char('q').into());
        assert!(screen.quit());
    }
}
