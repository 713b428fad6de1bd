//! Messages that find the sidecore asleep: the program sends some of them itself.
//!
//! To wake the sidecore costs both sides about one send, and the message waits for it. That pays where messages
//! gather meanwhile. So the program sends a message itself unless several sends followed each other closely: each
//! began in less time after the one before than that had taken. How many it takes is learnt for each program: fewer
//! where the sidecore was woken for enough messages, the double number where it was not. After a row of own sends it
//! tries with fewer: messages may follow in longer rows by then. A busy program, whose thread hardly ever sleeps,
//! always wakes the sidecore: it sends more where it sends less itself.

use crate::saving::BreakEven;
use sidecore_core::sync::{AtomicU64, Ordering};
use sidecore_core::time::Nanos;

/// Close sends after which the sidecore is woken at first.
const FIRST: u64 = 2;
/// The same where waking it paid: 0 after long rows, whose first message wakes it.
const MIN_CLOSE_SENDS: u64 = 1;
/// Messages of a wake-up that make a long row: more than arrive during it at a pace that own sends can follow.
const LONG: u64 = 12;
/// The same where it did not pay: programs may send one message to each of 1,000 connections, and then pause.
const MAX_CLOSE_SENDS: u64 = 1024;
/// Own sends, times the close ones that it takes, after which fewer are tried.
const RETRY: u64 = 128;
/// Fewest messages between two looks at a thread's usage, and least time, ns.
const LOOK_MESSAGES: u64 = 64;
const LOOK_INTERVAL_NS: Nanos = 20_000_000;
/// Mean time between two sleeps of a busy thread at least, ns,
const AWAKE: Nanos = 20_000_000;
/// and its part of the time at least, 1 / `PART`: others may have the core for the rest.
const PART: u64 = 4;
/// Least time of a send, ns: clocks may be coarser.
const MIN_SEND_NS: Nanos = 500;
/// Most time of a send, ns: one that took longer was interrupted.
const MAX_SEND_NS: Nanos = 20_000;
/// A sidecore that stays awake judges its calls in groups of this size, by the mean of messages moved.
const CALLS: u64 = 256;
/// Least mean.
const MOVED: u64 = 2;
const NOTHING: u64 = u64::MAX;

/// A program's messages that the sidecore moved, and its calls for them, as the service counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Messages.
    pub messages: u64,
    /// Calls.
    pub calls: u64,
}

/// Recent calls of a sidecore for a program. A sidecore that is always behind never sleeps: no message asks whether
/// to wake it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent(Count);

impl Recent {
    /// A call moved `messages`. True if recent calls moved few: the program is to ask again, as if the sidecore slept.
    pub fn is_in_vain(&mut self, messages: u64) -> bool {
        let Self(count) = self;
        *count = Count { messages: count.messages.saturating_add(messages), calls: count.calls + 1 };
        let is_over = count.calls == CALLS;
        let count = if is_over { core::mem::take(count) } else { *count };
        is_over && count.messages < MOVED * CALLS
    }
}

/// CPU time and sleeps of a thread so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Its number.
    pub thread: u64,
    /// CPU time, ns.
    pub cpu: Nanos,
    /// Times that it blocked and left the core.
    pub sleeps: u64,
}

/// When a program wakes the sidecore, on all of its connections. Threads may overwrite each other's: it is advice.
#[derive(Debug)]
pub struct Wakes {
    ended: AtomicU64,
    /// Its length, ns.
    took: AtomicU64,
    close: AtomicU64,
    /// Close ones after which the sidecore is woken.
    patience: AtomicU64,
    own: AtomicU64,
    unlooked: AtomicU64,
    looked: AtomicU64,
    /// Its usage at that look: thread, CPU time (ns) and sleeps.
    used: [AtomicU64; 3],
    /// 1: it was busy at that look.
    busy: AtomicU64,
    /// The count at the last wake-up. [`NOTHING`]: nothing is to be learnt from it any more.
    messages: AtomicU64,
    calls: AtomicU64,
}

impl Default for Wakes {
    fn default() -> Self {
        let [ended, took, close, own, calls, unlooked, looked, busy] = [0; 8].map(AtomicU64::new);
        let used = [0; 3].map(AtomicU64::new);
        let (patience, messages) = (AtomicU64::new(FIRST), AtomicU64::new(NOTHING));
        Self { ended, took, close, patience, own, unlooked, looked, used, busy, messages, calls }
    }
}

impl Wakes {
    /// A message finds the sidecore asleep. True if the program must wake it, false if the program sends the message
    /// itself. `usage`: of this thread.
    pub fn wakes(&self, now: Nanos, usage: impl FnOnce() -> Usage, count: Count, break_even: BreakEven) -> bool {
        self.judge(count, break_even);
        self.look(now, usage);
        let patience = self.patience.load(Ordering::Relaxed);
        let own = self.own.load(Ordering::Relaxed);
        if patience > MIN_CLOSE_SENDS && own >= RETRY * patience {
            self.learn(patience / 2);
        }
        if self.busy.load(Ordering::Relaxed) == 1 || break_even == BreakEven::NONE {
            return true;
        }
        let wakes = self.follows(now) >= self.patience.load(Ordering::Relaxed);
        if !wakes {
            self.own.store(own + 1, Ordering::Relaxed);
        } else if self.messages.load(Ordering::Relaxed) == NOTHING {
            self.calls.store(count.calls, Ordering::Relaxed);
            self.messages.store(count.messages, Ordering::Relaxed);
        }
        wakes
    }

    /// The program's own send began and ended.
    pub fn sent(&self, began: Nanos, now: Nanos) {
        self.took.store(now.saturating_sub(began), Ordering::Relaxed);
        self.ended.store(now, Ordering::Relaxed);
    }

    fn follows(&self, now: Nanos) -> u64 {
        let since = now.saturating_sub(self.ended.load(Ordering::Relaxed));
        let is_close = since <= self.took.load(Ordering::Relaxed).clamp(MIN_SEND_NS, MAX_SEND_NS);
        let close = if is_close { (self.close.load(Ordering::Relaxed) + 1).min(MAX_CLOSE_SENDS) } else { 0 };
        self.close.store(close, Ordering::Relaxed);
        close
    }

    fn look(&self, now: Nanos, usage: impl FnOnce() -> Usage) {
        let unlooked = self.unlooked.load(Ordering::Relaxed) + 1;
        let is_due =
            unlooked >= LOOK_MESSAGES && now >= self.looked.load(Ordering::Relaxed).saturating_add(LOOK_INTERVAL_NS);
        self.unlooked.store(if is_due { 0 } else { unlooked }, Ordering::Relaxed);
        if !is_due {
            return;
        }
        let Usage { thread, cpu, sleeps } = usage();
        let took = now.saturating_sub(self.looked.swap(now, Ordering::Relaxed));
        let [before, cpu_before, sleeps_before] = &self.used;
        let is_known = before.swap(thread, Ordering::Relaxed) == thread;
        let cpu = cpu.saturating_sub(cpu_before.swap(cpu, Ordering::Relaxed));
        let sleeps = sleeps.saturating_sub(sleeps_before.swap(sleeps, Ordering::Relaxed));
        if is_known {
            let is_busy = sleeps <= took / AWAKE && cpu >= took / PART;
            self.busy.store(is_busy.into(), Ordering::Relaxed);
        }
    }

    fn judge(&self, count: Count, break_even: BreakEven) {
        let messages = self.messages.load(Ordering::Relaxed);
        let calls = count.calls.wrapping_sub(self.calls.load(Ordering::Relaxed));
        if messages == NOTHING || calls == 0 {
            return;
        }
        let (patience, row) = (self.patience.load(Ordering::Relaxed), count.messages.wrapping_sub(messages));
        self.learn(match break_even.is_reached(row, calls) {
            true if row >= LONG => patience / 2,
            true => (patience / 2).max(MIN_CLOSE_SENDS),
            false => (patience * 2).max(MIN_CLOSE_SENDS),
        });
        self.messages.store(NOTHING, Ordering::Relaxed);
    }

    fn learn(&self, patience: u64) {
        self.patience.store(patience.min(MAX_CLOSE_SENDS), Ordering::Relaxed);
        self.own.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;

    use super::*;

    /// A send of the program, ns.
    const SEND: Nanos = 4_000;
    /// Time until a woken sidecore has sent all, ns.
    const WAKE: Nanos = 30_000;

    #[derive(Default)]
    struct Model {
        wakes: Wakes,
        count: Count,
        now: Nanos,
        cpu: Nanos,
        sleeps: u64,
        /// Time when the sidecore, if it is awake, looks at the rings again, ns. 0: it sleeps.
        awake_until: Nanos,
        own: u64,
        woken: u64,
        filled: std::collections::BTreeSet<u64>,
        waiting: u64,
        recent: Recent,
        /// Time that a call of the sidecore takes more than one of the program: it shares its core.
        shares: Nanos,
        /// Messages ask whether to wake the sidecore, although it is awake.
        is_armed: bool,
    }

    impl Model {
        fn new() -> Self {
            Self { now: 1_000_000, ..Self::default() }
        }

        fn sends(&mut self, connection: u64) {
            while self.awake_until > 0 && self.now >= self.awake_until {
                let calls = self.filled.len() as u64;
                self.count.calls += calls;
                self.count.messages += self.waiting;
                for _ in 0..calls {
                    self.is_armed |= self.recent.is_in_vain(self.waiting / calls);
                }
                self.awake_until = if calls == 0 { 0 } else { self.awake_until + calls * (SEND + self.shares) };
                (self.filled, self.waiting) = Default::default();
            }
            let asks = self.awake_until == 0 || self.is_armed;
            if asks && !self.filled.contains(&connection) {
                let usage = Usage { thread: 1, cpu: self.cpu, sleeps: self.sleeps };
                if self.wakes.wakes(self.now, || usage, self.count, BreakEven::ASSUMED) {
                    self.awake_until = self.awake_until.max(self.now + WAKE);
                    self.is_armed = false;
                    self.woken += 1;
                } else {
                    self.own += 1;
                    self.wakes.sent(self.now, self.now + SEND);
                    self.now += SEND + 80;
                    self.cpu += SEND + 80;
                    return;
                }
            }
            self.filled.insert(connection);
            self.waiting += 1;
            self.now += 80;
            self.cpu += 80;
        }

        /// `messages` messages in a row on one connection, then a pause, ns, all `times` times.
        fn bursts(&mut self, times: u64, messages: u64, pause: Nanos) {
            for _ in 0..times {
                (0..messages).for_each(|_| self.sends(0));
                self.now += pause;
                self.sleeps += u64::from(pause > 0);
            }
        }
    }

    #[test]
    fn at_a_pace_the_program_sends_itself() {
        for gap in [1_000_000, 100_000, 10_000, SEND + 1_000] {
            let mut model = Model::new();
            model.bursts(10_000, 1, gap);
            assert_eq!((model.own, model.woken), (10_000, 0), "{gap}");
        }
    }

    #[test]
    fn a_flood_wakes_the_sidecore_at_once_and_keeps_doing_so() {
        let mut model = Model::new();
        model.bursts(1, 100_000, 0);
        assert!(model.own < 1_000 && model.count.calls < 3_000, "{} of 100,000, {:?}", model.own, model.count);
    }

    #[test]
    fn long_rows_gather_from_their_first_message_on() {
        for messages in [16, 50] {
            let mut model = Model::new();
            model.bursts(1_000, messages, 1_000_000);
            assert!(model.own < 50, "{} of {messages},000", model.own);
            assert!((990..=1_010).contains(&model.woken), "{}", model.woken);
        }
    }

    #[test]
    fn of_shorter_rows_the_first_message_is_sent_at_once() {
        let mut model = Model::new();
        model.bursts(1_000, 10, 1_000_000);
        assert!((900..2_000).contains(&model.own), "{} of 10,000", model.own);
    }

    #[test]
    fn bursts_that_wake_the_sidecore_for_little_seldom_do() {
        let mut model = Model::new();
        // The third wakes it, alone.
        model.bursts(10_000, 3, 1_000_000);
        assert!((1..700).contains(&model.woken) && model.own > 29_000, "{} {}", model.woken, model.own);
    }

    #[test]
    fn one_message_to_each_of_many_connections_seldom_wakes_it() {
        for connections in [16, 200, 1_000] {
            let mut model = Model::new();
            for _ in 0..1_000 {
                (0..connections).for_each(|connection| model.sends(connection));
                model.now += connections * 20_000;
                model.sleeps += 1;
            }
            let in_rings = 1_000 * connections - model.own;
            assert!(in_rings < 50 * connections, "{in_rings} of {} at {connections}", 1_000 * connections);
        }
    }

    #[test]
    fn a_sidecore_that_is_always_behind_gives_single_messages_back() {
        for connections in [256, 1_000] {
            let mut model = Model { shares: SEND, ..Model::new() };
            for _ in 0..1_000 {
                let begun = model.now;
                (0..connections).for_each(|connection| model.sends(connection));
                // Enough for the program's calls, and not for the sidecore's.
                model.now = model.now.max(begun + connections * (SEND + 200));
                model.sleeps += 1;
            }
            let in_rings = 1_000 * connections - model.own;
            assert!(in_rings < 100 * connections, "{in_rings} of {} at {connections}", 1_000 * connections);
        }
    }

    #[test]
    fn a_flood_to_many_connections_gathers() {
        let mut model = Model::new();
        for _ in 0..1_000 {
            (0..200).for_each(|connection| model.sends(connection));
        }
        assert!(model.own < 10_000, "{} of 200,000", model.own);
    }

    #[test]
    fn a_busy_program_gathers_however_long_it_works_on_each_message() {
        for works in [2_000, 5_000, 10_000] {
            let mut model = Model::new();
            for _ in 0..100_000 {
                model.sends(0);
                model.now += works;
                model.cpu += works;
            }
            assert!(model.own < 20_000, "{works}: {} of 100,000", model.own);
        }
    }

    #[test]
    fn rows_that_grow_longer_are_found() {
        let mut model = Model::new();
        model.bursts(1_000, 3, 1_000_000);
        model.wakes.patience.store(MAX_CLOSE_SENDS, Ordering::Relaxed);
        let before = model.own;
        model.bursts(20_000, 50, 1_000_000);
        assert!(model.own - before < 300_000, "{} of a million", model.own - before);
    }

    #[test]
    fn after_a_pace_a_flood_is_found_and_the_other_way_round() {
        let mut model = Model::new();
        for _ in 0..10 {
            let own = model.own;
            model.bursts(1_000, 1, 20_000);
            assert!(model.own - own >= 998, "{} of 1,000", model.own - own);
            let own = model.own;
            model.bursts(1, 10_000, 1_000_000);
            assert!(model.own - own < 300, "{}", model.own - own);
        }
    }

    #[test]
    fn for_a_service_that_spins_or_says_nothing_each_message_is_the_sidecores() {
        let wakes = Wakes::default();
        assert!((0..100).all(|at| wakes.wakes(at, Usage::default, Count { messages: at, calls: at }, BreakEven::NONE)));
    }

    #[test]
    fn what_is_written_by_another_process_bounds_nothing_but_the_gain() {
        let wakes = Wakes::default();
        for at in 0..1_000_u64 {
            let count = Count { messages: at.wrapping_mul(u64::MAX / 3), calls: at.wrapping_mul(u64::MAX / 7) };
            let _ = wakes.wakes(at * 100, Usage::default, count, BreakEven::from_word(u64::MAX - at));
            assert!(wakes.patience.load(Ordering::Relaxed) <= MAX_CLOSE_SENDS);
        }
    }

    #[test]
    fn a_send_that_was_held_up_makes_no_later_one_close() {
        let wakes = Wakes::default();
        wakes.sent(0, 1_000_000_000);
        assert_eq!(wakes.follows(1_000_000_000 + MAX_SEND_NS + 1), 0);
        assert_eq!(wakes.follows(1_000_000_000 + MAX_SEND_NS), 1);
    }
}
