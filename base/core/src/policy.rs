//! Policies: an enum per family, the time and an event in, a decision out.
//!
//! [`notify`] says how a hop waits and is woken, [`balance`] which device gets a request, and [`order`] in which
//! order a device does its requests. [`gather`] says when a batch device begins, [`admission`] whose request is next,
//! and [`intake`] how many connections the kernel keeps. [`rate`] says how often frequent events are logged, and
//! [`fair_queue`] whose waiting work is next. [`replay`] says which messages came already. [`succession`] says what a
//! service may do while another takes its place.

pub mod admission;
pub mod balance;
pub mod fair_queue;
pub mod gather;
pub mod intake;
pub mod notify;
pub mod order;
pub mod rate;
pub mod replay;
mod spelling;
pub mod succession;

pub use spelling::ParseError;
