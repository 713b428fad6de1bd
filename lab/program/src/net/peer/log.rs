//! A peer's log about clients, with a limit on lines a second, because strangers may connect without limit.

use sidecore_terminal::output;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const SPAN: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct Log(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    most: u32,
    since: Option<Instant>,
    said: u32,
    left_out: u64,
}

impl Log {
    pub(super) fn new(most: u32) -> Self {
        Self(Arc::new(Mutex::new(Lines { most, since: None, said: 0, left_out: 0 })))
    }

    pub(super) fn say(&self, what: impl Display) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.take(Instant::now(), what.to_string()).iter().for_each(output::tell);
    }
}

impl Lines {
    fn take(&mut self, now: Instant, line: String) -> Vec<String> {
        let mut lines = Vec::new();
        if self.since.is_none_or(|since| now.duration_since(since) >= SPAN) {
            if self.left_out > 0 {
                lines.push(format!("{} more lines were left out", self.left_out));
            }
            *self = Self { most: self.most, since: Some(now), said: 0, left_out: 0 };
        }
        if self.said < self.most {
            self.said += 1;
            lines.push(line);
        } else {
            self.left_out += 1;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_counted() {
        let mut lines = Lines { most: 2, since: None, said: 0, left_out: 0 };
        let now = Instant::now();
        let said: usize = (0..100).map(|_| lines.take(now, "stranger".to_owned()).len()).sum();
        assert_eq!(said, 2);
        assert_eq!(lines.take(now + SPAN, "other".to_owned()), ["98 more lines were left out", "other"]);
        assert_eq!(lines.take(now + SPAN, "other".to_owned()), ["other"]);
    }
}
