//! Sums over sockets, and their increase since the last list.
//!
//! A socket's counts restart with each stream in its place. Numbers that programs report may be arbitrary, so sums
//! saturate.

use sidecore_sockets::protocol::Row;
use sidecore_streams::rule::PathReason;
use sidecore_terminal::metrics;
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Through rings, as programs report.
    pub(crate) messages: u64,
    /// Sent through the kernel, as programs report.
    pub(crate) kernel_messages: u64,
    /// Through rings.
    pub(crate) bytes: u64,
    /// System calls of the service.
    pub(crate) transfers: u64,
    /// System calls of programs that emptied their own rings.
    pub(crate) drains: u64,
    /// CPU time saved, ns. `None`: not known.
    pub(crate) saved_ns: Option<i64>,
}

/// Counts at the last call, by connection, place and stream.
#[derive(Debug, Default)]
pub(crate) struct Seen(HashMap<(u32, u32, u32), Counts>);

impl Counts {
    pub(crate) fn of(row: &Row) -> Self {
        Self {
            messages: row.messages,
            kernel_messages: row.kernel_messages,
            bytes: row.bytes,
            transfers: row.transfers,
            drains: row.drains,
            saved_ns: row.saved_ns,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let saved = [self.saved_ns, other.saved_ns].into_iter().flatten().reduce(i64::saturating_add);
        *self = Self { saved_ns: saved, ..self.with(other, u64::saturating_add) };
    }

    /// Messages for each system call, of the service or of programs.
    pub(crate) fn messages_a_send(&self) -> Option<f64> {
        let calls = self.transfers.saturating_add(self.drains);
        (calls > 0).then(|| self.messages as f64 / calls as f64)
    }

    fn since(&self, earlier: &Self) -> Self {
        if earlier.bytes > self.bytes || earlier.messages > self.messages {
            return *self;
        }
        let saved = self.saved_ns.map(|now| now.saturating_sub(earlier.saved_ns.unwrap_or(0)));
        Self { saved_ns: saved, ..self.with(earlier, u64::saturating_sub) }
    }

    fn with(&self, other: &Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            messages: of(self.messages, other.messages),
            kernel_messages: of(self.kernel_messages, other.kernel_messages),
            bytes: of(self.bytes, other.bytes),
            transfers: of(self.transfers, other.transfers),
            drains: of(self.drains, other.drains),
            saved_ns: self.saved_ns,
        }
    }
}

impl Seen {
    /// Increase of each row since the last call; for a new row, since its stream began.
    pub(crate) fn take(&mut self, rows: &[Row]) -> Vec<Counts> {
        let before = std::mem::take(&mut self.0);
        let since = |row: &Row| {
            let (key, now) = ((row.serial, row.place, row.stream), Counts::of(row));
            // A program that ended between two pages may have a row on both.
            let earlier = self.0.insert(key, now).or_else(|| before.get(&key).copied());
            earlier.map_or(now, |earlier| now.since(&earlier))
        };
        rows.iter().map(since).collect()
    }
}

/// Current path of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Ring,
    Kernel(&'static str),
}

impl Way {
    /// `None`: the socket is closed.
    fn of(row: &Row) -> Option<Self> {
        if row.open {
            return Some(Self::Ring);
        }
        let why = PathReason::of(row.why.into());
        let is_closed = row.gone_ns.is_some() || matches!(why, Some(PathReason::Row | PathReason::Closed));
        let words = why.map_or("unknown", PathReason::words).trim_start_matches("on the kernel: ");
        (!is_closed).then_some(Self::Kernel(words))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) sum: Counts,
    pub(crate) in_rings: u64,
    pub(crate) on_kernel: BTreeMap<&'static str, u64>,
    pub(crate) waiting: u64,
}

impl Account {
    pub(crate) fn take(&mut self, row: &Row, recent: &Counts) {
        self.sum.add(recent);
        if row.gone_ns.is_some() {
            return;
        }
        self.waiting = self.waiting.saturating_add(row.waiting);
        match Way::of(row) {
            Some(Way::Ring) => self.in_rings += 1,
            Some(Way::Kernel(why)) => *self.on_kernel.entry(why).or_default() += 1,
            None => {}
        }
    }
}

impl metrics::Account for Account {
    fn clear_levels(&mut self) {
        *self = Self { sum: self.sum, ..Self::default() };
    }

    fn is_empty(&self) -> bool {
        self.sum == Counts::default()
    }
}

#[cfg(test)]
pub(crate) mod made_up {
    use super::Row;

    pub(crate) fn row(program: &str, pid: u32, place: u32) -> Row {
        Row {
            serial: pid,
            pid,
            uid: 0,
            program: program.to_owned(),
            place,
            stream: 1,
            descriptor: place + 3,
            open: true,
            peer: Some("[::1]:1883".to_owned()),
            why: 1,
            messages: 1000,
            kernel_messages: 6,
            kernel_bytes: None,
            bytes: 64_000,
            transfers: 6,
            drains: 2,
            waiting: 640,
            saved_ns: Some(3_968_000),
            gone_ns: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::made_up::row;
    use super::*;

    #[test]
    fn what_was_counted_meanwhile_is_known_stream_by_stream() {
        let mut seen = Seen::default();
        let first = [row("a", 7, 0), row("a", 7, 1), row("a", 7, 2)];
        assert_eq!(seen.take(&first), first.each_ref().map(Counts::of), "all is new");
        let mut then = first.clone();
        (then[0].messages, then[0].saved_ns) = (1500, Some(3_960_000));
        // The second place has another stream; the third stream's counts restarted.
        (then[1].stream, then[1].messages) = (2, 2000);
        (then[2].messages, then[2].bytes) = (10, 640);
        let counts = seen.take(&then);
        assert_eq!(counts.iter().map(|counts| counts.messages).collect::<Vec<_>>(), [500, 2000, 10]);
        assert_eq!((counts[0].transfers, counts[0].saved_ns), (0, Some(-8_000)));
        seen.take(&[]);
        assert_eq!(seen.take(&first[..1])[0].messages, 1000, "it was forgotten");
    }

    #[test]
    fn sums_stop_at_their_ends_and_what_is_not_known_adds_nothing() {
        let mut sum = Counts { messages: u64::MAX, saved_ns: Some(i64::MIN), ..Counts::default() };
        sum.add(&Counts { messages: 1, saved_ns: Some(-1), transfers: 2, ..Counts::default() });
        sum.add(&Counts { bytes: 3, ..Counts::default() });
        let all = Counts { messages: u64::MAX, saved_ns: Some(i64::MIN), transfers: 2, bytes: 3, ..Counts::default() };
        assert_eq!(sum, all);
        assert_eq!(
            (Counts::of(&row("a", 7, 0)).messages_a_send(), Counts::default().messages_a_send()),
            (Some(125.0), None)
        );
    }

    #[test]
    fn a_socket_is_in_a_ring_as_long_as_the_service_has_it() {
        let way = |open: bool, why| Way::of(&Row { open, why, ..row("a", 7, 0) });
        assert_eq!((way(true, 1), way(true, 4)), (Some(Way::Ring), Some(Way::Ring)));
        assert_eq!((way(false, 4), way(false, 99)), (Some(Way::Kernel("forked")), Some(Way::Kernel("unknown"))));
        assert_eq!((way(false, 1), way(false, 11)), (None, None));
        assert_eq!(Way::of(&Row { open: false, why: 4, gone_ns: Some(1), ..row("a", 7, 0) }), None);
    }
}
