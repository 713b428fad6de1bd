//! The thread that starts programs. A start waits until the new process has had a core. The node's main thread has no
//! time for that, because it sends a beat every few milliseconds.

use super::program::end;
use crate::error::FarmError;
use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use tokio::sync::oneshot;

/// Its programs end with this thread.
pub(super) struct Starter(Sender<Order>);

struct Order {
    command: Command,
    started: oneshot::Sender<io::Result<Child>>,
}

impl Starter {
    pub(super) fn new() -> Result<Self, FarmError> {
        let (orders, taken) = channel();
        let thread = thread::Builder::new().name("starter".to_owned()).spawn(move || obey(&taken));
        thread.map(|_| Self(orders)).map_err(FarmError::system("cannot start a thread"))
    }

    pub(super) async fn start(&self, command: Command) -> io::Result<Child> {
        let (started, child) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts programs has ended");
        self.0.send(Order { command, started }).map_err(|_| gone())?;
        child.await.map_err(|_| gone())?
    }
}

fn obey(orders: &Receiver<Order>) {
    for Order { mut command, started } in orders {
        if started.is_closed() {
            continue;
        }
        if let Err(Ok(child)) = started.send(command.spawn()) {
            // Its event was abandoned meanwhile.
            end(child);
        }
    }
}
