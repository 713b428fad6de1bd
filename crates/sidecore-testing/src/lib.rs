//! Helpers for tests of several crates.

mod program;
pub mod scraped;
mod skipped;

pub use program::copy_program;
pub use skipped::skipped;
