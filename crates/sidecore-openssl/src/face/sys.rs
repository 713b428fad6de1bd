//! What a process and its threads are, as the system has it.

pub(super) mod connections;
pub(super) mod process;
pub(super) mod stack;
