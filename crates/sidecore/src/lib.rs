//! The runtime of sidecore: lanes in shared memory, the client, the service, the crypto engine and its devices.
//!
//! A [`service::Service`] owns one or several sidecores. A [`client::Client`] in another process (or in the same one)
//! attaches over a Unix socket, gets a lane, opens sessions and submits requests. What is decided is decided in
//! `sidecore_core`; this crate reads clocks, makes system calls and touches shared memory.

// The macros panic where standard output or error is closed: a service ends for that as little as its client.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bare;
pub mod client;
pub mod config;
pub mod control;
pub mod counters;
mod device;
pub mod engine;
mod ffi;
pub mod keys;
pub mod sandbox;
pub mod service;
mod shm;
pub mod sys;

pub use shm::fork::ForkGuard;
pub use sidecore_core as core;
