//! One node: its last message, the messages that reached it, and its window of credit.

use super::NodeId;
use sidecore_core::dispatch::Dispatch;
use sidecore_core::policy::balance::Load;
use sidecore_core::session::Class;
use sidecore_core::time::Nanos;

/// Round trip to a node before any is measured, ns.
const FIRST_WAY: Nanos = 1_000_000;
/// Length of a span, ns. The least round trips of two spans are kept.
const SPAN: Nanos = 1_000_000_000;
/// Limit of the average round trip in units of the least one. A longer one is queueing, and more credit would
/// lengthen the queue.
const MAX_TYPICAL_LEASTS: Nanos = 4;
/// Mean deviations of the round trip that are added to the window, up to `MAX_TYPICAL_LEASTS` least round trips in all.
const DEVIATIONS: Nanos = 4;
const MAX_LONG_LEASTS: Nanos = 16;
/// Round trips by which messages may be late: TCP sends what was lost again after one or two, and after more if that is
/// lost as well.
const ALLOWED_ROUND_TRIPS: Nanos = 4;
/// Limit of that time, ns: a round trip is known in part from what the node says.
const MAX_ALLOWED_DELAY: Nanos = 500_000_000;
/// Decay of the largest work for each event, as a fraction: 1 in 256.
const FORGET: Nanos = 256;
/// Failures since the last event that it did, not yet judged, after which a node gets one event at a time.
const MAX_OPEN_FAILURES: u32 = 8;
/// Charges since the last event that it did, after which a node is paused.
const PAUSE_AFTER_CHARGES: u32 = 8;
/// First pause, ns. It doubles each time, up to 128 times.
const FIRST_PAUSE: Nanos = 100_000_000;
const MAX_PAUSE_DOUBLINGS: u32 = 7;

/// Result of a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeatOutcome {
    /// All is well.
    Fine,
    /// The node does not belong to the farm: tell it to join again.
    Unknown,
    /// Messages to it or from it were lost: give it to [`NodePool::lose`](super::NodePool::lose), and tell it to join again.
    Lossy,
}

/// A node's state for display. Times in ns.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Events that it does at a time.
    pub slots: u16,
    /// Work it still asks for; negative if it has more than its window.
    pub credit: i64,
    /// Work that it may have.
    pub window: Nanos,
    /// Expected work that it has.
    pub backlog: Nanos,
    /// Events that it has.
    pub in_flight: u32,
    /// Round trip of an event and its answer.
    pub way: Nanos,
    /// Events done since it joined.
    pub done: u64,
    /// Events that failed there since it joined.
    pub failed: u64,
    /// It is paused and gets nothing: others did the events that it could not do.
    pub paused: bool,
    /// It gets one event at a time: everything failed there of late.
    pub suspect: bool,
    /// It leaves and gets no more events.
    pub leaving: bool,
}

impl View {
    pub(super) fn new(node: &Node, load: &Load, leaving: bool) -> Self {
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
            suspect: node.is_suspect(),
            leaving,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) member: NodeId,
    pub(super) present: bool,
    pub(super) slots: u16,
    /// It is lost after this time without a message, ns.
    silence: Nanos,
    heard: Nanos,
    /// Time of its last valid answer, or of the first event given while it was idle.
    pub(super) progress: Nanos,
    pub(super) sent: u64,
    pub(super) answers: u64,
    done: u64,
    pub(super) failures: u64,
    /// A time and the number of events given by then: all of them must have arrived by the end of the grace.
    mark: (Nanos, u64),
    /// Of events.
    way: RoundTrip,
    /// Of beats, which come without events too, where the caller measures it.
    beat_round_trip: RoundTrip,
    largest: Nanos,
    /// Since the last event that it did: failures that may be its own, and those that were.
    open: u32,
    charges: u32,
    pauses: u32,
    paused_until: Option<Nanos>,
    /// The dispatch gives it nothing at present.
    pub(super) withheld: bool,
}

impl Node {
    pub(super) fn new(member: NodeId, slots: u16, silence: Nanos, now: Nanos) -> Self {
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
            way: RoundTrip::new(now),
            beat_round_trip: RoundTrip::new(now),
            largest: 0,
            open: 0,
            charges: 0,
            pauses: 0,
            paused_until: None,
            withheld: false,
        }
    }

    pub(super) fn beat(&mut self, now: Nanos, received: u64, answered: u64, grace: Nanos) -> BeatOutcome {
        self.heard = now;
        let (since, sent) = self.mark;
        if received >= sent {
            self.mark = (now, self.sent);
        }
        // A node's messages arrive in order: an answer that a later beat overtook will not arrive.
        let is_lossy = answered > self.answers || received > self.sent;
        let is_late = received < sent && now.saturating_sub(since) > grace.saturating_add(self.allowed_delay());
        if is_lossy || is_late { BeatOutcome::Lossy } else { BeatOutcome::Fine }
    }

    pub(super) fn is_silent(&self, now: Nanos) -> bool {
        now >= self.silent_at()
    }

    /// The time when it counts as silent, without a further message.
    pub(super) fn silent_at(&self) -> Nanos {
        self.heard.saturating_add(self.silence).saturating_add(self.allowed_delay()).saturating_add(1)
    }

    pub(super) fn observe_round_trip(&mut self, now: Nanos, way: Nanos) {
        self.beat_round_trip.observe(now, way);
    }

    /// How long messages may be under way beyond the times of the settings: none where no round trip is known.
    pub(super) fn allowed_delay(&self) -> Nanos {
        match self.beat_round_trip.least().min(self.way.least()) {
            Nanos::MAX => 0,
            least => least.saturating_mul(ALLOWED_ROUND_TRIPS).min(MAX_ALLOWED_DELAY),
        }
    }

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

    pub(super) fn did(&mut self, now: Nanos, way: Nanos, work: Nanos) {
        self.done += 1;
        self.way.observe(now, way);
        self.largest = work.max(self.largest - self.largest / FORGET);
        (self.open, self.charges, self.pauses) = (0, 0, 0);
    }

    /// An event failed here for the first time.
    pub(super) fn suspect(&mut self) {
        self.open += 1;
    }

    /// A failure was the event's fault.
    pub(super) fn acquit(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// It could not do an event that another did or can do. Failing is quick, so without pauses it would take the most
    /// events.
    pub(super) fn charge(&mut self, now: Nanos) {
        self.charges += 1;
        if self.charges < PAUSE_AFTER_CHARGES || self.paused_until.is_some() {
            return;
        }
        self.paused_until = Some(now.saturating_add(FIRST_PAUSE << self.pauses.min(MAX_PAUSE_DOUBLINGS)));
        self.pauses += 1;
        // After a pause, one more charge starts the next one.
        self.charges = PAUSE_AFTER_CHARGES - 1;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.open > 0 || self.charges > 0
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.open >= MAX_OPEN_FAILURES
    }

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

    /// Most work of the node before it stops asking, ns. It covers the round trip of an answer and the next event, a
    /// fifth more, and the longest event, whose progress is unknown. For equal events this is the rule of `LHCb`, 1 +
    /// 1.2 × (round trip / service time). Busy machines have some far longer round trips, and a node would idle
    /// meanwhile: the window includes their spread, as TCP's retransmission timer does (RFC 6298).
    pub(super) fn window(&self) -> Nanos {
        let way = self.way.long();
        (way + way / 5).saturating_add(self.largest)
    }
}

#[derive(Clone, Debug)]
struct RoundTrip {
    average: Nanos,
    deviation: Nanos,
    seen: bool,
    /// Least round trips of this span and of the one before.
    least: [Nanos; 2],
    since: Nanos,
}

impl RoundTrip {
    fn new(now: Nanos) -> Self {
        Self { average: FIRST_WAY, deviation: 0, seen: false, least: [Nanos::MAX; 2], since: now }
    }

    fn observe(&mut self, now: Nanos, way: Nanos) {
        if now.saturating_sub(self.since) > SPAN {
            self.least = [Nanos::MAX, self.least[0]];
            self.since = now;
        }
        let way = way.min(1 << 50);
        self.least[0] = self.least[0].min(way);
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
        self.average.min(self.least().saturating_mul(MAX_TYPICAL_LEASTS))
    }

    /// A round trip longer than most.
    fn long(&self) -> Nanos {
        let spread = DEVIATIONS * self.deviation;
        self.typical().saturating_add(spread).min(self.least().saturating_mul(MAX_LONG_LEASTS)).max(self.typical())
    }
}
