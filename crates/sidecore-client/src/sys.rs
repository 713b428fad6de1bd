//! System calls of clients and services, with the types of the other modules.

pub mod clock;
pub(crate) mod connections;
pub mod loader;
pub(crate) mod lock;
pub mod own;
pub mod packet;
pub mod peer;
pub mod poll;
pub(crate) mod process;
pub mod secure;
pub(crate) mod stack;
pub mod tcp;
pub(crate) mod thread;
pub mod udp;
pub mod undisturbed;
pub mod usage;
pub mod wake;
