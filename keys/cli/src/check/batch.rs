//! The operations that a batch device would run side by side on this processor.

use super::finding::{Finding, topics};

topics! {
    UNITS: "batch device",
        for "operations of several clients are done side by side on one core",
        do "leave it out: without such units it is a worker (docs/batch.md)";
}

/// `units`: operations, each with the unit of the processor that does it.
pub(super) fn judge(units: &[(&str, &str)]) -> Finding {
    let mut found: Vec<String> = units.iter().map(|(operation, unit)| format!("{operation} in {unit}")).collect();
    if found.is_empty() {
        found.push("no unit of this processor does any".to_owned());
    }
    UNITS.ok_if(!units.is_empty(), found.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState::{Lacks, Ok};
    use super::*;

    #[test]
    fn a_machine_says_what_it_does_side_by_side_or_that_it_does_nothing() {
        let finding = judge(&[("RSA", "AVX-512-IFMA"), ("AES-CBC", "VAES")]);
        assert_eq!(finding.state, Ok);
        assert_eq!(finding.found, "RSA in AVX-512-IFMA; AES-CBC in VAES");
        let finding = judge(&[]);
        assert_eq!(finding.state, Lacks);
        assert!(!finding.breaks_a_promise());
    }
}
