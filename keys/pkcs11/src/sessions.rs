//! The table of sessions: a place for each, with a lock of its own. No lock is shared by sessions.
//!
//! The table is static memory, whose untouched pages cost nothing. A handle is a number that rises with each session, and
//! the session's place; no handle is used twice, also after a fork.

use crate::config::Setup;
use crate::life;
use crate::objects::own;
use crate::rv::Rv;
use crate::session::Session;
use crate::sys::lock::OwnedLock;
use cryptoki_sys::{CK_SESSION_HANDLE, CKR_SESSION_COUNT, CKR_SESSION_HANDLE_INVALID};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Limit of open sessions.
pub(crate) const MAX_SESSIONS: usize = 16_384;
const PLACE_BITS: u32 = 16;

struct Place {
    /// 0: free.
    handle: AtomicU64,
    session: OwnedLock<Option<Box<Session>>>,
}

static PLACES: [Place; MAX_SESSIONS] =
    [const { Place { handle: AtomicU64::new(0), session: OwnedLock::new(None) } }; MAX_SESSIONS];
static LAST: AtomicU64 = AtomicU64::new(0);
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// Where the search for a free place begins.
static HINT: AtomicUsize = AtomicUsize::new(0);
/// Places from this one on were never used.
static USED: AtomicUsize = AtomicUsize::new(0);

fn place_of(handle: CK_SESSION_HANDLE) -> Option<&'static Place> {
    let place = PLACES.get((handle & ((1 << PLACE_BITS) - 1)) as usize)?;
    (handle != 0 && place.handle.load(Ordering::Acquire) == handle).then_some(place)
}

pub(crate) fn count() -> usize {
    OPEN.load(Ordering::Relaxed)
}

pub(crate) fn open(writable: bool) -> Result<CK_SESSION_HANDLE, Rv> {
    life::setup()?;
    let process = life::process()?;
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let hint = HINT.load(Ordering::Relaxed);
    for at in (hint..MAX_SESSIONS).chain(0..hint) {
        let (place, handle) = (&PLACES[at], number << PLACE_BITS | at as u64);
        let is_free = place.handle.load(Ordering::Relaxed) == 0;
        if !is_free || place.handle.compare_exchange(0, handle, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            continue;
        }
        USED.fetch_max(at + 1, Ordering::Relaxed);
        HINT.store(at + 1, Ordering::Relaxed);
        OPEN.fetch_add(1, Ordering::Relaxed);
        let mut session = place.session.lock_or(process, || None);
        // Another thread may have closed all sessions, and a third one have taken the place.
        if place.handle.load(Ordering::Acquire) != handle {
            return Err(Rv(CKR_SESSION_HANDLE_INVALID));
        }
        *session = Some(Box::new(Session::new(handle, writable)));
        drop(session);
        // The module may have been finalised in between.
        return life::setup().map(|_| handle).inspect_err(|_| {
            let _ = close(handle);
        });
    }
    Err(Rv(CKR_SESSION_COUNT))
}

/// Does something with a session. Another thread that uses the same session waits.
pub(crate) fn with<T>(
    handle: CK_SESSION_HANDLE,
    work: impl FnOnce(&mut Session, &'static Setup) -> Result<T, Rv>,
) -> Result<T, Rv> {
    let invalid = Rv(CKR_SESSION_HANDLE_INVALID);
    let setup = life::setup()?;
    let place = place_of(handle).ok_or(invalid)?;
    let mut session = place.session.lock(life::process()?).map_err(|_| invalid)?;
    // It may be another one by now.
    let session = session.as_deref_mut().filter(|session| session.handle == handle).ok_or(invalid)?;
    work(session, setup)
}

pub(crate) fn close(handle: CK_SESSION_HANDLE) -> Result<(), Rv> {
    let place = place_of(handle).ok_or(Rv(CKR_SESSION_HANDLE_INVALID))?;
    if end(place, handle, life::process()?) { Ok(()) } else { Err(Rv(CKR_SESSION_HANDLE_INVALID)) }
}

pub(crate) fn close_all(process: u32) {
    for place in &PLACES[..USED.load(Ordering::Relaxed)] {
        let handle = place.handle.load(Ordering::Acquire);
        if handle != 0 {
            end(place, handle, process);
        }
    }
}

fn end(place: &Place, handle: CK_SESSION_HANDLE, process: u32) -> bool {
    // The session of a thread that exists in the parent only is left as it is.
    let mut session = place.session.lock_or(process, || None);
    let ended = session.take_if(|session| session.handle == handle);
    // Its thread may not exist in this process.
    let was_open = place.handle.compare_exchange(handle, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    drop(session);
    if was_open {
        HINT.fetch_min((handle & ((1 << PLACE_BITS) - 1)) as usize, Ordering::Relaxed);
        if OPEN.fetch_sub(1, Ordering::Relaxed) == 1 {
            let _ = life::log_out();
        }
    }
    if ended.is_some_and(|session| session.has_objects) {
        own::end_session(process, handle);
    }
    was_open
}
