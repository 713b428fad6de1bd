//! cli

#[expect(dead_code, reason = "the command line that calls it is not written yet")]
mod top;

fn main() {}
