//! Sending on a program's connections through rings, as an alternative to the kernel's own path.
//!
//! [`program`] holds the state of a process: its connection to the service of sockets, its banks of places, and a
//! thread that continues without the service when the service ends. A [`stream`] is one connection in a ring.
//! [`protocol`] has the messages between the two sides, and [`ask`] those of operators.

pub mod ask;
mod attachment;
pub mod datagrams;
pub mod loadable;
mod patience;
pub mod program;
pub mod protocol;
pub mod stream;
#[cfg(test)]
mod tests;
