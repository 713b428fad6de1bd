//! The farm's dispatcher as a state machine: which node does which event, what becomes of its answer, and the messages in
//! which both travel. It reads no clock and knows no network, so tests drive it with the time and the losses that they
//! want.
//!
//! |Module|For|
//! |---|---|
//! |`assigner`|[`Assigner`]: events and nodes over `sidecore-nodes`, with the bytes that belong to them|
//! |`payload`|[`Payload`]: octets of an event or a result, or a reference to them|
//! |[`wire`]|messages between a dispatcher and its nodes|
//! |[`status`]|the state of a farm, as its dispatcher shows it|
#![forbid(unsafe_code)]

mod assigner;
mod payload;
pub mod status;
pub mod wire;

pub use assigner::{Assigner, End, Ended, Event, NewEvent, Offered, Room, Settings};
pub use payload::Payload;
