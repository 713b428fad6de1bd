//! The change of the passphrase: a thread of its own seals the keys anew, for it takes a while. Keys are used meanwhile.

use super::{Listener, Reply};
use crate::keys::{Resealed, Resealing};
use crate::service::command::{Event, LaneKey};
use crate::spec::Secret;
use crate::sys::wake;
use std::sync::mpsc;
use std::thread;

impl Listener {
    /// Begins it. The answer comes when it is done.
    pub(super) fn change_passphrase(&mut self, asker: LaneKey, passphrase: Secret) -> Result<(), String> {
        let (tell, wake) = (self.tell.clone(), self.wake.clone());
        let (give, take) = mpsc::channel::<Resealing>();
        let reseal = move || {
            // Nothing was lent, or without a control thread the service is ending.
            let Ok(lent) = take.recv() else { return };
            let resealed = lent();
            if tell.send(Event::Resealed(asker, Box::new(resealed))).is_ok() {
                wake::ring(&*wake);
            }
        };
        // First the thread, so that nothing is lent to one that does not start.
        let started = thread::Builder::new().name("sidecore-seal".to_owned()).spawn(reseal);
        started.map_err(|error| format!("no thread can seal the keys: {error}; nothing was changed"))?;
        let lent = self.store.lend(passphrase)?;
        // The thread waits for it.
        let _ = give.send(lent);
        Ok(())
    }

    /// Takes the keys at rest back, and tells the asker what became of them.
    pub(super) fn resealed(&mut self, asker: LaneKey, resealed: Resealed) {
        let file = self.config.keys.passphrase_file.as_ref().map(|file| file.display().to_string());
        let done = self.store.take_back(resealed);
        let reply = done.map_or_else(Reply::Refused, |()| Reply::PassphraseChanged { file });
        self.conclude(asker, &reply);
    }
}
