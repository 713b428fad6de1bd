//! Simulated hardware under sidecore's own policies.
//!
//! The crate sees [`sidecore_core`] and nothing else of the project: what decides in a run is the code that decides in
//! the service, and it cannot tell the difference. Times are whole nanoseconds; a run follows from its plan and its seed.
#![forbid(unsafe_code)]

pub mod bakeoff;
pub mod choose;
pub mod compare;
pub mod engine;
pub mod estimate;
pub mod faults;
pub mod fit;
pub mod gathering;
mod names;
mod part;
pub mod plan;
pub mod replay;
mod rule;
pub mod settings;
pub mod speed;
pub mod system;
pub mod table;
pub mod waiting;
