//! Copies of programs.

use std::path::Path;
use std::process::Command;

/// Copies a program that the test starts afterwards. Another process writes the file: a child of this one, started by
/// another thread, would hold it open for writing, and then it cannot be executed.
///
/// # Panics
/// The file cannot be copied.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let (from, to) = (from.as_ref(), to.as_ref());
    let copied = Command::new("cp").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} to {}", from.display(), to.display());
}
