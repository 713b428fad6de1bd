//! The program `sidecore-farm`; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidecore_farm::main()
}
