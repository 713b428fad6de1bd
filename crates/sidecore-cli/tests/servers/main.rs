//! Servers and tools as Debian packages them, with their keys in the service: real programs, unmodified, on free ports.

mod handshake;
mod material;
mod memory;
mod programs;
mod secrets;
mod server;
