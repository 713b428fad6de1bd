//! The busiest sockets of programs whose connection to the service ended recently. Each user has room of its own.

use sidecore_core::time::Nanos;
use sidecore_sockets::protocol::Row;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Most rows kept of a program.
pub(super) const ROWS: usize = 16;
/// Most rows kept of a user's programs.
const ROWS_OF_USER: usize = 256;
/// Most users with kept rows.
const USERS: usize = 64;
/// Lifetime of kept rows, ns.
const KEPT: Nanos = 300_000_000_000;

#[derive(Debug)]
pub(super) struct Past {
    pub(super) serial: u32,
    since: Nanos,
    rows: Vec<Row>,
}

impl Past {
    pub(super) fn rows(&self, now: Nanos) -> impl Iterator<Item = Row> {
        let gone_ns = Some(now.saturating_sub(self.since));
        self.rows.iter().map(move |row| Row { gone_ns, ..row.clone() })
    }
}

#[derive(Debug, Default)]
pub(super) struct Gone(BTreeMap<u32, VecDeque<Arc<Past>>>);

impl Gone {
    pub(super) fn add(&mut self, (uid, serial): (u32, u32), mut rows: Vec<Row>, now: Nanos) {
        self.expire(now);
        rows.truncate(ROWS);
        if rows.is_empty() {
            return;
        }
        let programs = self.0.entry(uid).or_default();
        programs.push_back(Arc::new(Past { serial, since: now, rows }));
        while programs.iter().map(|past| past.rows.len()).sum::<usize>() > ROWS_OF_USER {
            programs.pop_front();
        }
        if self.0.len() > USERS {
            let last = |programs: &VecDeque<Arc<Past>>| programs.back().map(|past| past.since);
            let quietest = self.0.iter().min_by_key(|(_, programs)| last(programs)).map(|(uid, _)| *uid);
            self.0.retain(|uid, _| Some(*uid) != quietest);
        }
    }

    /// At most `most` programs of this user, for root of all users, in order of number, from `first` on.
    pub(super) fn programs_from(&self, first: u32, uid: u32, most: usize, now: Nanos) -> Vec<Arc<Past>> {
        let own = self.0.iter().filter(|(of, _)| uid == 0 || **of == uid).flat_map(|(_, programs)| programs);
        let fresh = |past: &&Arc<Past>| past.serial >= first && past.since.saturating_add(KEPT) > now;
        let mut programs: Vec<&Arc<Past>> = own.filter(fresh).collect();
        programs.sort_unstable_by_key(|past| past.serial);
        programs.into_iter().take(most).cloned().collect()
    }

    fn expire(&mut self, now: Nanos) {
        self.0.retain(|_, programs| {
            programs.retain(|past| past.since.saturating_add(KEPT) > now);
            !programs.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<Row> {
        let row = Row {
            serial: 0,
            pid: 1,
            uid: 1,
            program: String::new(),
            place: 0,
            stream: 1,
            descriptor: 3,
            open: false,
            peer: None,
            why: 1,
            messages: 1,
            kernel_messages: 0,
            kernel_bytes: None,
            bytes: 1,
            transfers: 1,
            drains: 0,
            waiting: 0,
            saved_ns: None,
            gone_ns: None,
        };
        vec![row; count]
    }

    fn serials(gone: &Gone, uid: u32, now: Nanos) -> Vec<u32> {
        gone.programs_from(0, uid, usize::MAX, now).iter().map(|past| past.serial).collect()
    }

    #[test]
    fn a_user_that_churns_pushes_out_its_own_rows_alone() {
        let mut gone = Gone::default();
        gone.add((7, 0), rows(1), 0);
        (1..=1000).for_each(|serial| gone.add((8, serial), rows(100), serial.into()));
        assert_eq!(serials(&gone, 8, 1000), (985..=1000).collect::<Vec<_>>(), "16 of 16 rows");
        assert_eq!((serials(&gone, 7, 1000), serials(&gone, 9, 1000)), (vec![0], vec![]));
        assert_eq!(serials(&gone, 0, 1000).len(), 17, "root sees all");
        let first = gone.programs_from(990, 8, 2, 1000);
        assert_eq!(first.iter().map(|past| past.serial).collect::<Vec<_>>(), [990, 991]);
        assert_eq!(first[0].rows(1000).map(|row| row.gone_ns).collect::<Vec<_>>(), vec![Some(10); ROWS]);
    }

    #[test]
    fn rows_are_kept_for_a_while_and_of_so_many_users() {
        let mut gone = Gone::default();
        gone.add((7, 0), rows(1), 0);
        gone.add((7, 1), Vec::new(), 0);
        assert_eq!((serials(&gone, 7, KEPT - 1), serials(&gone, 7, KEPT)), (vec![0], vec![]));
        gone.add((8, 2), rows(1), KEPT);
        assert_eq!(gone.0.len(), 1);
        (0..100).for_each(|uid| gone.add((100 + uid, 100 + uid), rows(1), KEPT + 1 + Nanos::from(uid)));
        assert_eq!(gone.0.keys().copied().collect::<Vec<_>>(), (136..200).collect::<Vec<_>>());
    }
}
