//! The atomics that rings and doorbells are written in: the language's own, or loom's while a model is checked.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
