//! Helpers for tests of several crates.

mod busy;
pub mod intruder;
mod lingering;
mod program;
pub mod scraped;
mod skipped;
mod stop;
pub mod sys;
pub mod tree;

pub use busy::BusyProgram;
pub use lingering::lingering;
pub use program::copy_program;
pub use skipped::skipped;
pub use stop::{go_on, stop};
