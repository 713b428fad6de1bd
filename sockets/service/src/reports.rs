//! Programs' reports on their sockets outside rings. Each request for the list asks the programs, and each program
//! owes one answer at most.

use sidecore_daemon::sys::wake;
use sidecore_sockets::protocol::{MAX_REPORTED, NUMBERS, Report, Reported};
use sidecore_streams::rule::PathReason;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(super) struct Bell {
    wake: OwnedFd,
    asks: AtomicBool,
}

impl Bell {
    /// # Errors
    /// No descriptor is left.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { wake: wake::event()?, asks: AtomicBool::new(false) })
    }

    pub(super) fn wake(&self) -> &OwnedFd {
        &self.wake
    }

    pub(super) fn ring(&self) {
        wake::ring(&self.wake);
    }

    pub(super) fn ask(&self) {
        if !self.asks.swap(true, Ordering::AcqRel) {
            self.ring();
        }
    }

    /// True once after [`Bell::ask`].
    pub(super) fn asks(&self) -> bool {
        self.asks.swap(false, Ordering::AcqRel)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Answered,
    Wanted,
    Asked,
    Silent,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    stage: Stage,
    /// Sockets that had a ring, by the number of its place.
    pub(super) seated: BTreeMap<u32, Reported>,
    /// The others, by descriptor.
    pub(super) unseated: BTreeMap<u32, Reported>,
    /// Count of sockets beyond the limit.
    beyond: u32,
}

impl Known {
    /// False: the program hung up, and may have no sockets.
    pub(super) fn is_current(&self) -> bool {
        self.stage != Stage::Silent
    }
}

#[derive(Debug, Default)]
pub(super) struct Reports(Mutex<Known>);

impl Reports {
    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        // No change in here is left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new report is wanted. True if the user's thread must ask for it.
    pub(super) fn want(&self) -> bool {
        let mut known = self.lock();
        if known.stage == Stage::Answered {
            known.stage = Stage::Wanted;
        }
        known.stage == Stage::Wanted
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.lock().stage == Stage::Wanted
    }

    pub(super) fn asked(&self) {
        self.lock().stage = Stage::Asked;
    }

    /// Whether a report is due, and the number of sockets beyond the limit of the last one.
    pub(super) fn progress(&self) -> (bool, u32) {
        let known = self.lock();
        (matches!(known.stage, Stage::Wanted | Stage::Asked), if known.is_current() { known.beyond } else { 0 })
    }

    pub(super) fn end(&self) {
        self.lock().stage = Stage::Silent;
    }

    /// # Errors
    /// The program was not asked, or the report is invalid.
    pub(super) fn take(&self, report: Report) -> Result<(), &'static str> {
        if self.lock().stage != Stage::Asked {
            return Err("a report that was not asked for");
        }
        let is_right = |socket: &Reported| socket.descriptor < NUMBERS && PathReason::of(socket.why.into()).is_some();
        if report.sockets.len() > MAX_REPORTED || !report.sockets.iter().all(is_right) {
            return Err("a report beyond the limits of the protocol: program and service must be of one version");
        }
        let mut known = Known { beyond: report.others, ..Known::default() };
        for socket in report.sockets {
            match socket.seat {
                Some(seat) => known.seated.insert(seat.place.into(), socket),
                None => known.unseated.insert(socket.descriptor, socket),
            };
        }
        *self.lock() = known;
        Ok(())
    }
}
