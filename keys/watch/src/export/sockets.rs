//! Metrics of programs whose small messages go through the service of sockets, by program name.
//!
//! The service lists a user's own programs, and to root all programs. The list costs CPU time on that user's thread, so
//! the exporter asks once a second at most, also if scrapes are more frequent.

use crate::args::SocketsService;
use crate::sockets::listed;
use crate::sockets::programs::{Account, Seen};
use sidecore_sockets::protocol::Row;
use sidecore_terminal::metrics::{Accounts, Family, Kind, Labels, OTHERS, Value};
use sidecore_terminal::users::Users;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest age of a list before the next request.
const AGE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Sockets {
    socket: PathBuf,
    /// The command line names the service: its absence is then an error.
    named: bool,
    asked: Option<Instant>,
    /// Whether the service answered. `None`: there is no such service.
    is_up: Option<bool>,
    seen: Seen,
    programs: Accounts<Account>,
    users: Users,
}

#[derive(Debug)]
pub(super) enum List {
    Rows(Vec<Row>),
    Silence,
    /// There is no service, and the command line names none.
    Nobody,
}

impl Sockets {
    pub(super) fn new(service: &SocketsService, limit: usize) -> Self {
        Self {
            socket: service.path(),
            named: service.is_named(),
            asked: None,
            is_up: None,
            seen: Seen::default(),
            programs: Accounts::new(limit, program(OTHERS, String::new())),
            users: Users::default(),
        }
    }

    pub(super) fn ask(&mut self, now: Instant) {
        if self.asked.is_some_and(|asked| now.saturating_duration_since(asked) < AGE) {
            return;
        }
        let list = match listed(&self.socket) {
            Ok(list) => List::Rows(list.rows),
            Err(_) if self.named || self.socket.exists() => List::Silence,
            Err(_) => List::Nobody,
        };
        self.take(list);
        self.asked = Some(now);
    }

    pub(super) fn take(&mut self, list: List) {
        let rows = match list {
            List::Rows(rows) => rows,
            // `seen` stays, so no count is added twice once the service answers again.
            List::Silence => return self.is_up = Some(false),
            List::Nobody => return self.is_up = None,
        };
        self.is_up = Some(true);
        let owner = |row: &Row| program(&row.program, self.users.name(row.uid));
        let increases = rows.iter().zip(self.seen.take(&rows));
        let recent = increases.map(|(row, increase)| (owner(row), (row, increase))).collect();
        self.programs.take(recent, |account, (row, increase)| account.take(row, &increase));
    }

    pub(super) fn families(&self) -> Vec<Family> {
        let Some(is_up) = self.is_up else { return Vec::new() };
        let help = "Whether the service of sockets answers: 1 or 0.";
        let mut all = vec![Family::single("sockets_up", help, Kind::Level, Value::Number(is_up.into()))];
        if is_up {
            all.extend(self.levels());
            all.extend(self.sums());
        }
        all
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
