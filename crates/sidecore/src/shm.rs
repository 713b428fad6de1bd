//! Shared memory.

pub mod span;
