//! Real handshakes with keys in a service in this process.

mod example;
mod handshake;
mod life;
mod renewal;
mod site;
mod tree;
