//! What a sidecore computes for its clients.

pub mod crypto;
