//! Programs and services of different versions: messages that name both and the remedy.

use sidecore_core::layout::ABI;
use std::fmt::Display;

/// Version of this library, and of the service that is built with it.
pub const SIDECORE: &str = env!("CARGO_PKG_VERSION");

/// The refusal of a program that states another number than the service. `speaks`: subject and name of the number.
pub fn other_version(speaks: impl Display, theirs: u32, ours: u32) -> String {
    let remedy = if theirs < ours {
        "the program's library is older: restart the program after an upgrade, the service after a rollback"
    } else {
        "the service is older: restart it after an upgrade, the program after a rollback"
    };
    format!(
        "{speaks} {theirs}, the service (sidecore {SIDECORE}) {ours}; {remedy}; if it stays, install both from one version"
    )
}

/// The refusal of a lane for a client with this layout. `None`: it is the service's own.
pub fn other_layout(theirs: u32) -> Option<String> {
    (theirs != ABI).then(|| other_version("the client speaks lane layout", theirs, ABI))
}

/// Remedy for an answer that cannot be read.
pub fn unreadable() -> String {
    format!(
        "this program has the library of sidecore {SIDECORE} with lane layout {ABI}, and the service is of another version: restart \
         the program after an upgrade or rollback, and the service (`sidecore --version` tells what is installed)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_both_numbers_and_the_older_side() {
        assert_eq!(other_layout(ABI), None);
        let program = other_layout(ABI - 1).unwrap();
        assert!(program.contains("the program's library is older"), "{program}");
        let service = other_layout(ABI + 1).unwrap();
        assert!(service.contains("the service is older"), "{service}");
        for (text, theirs) in [(program, ABI - 1), (service, ABI + 1)] {
            assert!(text.contains(&format!("layout {theirs}, the service (sidecore {SIDECORE}) {ABI};")), "{text}");
        }
    }
}
