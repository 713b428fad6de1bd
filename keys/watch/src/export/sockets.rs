//! Metrics of programs whose small messages go through the service of sockets, by program name.
//!
//! The service lists a user's own programs, and to root all programs. The list costs CPU time on that user's thread, so
//! the exporter asks once a second at most, also if scrapes are more frequent.

use super::family::{Family, Labels, Value};
use super::{OTHERS, families};
use crate::args::SocketsService;
use crate::sockets::listed;
use crate::sockets::programs::{Account, Counts, Seen};
use crate::users::Users;
use sidecore_counters::Kind;
use sidecore_sockets::protocol::Row;
use std::collections::BTreeMap;
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
    programs: BTreeMap<Labels, Account>,
    others: Account,
    limit: usize,
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
            programs: BTreeMap::new(),
            others: Account::default(),
            limit,
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
        let label = |row: &Row| vec![("program", row.program.clone()), ("user", self.users.name(row.uid))];
        let owners: Vec<Labels> = rows.iter().map(label).collect();
        self.programs.retain(|owner, _| owners.contains(owner));
        self.programs.values_mut().chain([&mut self.others]).for_each(Account::clear_levels);
        for ((row, owner), recent) in rows.iter().zip(owners).zip(self.seen.take(&rows)) {
            self.account(owner).take(row, &recent);
        }
    }

    fn account(&mut self, owner: Labels) -> &mut Account {
        if self.programs.len() >= self.limit && !self.programs.contains_key(&owner) {
            return &mut self.others;
        }
        self.programs.entry(owner).or_default()
    }

    pub(super) fn families(&self) -> Vec<Family> {
        let Some(is_up) = self.is_up else { return Vec::new() };
        let help = "Whether the service of sockets answers: 1 or 0.";
        let mut all = vec![families::single("sockets_up", help, Kind::Level, is_up.into())];
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
        let seconds =
            self.each(|account| account.sum.saved_ns.map(|nanos| (None, Value::Balance(nanos))).into_iter().collect());
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
        let others = vec![("program", OTHERS.to_owned()), ("user", String::new())];
        let seen = self.others.sum != Counts::default();
        let all = self.programs.iter().map(|(owner, account)| (owner.clone(), account));
        let all = all.chain(seen.then_some((others, &self.others)));
        let samples = |(owner, account): (Labels, &Account)| {
            let labelled = |(label, value)| (owner.iter().cloned().chain(label).collect(), value);
            of(account).into_iter().map(labelled).collect::<Vec<_>>()
        };
        all.flat_map(samples).collect()
    }
}
