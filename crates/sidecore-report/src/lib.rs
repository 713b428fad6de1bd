//! Shared by programs that measure: the machine and commit of figures, statistics, and checks of
//! result files.

pub mod machine;
pub mod paths;
pub mod statistics;
