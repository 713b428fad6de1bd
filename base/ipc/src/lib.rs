//! Common parts of programs and services: shared memory, packets, waiting, and trust in a service. They know no key and no
//! request.
//!
//! |Module|For|
//! |---|---|
//! |`shm`|mapped memory: lanes, spans of payload, fork guard; no `&[u8]` on shared memory|
//! |`sys`|system calls of both sides: clock, packets, waiting, wake-ups; verified descriptors, stacks, locks, signals|
//! |`message`|messages as packets|
//! |`named_file`|files that users name, which may be FIFOs|
//! |`environment`, `trust`, `versions`|the service of an unconfigured program; users whose service is trusted; refusals of another version|

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod environment;
pub mod message;
pub mod named_file;
pub mod shm;
pub mod sys;
pub mod trust;
pub mod versions;
