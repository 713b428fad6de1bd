//! Whether the service is there, as the signatures of a key find it.
//!
//! rustls calls a signing key on the thread that makes the handshake, which in an asynchronous program is one of a few
//! that do everything. So a signature does not wait for a service that is away. The first one that finds none starts a
//! thread that looks for it, and until that thread has found it the others fail at once.

use sidecore_client::client::Options;
use sidecore_client::keyops::ask;
use sidecore_client::keyops::failure::{Failure, Reason};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Time between two looks of the thread: the first and the longest.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LAST_LOOK: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(crate) struct Presence(Mutex<Option<Away>>);

struct Away {
    why: Failure,
    /// The process of the thread that looks: a forked child has none.
    process: u32,
}

impl Presence {
    /// The failure of a service that is known to be away.
    pub(crate) fn away(&self) -> Option<Failure> {
        let own = |away: &&Away| away.process == process::id();
        self.state().as_ref().filter(own).map(|away| away.why.clone())
    }

    /// A signature found no service. The thread that looks for it ends once it is there, or when nobody has the key.
    pub(crate) fn found_none(self: &Arc<Self>, why: &Failure, options: &Options, name: &str) {
        let mut state = self.state();
        if state.as_ref().is_some_and(|away| away.process == process::id()) {
            return;
        }
        let (presence, options, name) = (Arc::downgrade(self), without_wait(options), name.to_owned());
        let look = move || {
            let mut pause = FIRST_LOOK;
            loop {
                thread::sleep(pause);
                pause = (2 * pause).min(LAST_LOOK);
                let is_away = ask::usable(&options, &name).is_err_and(|failure| is_absence(&failure));
                let Some(presence) = presence.upgrade() else { return };
                if !is_away {
                    *presence.state() = None;
                    return;
                }
            }
        };
        // Without a thread each signature looks for itself.
        if thread::Builder::new().name("sidecore-look".to_owned()).spawn(look).is_ok() {
            *state = Some(Away { why: why.clone(), process: process::id() });
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<Away>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn is_absence(failure: &Failure) -> bool {
    failure.reason == Reason::Absent
}

pub(crate) fn without_wait(options: &Options) -> Options {
    Options { restart_wait: Duration::ZERO, ..options.clone() }
}
