//! `sidecore sockets export`: metrics of programs whose small messages go through the service of sockets, by program name.
//!
//! The exporter is a separate process, which outlives the service. The service lists a user's own programs, and to root
//! all programs. The list costs CPU time on that user's thread, so the exporter asks once a second at most, also if scrapes
//! are more frequent.

use crate::args::Export;
use crate::error::CommandError;
use crate::list::listed;
use crate::programs::{Account, Seen};
use sidecore_sockets::protocol::Row;
use sidecore_terminal::metrics::{self, Accounts, Family, Kind, Labels, OTHERS, Value, encode};
use sidecore_terminal::users::Users;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Prefix of each metric's name.
const PREFIX: &str = "sidecore";
/// Longest age of a list before the next request.
const AGE: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Exporter {
    socket: PathBuf,
    asked: Option<Instant>,
    /// Whether the service answered.
    is_up: bool,
    seen: Seen,
    programs: Accounts<Account>,
    users: Users,
}

pub(crate) fn run(args: &Export) -> Result<(), CommandError> {
    Ok(metrics::export(args.listen, Exporter::new(args.service.socket.clone(), args.clients as usize))?)
}

impl metrics::Exporter for Exporter {
    const TITLE: &'static str = "sidecore sockets";

    fn metrics(&mut self) -> String {
        self.ask(Instant::now());
        self.page()
    }

    fn state(&mut self) -> String {
        self.ask(Instant::now());
        let state = if self.is_up { "answers" } else { "does not answer" };
        format!("The service of sockets {state}.")
    }
}

impl Exporter {
    /// At most `limit` names of programs have metrics of their own.
    fn new(socket: PathBuf, limit: usize) -> Self {
        Self {
            socket,
            asked: None,
            is_up: false,
            seen: Seen::default(),
            programs: Accounts::new(limit, program(OTHERS, String::new())),
            users: Users::default(),
        }
    }

    fn ask(&mut self, now: Instant) {
        if self.asked.is_some_and(|asked| now.saturating_duration_since(asked) < AGE) {
            return;
        }
        self.take(listed(&self.socket).ok().map(|list| list.rows));
        self.asked = Some(now);
    }

    /// `None`: the service does not answer. What was seen stays, so no count is added twice once it answers again.
    fn take(&mut self, rows: Option<Vec<Row>>) {
        self.is_up = rows.is_some();
        let Some(rows) = rows else { return };
        let owner = |row: &Row| program(&row.program, self.users.name(row.uid));
        let increases = rows.iter().zip(self.seen.take(&rows));
        let recent = increases.map(|(row, increase)| (owner(row), (row, increase))).collect();
        self.programs.take(recent, |account, (row, increase)| account.take(row, &increase));
    }

    fn page(&self) -> String {
        let help = "Whether the service of sockets answers: 1 or 0.";
        let mut all = vec![Family::single("sockets_up", help, Kind::Level, Value::Number(self.is_up.into()))];
        all.push(Family::build());
        if self.is_up {
            all.extend(self.levels());
            all.extend(self.sums());
        }
        encode(PREFIX, all)
    }

    fn levels(&self) -> [Family; 3] {
        let on_kernel = self.each(|account| {
            let reasons = account.on_kernel.iter();
            reasons.map(|(why, count)| (Some(("why", (*why).to_owned())), Value::Number(*count))).collect()
        });
        let help = "Sockets on the kernel, and why, as programs say, 256 of each program at most.";
        [
            self.number("in_rings", "Connections in rings.", Kind::Level, |account| account.in_rings),
            Family::new("sockets_on_kernel", help, Kind::Level, on_kernel),
            self.number("waiting_bytes", "Bytes that wait in rings.", Kind::Level, |account| account.waiting),
        ]
    }

    fn sums(&self) -> [Family; 6] {
        let (through, beside) = (
            "Messages through rings, as the program says.",
            "Messages that the program gave to the kernel, as it says.",
        );
        let drains = "System calls by which the program itself moved something out of its rings, as it says.";
        let saved = "CPU time that fewer system calls saved, an estimate; below 0 where work was only moved.";
        let seconds = self.each(|account| {
            account.sum.saved_ns.map(|nanos| (None, Value::Decimal(nanos as f64 / 1e9))).into_iter().collect()
        });
        [
            self.number("messages", through, Kind::Count, |account| account.sum.messages),
            self.number("kernel_messages", beside, Kind::Count, |account| account.sum.kernel_messages),
            self.number("transfers", "System calls by which the service moved something.", Kind::Count, |account| {
                account.sum.transfers
            }),
            self.number("drains", drains, Kind::Count, |account| account.sum.drains),
            self.number("sent", "Bytes through rings.", Kind::Bytes, |account| account.sum.bytes),
            Family::new("sockets_cpu_saved", saved, Kind::TimeLevel, seconds),
        ]
    }

    fn number(&self, name: &str, help: &'static str, kind: Kind, of: fn(&Account) -> u64) -> Family {
        let samples = self.each(|account| vec![(None, Value::Number(of(account)))]);
        Family::new(format!("sockets_{name}"), help, kind, samples)
    }

    /// Samples of each account; `of` may add a label.
    fn each(&self, of: impl Fn(&Account) -> Vec<(Option<(&'static str, String)>, Value)>) -> Vec<(Labels, Value)> {
        let samples = |(owner, account): (&Labels, &Account)| {
            let labelled = |(label, value)| (owner.iter().cloned().chain(label).collect(), value);
            of(account).into_iter().map(labelled).collect::<Vec<_>>()
        };
        self.programs.all().flat_map(samples).collect()
    }
}

fn program(name: &str, user: String) -> Labels {
    vec![("program", name.to_owned()), ("user", user)]
}

#[cfg(test)]
mod tests;
