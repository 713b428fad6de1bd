//! Advice to a client on waiting and sampling, in words of its lane.

use super::calibrate::Calibration;
use crate::config::Config;
use crate::shm::LaneMemory;
use sidecore_core::layout::advice;
use sidecore_core::policy::notify::Notify;
use sidecore_core::sync::Ordering;
use sidecore_daemon::sys::cpu;
use sidecore_daemon::sys::park::ParkTimes;

/// The same for all clients, except the policy, which can change.
#[derive(Clone, Debug)]
pub(super) struct Advice {
    calibration: Calibration,
    sample_every: u32,
    /// A core is left for clients, apart from those of sidecores and workers.
    pub(super) may_spin: bool,
}

impl Advice {
    /// Must be called before any thread is tied to a core, since such a thread sees no other.
    pub(super) fn new(config: &Config, calibration: &Calibration) -> Self {
        let may_spin = config.waiters(&cpu::allowed()).clients_may_spin;
        Self { calibration: calibration.clone(), sample_every: config.sample_every, may_spin }
    }

    pub(super) fn give(&self, memory: &LaneMemory, notify: Notify) {
        let store = |word, value| memory.advice(word).store(value, Ordering::Relaxed);
        let ParkTimes { cost, wake } = self.calibration.park();
        store(advice::NOTIFY, notify.to_word());
        store(advice::PARK_COST, cost);
        store(advice::WAKE_TIME, wake);
        store(advice::SAMPLE_EVERY, u64::from(self.sample_every));
        store(advice::MAY_SPIN, u64::from(self.may_spin));
    }
}
