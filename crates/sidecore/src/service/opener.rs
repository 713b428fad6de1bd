//! Keys of clients are parsed here, on a thread of its own: a private RSA key takes milliseconds, and who may take how many of
//! them, the client says. Keys for programs are made on a second one, for that takes seconds.
//!
//! Each connection has one order at most: nothing more is read from it until that is answered, and with the connection its
//! order goes. Users take turns.

use super::command::{Event, LaneKey, Made};
use super::turns::Turns;
use crate::engine::crypto::Session;
use crate::keys::{Acl, Kind, Material, public_part};
use crate::spec::{Scheme, Secret, SessionSpec};
use crate::sys::{clock, wake};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What is to be parsed.
#[derive(Debug)]
pub(super) enum Order {
    /// A session on the client's own key.
    Session(SessionSpec),
    /// A session on this stored key, of which the store has none to share.
    Stored { name: String, material: Arc<Material>, scheme: Scheme },
    /// A key to be stored.
    Import { name: String, pkcs8: Secret, acl: Acl },
    /// A session on a key that was made for a program.
    OnMade { material: Arc<Material>, scheme: Scheme },
    /// A new key for a program.
    Make(Kind),
    /// The public part of a raw private key.
    PublicPart { kind: Kind, raw: Secret },
}

#[derive(Debug, Default)]
struct State {
    orders: Turns<(LaneKey, Order)>,
    stop: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The control thread's end. When it is dropped, the thread ends after the order at hand.
#[derive(Debug)]
pub(super) struct Opener(Arc<Shared>);

impl Opener {
    /// Starts the thread of this name, which rings `listener` after each event.
    ///
    /// # Errors
    /// The system makes no thread.
    pub(super) fn start(name: &str, tell: Sender<Event>, listener: Arc<OwnedFd>) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let theirs = shared.clone();
        let work = move || {
            while let Some((user, key, order)) = theirs.next() {
                let start = clock::now();
                let made = order.carry_out();
                theirs.state().orders.charge(user, clock::now() - start);
                // Without a control thread the service is ending.
                if tell.send(Event::Made(key, Box::new(made))).is_ok() {
                    wake::ring(&*listener);
                }
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self(shared))
    }

    /// Puts an order of this user and connection behind those of its user.
    pub(super) fn order(&self, user: u32, key: LaneKey, order: Order) {
        self.0.state().orders.push(user, (key, order));
        self.0.changed.notify_one();
    }

    /// The connection is gone, and its order with it.
    pub(super) fn forget(&self, user: u32, key: LaneKey) {
        let forgotten = self.0.state().orders.withdraw(user, |(of, _)| *of == key);
        // Keys are wiped without the lock.
        drop(forgotten);
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.0.state().stop = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // What a panicking thread left is whole: nothing in here is done by halves.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next order, waited for; nothing when the service ends.
    fn next(&self) -> Option<(u32, LaneKey, Order)> {
        let idle = |state: &mut State| state.orders.is_empty() && !state.stop;
        let mut state = self.changed.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
        if state.stop {
            return None;
        }
        state.orders.next().map(|(user, (key, order))| (user, key, order))
    }
}

impl Order {
    fn carry_out(self) -> Result<Made, String> {
        match self {
            Self::Session(spec) => Session::open(&spec).map(Made::Session),
            Self::Stored { name, material, scheme } => {
                let session = material.open(&scheme).map_err(|why| format!("key {name:?}: {why}"))?;
                Ok(Made::Stored { name, material, scheme, session })
            }
            Self::Import { name, pkcs8, acl } => {
                let material = Material::read(pkcs8)?;
                Ok(Made::Import { name, material, acl })
            }
            Self::OnMade { material, scheme } => material.open(&scheme).map(Made::Session),
            Self::Make(kind) => Material::generate(kind).map(Made::Key),
            Self::PublicPart { kind, raw } => public_part(kind, &raw).map(Made::Public),
        }
    }
}
