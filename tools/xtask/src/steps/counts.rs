//! Passed and failed tests, read from the output of cargo's test binaries.

use std::fmt;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
    /// A line for each program that failed.
    pub(super) programs: Vec<String>,
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

/// Names a program's tests that failed or hung. Without such tests: its last line.
pub(super) fn failure(title: &str, output: &str) -> String {
    let test = |line: &str, end: &str| Some(line.strip_prefix("test ")?.strip_suffix(end)?.to_owned());
    let failed = output.lines().filter_map(|line| test(line, " ... FAILED")).map(|name| format!("{name} failed"));
    let begun = output.lines().filter_map(|line| test(line, " has been running for over 60 seconds"));
    let hung = begun.filter(|name| !output.contains(&format!("test {name} ... "))).map(|name| format!("{name} hung"));
    let mut reasons: Vec<_> = failed.chain(hung).collect();
    if reasons.is_empty() {
        reasons.extend(output.lines().last().map(str::to_owned));
    }
    format!("FAILED {title}: {}", reasons.join(", "))
}

fn before(text: &str, word: &str) -> u64 {
    let number = text.split(word).next().and_then(|head| head.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_what_failed_and_what_hung() {
        let output = "test a::one ... ok\ntest slow has been running for over 60 seconds\ntest hangs has been running \
                      for over 60 seconds\ntest two ... FAILED\ntest slow ... ok\nkilled: it had not ended after 9 s\n";
        assert_eq!(failure("x.rs", output), "FAILED x.rs: two failed, hangs hung");
        assert_eq!(failure("x.rs", "running 3 tests\nsignal: 11\n"), "FAILED x.rs: signal: 11");
    }

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
