//! Byte streams: sending on a connection through a ring in shared memory, and back to the kernel at any time.
//!
//! A program's socket stays the kernel's. While many small messages follow each other ([`rule`] says when), its program
//! writes them into a ring of bytes, and a sidecore that has a duplicate of the socket moves what has gathered there by one
//! system call. The ring has two [`cursor`]s that only grow: of what was written, and of what the kernel has. Whoever has the
//! [`hold`] of a stream may move bytes to the kernel, so that the program can take its stream back at any time, and goes on
//! where the other stopped. What the kernel had accepted when a holder died is known from the kernel's own count.
//!
//! A stream is announced when its ring stops being empty, by the [`bell`] at its place, unless the program sends that message
//! by its [`own`] call; [`sweep`] decides which stream is
//! served next, and [`saving`] says what it was good for. [`layout`] says where all this lies in memory. Of a socket that sends
//! [`datagrams`] the ring holds those, whole.

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
