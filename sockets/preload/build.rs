//! Tells the library whether its compiler has a lint that older ones do not know.

use std::env;
use std::error::Error;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let lints = Command::new(env::var("RUSTC")?).args(["-W", "help"]).output()?;
    if String::from_utf8(lints.stdout)?.contains("invalid-runtime-symbol-definitions") {
        println!("cargo::rustc-cfg=runtime_symbols_are_checked");
    }
    Ok(())
}
