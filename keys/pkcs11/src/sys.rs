//! Values of a process that may fork at any time.

pub(crate) mod lock;
pub(crate) mod published;
