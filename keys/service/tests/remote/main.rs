//! Tests of remote devices: remote keys, and gateways of every kind.

mod common;
mod far;
mod hostile;
mod losses;
mod sealed;
mod serves;

#[path = "../service/common.rs"]
mod served;
