//! Sending on a program's connections through rings, as an alternative to the kernel's own path: the program's side, and
//! the messages between both sides.
//!
//! |Module|For|
//! |---|---|
//! |`program`|state of a process: its connection to the service of sockets, its banks, and the thread that goes on without a service|
//! |`attachment`|the connection with the service, and its places|
//! |`ring`, `datagrams`, `backoff`|a ring at a place, and what was left in it; whole messages; waits for its holder|
//! |`stream`|one connection in a ring, for all threads and handlers|
//! |`protocol`, `ask`|messages between program and service; those of operators|
//! |`loadable`|which programs can load a library|
//! |`shm`|mapped memory: banks of slots, one slot|
//! |`sys`|system calls of such a program: sockets, locks, threads, signals|

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod ask;
mod attachment;
mod backoff;
pub mod datagrams;
pub mod loadable;
pub mod program;
pub mod protocol;
mod ring;
pub mod shm;
pub mod stream;
pub mod sys;
#[cfg(test)]
mod tests;
