//! System calls of clients and services, with the types of the other modules.

pub mod clock;
pub mod connections;
pub mod packet;
pub mod peer;
pub mod poll;
pub mod process;
pub mod secure;
pub mod stack;
pub mod verified_fd;
pub mod wake;
