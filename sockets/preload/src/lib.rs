//! A library to preload into unmodified programs. If they send on TCP connections and UDP sockets in many small
//! pieces, these go through rings to the service of sockets; all else goes to the kernel as without it.
//!
//! The functions of the C library that are intercepted, and all raw pointers, are under [`interpose`]. Their decisions are
//! safe code under `calls`. Each reaches a stream through `gate` alone. The knowledge of each descriptor is in `table`.
//!
//! |Module|For|
//! |---|---|
//! |`interpose`|the functions, one file for each kind; `slot`, the words of one descriptor; `raw`, system calls by number; `uring`, rings of liburing; `environment` of started programs|
//! |`calls`|decisions: path of a message, return to the kernel, entry to a ring, forks, namespaces, edges that the kernel does not produce|
//! |`gate`, `table`|from a descriptor to its stream; knowledge of each descriptor|

mod calls;
mod gate;
pub mod interpose;
mod table;
