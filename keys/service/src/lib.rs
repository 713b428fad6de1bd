//! The service of keys: threads, crypto engine, devices, stored keys. The client and the messages are those of
//! `sidecore_client`, the counter file is that of `sidecore_counters`.
//!
//! A [`service::Service`] owns one or several sidecores. A [`client::Client`] in another process (or in the same one)
//! attaches over a Unix socket, gets a lane, opens sessions and submits requests. All decisions are in
//! `sidecore_core`; this crate reads clocks, makes system calls and touches shared memory.
//!
//! |Module|For|
//! |---|---|
//! |`service`|threads: control (`listener`), slow jobs (`jobs`, on the threads of `job_queue`), closing (`reaper`), one `reactor` for each sidecore; `quotas`, `calibrate`; from one service to the next: `succession`|
//! |`engine`|`crypto`: sessions over AWS-LC, `batch` for several side by side; `execute`: one request, extents to extents|
//! |`keys`|`store`: permissions, terms and sessions of keys; `material`: one key; `limiter`; `vault`: sealed files; `file`, `public`, `certificate`: import|
//! |`channel`|requests of other services through processes that cannot read them|
//! |`device`|workers, batch, emulated and remote devices behind `Port`; `inline` has no port|
//! |`config`|the TOML file, and changes by `sidecore set`|
//! |`sys`, `ffi`|system calls of this service alone; owners of AWS-LC objects|
//! |`events`|changes, refusals and deaths for subscribers of `tracing`|
//! |`bare`|exchanges without a protocol, as baselines|

// The macros panic where standard output or error is closed, which must not end a service or its client.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bare;
mod channel;
pub mod config;
mod device;
pub mod engine;
pub mod events;
mod ffi;
pub mod keys;
pub mod service;
pub mod sys;

pub use sidecore_client::{client, control, gateway, spec};
pub use sidecore_core as core;
pub(crate) use sidecore_ipc::shm;
