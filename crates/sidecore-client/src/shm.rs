//! Memory that other processes can write. Besides this module, only [`crate::sys`] and `ffi` have unsafe code.

mod bank;
pub mod fork;
mod lane;
mod mapping;
mod place;
pub mod prefetch;
pub mod span;

pub use bank::BankMemory;
pub use lane::LaneMemory;
pub use mapping::Mapping;
pub use place::PlaceMemory;
