//! What gathering messages saves: the system calls that are not made, at the price of those that are.
//!
//! A call costs something by itself and something for each byte. [`Fit`] finds both from calls that were measured, so that
//! the former is known: it is what each message would have cost beside its bytes had it gone by a call of its own.

use crate::time::Nanos;

/// What a message costs its program on its way through a ring, ns of CPU time: measured on one machine, for all.
pub const WRITE_NS: Nanos = 60;

/// Calls that are needed before anything is said.
const FEWEST: f64 = 8.0;
/// Calls that count: of so many half are forgotten.
const MOST: f64 = 4096.0;
/// Where the bytes of calls spread by less than this part of their mean, they do not tell the two apart,
const SPREAD: f64 = 0.25;
/// unless they are so few that they hardly matter.
const FEW_BYTES: f64 = 512.0;
/// Bytes at which a call counts for a quarter: times spread by more where they are longer.
const FAR: f64 = 4096.0;
/// A call that took longer (ns) was not that long by itself.
const LONGEST: Nanos = 1_000_000_000;
/// One that took so many times what is expected counts as if it had not: something came between.
const UNUSUAL: f64 = 1.5;
/// Unless it took less than this, ns.
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
    /// A call moved so many bytes, and took so long (ns of CPU time).
    pub fn add(&mut self, bytes: u32, took: Nanos) {
        if self.calls >= MOST {
            let all = [&mut self.calls, &mut self.weight, &mut self.bytes, &mut self.took];
            all.into_iter().chain([&mut self.squares, &mut self.products]).for_each(|sum| *sum /= 2.0);
        }
        let (bytes, took) = (f64::from(bytes), took.min(LONGEST) as f64);
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

    /// What a call costs beside its bytes, ns. `None`: the calls so far do not tell.
    pub fn fixed(&self) -> Option<Nanos> {
        self.line().map(|(call, _)| call as Nanos)
    }

    /// What a call costs, and each byte, ns.
    fn line(&self) -> Option<(f64, f64)> {
        if self.calls < FEWEST {
            return None;
        }
        let (bytes, took) = (self.bytes / self.weight, self.took / self.weight);
        let variance = self.squares / self.weight - bytes * bytes;
        if variance <= (SPREAD * bytes) * (SPREAD * bytes) {
            return (bytes <= FEW_BYTES).then_some((took, 0.0));
        }
        // No byte costs less than nothing, and no call.
        let byte = ((self.products / self.weight - bytes * took) / variance).max(0.0);
        Some(((took - byte * bytes).max(0.0), byte))
    }
}

/// CPU time (ns) that these messages saved their program and the service by going with so many calls, each of which costs so
/// much beside its bytes. Below 0 where the way through the ring cost more.
pub fn saved(fixed: Nanos, messages: u64, calls: u64) -> i64 {
    let less = i128::from(messages) - i128::from(calls);
    // Products of two such numbers fit.
    let saved = less * i128::from(fixed.min(LONGEST)) - i128::from(messages) * i128::from(WRITE_NS);
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
        // Every other one takes a half more or less, the long ones by most.
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
    fn saved_is_what_fewer_calls_cost_less_what_the_ring_costs() {
        assert_eq!(saved(4_000, 1_000, 10), 990 * 4_000 - 1_000 * 60);
        assert_eq!(saved(4_000, 100, 100), -6_000, "one message a call is moved, not saved");
        assert_eq!(saved(4_000, 1, 3), -8_060, "large ones take several");
        assert_eq!(saved(Nanos::MAX, u64::MAX, 0), i64::MAX);
        assert_eq!(saved(Nanos::MAX, 0, u64::MAX), i64::MIN);
    }
}
