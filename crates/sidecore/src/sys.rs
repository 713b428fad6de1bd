//! System calls, each with the types that the rest of the runtime speaks.

pub mod clock;
pub mod cpu;
pub mod features;
pub(crate) mod memory;
pub(crate) mod message;
pub mod own;
pub(crate) mod packet;
pub(crate) mod peer;
pub(crate) mod poller;
pub(crate) mod secure;
pub(crate) mod wake;
