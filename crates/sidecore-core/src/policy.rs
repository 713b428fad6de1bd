//! Policies: an enum per family, the time and an event in, a decision out.
//!
//! [`notify`] says how a hop waits and is woken, [`balance`] which device gets a request, [`order`] in which order it does
//! them, [`gather`] when one that does several at once begins, [`admission`] whose request is next, [`intake`] how many
//! connections the kernel keeps, [`rate`] how often frequent events are logged, [`turns`] whose waiting work is next.

pub mod admission;
pub mod balance;
pub mod gather;
pub mod intake;
pub mod notify;
pub mod order;
pub mod rate;
mod spelling;
pub mod turns;

pub use spelling::ParseError;
