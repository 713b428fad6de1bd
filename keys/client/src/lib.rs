//! The client of sidecore: a lane in shared memory, the messages that open sessions on it, and the names of keys.
//!
//! It holds no cryptography but digests of messages to sign. Programs submit requests to a service, described by [`spec`]. The service speaks the same
//! messages and maps the same memory, so it is built on this crate.
//!
//! |Module|For|
//! |---|---|
//! |`client`|one lane: submit, ring, poll, wait; arena, fork, new keys (`made`), trust in the service (`trust`), administration (`admin`)|
//! |`keyops`|stored keys for programs: keys, lanes, digests, calls with one retry, waiting, credentials, failures|
//! |`spec`|operation and key of a session; secrets that are wiped|
//! |`keys`|kinds, names and users of stored keys; `uri` and `pem` stand in for a key in files|
//! |`control`, `gateway`|messages with the service: lanes, sessions, settings, keys; messages between service and gateway|
//! |`channel`|messages between two services, as relays see them|
//! |`report`|the client's report in its lane|

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod channel;
pub mod client;
pub mod control;
pub mod gateway;
pub mod keyops;
pub mod keys;
pub mod report;
pub mod spec;
