//! Refusals of actions on devices.

use sidecore_core::dispatch::MAX_DEVICES;
use std::io;

#[derive(Debug, thiserror::Error)]
pub(in crate::service) enum DeviceError {
    #[error("there is a device {0:?} already: give this one another name")]
    Exists(String),
    #[error("a sidecore has at most {MAX_DEVICES} devices at a time: remove one before adding {0:?}")]
    Full(String),
    #[error("device {0:?} is remote: it is there when its gateway connects")]
    Remote(String),
    #[error("no device {name:?} here; there are {}", there.join(", "))]
    NoDevice { name: String, there: Vec<String> },
    #[error("{0:?} is the sidecore itself: drain it instead")]
    Inline(String),
    #[error("{0:?} is taken away as soon as it is empty: add another device")]
    Leaving(String),
    #[error(transparent)]
    System(#[from] io::Error),
}
