//! Helpers for tests of several crates.

mod busy;
pub mod intruder;
mod library;
mod limit;
mod lingering;
pub mod nats;
mod program;
pub mod scraped;
mod service;
mod skipped;
mod stop;
pub mod sys;
pub mod terminal;
pub mod tree;

pub use busy::BusyProgram;
pub use library::{built_file, built_library};
pub use limit::Limit;
pub use lingering::lingering;
pub use program::{copy_program, program_beside};
pub use service::Running;
pub use skipped::skipped;
pub use stop::{go_on, stop};
