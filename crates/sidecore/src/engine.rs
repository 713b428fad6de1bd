//! Engines: what requests ask for, done.

pub mod crypto;
pub(crate) mod execute;
