//! The command `sidecore`.

#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the scenarios that measure against the baseline are not in this crate yet")
)]
mod baseline;
mod ffi;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the scenarios that run on the described machine are not in this crate yet")
)]
mod machine;
#[cfg_attr(not(test), expect(dead_code, reason = "the scenarios that take long are not in this crate yet"))]
mod progress;
#[cfg_attr(
    not(test),
    expect(dead_code, unused_imports, reason = "the scenarios that make rows are not in this crate yet")
)]
mod report;

fn main() {}
