//! Messages between control thread, sidecores and reapers, over channels, outside the hot path.

use super::sessions::Sessions;
use crate::device::{Blame, Said};
use crate::events::Loss;
use crate::shm::LaneMemory;
use sidecore_core::flag::Flag;
use sidecore_core::ring::{Consumer, Producer};
use sidecore_core::session::Refusal;
use sidecore_core::time::Nanos;
use sidecore_core::wire::Fault;
use sidecore_counters::LaneBlock;
use sidecore_daemon::sys::wake;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

/// Names a connection, and with it its lane, for the service's lifetime.
pub(super) type LaneKey = u64;

/// Names a client process: user and process number.
pub(super) type ClientKey = (u32, u32);

/// A lane as its sidecore knows it: the service's ends of both rings.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) key: LaneKey,
    pub(super) user: u32,
    pub(super) memory: Arc<LaneMemory>,
    pub(super) sessions: Sessions,
    pub(super) counters: LaneBlock,
    pub(super) consumer: Consumer,
    pub(super) producer: Producer,
    pub(super) doorbell: OwnedFd,
    pub(super) wake: OwnedFd,
    pub(super) refusals: Refusals,
}

/// Requests of a lane that were refused, for the log: one line a second at most leaves the sidecore.
#[derive(Debug, Default)]
pub(super) struct Refusals(Cell<(Nanos, u64)>);

impl Refusals {
    const EVERY: Nanos = 1_000_000_000;

    /// One more. `Some`: tell it, with this number of others since the last one that was told.
    pub(super) fn tell(&self, now: Nanos) -> Option<u64> {
        let (next, quiet) = self.0.get();
        let tells = now >= next;
        self.0.set(if tells { (now + Self::EVERY, 0) } else { (next, quiet + 1) });
        tells.then_some(quiet)
    }
}

/// Events for the control thread. They carry the rest of a lane, so that it is freed on another thread than a
/// sidecore's.
#[derive(Debug)]
pub(super) enum Event {
    Fault(LaneKey, Fault, Box<Lane>),
    /// The lane could not be taken: the tables are full.
    NoRoom(LaneKey, Box<Lane>),
    /// The sidecore does not serve the lane any more; `None` if it had ended the lane itself.
    LaneClosed(LaneKey, Option<Box<Lane>>),
    Freed(LaneKey),
    SessionClosed(LaneKey),
    Gateway(LaneKey, Said),
    DeviceLost {
        device: String,
        sidecore: usize,
        loss: Loss,
    },
    /// A request was refused, with the key at that place, after this number of others that were not told.
    RequestRefused(LaneKey, Option<u16>, Refusal, u64),
    /// Requests for the key at this place exceed its limit. At most one a second.
    KeyLimited(u16),
    WrongResult {
        device: String,
        blame: Blame,
    },
}

type Command<S> = Box<dyn FnOnce(&mut S) + Send>;

#[derive(Debug)]
pub(super) struct SidecoreHandle<S> {
    commands: Sender<Command<S>>,
    waiting: Arc<Flag>,
    wake: Arc<OwnedFd>,
}

#[derive(Debug)]
pub(super) struct Mailbox<S> {
    commands: Receiver<Command<S>>,
    waiting: Arc<Flag>,
}

pub(super) fn mailbox<S>(wake: Arc<OwnedFd>) -> (SidecoreHandle<S>, Mailbox<S>) {
    let (sender, commands) = mpsc::channel();
    let waiting = Arc::new(Flag::default());
    (SidecoreHandle { commands: sender, waiting: waiting.clone(), wake }, Mailbox { commands, waiting })
}

#[derive(Debug)]
pub(super) struct MailboxFlag(Arc<Flag>);

impl MailboxFlag {
    /// Whether commands wait. A client that has the control thread's answer must find the effect, so a sidecore
    /// checks before each request. The check reads one word that rarely changes.
    #[inline]
    pub(super) fn has_commands(&self) -> bool {
        self.0.is_up()
    }
}

impl<S> Mailbox<S> {
    pub(super) fn flag(&self) -> MailboxFlag {
        MailboxFlag(self.waiting.clone())
    }

    pub(super) fn take(&self) -> impl Iterator<Item = Command<S>> {
        self.waiting.lower();
        self.commands.try_iter()
    }
}

impl<S> SidecoreHandle<S> {
    pub(super) fn bell(&self) -> Arc<OwnedFd> {
        self.wake.clone()
    }

    /// A sidecore that is gone takes no commands; see `Service::is_alive`.
    pub(super) fn send(&self, command: impl FnOnce(&mut S) + Send + 'static) {
        if self.commands.send(Box::new(command)).is_ok() {
            self.waiting.raise();
            wake::ring(&*self.wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_once_a_second_with_the_number_of_those_between() {
        let refusals = Refusals::default();
        let second = Refusals::EVERY;
        assert_eq!(refusals.tell(5 * second), Some(0));
        assert!((0..9).all(|more| refusals.tell(5 * second + more).is_none()));
        assert_eq!(refusals.tell(6 * second), Some(9));
        assert_eq!((refusals.tell(6 * second + 1), refusals.tell(9 * second)), (None, Some(1)));
    }
}
