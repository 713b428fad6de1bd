//! Completion of jobs: their results enter the state of the control thread, and the reply is built.

use super::state::Listener;
use crate::control::{Refused, Reply};
use crate::engine::crypto::Session;
use crate::service::command::LaneKey;
use crate::service::jobs::{JobOutput, JobResult};
use std::sync::Arc;

impl Listener {
    /// Connection, permissions and keys may have changed since the job was queued.
    pub(super) fn complete(&mut self, key: LaneKey, result: JobResult) -> Result<Reply, Refused> {
        match result? {
            JobOutput::Session(session) => self.enter(key, session),
            JobOutput::MadeSession(token, session) => {
                // Meanwhile the key may have been stored, and is used by its name from then on.
                self.made_key(token)?;
                self.enter(key, session)
            }
            JobOutput::StoredSession { name, material, scheme, session, grant: Some(grant) } => {
                let session = self.setup.store.keep(&name, &material, &scheme, *session, &grant)?;
                self.enter(key, Arc::new(Session::served(session, grant)))
            }
            JobOutput::StoredSession { name, material, scheme, session, grant: None } => {
                let asker = self.asker(key)?;
                let session = self.setup.store.keep(&name, &material, &scheme, *session, &asker)?;
                self.enter(key, session)
            }
            JobOutput::Imported(new, material) => {
                self.administers_keys(key)?;
                self.stored(new, material)
            }
            JobOutput::Replaced(change, material) => {
                self.administers_keys(key)?;
                self.replaced(change, material)
            }
            // A generated key is stored even if its connection has ended meanwhile.
            JobOutput::Generated(new, material) => self.stored(new, material),
            JobOutput::Made(material) => self.key_made(key, material),
            JobOutput::PublicPart(public) => Ok(Reply::Public(public)),
            JobOutput::Arrived(arrival, material) => {
                self.administers_keys(key)?;
                self.arrived(*arrival, material)
            }
            JobOutput::Resealed(who, resealed) => self.resealed(who, resealed),
        }
    }
}
