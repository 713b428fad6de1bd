//! What all threads of the service share: its limits and settings, its lists, and whether it ends.

use super::config::SocketsConfig;
use super::cores::Cores;
use super::rows::Registry;
use sidecore_core::policy::notify::Notify;
use sidecore_daemon::sys::park::ParkTimes;
use sidecore_daemon::tenants::Subordinates;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: SocketsConfig,
    pub(super) notify: Notify,
    /// Empty until the measurement ends.
    pub(super) park: OnceLock<ParkTimes>,
    pub(super) cores: Arc<Cores>,
    pub(super) registry: Registry,
    pub(super) serials: AtomicU32,
    /// Wasted connections that are not reported to the listener yet.
    pub(super) wasted: AtomicU32,
    pub(super) stop: AtomicBool,
    pub(super) wake: OwnedFd,
    /// Refusals are counted for a user with these together.
    pub(super) subordinates: Subordinates,
}

impl Shared {
    pub(super) fn park_times(&self) -> &ParkTimes {
        self.park.get().unwrap_or(&ParkTimes::ASSUMED)
    }
}

#[cfg(test)]
impl Shared {
    pub(super) fn of(limits: SocketsConfig) -> Self {
        Self {
            limits,
            notify: Notify::Park,
            park: OnceLock::new(),
            cores: Cores::new(&sidecore_daemon::config::Sidecores::default()),
            registry: Registry::default(),
            serials: AtomicU32::new(0),
            wasted: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            wake: sidecore_daemon::sys::wake::event().unwrap(),
            subordinates: Subordinates::default(),
        }
    }
}
