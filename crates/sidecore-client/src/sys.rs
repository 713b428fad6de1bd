//! System calls that clients and services make, each with the types that the rest speaks.

pub mod clock;
pub mod own;
pub mod packet;
pub mod peer;
pub mod poll;
pub mod secure;
pub mod wake;
