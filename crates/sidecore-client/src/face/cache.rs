//! Keys of the key objects that this process works with, by the numbers of their contents: a face that keeps flat objects in
//! memory of the program reads each once.

use crate::face::failure::Failure;
use crate::face::key::Key;
use crate::sys::process::PerProcess;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most keys that are kept. Objects that another process freed are not known to be gone.
const MAX_KEYS: usize = 4096;

static CACHE: PerProcess<Cache> = PerProcess::new();

/// Keys by the numbers of their objects' contents.
#[derive(Default)]
struct Cache(Mutex<BTreeMap<u128, Arc<Key>>>);

impl Cache {
    /// In a child: its parent's are wiped, if no thread was just at work on them.
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

/// The key of the contents with this number; `read` makes it where this process has none.
///
/// # Errors
/// That of `read`.
pub fn key(number: u128, read: impl FnOnce() -> Result<Key, Failure>) -> Result<Arc<Key>, Failure> {
    if let Some(key) = keys().and_then(|keys| keys.get(&number).cloned()) {
        return Ok(key);
    }
    let key = Arc::new(read()?);
    keep(number, &key);
    Ok(key)
}

/// Keeps the key of the contents with this number.
pub fn keep(number: u128, key: &Arc<Key>) {
    let Some(mut keys) = keys() else { return };
    // Numbers are random: any will do.
    let dropped = if keys.len() < MAX_KEYS { None } else { keys.pop_first() };
    keys.insert(number, Arc::clone(key));
    drop(keys);
    drop(dropped);
}

/// The contents with this number are no more.
pub fn forget(number: u128) {
    let forgotten = keys().and_then(|mut keys| keys.remove(&number));
    drop(forgotten);
}
