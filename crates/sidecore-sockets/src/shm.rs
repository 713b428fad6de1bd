//! Memory that program and service of sockets share. Besides this module, only [`crate::sys`] has unsafe code.

mod bank;
mod place;

pub use bank::BankMemory;
pub use place::PlaceMemory;
