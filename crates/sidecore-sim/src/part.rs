//! Physical parts of which worlds are made.

pub(crate) mod cpu;
pub(crate) mod pipe;
