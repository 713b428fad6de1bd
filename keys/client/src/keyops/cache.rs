//! The keys of flat key objects in this process, by number: an interface with flat objects in the program's memory
//! reads each one once.

use crate::keyops::failure::Failure;
use crate::keyops::key::Key;
use sidecore_ipc::sys::process::PerProcess;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limit of keys in the cache. Objects freed by another process would otherwise stay in it.
const MAX_KEYS: usize = 4096;

static CACHE: PerProcess<Cache> = PerProcess::empty();

#[derive(Default)]
struct Cache(Mutex<BTreeMap<u128, Arc<Key>>>);

impl Cache {
    /// In a child: wipes the parent's keys, unless a thread held the lock at the fork.
    fn leave_to_parent(&self) {
        if let Ok(mut keys) = self.0.try_lock() {
            keys.clear();
        }
    }
}

fn keys() -> Option<MutexGuard<'static, BTreeMap<u128, Arc<Key>>>> {
    let cache = CACHE.get(|| Ok(Cache::default()), Cache::leave_to_parent).ok()?;
    Some(cache.0.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The key with this number; `read` makes it on first use in this process.
///
/// # Errors
/// The error of `read`.
pub fn key(number: u128, read: impl FnOnce() -> Result<Key, Failure>) -> Result<Arc<Key>, Failure> {
    if let Some(key) = keys().and_then(|keys| keys.get(&number).cloned()) {
        return Ok(key);
    }
    let key = Arc::new(read()?);
    keep(number, &key);
    Ok(key)
}

/// Stores the key under this number.
pub fn keep(number: u128, key: &Arc<Key>) {
    let Some(mut keys) = keys() else { return };
    // Numbers are random, so evicting the lowest is as good as any.
    let dropped = if keys.len() < MAX_KEYS { None } else { keys.pop_first() };
    keys.insert(number, Arc::clone(key));
    drop(keys);
    drop(dropped);
}

/// Removes the key with this number.
pub fn forget(number: u128) {
    let forgotten = keys().and_then(|mut keys| keys.remove(&number));
    drop(forgotten);
}
