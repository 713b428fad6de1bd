//! The runtime of sidecore: lanes in shared memory, the client, the service, the crypto engine and its devices.
//!
//! A [`service::Service`] owns one or several sidecores. A [`client::Client`] in another process (or in the same one)
//! attaches over a Unix socket, gets a lane, opens sessions and submits requests. What is decided is decided in
//! `sidecore_core`; this crate reads clocks, makes system calls and touches shared memory.

// The macros panic where standard output or error is closed: a service ends for that as little as its client.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bare;
pub mod config;
pub mod counters;
mod device;
pub mod engine;
pub mod events;
mod ffi;
pub mod keys;
pub mod sandbox;
pub mod service;
pub mod sockets;
pub mod sys;

pub(crate) use sidecore_client::shm;
pub use sidecore_client::{ForkGuard, client, control, gateway, spec, text};
pub use sidecore_core as core;
