//! Events that a dispatcher cancels when it comes to them.

use crate::cancel::Request;
use std::collections::HashMap;

const MAX_IDS: usize = 65_536;
const MAX_PREFIXES: usize = 64;

/// For each id, and each beginning of ids, the number in the queue up to which its events are cancelled.
#[derive(Debug, Default)]
pub(super) struct Cancelled {
    ids: HashMap<Box<str>, u64>,
    prefixes: HashMap<Box<str>, u64>,
}

impl Cancelled {
    /// Remembers what is asked for. Returns how many patterns there was no room for.
    pub(super) fn note(&mut self, request: &Request) -> u64 {
        let mut refused = 0;
        for pattern in &request.patterns {
            let (of, key, most) = match pattern.strip_suffix('*') {
                Some(prefix) => (&mut self.prefixes, prefix, MAX_PREFIXES),
                None => (&mut self.ids, &**pattern, MAX_IDS),
            };
            if let Some(up_to) = of.get_mut(key) {
                *up_to = request.up_to.max(*up_to);
            } else if of.len() < most {
                of.insert(key.into(), request.up_to);
            } else {
                refused += 1;
            }
        }
        refused
    }

    /// Whether the event with this id and number in the queue is cancelled.
    pub(super) fn has(&self, id: &str, number: u64) -> bool {
        self.ids.get(id).is_some_and(|up_to| number <= *up_to)
            || self.prefixes.iter().any(|(prefix, up_to)| number <= *up_to && id.starts_with(&**prefix))
    }

    /// How many beginnings of ids, and how many ids.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.prefixes.len() as u64, self.ids.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(up_to: u64, patterns: &[&str]) -> Request {
        Request { number: 1, up_to, patterns: patterns.iter().map(|pattern| (*pattern).into()).collect() }
    }

    #[test]
    fn what_is_fed_later_under_a_cancelled_name_is_done() {
        let mut cancelled = Cancelled::default();
        assert!(!cancelled.has("a-1", 1));
        assert_eq!(cancelled.note(&request(10, &["a-1", "b-*"])), 0);
        let has = |cancelled: &Cancelled, numbers: [u64; 2]| numbers.map(|number| cancelled.has("b-7", number));
        assert_eq!(has(&cancelled, [10, 11]), [true, false]);
        assert!(cancelled.has("a-1", 10) && !cancelled.has("a-1", 11) && !cancelled.has("a-12", 1));
        // A later request, and one that comes late.
        assert_eq!(cancelled.note(&request(20, &["b-*"])) + cancelled.note(&request(5, &["b-*"])), 0);
        assert_eq!(has(&cancelled, [20, 21]), [true, false]);
        cancelled.note(&request(30, &["*"]));
        assert!(cancelled.has("whatever", 30) && !cancelled.has("whatever", 31));
    }

    #[test]
    fn no_more_than_the_limits_is_remembered_and_the_rest_is_counted() {
        let mut cancelled = Cancelled::default();
        for number in 0..MAX_PREFIXES + 3 {
            assert_eq!(cancelled.note(&request(1, &[&format!("p{number}-*")])), u64::from(number >= MAX_PREFIXES));
        }
        assert_eq!(cancelled.note(&request(2, &["p0-*", "one", "new*"])), 1);
        assert!(cancelled.has("p0-x", 2) && cancelled.has("one", 2) && !cancelled.has("new-1", 1));
    }
}
