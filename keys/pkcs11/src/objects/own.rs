//! Objects of this program: they end with the session that made them.

use super::{Object, Pair, What};
use crate::life;
use crate::rv::Rv;
use crate::sys::lock::{Guard, OwnedLock};
use cryptoki_sys::{CK_OBJECT_HANDLE, CK_SESSION_HANDLE, CKR_DEVICE_MEMORY, CKR_OBJECT_HANDLE_INVALID};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limit of objects.
const MAX_OBJECTS: usize = 4096;
/// Handles of the service's objects are below.
const FIRST: CK_OBJECT_HANDLE = 1 << 62;

struct Own {
    objects: BTreeMap<CK_OBJECT_HANDLE, (CK_SESSION_HANDLE, Arc<Object>)>,
}

impl Own {
    const fn new() -> Self {
        Self { objects: BTreeMap::new() }
    }
}

static OWN: OwnedLock<Own> = OwnedLock::new(Own::new());
/// None is used twice. Outside of the lock, so that a child goes on counting where another thread held the lock.
static LAST: AtomicU64 = AtomicU64::new(FIRST);

fn lock() -> Result<Guard<'static, Own>, Rv> {
    Ok(OWN.lock_or(life::process()?, Own::new))
}

pub(crate) fn is_own(handle: CK_OBJECT_HANDLE) -> bool {
    handle >= FIRST
}

pub(crate) fn get(handle: CK_OBJECT_HANDLE) -> Result<Arc<Object>, Rv> {
    let own = lock()?;
    own.objects.get(&handle).map(|(_, object)| Arc::clone(object)).ok_or(Rv(CKR_OBJECT_HANDLE_INVALID))
}

pub(crate) fn all() -> Vec<Arc<Object>> {
    lock().map(|own| own.objects.values().map(|(_, object)| Arc::clone(object)).collect()).unwrap_or_default()
}

/// Stores an object and returns its handle.
pub(crate) fn add(session: CK_SESSION_HANDLE, label: String, id: Vec<u8>, what: What) -> Result<CK_OBJECT_HANDLE, Rv> {
    let mut own = lock()?;
    if own.objects.len() >= MAX_OBJECTS {
        return Err(Rv(CKR_DEVICE_MEMORY));
    }
    let handle = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    own.objects.insert(handle, (session, Arc::new(Object { handle, token: false, label, id, what })));
    Ok(handle)
}

/// Replaces label, identifier or both.
pub(crate) fn rename(handle: CK_OBJECT_HANDLE, label: Option<String>, id: Option<Vec<u8>>) -> Result<(), Rv> {
    let mut own = lock()?;
    let (_, object) = own.objects.get_mut(&handle).ok_or(Rv(CKR_OBJECT_HANDLE_INVALID))?;
    let mut renamed = Object::clone(object);
    renamed.label = label.unwrap_or(renamed.label);
    renamed.id = id.unwrap_or(renamed.id);
    *object = Arc::new(renamed);
    Ok(())
}

/// The pair was stored: its objects of this process use the stored key from now on, since the token of the former one
/// serves no more.
pub(crate) fn now_stored(made: &Arc<Pair>, stored: &Arc<Pair>) -> Result<(), Rv> {
    for (_, object) in lock()?.objects.values_mut() {
        let what = match &object.what {
            What::Private(pair) if Arc::ptr_eq(pair, made) => What::Private(stored.clone()),
            What::Public(pair) if Arc::ptr_eq(pair, made) => What::Public(stored.clone()),
            _ => continue,
        };
        *object = Arc::new(Object { what, ..Object::clone(object) });
    }
    Ok(())
}

pub(crate) fn destroy(handle: CK_OBJECT_HANDLE) -> Result<(), Rv> {
    let removed = lock()?.objects.remove(&handle);
    // The service drops the key of the last object, without the lock.
    removed.map(drop).ok_or(Rv(CKR_OBJECT_HANDLE_INVALID))
}

pub(crate) fn end_session(process: u32, session: CK_SESSION_HANDLE) {
    let mut own = OWN.lock_or(process, Own::new);
    let (ended, kept): (BTreeMap<_, _>, _) =
        std::mem::take(&mut own.objects).into_iter().partition(|(_, (maker, _))| *maker == session);
    own.objects = kept;
    drop(own);
    // The service drops the keys without the lock.
    drop(ended);
}

pub(crate) fn clear(process: u32) {
    let cleared = std::mem::take(&mut OWN.lock_or(process, Own::new).objects);
    drop(cleared);
}
