//! Memory that other processes can write. Besides this module, only [`crate::sys`] and `ffi` have unsafe code.

pub mod fork;
mod lane;
mod mapping;
pub mod prefetch;
pub mod span;

pub use lane::LaneMemory;
pub use mapping::Mapping;
