//! Arguments that mean nothing.

use sidecore_nats::InvalidName;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgumentError {
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The longest one.
    #[error("a beat is 1ms to {}s, as 10ms", .0.as_secs())]
    Beat(Duration),
    #[error("name a variable; its value is the node's")]
    Variable,
    #[error("replicas are 1, 3 or 5")]
    Replicas,
}
