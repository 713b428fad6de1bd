//! What a client of sidecore needs: a lane in shared memory, the messages that open sessions on it, and the names of keys.
//!
//! It holds no cryptography: a program that uses it hands requests to a service, and what it says is in [`spec`]. The
//! service speaks the same messages and maps the same memory, so it is built on this crate.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod client;
pub mod control;
pub mod environment;
pub mod face;
pub mod gateway;
pub mod keys;
pub mod report;
pub mod shm;
pub mod sockets;
pub mod spec;
pub mod sys;
pub mod text;

pub use shm::fork::ForkGuard;
pub use sidecore_core as core;
