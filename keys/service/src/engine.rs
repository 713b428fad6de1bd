//! Engines, which do the work of requests.

pub mod crypto;
pub(crate) mod execute;
