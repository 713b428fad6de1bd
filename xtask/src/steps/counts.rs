//! Numbers of passed and failed tests, read from the closing lines of cargo's test binaries.

use std::fmt;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
}

impl Counts {
    /// Adds the numbers of one line of output, such as `test result: ok. 3 passed; 1 failed; ...`. Other lines add
    /// nothing.
    pub(super) fn add(&mut self, line: &str) {
        if let Some(result) = line.trim_end().strip_prefix("test result: ") {
            self.passed += before(result, " passed");
            self.failed += before(result, " failed");
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

fn before(text: &str, word: &str) -> u64 {
    let number = text.split(word).next().and_then(|head| head.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_add_up() {
        let mut counts = Counts::default();
        counts.add("test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.00s\n");
        counts.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n");
        counts.add("test ring::wraps ... ok\n");
        counts.add("assertion says: 7 passed; 7 failed\n");
        assert_eq!(counts.to_string(), "15 passed, 2 failed");
    }
}
