//! runtime

pub mod counters;
mod shm;
pub mod sys;

pub use sidecore_core as core;
