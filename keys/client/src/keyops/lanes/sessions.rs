//! The sessions of one lane: opened on the first use of a key; above the limit, the least recently used is closed.

use crate::client::{Client, Error, Session};
use crate::keyops::failure::{Failure, FailureKind, Reason};
use crate::keyops::key::{Key, Private, Public};
use crate::keyops::large_stack::on_large_stack;
use crate::spec::{Scheme, SessionSpec};
use std::sync::{Arc, Weak};

const MAX_SESSIONS: usize = 32;

/// Open sessions by key and scheme.
#[derive(Default)]
pub struct Sessions(Vec<Open>);

struct Open {
    /// The key, without the owner of its private part.
    key: Key,
    alive: Weak<Key>,
    scheme: Scheme,
    session: Session,
}

impl Open {
    /// True if the session will not be used again: the key belonged to the program, which has freed it.
    fn is_over(&self) -> bool {
        !matches!(self.key.private, Private::Stored(_)) && self.alive.strong_count() == 0
    }
}

impl Sessions {
    pub(crate) fn has(&self, key: &Key, scheme: &Scheme) -> bool {
        self.place(key, scheme).is_some()
    }

    /// The session of this key and scheme, open or new; a stored key is still the one that was loaded.
    ///
    /// # Errors
    /// `Stale`: the lane is gone. `Failure`: no such key or right, or the key was replaced.
    pub fn get(&mut self, client: &mut Client, key: &Arc<Key>, scheme: &Scheme) -> Result<Session, FailureKind> {
        if let Some(place) = self.place(key, scheme) {
            let open = self.0.remove(place);
            let session = open.session;
            self.0.push(open);
            return Ok(session);
        }
        let session = on_large_stack(|| {
            self.make_room(client);
            open(client, key, scheme)
        })?;
        let alive = Arc::downgrade(key);
        self.0.push(Open { key: key.remembered(), alive, scheme: scheme.clone(), session });
        Ok(session)
    }

    /// Removes a session that the service has closed.
    pub fn forget(&mut self, ended: Session) {
        self.0.retain(|open| open.session != ended);
    }

    fn place(&self, key: &Key, scheme: &Scheme) -> Option<usize> {
        self.0.iter().rposition(|open| open.key.is(key) && open.scheme == *scheme)
    }

    fn make_room(&mut self, client: &mut Client) {
        let mut over: Vec<Open> = self.0.extract_if(.., |open| open.is_over()).collect();
        if self.0.len() >= MAX_SESSIONS {
            over.push(self.0.remove(0));
        }
        for open in over {
            // The service may have closed it already.
            let _ = client.close_session(open.session);
        }
    }
}

fn open(client: &mut Client, key: &Key, scheme: &Scheme) -> Result<Session, FailureKind> {
    let spec = SessionSpec { scheme: scheme.clone(), key: key.material()? };
    let told = |error: Error| match error {
        Error::Service(refused) => FailureKind::Failure(Failure::refused(Reason::Key, &refused)),
        other => FailureKind::Stale(other.to_string()),
    };
    let session = client.open_session(&spec).map_err(told)?;
    if let Private::Stored(name) = &key.private {
        // Checked after the session was opened: if the key is replaced later, the service closes the session.
        let info = client.key_info(name).map_err(told)?;
        if Public::from_spki(&info.public).ok().as_ref() != Some(&key.public) {
            let _ = client.close_session(session);
            return Err(FailureKind::Failure(Failure::replaced(name)));
        }
    }
    Ok(session)
}
