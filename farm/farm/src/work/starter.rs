//! The thread that starts programs. A start waits until the new process has had a core. The node's main thread has no
//! time for that, because it sends a beat every few milliseconds.

use super::program::{end, end_group};
use crate::error::FarmError;
use rustix::process::Pid;
use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use tokio::sync::oneshot;

/// Its programs end with this thread.
pub(super) struct Starter(Sender<Order>);

struct Order {
    command: Command,
    started: oneshot::Sender<io::Result<Started>>,
}

/// A program that nobody has taken over yet. It ends with this: an event may be abandoned while its program starts.
struct Started(Option<Child>);

impl Drop for Started {
    fn drop(&mut self) {
        let Some(child) = self.0.take() else { return };
        // The process may need time to die, and the node must not wait. Without a thread the system reaps it at the end.
        end_group(Pid::from_child(&child));
        let _ = thread::Builder::new().name("reaper".to_owned()).spawn(move || end(child));
    }
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
        let mut started = child.await.map_err(|_| gone())??;
        started.0.take().ok_or_else(gone)
    }
}

fn obey(orders: &Receiver<Order>) {
    for Order { mut command, started } in orders {
        if started.is_closed() {
            continue;
        }
        let _ = started.send(command.spawn().map(|child| Started(Some(child))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::test_kill_process;
    use std::os::unix::process::CommandExt;
    use std::time::{Duration, Instant};

    #[test]
    fn a_program_that_nobody_took_over_ends() {
        let child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let process = Pid::from_child(&child);
        let (started, waits) = oneshot::channel();
        started.send(Started(Some(child))).map_err(drop).unwrap();
        drop(waits);
        let begun = Instant::now();
        while test_kill_process(process).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it lives on");
            thread::sleep(Duration::from_millis(2));
        }
    }
}
