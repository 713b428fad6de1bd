//! Skipped parts of tests on this machine, as reported by the tests in a file, and the skips that CI accepts.

use std::fmt;
use std::path::Path;

use crate::Result;

/// The variable with the path of the file. Each skip is a line `test: why`.
pub(super) const VARIABLE: &str = "SIDECORE_SKIPPED";

const CADDY: &str = "its modules take too long to compile for each change";

/// Tests that CI may skip, each with the feature that a runner may lack and no package provides, or what it would cost.
/// Every other skip fails in CI.
const ACCEPTED: [(&str, &str); 8] = [
    ("no_memory_becomes_code_and_the_kernels_wide_doors_are_shut", "many kernels have io_uring switched off for all"),
    ("a_service_works_inside_its_profile_and_reads_nothing_else", "many kernels have no AppArmor"),
    ("a_crash_leaves_no_core", "whether an ordinary process dumps core is the machine's own setting"),
    ("keys_in_files_are_found_in_caddy", CADDY),
    ("stored_keys_never_enter_caddy_and_restarts_cost_it_no_handshake", CADDY),
    ("caddy_says_why_it_does_not_start_or_sign", CADDY),
    ("a_renewal_of_key_and_chain_costs_caddy_no_handshake", CADDY),
    ("the_guide_for_caddy_works_word_for_word", CADDY),
];

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Skips(Vec<String>);

impl Skips {
    /// Reads the file. Without a file nothing was skipped.
    pub(super) fn read(file: &Path) -> Result<Self> {
        match std::fs::read_to_string(file) {
            Ok(text) => Ok(Self::of(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.into()),
        }
    }

    fn of(text: &str) -> Self {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines.dedup();
        Self(lines)
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn refused(&self) -> u64 {
        self.0.iter().filter(|line| accepted(line).is_none()).count() as u64
    }
}

impl fmt::Display for Skips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.0 {
            match accepted(line) {
                Some(why) => writeln!(f, "skipped {line} (accepted in CI: {why})")?,
                None => writeln!(f, "skipped {line}")?,
            }
        }
        Ok(())
    }
}

fn accepted(line: &str) -> Option<&'static str> {
    let test = line.split(": ").next()?.rsplit("::").next()?;
    ACCEPTED.iter().find(|(name, _)| *name == test).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_told_once_with_what_ci_makes_of_it() {
        let skips = Skips::of("b::trust: not root\nsandbox::attack::a_crash_leaves_no_core: no\nb::trust: not root\n");
        assert_eq!((skips.count(), skips.refused()), (2, 1));
        let text = skips.to_string();
        assert!(
            text.starts_with("skipped b::trust: not root\nskipped sandbox::attack::a_crash_leaves_no_core: no (acc")
        );
    }

    #[test]
    fn without_a_file_nothing_was_skipped() -> Result<()> {
        assert_eq!(Skips::read(Path::new("/no such file"))?, Skips::default());
        assert_eq!(Skips::default().to_string(), "");
        Ok(())
    }

    #[test]
    fn what_ci_accepts_are_tests_of_ours() -> Result<()> {
        let tree = crate::tree::Tree::load(&crate::root()?)?;
        for (name, _) in ACCEPTED {
            let head = format!("fn {name}()");
            assert!(tree.texts().any(|(_, text)| text.contains(&head)), "{name}");
        }
        Ok(())
    }
}
