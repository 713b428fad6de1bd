//! A key and a chain that change together, for servers that go on over renewals.
//!
//! A renewal changes two things that lie in different places: the chain in a file, and the key in the service. A server
//! that takes the one before the other is there presents a certificate for which it cannot sign. [`Followed`] reads the
//! file on a thread of its own, and takes the changed chain only together with its key: the key of the name, or the one
//! that `sidecore keys renew` stored for it as `NAME.SECONDS`. Until then the former two stay.

use crate::error::Error;
use crate::{StoredKey, keys_of};
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use sidecore_client::client::Options;
use sidecore_client::keys::{Certificate, Moment};
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time between two looks at the file. A signature with a key that was replaced has it looked at immediately.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A certificate of a file with its key, for [`rustls::ConfigBuilder::with_cert_resolver`].
pub struct Followed {
    current: RwLock<Arc<CertifiedKey>>,
}

/// The key of this name with the chain of a PEM file, both of which follow renewals.
///
/// `told` is called on another thread with each reason for which a changed file is not used, once.
///
/// # Errors
/// As for [`with_chain`](crate::with_chain); the file cannot be read, or there is no room for a thread.
pub fn follow(
    options: &Options,
    name: &str,
    chain: impl Into<PathBuf>,
    told: impl Fn(&Error) + Send + 'static,
) -> Result<Arc<Followed>, Error> {
    let path = chain.into();
    let (wake, woken) = sync_channel(1);
    let mut options = options.clone();
    options.look_up_users();
    let mut files = Files { options, name: name.to_owned(), path, wake, seen: None, next: None, said: String::new() };
    files.seen = Some(files.state()?);
    let first = files.certified(files.chain()?)?;
    let followed = Arc::new(Followed { current: RwLock::new(Arc::new(first)) });
    let weak = Arc::downgrade(&followed);
    let look = move || {
        while let Ok(()) | Err(RecvTimeoutError::Timeout) = woken.recv_timeout(LOOK_EVERY) {
            let Some(followed) = Weak::upgrade(&weak) else { return };
            if let Some(error) = files.look(&followed, now()) {
                told(&error);
            }
        }
    };
    let thread = thread::Builder::new().name("sidecore-follow".to_owned()).spawn(look);
    thread.map_err(|source| Error::Thread { source })?;
    Ok(followed)
}

impl Followed {
    /// The key and chain of the next handshake.
    pub fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for Followed {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certified())
    }
}

impl ResolvesClientCert for Followed {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.certified())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Followed").field(&self.certified().key).finish()
    }
}

/// Inode, length and time of change of a file.
type State = (u64, u64, i64, i64);

/// What the thread knows of the file.
struct Files {
    options: Options,
    name: String,
    path: PathBuf,
    /// Has the thread look immediately.
    wake: SyncSender<()>,
    /// The file that was read last. `None`: there was none.
    seen: Option<State>,
    /// The changed chain, whose key is not there yet.
    next: Option<Vec<CertificateDer<'static>>>,
    /// The last reason that was told.
    said: String,
}

impl Files {
    fn failed(&self, source: std::io::Error) -> Error {
        Error::File { path: self.path.clone(), source }
    }

    fn state(&self) -> Result<State, Error> {
        let of = |found: Metadata| (found.ino(), found.len(), found.mtime(), found.mtime_nsec());
        fs::metadata(&self.path).map(of).map_err(|source| self.failed(source))
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        let unread = |source| Error::Pem { path: self.path.clone(), source };
        let pem = fs::read(&self.path).map_err(|source| self.failed(source))?;
        CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().map_err(unread)
    }

    fn certified(&self, chain: Vec<CertificateDer<'static>>) -> Result<CertifiedKey, Error> {
        let wakes = |key: StoredKey| key.woken_by(self.wake.clone());
        keys_of(&self.options, &self.name, chain).map(|(key, chain)| CertifiedKey::new(chain, Arc::new(wakes(key))))
    }

    /// Takes a changed chain with its key. A reason for not taking it, unless it is the last one again.
    fn look(&mut self, followed: &Followed, now: Moment) -> Option<Error> {
        let taken = self.take(followed, now);
        let said = taken.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let is_new = said != self.said;
        self.said = said;
        taken.err().filter(|_| is_new)
    }

    fn take(&mut self, followed: &Followed, now: Moment) -> Result<(), Error> {
        match self.state() {
            Ok(state) if self.seen == Some(state) => {}
            Ok(state) => {
                self.next = None;
                self.next = Some(self.chain()?);
                self.seen = Some(state);
            }
            Err(error) => {
                (self.seen, self.next) = (None, None);
                return Err(error);
            }
        }
        let Some(chain) = self.next.clone() else { return Ok(()) };
        let next = self.certified(chain).map_err(|error| match error {
            Error::OtherKeys { name } => Error::NoKeyYet { path: self.path.clone(), name },
            other => other,
        })?;
        let present = followed.certified();
        if let Some(dates) = worse_dates(&next, &present, now)
            && self.certified(present.cert.clone()).is_ok()
        {
            return Err(Error::Dates { path: self.path.clone(), begins: dates.begins, ends: dates.ends });
        }
        *followed.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.next = None;
        Ok(())
    }
}

/// The next certificate, if it is not valid now and the present one is.
fn worse_dates(next: &CertifiedKey, present: &CertifiedKey, now: Moment) -> Option<Certificate> {
    let read = |certified: &CertifiedKey| Certificate::read(certified.cert.first()?);
    let next = read(next).filter(|next| next.check_dates(None, now).is_err())?;
    read(present).filter(|present| present.check_dates(None, now).is_ok()).map(|_| next)
}

fn now() -> Moment {
    Moment(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}
