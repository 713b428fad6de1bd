//! Messages that find the sidecore asleep: the program sends some of them itself.
//!
//! To wake the sidecore costs both sides about as much as a send, and the message waits for it. That pays where messages
//! gather meanwhile. So the program sends a message itself unless several sends followed each other closely: each began in less
//! time after the one before than that had taken. How many it takes is learnt for each ring: fewer where the sidecore was woken
//! for enough messages, twice as many where it was not. Now and then it tries with fewer: messages may follow in longer rows by then.

use super::saving::BreakEven;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Nanos;

/// Close sends after which the sidecore is woken at first.
const FIRST: u32 = 2;
/// The same where waking it paid.
const FEWEST: u32 = 1;
/// The same where it did not pay: a program may send one message to each of as many connections, and then pause.
const MOST: u32 = 1024;
/// Own sends after which fewer are tried.
const RETRY: u32 = 256;
/// A send that took longer (ns) was not that long by itself.
const LONGEST: Nanos = 20_000;

/// How closely a program's own sends follow each other, on all of its connections. Threads may overwrite each other's: it is
/// advice.
#[derive(Debug)]
pub struct Pace {
    /// End of the last one, ns.
    ended: AtomicU64,
    /// Its length, ns.
    took: AtomicU64,
    /// Close ones in a row.
    close: AtomicU64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { ended: AtomicU64::new(0), took: AtomicU64::new(0), close: AtomicU64::new(0) }
    }
}

impl Pace {
    /// A message finds the sidecore asleep. Returns the number of close sends in a row, with this one.
    pub fn begins(&self, now: Nanos) -> u32 {
        let since = now.saturating_sub(self.ended.load(Ordering::Relaxed));
        let is_close = since <= self.took.load(Ordering::Relaxed).min(LONGEST);
        let close = if is_close { self.close.load(Ordering::Relaxed).saturating_add(1).min(MOST.into()) } else { 0 };
        self.close.store(close, Ordering::Relaxed);
        close as u32
    }

    /// The program's own send began and ended.
    pub fn sent(&self, began: Nanos, now: Nanos) {
        self.took.store(now.saturating_sub(began), Ordering::Relaxed);
        self.ended.store(now, Ordering::Relaxed);
    }
}

/// Messages of a ring, and calls that moved them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Written to the ring.
    pub messages: u64,
    /// Of both sides.
    pub calls: u64,
}

/// For how many messages the sidecore is woken, of one ring.
#[derive(Clone, Copy, Debug)]
pub struct Wakes {
    /// Close sends after which it is woken.
    patience: u32,
    /// The count at the last time that it was woken. `None`: nothing is to be learnt from it any more.
    woken: Option<Count>,
    /// Own sends since the bound changed.
    own: u32,
}

impl Default for Wakes {
    fn default() -> Self {
        Self { patience: FIRST, woken: None, own: 0 }
    }
}

impl Wakes {
    /// A message finds the sidecore asleep. True if that is to be woken, false if the program sends it. `close`: see
    /// [`Pace::begins`]; `count`: without this message.
    pub fn wakes(&mut self, close: u32, count: Count, break_even: BreakEven) -> bool {
        if let Some(woken) = self.woken {
            let calls = count.calls.wrapping_sub(woken.calls);
            if calls > 0 {
                let paid = break_even.is_reached(count.messages.wrapping_sub(woken.messages), calls);
                self.learn(if paid { self.patience / 2 } else { self.patience * 2 });
                self.woken = None;
            }
        }
        if self.own >= RETRY {
            self.learn(self.patience / 2);
        }
        let wakes = close >= self.patience || break_even == BreakEven::NONE;
        if !wakes {
            self.own += 1;
        } else if self.woken.is_none() {
            self.woken = Some(count);
        }
        wakes
    }

    fn learn(&mut self, patience: u32) {
        (self.patience, self.own) = (patience.clamp(FEWEST, MOST), 0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A send of the program, ns.
    const SEND: Nanos = 4_000;
    /// From a message that wakes the sidecore until that has sent what there is, ns.
    const WAKE: Nanos = 30_000;

    /// A program, and a sidecore that sleeps when it has sent all.
    #[derive(Default)]
    struct Model {
        pace: Pace,
        wakes: Wakes,
        count: Count,
        now: Nanos,
        /// The sidecore sends then.
        awake_until: Nanos,
        own: u64,
        woken: u64,
    }

    impl Model {
        fn new() -> Self {
            Self { now: 1_000_000, ..Self::default() }
        }

        fn sends(&mut self) {
            if self.now >= self.awake_until && self.awake_until > 0 {
                self.awake_until = 0;
                self.count.calls += 1;
            }
            if self.awake_until == 0 {
                let close = self.pace.begins(self.now);
                if self.wakes.wakes(close, self.count, BreakEven::ASSUMED) {
                    self.awake_until = self.now + WAKE;
                    self.woken += 1;
                } else {
                    self.own += 1;
                    self.count.calls += 1;
                    self.pace.sent(self.now, self.now + SEND);
                    self.now += SEND;
                }
            }
            self.count.messages += 1;
            self.now += 80;
        }

        /// So many messages at once, then a pause, ns.
        fn bursts(&mut self, times: u64, messages: u64, pause: Nanos) {
            for _ in 0..times {
                (0..messages).for_each(|_| self.sends());
                self.now += pause;
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
        assert!(model.own < 1_000 && model.count.calls < 2_000, "{} of 100,000, {:?}", model.own, model.count);
    }

    #[test]
    fn of_each_burst_the_first_messages_are_sent_at_once_and_the_rest_together() {
        let mut model = Model::new();
        model.bursts(1_000, 50, 1_000_000);
        assert!((1_000..=2_010).contains(&model.own), "{}", model.own);
        assert!((1_000..=1_010).contains(&model.woken), "{}", model.woken);
    }

    #[test]
    fn bursts_that_wake_the_sidecore_for_little_seldom_do() {
        let mut model = Model::new();
        // The third wakes it, alone.
        model.bursts(10_000, 3, 1_000_000);
        assert!((1..300).contains(&model.woken) && model.own > 29_000, "{} {}", model.woken, model.own);
    }

    #[test]
    fn rows_that_grow_longer_are_found() {
        let mut model = Model::new();
        model.bursts(1_000, 3, 1_000_000);
        model.wakes.patience = MOST;
        let before = model.own;
        model.bursts(1_000, 50, 1_000_000);
        assert!(model.own - before < 4_000, "{} of 50,000", model.own - before);
    }

    #[test]
    fn after_a_pace_a_flood_is_found_and_the_other_way_round() {
        let mut model = Model::new();
        for _ in 0..10 {
            model.bursts(1_000, 1, 20_000);
            let (own, calls) = (model.own, model.count.calls);
            assert_eq!(calls - model.own, model.count.calls - own);
            model.bursts(1, 10_000, 1_000_000);
            assert!(model.own - own < 300, "{}", model.own - own);
        }
        assert!((10_000..13_000).contains(&model.own), "{}", model.own);
    }

    #[test]
    fn one_message_to_each_of_many_connections_wakes_nobody_for_long() {
        let (pace, mut now, mut woken) = (Pace::default(), 1_000_000, 0);
        let mut rings = [(Wakes::default(), Count::default()); 200];
        for _ in 0..1_000 {
            for (wakes, count) in &mut rings {
                let close = pace.begins(now);
                if wakes.wakes(close, *count, BreakEven::ASSUMED) {
                    woken += 1;
                } else {
                    pace.sent(now, now + SEND);
                    now += SEND;
                }
                (count.messages, count.calls) = (count.messages + 1, count.calls + 1);
                now += 80;
            }
            now += 2_000_000;
        }
        assert!(woken < 5_000, "{woken} of 200,000");
    }

    #[test]
    fn for_a_service_that_spins_or_says_nothing_each_message_is_the_sidecores() {
        let mut wakes = Wakes::default();
        assert!((0..100).all(|at| wakes.wakes(0, Count { messages: at, calls: at }, BreakEven::NONE)));
    }

    #[test]
    fn what_is_written_by_another_process_bounds_nothing_but_the_gain() {
        let mut wakes = Wakes::default();
        for at in 0..1_000_u64 {
            let count = Count { messages: at, calls: at.wrapping_mul(u64::MAX / 7) };
            let _ = wakes.wakes((at % 300) as u32, count, BreakEven::from_word(u64::MAX - at));
            assert!((FEWEST..=MOST).contains(&wakes.patience));
        }
    }

    #[test]
    fn a_send_that_was_held_up_makes_no_later_one_close() {
        let pace = Pace::default();
        pace.sent(0, 1_000_000_000);
        assert_eq!(pace.begins(1_000_000_000 + LONGEST + 1), 0);
        assert_eq!(pace.begins(1_000_000_000 + LONGEST), 1);
    }
}
