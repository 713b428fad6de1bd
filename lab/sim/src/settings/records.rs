//! Records of the service that settings name. Clones of the settings share what was read.

use crate::replay::{ReplayError, Traffic, traffic};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    /// Names are relative to it.
    folder: PathBuf,
    known: Arc<Mutex<HashMap<PathBuf, Arc<Traffic>>>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("{} cannot be read: {error}; name what a service with record = \"FILE\" wrote", .path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{} is no file", .0.display())]
    NoFile(PathBuf),
    #[error("{}: {error}", .path.display())]
    Refused { path: PathBuf, error: ReplayError },
}

impl Records {
    pub(crate) fn beside(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..Self::default() }
    }

    pub(crate) fn traffic(&self, name: &str) -> Result<Arc<Traffic>, RecordError> {
        let path = self.folder.join(name);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(traffic) = known.get(&path) {
            return Ok(Arc::clone(traffic));
        }
        let unreadable = |error| RecordError::Unreadable { path: path.clone(), error };
        if !fs::metadata(&path).map_err(unreadable)?.is_file() {
            return Err(RecordError::NoFile(path));
        }
        let bytes = fs::read(&path).map_err(unreadable)?;
        let found = traffic(&bytes).map_err(|error| RecordError::Refused { path: path.clone(), error })?;
        let found = Arc::new(found);
        known.insert(path, Arc::clone(&found));
        Ok(found)
    }
}
