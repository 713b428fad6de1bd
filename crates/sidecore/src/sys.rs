//! System calls of the service, each with the types that the rest of the runtime speaks; with those that clients make too.

pub mod cpu;
pub mod features;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod packet;
pub(crate) mod peer;
pub(crate) mod poller;
pub(crate) mod wake;

pub(crate) use sidecore_client::sys::poll;
pub use sidecore_client::sys::{clock, own};
