//! Key servers that live, had requests and answered none. Each is left out for a time that grows, and then gets one
//! request at a time until it answers: users' requests do not find out again and again that it hangs.

use sidecore_core::time::Nanos;
use std::collections::BTreeMap;
use std::rc::Rc;

/// First pause, ns. Each further one is twice as long.
const FIRST: Nanos = 1_000_000_000;
/// Doublings: the longest pause is 64 s.
const DOUBLINGS: u32 = 6;
/// Key servers remembered: four times as many as a gateway has.
const MOST: usize = 256;

#[derive(Debug)]
struct Pause {
    until: Nanos,
    doublings: u32,
}

#[derive(Debug, Default)]
pub(super) struct Pauses(BTreeMap<Rc<str>, Pause>);

impl Pauses {
    /// A key server hangs. Returns how long it is left out, ns.
    pub(super) fn begin(&mut self, now: Nanos, server: &Rc<str>) -> Nanos {
        if self.0.len() >= MOST && !self.0.contains_key(server) {
            self.0.retain(|_, pause| pause.until > now);
        }
        if self.0.len() >= MOST && !self.0.contains_key(server) {
            return 0;
        }
        let doublings = self.0.get(server).map_or(0, |pause| (pause.doublings + 1).min(DOUBLINGS));
        let pause = FIRST << doublings;
        self.0.insert(server.clone(), Pause { until: now.saturating_add(pause), doublings });
        pause
    }

    pub(super) fn is_over(&self, now: Nanos, server: &str) -> bool {
        self.0.get(server).is_none_or(|pause| pause.until <= now)
    }

    /// Whether it hung, and has answered nothing since.
    pub(super) fn is_doubted(&self, server: &str) -> bool {
        self.0.contains_key(server)
    }

    /// It answers. Returns whether it was doubted.
    pub(super) fn end(&mut self, server: &str) -> bool {
        self.0.remove(server).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_an_answer_and_many_names_fill_no_memory() {
        let (mut pauses, one) = (Pauses::default(), Rc::from("one"));
        let lengths: Vec<Nanos> = (0..8).map(|_| pauses.begin(0, &one) / FIRST).collect();
        assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 64, 64]);
        assert!(!pauses.is_over(63 * FIRST, "one") && pauses.is_over(64 * FIRST, "one") && pauses.is_over(0, "two"));
        assert!(pauses.end("one") && !pauses.end("one"));
        assert_eq!(pauses.begin(0, &one), FIRST);
        for name in 0..10_000 {
            pauses.begin(0, &name.to_string().into());
        }
        assert_eq!(pauses.0.len(), MOST);
        assert_eq!(pauses.begin(2 * FIRST, &"new".into()), FIRST, "those that are over make room");
    }
}
