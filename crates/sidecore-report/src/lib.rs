//! What programs that measure have in common: the machine and the commit that figures belong to, and the files of results.

pub mod machine;
pub mod paths;
