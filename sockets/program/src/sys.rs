//! System calls of programs whose sockets are served, with the types of the other modules.

pub mod loader;
pub(crate) mod lock;
pub mod signals_blocked;
pub mod tcp;
pub(crate) mod thread;
pub mod udp;
pub mod usage;
