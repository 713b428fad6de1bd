//! The start of a batch on a device that does several requests side by side.
//!
//! A batch takes little longer than one request until the device's lanes are full. A free device begins with the
//! largest fill that is answered no later, on average, than smaller batches one after another. A larger fill is also
//! taken if its rate is much higher. With fewer requests waiting than a full batch, the device waits for another one
//! only as long as that can save time, and only if the recent gaps between arrivals predict one in time. It begins in
//! these cases:
//!
//! - full: a full batch waits;
//! - urgent: a client marked one of them as urgent;
//! - due: the oldest waited for as long as another request would save, or for [`WAIT_PARTS`] of a single request's
//!   time;
//! - alone: the next arrival is expected after that.
//!
//! While a batch is computed, the next one gathers, so nothing is gained by waiting longer. The wait that this policy
//! adds to a request is therefore at most one twentieth of a single request's time.

use crate::time::Nanos;

/// Requests that are done side by side, at most.
pub const MAX_BATCH: usize = 8;
/// A request waits at most for 1 part in this number of a single request's time.
pub const WAIT_PARTS: Nanos = 20;
/// A batch with later answers than smaller ones needs a rate that is higher by 1 part in this number.
const WORTH: Nanos = 4;
/// Weight of a new gap between arrivals: 1 in this number.
const WINDOW: Nanos = 8;

/// Decision for the waiting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// This number of them begins, the oldest first.
    Now(usize),
    /// They wait for others until then, ns.
    At(Nanos),
}

/// Requests of one class: how long batches of them take, and how they arrive.
#[derive(Clone, Debug)]
pub struct BatchPolicy {
    /// By fill less one, ns.
    times: [Nanos; MAX_BATCH],
    /// By fill less one: whether a batch of that fill is done side by side, not one after another.
    together: [bool; MAX_BATCH],
    /// By number of waiting requests less one: fill of the batch that begins.
    takes: [usize; MAX_BATCH],
    last: Option<Nanos>,
    gap: Nanos,
}

impl BatchPolicy {
    /// `measured` holds the times of batches of 1, 2, … requests side by side, and `single` that of one request on an
    /// ordinary device, ns.
    pub fn new(measured: [Nanos; MAX_BATCH], single: Nanos) -> Self {
        let single = single.max(1);
        let after_another = |fill: usize| single.saturating_mul(fill as Nanos + 1);
        let together: [bool; MAX_BATCH] = core::array::from_fn(|fill| measured[fill] < after_another(fill));
        let times = core::array::from_fn(|fill| measured[fill].min(after_another(fill)).max(1));
        let takes = core::array::from_fn(|waiting| best_of(&times, waiting));
        Self { times, together, takes, last: None, gap: Nanos::MAX }
    }

    /// Whether any batch is done faster than one request after another.
    pub fn pays(&self) -> bool {
        self.together.contains(&true)
    }

    /// Whether a batch of that fill is done side by side, not one after another.
    pub fn is_together(&self, fill: usize) -> bool {
        fill.checked_sub(1).and_then(|at| self.together.get(at)).is_some_and(|together| *together)
    }

    /// Time of a batch of that fill, ns.
    pub fn time(&self, fill: usize) -> Nanos {
        self.times[fill.clamp(1, MAX_BATCH) - 1]
    }

    /// Fill of a full batch.
    pub fn full(&self) -> usize {
        self.takes[MAX_BATCH - 1]
    }

    /// A request's part of a full batch's time, ns.
    pub fn part(&self) -> Nanos {
        (self.time(self.full()) / self.full() as Nanos).max(1)
    }

    /// Scales the time of a batch with `fill` requests to a request's part of a full batch, ns.
    pub fn part_of(&self, fill: usize, took: Nanos) -> Nanos {
        (took as f64 * self.part() as f64 / self.time(fill) as f64) as Nanos
    }

    /// Time to answer 1, 2, … waiting requests, ns.
    pub fn ends(&self) -> [Nanos; MAX_BATCH] {
        let mut ends = [0; MAX_BATCH];
        for (at, takes) in self.takes.into_iter().enumerate() {
            // Requests that do not begin in the first batch are done as if they waited alone.
            let rest = (at + 1 - takes).checked_sub(1).map_or(0, |rest| ends[rest]);
            ends[at] = self.time(takes).saturating_add(rest);
        }
        ends
    }

    /// The longest wait that this policy adds to a request, ns.
    pub fn longest_wait(&self) -> Nanos {
        self.times[0] / WAIT_PARTS
    }

    /// A request arrived at that time, ns.
    pub fn arrived(&mut self, now: Nanos) {
        if let Some(last) = self.last.replace(now) {
            let gap = now.saturating_sub(last);
            self.gap = if self.gap == Nanos::MAX { gap } else { (self.gap * (WINDOW - 1) + gap) / WINDOW };
            // Limits the weight of a long silence.
            self.gap = self.gap.min(self.times[0].saturating_mul(WINDOW));
        }
    }

    /// Decision at `now` for `waiting` requests; the oldest arrived at `oldest`, ns. The device is free.
    pub fn decide(&self, now: Nanos, waiting: usize, oldest: Nanos, urgent: bool) -> Begin {
        let begin = Begin::Now(self.takes[waiting.clamp(1, MAX_BATCH) - 1]);
        let full = self.full();
        if urgent || waiting >= full {
            return begin;
        }
        let until = oldest.saturating_add(self.saved(waiting).min(self.longest_wait()));
        let next = self.last.map_or(Nanos::MAX, |last| last.saturating_add(self.gap));
        if now >= until || next > until { begin } else { Begin::At(until) }
    }

    fn saved(&self, waiting: usize) -> Nanos {
        (self.time(waiting) + self.times[0]).saturating_sub(self.time(waiting + 1))
    }
}

/// The fill with the soonest mean answer for `waiting` and one more requests. A batch answers all at its end; smaller
/// ones in sequence answer the first earlier. So a larger fill must take no longer than the mean of their ends, or
/// have a rate higher by one part in [`WORTH`], which shortens the queue behind it.
fn best_of(times: &[Nanos; MAX_BATCH], waiting: usize) -> usize {
    let mut best = 1;
    for fill in 2..=waiting + 1 {
        // time <= best's time * (fill / best + 1) / 2.
        let (left, right) = (2 * best as Nanos * times[fill - 1], (fill + best) as Nanos * times[best - 1]);
        let (rate, its_rate) = (best as Nanos * times[fill - 1], fill as Nanos * times[best - 1]);
        if left <= right || its_rate > rate + rate / WORTH {
            best = fill;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four lanes: up to four take little longer than one.
    const FOURS: [Nanos; MAX_BATCH] = [200_000, 204_000, 206_000, 208_000, 400_000, 404_000, 406_000, 412_000];

    fn busy() -> BatchPolicy {
        let mut gather = BatchPolicy::new(FOURS, 210_000);
        (0..20).for_each(|at| gather.arrived(at * 1000));
        gather
    }

    #[test]
    fn full_batches_and_urgent_requests_do_not_wait() {
        let gather = busy();
        assert_eq!(gather.full(), 4);
        for (waiting, begun) in [(4, 4), (5, 4), (7, 4), (8, 4), (40, 4)] {
            assert_eq!(gather.decide(19_000, waiting, 19_000, false), Begin::Now(begun));
        }
        for waiting in 1..4 {
            assert_eq!(gather.decide(19_000, waiting, 19_000, true), Begin::Now(waiting));
            assert_eq!(gather.decide(19_000, waiting, 19_000, false), Begin::At(29_000));
        }
    }

    #[test]
    fn the_oldest_waits_for_no_longer_than_the_bound() {
        let gather = busy();
        assert_eq!(gather.longest_wait(), 10_000);
        for waited in 0..20_000 {
            let begin = gather.decide(19_000 + waited, 2, 19_000, false);
            assert_eq!(begin, if waited < 10_000 { Begin::At(29_000) } else { Begin::Now(2) });
        }
    }

    #[test]
    fn one_that_comes_alone_does_not_wait() {
        let mut gather = BatchPolicy::new(FOURS, 210_000);
        for at in 0..20 {
            gather.arrived(at * 1_000_000);
            assert_eq!(gather.decide(at * 1_000_000, 1, at * 1_000_000, false), Begin::Now(1));
        }
    }

    #[test]
    fn nothing_waits_where_another_would_save_nothing() {
        let pairs = BatchPolicy::new(core::array::from_fn(|fill| 100_000 * (fill as Nanos + 1)), 100_000);
        assert!(!pairs.pays());
        assert_eq!((pairs.full(), pairs.decide(0, 1, 0, false)), (1, Begin::Now(1)));
    }

    #[test]
    fn those_that_wait_are_answered_batch_by_batch() {
        let gather = BatchPolicy::new(FOURS, 210_000);
        assert_eq!(gather.ends(), [200, 204, 206, 208, 408, 412, 414, 416].map(|us| us * 1000));
        assert_eq!((gather.part(), gather.part_of(1, 200_000), gather.part_of(3, 412_000)), (52_000, 52_000, 104_000));
        let eights = BatchPolicy::new([39_000; MAX_BATCH], 15_000);
        assert_eq!(eights.ends(), [15, 30, 45, 39, 39, 39, 39, 39].map(|us| us * 1000));
    }

    #[test]
    fn a_batch_that_answers_later_than_smaller_ones_is_begun_only_for_a_much_higher_rate() {
        // Eight lanes that take the same time for one as for eight: two and a half times that of a single request.
        let eights = BatchPolicy::new([39_000; MAX_BATCH], 15_400);
        let begun: [Begin; MAX_BATCH] = core::array::from_fn(|at| eights.decide(0, at + 1, 0, true));
        assert_eq!(begun, [1, 1, 1, 4, 5, 6, 7, 8].map(Begin::Now));
        assert_eq!(eights.full(), 8);
    }

    #[test]
    fn what_is_slower_side_by_side_is_done_one_after_another() {
        let gather = BatchPolicy::new(FOURS.map(|time| time * 3), 210_000);
        let together: [bool; MAX_BATCH + 1] = core::array::from_fn(|fill| gather.is_together(fill));
        assert_eq!(together, [false, false, false, true, true, false, true, true, true]);
        assert_eq!(gather.time(1), 210_000, "never slower than an ordinary device");
        assert!(gather.pays());
    }

    /// Open arrivals at several shares of the capacity, with a simulated clock: the policy drives a device, and the
    /// added wait of each request is audited.
    #[test]
    fn a_device_that_is_free_holds_no_request_back_beyond_the_bound_under_any_load() {
        for percent in [5, 20, 50, 80, 95] {
            let device = Simulated::run(percent, 4000);
            assert_eq!(device.done, 4000, "{percent} %");
            assert!(device.held <= device.gather.longest_wait(), "{percent} %: held for {} ns", device.held);
        }
        assert!(Simulated::run(95, 4000).batches < Simulated::run(5, 4000).batches / 2, "load fills batches");
    }

    struct Simulated {
        gather: BatchPolicy,
        done: usize,
        batches: usize,
        held: Nanos,
    }

    impl Simulated {
        fn run(percent: Nanos, count: usize) -> Self {
            let mut device = Self { gather: BatchPolicy::new(FOURS, 210_000), done: 0, batches: 0, held: 0 };
            let mean = FOURS[3] / 4 * 100 / percent;
            let mut random = 1u64;
            let mut at = 0;
            let arrivals: alloc::vec::Vec<Nanos> = (0..count)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    at += ((random >> 33) * 2 * mean) >> 31;
                    at
                })
                .collect();
            let (mut now, mut free, mut seen) = (0, 0, 0);
            while device.done < count {
                while seen < count && arrivals[seen] <= now {
                    device.gather.arrived(arrivals[seen]);
                    seen += 1;
                }
                if seen == device.done {
                    now = arrivals[seen];
                    continue;
                }
                let oldest = arrivals[device.done];
                match device.gather.decide(now, seen - device.done, oldest.max(free), false) {
                    Begin::Now(fill) => {
                        device.held = device.held.max(now - oldest.max(free));
                        now += device.gather.time(fill);
                        (free, device.done, device.batches) = (now, device.done + fill, device.batches + 1);
                    }
                    Begin::At(until) => now = arrivals.get(seen).map_or(until, |next| until.min(*next)),
                }
            }
            device
        }
    }
}
