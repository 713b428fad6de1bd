//! Shared by programs that measure: the machine and commit of figures, and checks of result files.

pub mod machine;
pub mod paths;
