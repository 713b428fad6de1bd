//! Sending on a program's connections through rings, beside the kernel's own path.
//!
//! [`program`] is what a process has: its connection to the service of sockets, its banks of places, and a thread that goes on
//! alone when the service ends. A [`stream`] is one connection in a ring. [`protocol`] is what the two sides say to each other,
//! and [`ask`] what people ask.

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
