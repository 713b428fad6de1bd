//! Tests that leave out a part where the machine lacks something. `cargo xtask test` counts them.

use std::fs::File;
use std::io::Write;
use std::{env, io, thread};

/// Reports that this test, or a part of it, is left out. The line goes past the harness, which hides the output of
/// passing tests, and to the file that `cargo xtask test` names.
pub fn skipped(why: &str) {
    let line = format!("{}: {why}\n", thread::current().name().unwrap_or("?"));
    // Without stderr the file remains.
    let _ = write!(io::stderr(), "SKIPPED {line}");
    if let Some(path) = env::var_os("SIDECORE_SKIPPED") {
        File::options().append(true).create(true).open(path).unwrap().write_all(line.as_bytes()).unwrap();
    }
}
