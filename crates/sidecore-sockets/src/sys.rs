//! System calls of programs whose sockets are served, with the types of the other modules.

pub mod loader;
pub(crate) mod lock;
pub mod tcp;
pub(crate) mod thread;
pub mod udp;
pub mod undisturbed;
pub mod usage;
