//! One node: when it was heard, what reached it, and how large its window of credit is.

use super::Member;
use crate::dispatch::Dispatch;
use crate::policy::balance::Load;
use crate::session::Class;
use crate::time::Nanos;

/// Way to a node and back before any was measured, ns.
const FIRST_WAY: Nanos = 1_000_000;
/// Of the least ways seen, two spans are remembered, each so long, ns.
const SPAN: Nanos = 1_000_000_000;
/// The average way counts up to so many times the least one: what is longer is a queue, which more credit would lengthen.
const MOST_TIMES: Nanos = 4;
/// What the ways' spread adds to the window: so many times their mean deviation, up to so many times the least way in all.
const DEVIATIONS: Nanos = 4;
const MOST_SPREAD: Nanos = 16;
/// The largest work is forgotten by one part in so many with each event.
const FORGET: Nanos = 256;
/// So many failures one after the other, and a node is left alone.
const PATIENCE: u32 = 8;
/// For how long at first, ns; twice as long each time, up to 128 times.
const FIRST_PAUSE: Nanos = 100_000_000;
const MOST_DOUBLINGS: u32 = 7;

/// What a beat tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// All is well.
    Fine,
    /// The node does not belong to the farm: tell it to join again.
    Unknown,
    /// Messages to it or from it were lost: it is to be given to [`Farm::lose`](super::Farm::lose), and told to join again.
    Lossy,
}

/// A node as people are shown it. Times in ns.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Events that it does at a time.
    pub slots: u16,
    /// Work until it stops asking; below 0: it has more.
    pub credit: i64,
    /// Work that it may have.
    pub window: Nanos,
    /// Expected work that it has.
    pub backlog: Nanos,
    /// Events that it has.
    pub in_flight: u32,
    /// Time that an event and its answer are under way.
    pub way: Nanos,
    /// Events done since it joined.
    pub done: u64,
    /// Events that failed there since it joined.
    pub failed: u64,
    /// It gets nothing for a while, because so much failed there.
    pub paused: bool,
    /// It leaves, and gets nothing any more.
    pub leaving: bool,
}

impl View {
    pub(super) fn new(node: &Node, load: &Load) -> Self {
        Self {
            slots: node.slots,
            credit: load.window.cast_signed().saturating_sub_unsigned(load.backlog),
            window: load.window,
            backlog: load.backlog,
            in_flight: load.in_flight,
            way: node.way.typical(),
            done: node.done,
            failed: node.failures,
            paused: node.is_paused(),
            leaving: !load.usable && !node.is_paused(),
        }
    }
}

/// What the farm knows of a node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) member: Member,
    pub(super) present: bool,
    pub(super) slots: u16,
    /// It is lost when it was not heard for so long, ns.
    silence: Nanos,
    heard: Nanos,
    /// When an answer of it counted last, or it was given something and had nothing.
    pub(super) progress: Nanos,
    /// Events that were given to it.
    pub(super) sent: u64,
    /// Answers of it that arrived.
    pub(super) answers: u64,
    done: u64,
    failures: u64,
    /// So many events were given to it at this time; all of them are to arrive.
    mark: (Nanos, u64),
    way: Way,
    /// Longest recent work, ns.
    largest: Nanos,
    /// Failures since it last did an event.
    in_a_row: u32,
    /// How often it was left alone since, and until when it is.
    pauses: u32,
    paused_until: Option<Nanos>,
}

impl Node {
    pub(super) fn new(member: Member, slots: u16, silence: Nanos, now: Nanos) -> Self {
        Self {
            member,
            present: true,
            slots,
            silence,
            heard: now,
            progress: now,
            sent: 0,
            answers: 0,
            done: 0,
            failures: 0,
            mark: (now, 0),
            way: Way::new(now),
            largest: 0,
            in_a_row: 0,
            pauses: 0,
            paused_until: None,
        }
    }

    pub(super) fn beat(&mut self, now: Nanos, received: u64, answered: u64, grace: Nanos) -> Heard {
        self.heard = now;
        let (since, sent) = self.mark;
        if received >= sent {
            self.mark = (now, self.sent);
        }
        // Messages of a node arrive in order: an answer that is not here when a later beat is will not come.
        let is_lossy = answered > self.answers || received > self.sent;
        let is_late = received < sent && now.saturating_sub(since) > grace;
        if is_lossy || is_late { Heard::Lossy } else { Heard::Fine }
    }

    /// Whether it was not heard for too long.
    pub(super) fn is_silent(&self, now: Nanos) -> bool {
        now >= self.silent_at()
    }

    /// When it is silent unless it is heard before.
    pub(super) fn silent_at(&self) -> Nanos {
        self.heard.saturating_add(self.silence).saturating_add(1)
    }

    /// It was given an event.
    pub(super) fn gave(&mut self, now: Nanos, has_others: bool) {
        self.sent += 1;
        if !has_others {
            self.progress = now;
        }
    }

    pub(super) fn was_away(&mut self, now: Nanos, away: Nanos) {
        for since in [&mut self.heard, &mut self.progress, &mut self.mark.0] {
            *since = (*since).max(now.min(since.saturating_add(away)));
        }
    }

    /// It did an event.
    pub(super) fn did(&mut self, now: Nanos, way: Nanos, work: Nanos) {
        self.done += 1;
        self.way.observe(now, way);
        self.largest = work.max(self.largest - self.largest / FORGET);
        (self.in_a_row, self.pauses) = (0, 0);
    }

    /// An event failed there. Returns whether it is left alone from now on.
    pub(super) fn failed(&mut self, now: Nanos) -> bool {
        self.failures += 1;
        self.in_a_row += 1;
        if self.in_a_row < PATIENCE || self.paused_until.is_some() {
            return false;
        }
        self.paused_until = Some(now.saturating_add(FIRST_PAUSE << self.pauses.min(MOST_DOUBLINGS)));
        self.pauses += 1;
        // One more failure is enough next time.
        self.in_a_row = PATIENCE - 1;
        true
    }

    /// Whether the last event failed there.
    pub(super) fn has_failed(&self) -> bool {
        self.in_a_row > 0
    }

    /// Whether its pause is over, from now on.
    pub(super) fn resumes(&mut self, now: Nanos) -> bool {
        let over = self.paused_until.is_some_and(|until| until <= now);
        if over {
            self.paused_until = None;
        }
        over
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused_until.is_some()
    }

    pub(super) fn pause_ends(&self) -> Option<Nanos> {
        self.paused_until
    }

    pub(super) fn offers(&self, dispatch: &Dispatch, class: Class) -> bool {
        dispatch.may_do(self.member.number(), class)
    }

    /// Work that it may have before it stops asking, ns: what it does while an answer and the next event are under way, with a
    /// fifth to spare, and the longest event, of which nobody knows how much is done. The rule of `LHCb` in events, 1 + 1.2 × (way /
    /// service time), is the same for events that are alike. Where machines are busy some ways are far longer than most, and a
    /// node would be idle meanwhile: the way counts with its spread, as for TCP's retransmissions (RFC 6298).
    pub(super) fn window(&self) -> Nanos {
        let way = self.way.long();
        (way + way / 5).saturating_add(self.largest)
    }
}

/// How long an event and its answer are under way.
#[derive(Clone, Debug)]
struct Way {
    average: Nanos,
    /// Mean deviation from the average.
    deviation: Nanos,
    seen: bool,
    /// Least ones of this span and of the one before.
    least: [Nanos; 2],
    since: Nanos,
}

impl Way {
    fn new(now: Nanos) -> Self {
        Self { average: FIRST_WAY, deviation: 0, seen: false, least: [Nanos::MAX; 2], since: now }
    }

    fn observe(&mut self, now: Nanos, way: Nanos) {
        if now.saturating_sub(self.since) > SPAN {
            self.least = [Nanos::MAX, self.least[0]];
            self.since = now;
        }
        self.least[0] = self.least[0].min(way);
        let way = way.min(1 << 50);
        if self.seen {
            self.deviation = self.deviation - self.deviation / 4 + self.average.abs_diff(way) / 4;
            self.average = self.average - self.average / 8 + way / 8;
        } else {
            self.average = way;
        }
        self.seen = true;
    }

    fn least(&self) -> Nanos {
        self.least[0].min(self.least[1])
    }

    fn typical(&self) -> Nanos {
        self.average.min(self.least().saturating_mul(MOST_TIMES))
    }

    /// Longer than most are.
    fn long(&self) -> Nanos {
        let spread = DEVIATIONS * self.deviation;
        self.typical().saturating_add(spread).min(self.least().saturating_mul(MOST_SPREAD)).max(self.typical())
    }
}
