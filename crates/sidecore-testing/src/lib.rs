//! What the tests of several crates have in common.

pub mod scraped;
mod skipped;

pub use skipped::skipped;
