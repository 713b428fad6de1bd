//! Memory that other processes can write. With [`crate::sys`] and `ffi` the only place with unsafe code.

pub(crate) mod fork;
mod lane;
mod mapping;
pub(crate) mod prefetch;
pub(crate) mod span;

pub(crate) use lane::LaneMemory;
pub(crate) use mapping::Mapping;
