//! Helpers that the tests of several crates share.

pub mod scraped;
mod skipped;

pub use skipped::skipped;
