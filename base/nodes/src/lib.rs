//! Decisions about nodes on other machines: which one gets the next event or request, and what happens to those of a
//! node that is lost.
//!
//! The dispatcher of a farm, the gateway of remote keys and the simulator take them from here. Like core, this crate
//! reads no clock and performs no I/O: its callers say what happened and when, and send what was decided.
//!
//! |Module|For|
//! |---|---|
//! |`pool`|[`NodePool`]: nodes with windows of credit, over core's `Dispatch`; lost nodes, and their events|
//! |[`pending`]|what waits for a node, by class and priority, beside the caller's data of each request|
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod pending;
mod pool;

pub use pool::{
    Answered, BeatOutcome, DEATHS, Failed, MAX_NODES, NodeId, NodePool, Placement, Reassignment, Settings, View,
};
