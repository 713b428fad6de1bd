//! A library that is preloaded into unmodified programs: what they send on TCP connections and UDP sockets in many small
//! pieces goes through rings to the service of sockets, and all else to the kernel as without it.
//!
//! The functions of the C library that are intercepted, and all raw pointers, are under [`interpose`]. What they decide is
//! safe code under `calls`. Each reaches a stream through `gate` alone. The knowledge of each descriptor is in `table`.

mod calls;
mod gate;
pub mod interpose;
mod table;
