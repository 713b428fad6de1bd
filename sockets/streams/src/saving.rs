//! CPU time saved by gathering messages: fewer system calls, at the price of the remaining ones.
//!
//! A call has a fixed cost and a cost for each byte. [`Fit`] finds both from measured calls. The fixed cost is a
//! message's extra cost if it goes by a call of its own. From it and the other costs of a transfer follows the number
//! of messages that must share a call, see [`BreakEven`].

use sidecore_core::time::Nanos;

/// Cost of a message for its program on its way through a ring, ns of CPU time: measured on one machine, used on all.
pub const WRITE_NS: Nanos = 60;

/// Calls that are needed before a result.
const MIN_CALLS: f64 = 8.0;
/// Limit of counted calls: at this number half of them are forgotten.
const MAX_CALLS: f64 = 4096.0;
/// If the sizes of calls spread by less than this part of their mean, the two costs are indistinguishable,
const SPREAD: f64 = 0.25;
/// unless the calls are so small that bytes hardly matter.
const FEW_BYTES: f64 = 512.0;
/// A call of this size has a quarter of the weight, bytes: long calls spread more.
const FAR: f64 = 4096.0;
/// Limit of a call's time, ns: a longer one was interrupted.
const MAX_CALL_NS: Nanos = 1_000_000_000;
/// Limit of a call's time in multiples of the expected one: an excess comes from an interruption.
const UNUSUAL: f64 = 1.5;
/// Times up to this are never cut, ns.
const USUAL: f64 = 1_000.0;

/// The straight line through calls' times by bytes, by least squares. Old calls are forgotten little by little.
#[derive(Clone, Debug, Default)]
pub struct Fit {
    calls: f64,
    /// Sums over the calls, weighted.
    weight: f64,
    bytes: f64,
    took: f64,
    squares: f64,
    products: f64,
}

impl Fit {
    /// A call moved `bytes` bytes in `took` ns of CPU time.
    pub fn add(&mut self, bytes: u32, took: Nanos) {
        if self.calls >= MAX_CALLS {
            let all = [&mut self.calls, &mut self.weight, &mut self.bytes, &mut self.took];
            all.into_iter().chain([&mut self.squares, &mut self.products]).for_each(|sum| *sum /= 2.0);
        }
        let (bytes, took) = (f64::from(bytes), took.min(MAX_CALL_NS) as f64);
        let took = self.line().map_or(took, |(call, byte)| took.min(UNUSUAL * (call + byte * bytes).max(USUAL)));
        let nearness = FAR / (FAR + bytes);
        let weight = nearness * nearness;
        self.calls += 1.0;
        self.weight += weight;
        self.bytes += weight * bytes;
        self.took += weight * took;
        self.squares += weight * bytes * bytes;
        self.products += weight * bytes * took;
    }

    /// A call's fixed cost, ns. `None`: the calls so far do not determine it.
    pub fn fixed(&self) -> Option<Nanos> {
        self.line().map(|(call, _)| call as Nanos)
    }

    /// Expected cost of `calls` calls with `bytes` bytes in all, ns of CPU time. `None`: the calls so far do not
    /// determine it.
    pub fn expected(&self, calls: u64, bytes: u64) -> Option<Nanos> {
        self.line().map(|(call, byte)| (call * calls as f64 + byte * bytes as f64) as Nanos)
    }

    /// Cost of a call and of each byte, ns.
    fn line(&self) -> Option<(f64, f64)> {
        if self.calls < MIN_CALLS {
            return None;
        }
        let (bytes, took) = (self.bytes / self.weight, self.took / self.weight);
        let variance = self.squares / self.weight - bytes * bytes;
        if variance <= (SPREAD * bytes) * (SPREAD * bytes) {
            return (bytes <= FEW_BYTES).then_some((took, 0.0));
        }
        // Neither cost is negative.
        let byte = ((self.products / self.weight - bytes * took) / variance).max(0.0);
        Some(((took - byte * bytes).max(0.0), byte))
    }
}

/// Messages for each call are counted in these parts.
const PARTS: u64 = 16;
/// Bounds of the break-even for each call, times [`PARTS`]. Below two a tenth of the CPU time is saved at most, and
/// messages wait for it.
const PER_CALL: (u64, u64) = (2 * PARTS, 4 * PARTS);
/// Upper bound of the break-even for each wake-up.
const PER_WAKE: u64 = 32;

/// Least numbers of messages that make a ring pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakEven {
    /// For each call, times [`PARTS`].
    per_call: u64,
    per_wake: u64,
}

impl BreakEven {
    /// Of a sidecore that spins on a core of its own: each message that it takes over is a saving.
    pub const NONE: Self = Self { per_call: 0, per_wake: 0 };
    /// Before any measurement: a wake-up costs about one call.
    pub const ASSUMED: Self = Self { per_call: 2 * PARTS, per_wake: 4 };

    /// A call has the cost `fixed` without its bytes, on either side. On the way by the ring each call costs program
    /// and sidecore `extra` more (ns of CPU time). The first message waits `wake` (ns) for the sidecore: the
    /// program's own calls would be over by then.
    pub fn new(fixed: Nanos, extra: Nanos, wake: Nanos) -> Self {
        let [fixed, extra, wake] = [fixed, extra, wake].map(|time| time.min(MAX_CALL_NS));
        let per_call = PARTS * (fixed + extra) / fixed.saturating_sub(WRITE_NS).max(1);
        Self { per_call: per_call.clamp(PER_CALL.0, PER_CALL.1), per_wake: (wake / fixed.max(1)).min(PER_WAKE) }
    }

    /// As the service writes it, for programs. An older service left 0 in that word: [`BreakEven::NONE`].
    pub fn to_word(self) -> u64 {
        self.per_call | self.per_wake << 32
    }

    /// As a program reads it. Values are limited to the measurable range.
    pub fn from_word(word: u64) -> Self {
        Self { per_call: (word & u64::from(u32::MAX)).min(PER_CALL.1), per_wake: (word >> 32).min(PER_WAKE) }
    }

    /// True if it paid to wake the sidecore once for these messages and calls.
    pub fn is_reached(self, messages: u64, calls: u64) -> bool {
        messages >= self.per_wake && messages.saturating_mul(PARTS) >= calls.saturating_mul(self.per_call)
    }
}

/// CPU time (ns) saved for program and service, if these messages took `calls` calls of this fixed cost. Negative
/// where the way through the ring cost more.
pub fn saved(fixed: Nanos, messages: u64, calls: u64) -> i64 {
    let less = i128::from(messages) - i128::from(calls);
    // Products of two such numbers fit.
    let saved = less * i128::from(fixed.min(MAX_CALL_NS)) - i128::from(messages) * i128::from(WRITE_NS);
    saved.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn fit(calls: impl IntoIterator<Item = (u32, Nanos)>) -> Fit {
        calls.into_iter().fold(Fit::default(), |mut fit, (bytes, took)| {
            fit.add(bytes, took);
            fit
        })
    }

    #[test]
    fn what_a_call_costs_beside_its_bytes_is_found_from_calls_of_all_sizes() {
        let times = |bytes: u32| (bytes, 4_000 + Nanos::from(bytes) / 4);
        assert_eq!(fit((0..7).map(|n| times(n * 1000))).fixed(), None, "too few");
        let exact = fit((0..200).map(|n| times(n * 997 % 65_536))).fixed().unwrap();
        assert!((3_990..=4_010).contains(&exact), "{exact}");
        // Every second call takes half the time, the others one and a half times it.
        let spread = |n: u32| {
            let (bytes, took) = times(n * 997 % 65_536);
            (bytes, if n.is_multiple_of(2) { took / 2 } else { took * 3 / 2 })
        };
        let spread = fit((0..4_000).map(spread)).fixed().unwrap();
        assert!((3_000..=5_000).contains(&spread), "{spread}");
    }

    #[test]
    fn calls_of_one_size_say_nothing_unless_they_are_small() {
        assert_eq!(fit([(64, 5_000); 20]).fixed(), Some(5_000));
        assert_eq!(fit([(32_768, 9_000); 20]).fixed(), None);
        assert_eq!(fit([(0, 700); 20]).fixed(), Some(700));
    }

    #[test]
    fn no_byte_and_no_call_costs_less_than_nothing() {
        let falling = fit((0..100).map(|n| (n * 100, 50_000 - 100 * Nanos::from(n)))).fixed().unwrap();
        assert!((40_000..=50_000).contains(&falling), "{falling}");
        assert_eq!(fit((0..100).map(|n| (n * 100, Nanos::from(n * n)))).fixed(), Some(0));
        assert!(fit([(u32::MAX, Nanos::MAX), (0, 0)].into_iter().cycle().take(100)).fixed().is_some());
    }

    #[test]
    fn what_comes_between_now_and_then_counts_little_and_what_stays_counts() {
        let now_and_then = |n: u32| if n % 20 == 19 { 100_000 } else { 5_000 };
        let fixed = fit((0..4_000).map(|n| (64, now_and_then(n)))).fixed().unwrap();
        assert!((5_000..5_200).contains(&fixed), "{fixed}");
        let slower = [(4_000, 5_000), (40_000, 15_000)]
            .into_iter()
            .flat_map(|(count, took)| (0..count).map(move |_| (64, took)));
        assert!(fit(slower).fixed().unwrap() > 14_000);
    }

    #[test]
    fn what_was_is_forgotten() {
        let calls = |fixed: Nanos| (0..40_000_u32).map(move |n| (n % 64 * 1000, fixed + Nanos::from(n % 64 * 100)));
        let fixed = fit(calls(20_000).chain(calls(3_000))).fixed().unwrap();
        assert!((2_990..=3_050).contains(&fixed), "{fixed}");
    }

    #[test]
    fn a_ring_pays_from_where_its_messages_share_enough_calls() {
        // A call of 3 us with 3 us more for waking: 6 us, the cost of 2 single messages, and a little for writing
        // them.
        let two = BreakEven::new(3_000, 3_000, 0);
        assert!(two.is_reached(300, 140) && !two.is_reached(300, 160));
        assert!(two.is_reached(33, 0), "nothing was moved so far");
        let one = BreakEven::new(3_000, 0, 0);
        assert!(!one.is_reached(63, 32) && one.is_reached(64, 32), "little is saved, and messages wait for it");
        assert!(BreakEven::NONE.is_reached(32, 64));
    }

    #[test]
    fn it_pays_to_wake_for_no_fewer_than_the_kernel_would_have_had_before() {
        let slow = BreakEven::new(5_000, 5_000, 50_000);
        assert!(slow.is_reached(10, 1) && !slow.is_reached(9, 1));
        assert!(slow.is_reached(100, 40), "of one wake");
    }

    #[test]
    fn a_break_even_is_within_its_limits_whatever_was_measured_or_written() {
        for fixed in [0, 1, WRITE_NS, WRITE_NS + 1, 3_000, Nanos::MAX] {
            for (extra, wake) in [(0, 0), (1, Nanos::MAX), (3_000, 5_000), (Nanos::MAX, 1)] {
                let said = BreakEven::new(fixed, extra, wake);
                assert!((PER_CALL.0..=PER_CALL.1).contains(&said.per_call) && said.per_wake <= PER_WAKE, "{said:?}");
                assert_eq!(BreakEven::from_word(said.to_word()), said);
            }
        }
        let most = BreakEven::from_word(u64::MAX);
        assert!(most.is_reached(32, 8) && !most.is_reached(31, 1) && most.is_reached(u64::MAX, u64::MAX));
        assert_eq!(BreakEven::from_word(0), BreakEven::NONE);
    }

    #[test]
    fn saved_is_what_fewer_calls_cost_less_what_the_ring_costs() {
        assert_eq!(saved(4_000, 1_000, 10), 990 * 4_000 - 1_000 * 60);
        assert_eq!(saved(4_000, 100, 100), -6_000, "one message a call is moved, not saved");
        assert_eq!(saved(4_000, 1, 3), -8_060, "large ones take several");
        assert_eq!(saved(Nanos::MAX, u64::MAX, 0), i64::MAX);
        assert_eq!(saved(Nanos::MAX, 0, u64::MAX), i64::MIN);
    }
}
