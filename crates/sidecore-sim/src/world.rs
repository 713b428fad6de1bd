//! Worlds that are not a published system: sidecore's own policies under load.

pub mod pool;
