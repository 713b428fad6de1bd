//! Physical parts of which worlds are made.

pub mod cpu;
pub mod pipe;
