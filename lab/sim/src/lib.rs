//! Simulated hardware under sidecore's own policies.
//!
//! The crate sees [`sidecore_core`] and nothing else of the project: what decides in a run is the code that decides in
//! the service, and it cannot tell the difference. Times are whole nanoseconds; a run follows from its plan and its seed.
//!
//! |Module|For|
//! |---|---|
//! |`engine`|events in order of time, one seed, a hash of the run|
//! |`part`, `settings`|processors and shared capacities; parameters with unit, limits and origin|
//! |`plan`, `names`|TOML plans: settings, axes, variants, errors with file and line|
//! |`system`, `outcome`|parts with their software: a file for each system; what a run yields|
//! |`table`, `estimate`|cells of a plan, each run until it is sure|
//! |`compare`, `rule`, `speed`|published cells; the simplest rule for them; events a second|
//! |`fit`, `choose`|parameters from published tables; the cheapest variant under a bound|
//! |`bakeoff`|balance policies judged on random pools|
//! |`replay`|records of the service, decided again|
#![forbid(unsafe_code)]

pub mod bakeoff;
pub mod choose;
pub mod compare;
pub mod engine;
pub mod estimate;
pub mod fit;
mod names;
pub mod outcome;
mod part;
pub mod plan;
pub mod replay;
mod rule;
pub mod settings;
pub mod speed;
pub mod system;
pub mod table;
