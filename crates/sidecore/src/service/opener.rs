//! What takes longer than the control thread may wait is done on threads of its own: clients' keys are parsed on one, for a
//! private RSA key takes milliseconds, and who may take how many of them, the client says; keys for programs are made on a
//! second one, for that takes seconds; the service's own keys are made on a third one, and those at rest sealed anew on a
//! fourth one, for until that is done they cannot be changed.
//!
//! Each connection has one order at most: nothing more is read from it until that is answered. Users take turns.

use super::command::LaneKey;
use crate::sys::clock;
use sidecore_core::policy::turns::Turns;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What is to be done.
type Work<T> = Box<dyn FnOnce() -> T + Send>;

struct State<T> {
    orders: Turns<u32, (LaneKey, Work<T>)>,
    /// One more order is being carried out.
    at_work: bool,
    stop: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

/// The control thread's end. When it is dropped, the thread ends after the order at hand.
pub(super) struct Opener<T>(Arc<Shared<T>>);

impl<T: 'static> Opener<T> {
    /// Starts the thread of this name, which tells whose order came to what.
    ///
    /// # Errors
    /// The system makes no thread.
    pub(super) fn start(name: &str, tell: impl Fn(LaneKey, T) + Send + 'static) -> io::Result<Self> {
        let state = Mutex::new(State { orders: Turns::default(), at_work: false, stop: false });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let theirs = shared.clone();
        let work = move || {
            while let Some((user, (key, work))) = theirs.next() {
                let start = clock::now();
                let made = work();
                theirs.state().orders.charge(&user, clock::now() - start);
                tell(key, made);
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self(shared))
    }

    /// Puts an order of this user and connection behind those of its user.
    pub(super) fn order(&self, user: u32, key: LaneKey, work: impl FnOnce() -> T + Send + 'static) {
        self.0.state().orders.push(&user, (key, Box::new(work)));
        self.0.changed.notify_one();
    }

    /// Orders that are not carried out yet.
    pub(super) fn len(&self) -> usize {
        let state = self.0.state();
        state.orders.len() + usize::from(state.at_work)
    }

    /// The connection is gone, and its order with it.
    pub(super) fn forget(&self, user: u32, key: LaneKey) {
        let forgotten = self.0.state().orders.withdraw(&user, |(of, _)| *of == key);
        // Keys are wiped without the lock.
        drop(forgotten);
    }
}

impl<T> Drop for Opener<T> {
    fn drop(&mut self) {
        self.0.state().stop = true;
        self.0.changed.notify_one();
    }
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        // What a panicking thread left is whole: nothing in here is done by halves.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next order and its user, waited for; nothing when the service ends.
    fn next(&self) -> Option<(u32, (LaneKey, Work<T>))> {
        let idle = |state: &mut State<T>| state.orders.is_empty() && !state.stop;
        let mut state = self.state();
        state.at_work = false;
        state = self.changed.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        state.at_work = !state.stop;
        if state.stop { None } else { state.orders.next() }
    }
}
