//! Tests of private operations of RSA side by side.

mod der;
#[path = "../shared/operations.rs"]
mod operations;
mod signatures;
