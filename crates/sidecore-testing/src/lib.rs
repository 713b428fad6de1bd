//! Helpers for tests of several crates.

pub mod scraped;
mod skipped;

pub use skipped::skipped;
