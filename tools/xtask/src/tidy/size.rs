//! Files and functions short enough to be read at one sitting.

use super::Finding;
use crate::source::Source;

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 80;

pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = source.lines.len();
    if lines > FILE_LINES {
        let wrong = format!("file of {lines} lines, the limit is {FILE_LINES}");
        findings.push(Finding::new(source.path, FILE_LINES + 1, wrong, "split it by what its parts are for"));
    }
    for function in source.functions().iter().filter(|function| function.lines > FUNCTION_LINES) {
        let wrong = format!("`fn {}` of {} lines, the limit is {FUNCTION_LINES}", function.name, function.lines);
        findings.push(Finding::new(source.path, function.line, wrong, "give its steps names of their own"));
    }
    findings
}

/// The middle length, the lower of two; 0 of none.
pub(crate) fn median(lengths: &mut [usize]) -> usize {
    lengths.sort_unstable();
    lengths.get(lengths.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!("\n\nfn f() {{{}}}\n", "\n".repeat(lines - 1))
    }

    #[test]
    fn a_function_may_have_80_lines() {
        assert_eq!(check(&Source::of("a.rs", &function(80))), []);
        let findings = check(&Source::of("a.rs", &function(81)));
        assert_eq!((findings.len(), findings[0].line), (1, 3));
        let in_macro = format!("proptest! {{ {} }}", function(81));
        assert_eq!(check(&Source::of("a.rs", &in_macro)).len(), 1);
    }

    #[test]
    fn a_file_may_have_800_lines() {
        assert_eq!(check(&Source::of("a.rs", &"//\n".repeat(800))), []);
        assert_eq!(check(&Source::of("a.rs", &"//\n".repeat(801))).len(), 1);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&mut []), 0);
        assert_eq!(median(&mut [9, 1, 4]), 4);
        assert_eq!(median(&mut [9, 1, 4, 2]), 2);
    }
}
