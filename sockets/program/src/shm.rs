//! Memory that program and service of sockets share. Besides this module, only [`crate::sys`] has unsafe code.

mod bank;
mod slot;

pub use bank::BankMemory;
pub use slot::SlotMemory;
