//! Byte streams: sending on a connection through a ring in shared memory, and back to the kernel at any time.
//!
//! A program's socket stays the kernel's. While many small messages follow each other ([`rule`] says when), its
//! program writes them into a ring of bytes. A sidecore with a duplicate of the socket moves the gathered bytes by
//! one system call. The ring has two [`cursor`]s that only grow: bytes written, and bytes moved to the kernel. The
//! side with the [`hold`] of a stream may move bytes to the kernel, so that the program can take its stream back at
//! any time and continue from the other's position. After the death of a holder the kernel's own count tells how much
//! it had accepted.
//!
//! A stream is announced when its ring stops being empty, by the [`bell`] at its place, unless the program sends that
//! message by its [`own`] call. [`sweep`] decides which stream is served next, and [`saving`] computes the CPU time
//! saved. [`layout`] defines the places in memory. For a socket that sends [`datagrams`] the ring holds those, whole.
//!
//! The library in the program and the service of sockets take the same decisions from here. Like core, this crate reads
//! no clock, performs no I/O and touches no raw memory: its callers hand it shared words as atomics, and the time.
//!
//! |Module|For|
//! |---|---|
//! |`rule`, `slot`|when a connection's sends go through a ring, and back; what a program knows of a descriptor number|
//! |`layout`, `place`|the words in shared memory; states of a place, as program and service set them|
//! |`cursor`, `datagrams`|where in the ring bytes wait; whole messages in place of bytes|
//! |`hold`, `bell`|the right to move bytes; announcement of a ring that is no longer empty|
//! |`own`, `saving`|which messages the program sends itself, for the sidecore sleeps; what gathering saves|
//! |`sweep`|the order in which the service serves streams|
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bell;
pub mod cursor;
pub mod datagrams;
pub mod hold;
pub mod layout;
pub mod own;
pub mod place;
pub mod rule;
pub mod saving;
pub mod slot;
pub mod sweep;
