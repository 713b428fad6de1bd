//! What a test leaves out where the machine lacks something: said aloud, and counted by `cargo xtask test`.

use std::fs::File;
use std::io::Write;
use std::{env, io, thread};

/// Says that this test, or a part of it, is left out and why: past the harness, which keeps what a passing test prints,
/// and in the file that `cargo xtask test` names.
pub(crate) fn skipped(why: &str) {
    let line = format!("{}: {why}\n", thread::current().name().unwrap_or("?"));
    // Nothing to be done where there is no stderr.
    let _ = write!(io::stderr(), "SKIPPED {line}");
    if let Some(path) = env::var_os("SIDECORE_SKIPPED") {
        File::options().append(true).create(true).open(path).unwrap().write_all(line.as_bytes()).unwrap();
    }
}
