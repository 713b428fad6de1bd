//! Whether this process has initialised the module, and with what settings. A forked child goes on with its parent's
//! sessions until it initialises the module itself.

use crate::config::Setup;
use crate::rv::Rv;
use crate::sys::published::Published;
use cryptoki_sys::{
    CKR_CRYPTOKI_ALREADY_INITIALIZED, CKR_CRYPTOKI_NOT_INITIALIZED, CKR_HOST_MEMORY, CKR_USER_ALREADY_LOGGED_IN,
    CKR_USER_NOT_LOGGED_IN,
};
use sidecore_client::keyops::notice;
use sidecore_ipc::sys::process::PerProcess;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Number of the process that initialised the module; 0: none.
static INITIALISED: AtomicU32 = AtomicU32::new(0);
static SETUP: Published<Setup> = Published::empty();
static LOGGED_IN: AtomicBool = AtomicBool::new(false);

static PROCESS: PerProcess<u32> = PerProcess::empty();
/// A child's numbers go on from its parent's, so it differs from all its ancestors.
static LAST: AtomicU32 = AtomicU32::new(0);

/// The number of this process, not 0 and not that of a process it descends from.
pub(crate) fn process() -> Result<u32, Rv> {
    let number = PROCESS.get(|| Ok(LAST.fetch_add(1, Ordering::Relaxed) + 1), |_| ());
    number.copied().map_err(|_| Rv(CKR_HOST_MEMORY))
}

/// The settings of the initialised module.
pub(crate) fn setup() -> Result<&'static Setup, Rv> {
    let is = INITIALISED.load(Ordering::Acquire) != 0;
    SETUP.get().filter(|_| is).ok_or(Rv(CKR_CRYPTOKI_NOT_INITIALIZED))
}

/// Initialises the module in this process. `forget` drops what a parent left; it gets the number of this process.
pub(crate) fn begin(read: impl FnOnce() -> Result<Setup, Rv>, forget: impl FnOnce(u32)) -> Result<(), Rv> {
    let process = process()?;
    let before = INITIALISED.load(Ordering::Acquire);
    if before == process {
        return Err(Rv(CKR_CRYPTOKI_ALREADY_INITIALIZED));
    }
    let setup = read()?;
    notice::begin();
    if before != 0 {
        forget(process);
        LOGGED_IN.store(false, Ordering::Relaxed);
    }
    // Programs initialise again and again, mostly with the same settings: what is published stays in memory.
    if SETUP.get() != Some(&setup) {
        SETUP.set(setup);
    }
    let done = INITIALISED.compare_exchange(before, process, Ordering::AcqRel, Ordering::Relaxed);
    done.map(|_| ()).map_err(|_| Rv(CKR_CRYPTOKI_ALREADY_INITIALIZED))
}

/// Ends what `begin` began. `forget` is as there.
pub(crate) fn end(forget: impl FnOnce(u32)) -> Result<(), Rv> {
    let process = process()?;
    if INITIALISED.swap(0, Ordering::AcqRel) == 0 {
        return Err(Rv(CKR_CRYPTOKI_NOT_INITIALIZED));
    }
    forget(process);
    LOGGED_IN.store(false, Ordering::Relaxed);
    Ok(())
}

pub(crate) fn is_logged_in() -> bool {
    LOGGED_IN.load(Ordering::Relaxed)
}

pub(crate) fn log_in() -> Result<(), Rv> {
    if LOGGED_IN.swap(true, Ordering::Relaxed) { Err(Rv(CKR_USER_ALREADY_LOGGED_IN)) } else { Ok(()) }
}

pub(crate) fn log_out() -> Result<(), Rv> {
    if LOGGED_IN.swap(false, Ordering::Relaxed) { Ok(()) } else { Err(Rv(CKR_USER_NOT_LOGGED_IN)) }
}
