//! Libraries that programs load, and programs of other packages, beside the command.

use std::path::PathBuf;

const COMMAND: &str = env!("CARGO_BIN_EXE_sidecore");

pub(crate) fn built(package: &str) -> PathBuf {
    sidecore_testing::built_library(COMMAND, package)
}

pub(crate) fn file(package: &str, name: &str) -> PathBuf {
    sidecore_testing::built_file(COMMAND, package, name)
}
