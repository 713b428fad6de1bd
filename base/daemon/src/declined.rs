//! Closing of declined connections, in a bounded number and a bounded time.
//!
//! A message on one may hold descriptors, and closing the last reference to a TCP socket takes as long as its maker
//! chooses, since it may linger. The kernel lets no socket linger for a task that is ending. So such connections are
//! closed by a thread that ends, in a table of descriptors of its own, and a silent one is closed immediately. Before
//! Linux 5.9 there is no such table, and the thread closes them directly. A listener pauses while
//! [`Declined::is_full`].

use crate::sys::packet::MAX_PACKET;
use crate::sys::{message, own_descriptors};
use rustix::net::Shutdown;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// Messages of a connection that are searched for descriptors.
const MAX_MESSAGES: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct Declined {
    state: Arc<Mutex<DeclinedState>>,
    most: usize,
}

#[derive(Debug, Default)]
struct DeclinedState {
    waiting: Vec<OwnedFd>,
    closing: usize,
    served: bool,
}

impl Declined {
    pub(crate) fn new(most: usize) -> Self {
        Self { state: Arc::default(), most }
    }

    /// Whether one more would be too many. Starts a thread if none runs.
    pub(crate) fn is_full(&self) -> bool {
        self.start();
        let state = self.state();
        state.waiting.len() + state.closing >= self.most
    }

    pub(crate) fn close(&self, socket: OwnedFd) {
        if may_hold_descriptors(&socket) {
            self.state().waiting.push(socket);
            self.start();
        }
    }

    fn state(&self) -> MutexGuard<'_, DeclinedState> {
        // State after a panic is consistent: no change is left half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) {
        let mut state = self.state();
        if state.served || state.waiting.is_empty() {
            return;
        }
        let declined = self.clone();
        // The system may refuse a thread now and grant it next time.
        state.served = Builder::new().name("sidecore-declined".to_owned()).spawn(move || declined.work()).is_ok();
    }

    fn work(&self) {
        loop {
            let batch = {
                let mut state = self.state();
                state.closing = state.waiting.len();
                state.served = state.closing > 0;
                std::mem::take(&mut state.waiting)
            };
            if batch.is_empty() {
                return;
            }
            close_in_an_ending_thread(batch);
        }
    }
}

/// Closes the sockets by the end of a thread that shares them in its own table.
fn close_in_an_ending_thread(sockets: Vec<OwnedFd>) {
    let (tell, has_own) = mpsc::channel();
    let (may_end, ends) = mpsc::channel::<()>();
    let ending = Builder::new().name("sidecore-ending".to_owned()).spawn(move || {
        if tell.send(own_descriptors().is_ok()).is_ok() {
            // Until the other end is dropped.
            let _ = ends.recv();
        }
    });
    let _ = ending.is_ok() && has_own.recv().is_ok();
    drop(sockets);
    drop(may_end);
}

/// Whether a message on a connection may hold descriptors. Shuts the connection, so no further message arrives.
pub(crate) fn may_hold_descriptors(socket: &OwnedFd) -> bool {
    if rustix::net::shutdown(socket, Shutdown::Read).is_err() {
        return true;
    }
    let mut buffer = [0; MAX_PACKET];
    for _ in 0..MAX_MESSAGES {
        match message::receive(socket, &mut buffer) {
            // A message without content still has a sender.
            Ok(heard) if heard.len == 0 && heard.speaker.is_none() => return false,
            Ok(_) => {}
            // The program ended without reading that it is declined. Its earlier messages come next.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
    true
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sys::packet::send;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
    use sidecore_testing::lingering;
    use std::io::Read;
    use std::net::TcpStream;
    use std::os::fd::AsFd;
    use std::time::Duration;

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// A thread with a copy of the table of descriptors keeps open what other tests close. They take turns with its tests.
    pub(crate) fn without_copies() -> MutexGuard<'static, ()> {
        static COPIES: Mutex<()> = Mutex::new(());
        COPIES.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pair() -> (OwnedFd, OwnedFd) {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        sockopt::set_socket_passcred(&ours, true).unwrap();
        (ours, theirs)
    }

    #[test]
    fn sockets_that_linger_for_a_day_are_all_closed_at_once() {
        let _turn = without_copies();
        let declined = Declined::new(4);
        let peers: Vec<TcpStream> = (0..100)
            .map(|_| {
                let ((ours, theirs), (here, there)) = (pair(), lingering());
                send(&theirs, b"take this", &[here.as_fd()]).unwrap();
                drop(here);
                while declined.is_full() {
                    std::thread::yield_now();
                }
                declined.close(ours);
                there
            })
            .collect();
        for mut peer in peers {
            peer.set_read_timeout(Some(TIMEOUT)).unwrap();
            // Messages sent before the end, and then the end: no reference to the socket is left.
            assert!(peer.read_to_end(&mut Vec::new()).is_ok(), "its other end is still open");
        }
        while declined.state().closing > 0 {
            std::thread::yield_now();
        }
        assert!(!declined.is_full() && !declined.state().served);
    }

    #[test]
    fn what_says_nothing_is_closed_at_once_and_what_is_too_much_is_seen() {
        let _turn = without_copies();
        let declined = Declined::new(1);
        for said in [0, 1, MAX_MESSAGES - 1] {
            let (ours, theirs) = pair();
            (0..said).for_each(|_| send(&theirs, b"hello", &[]).unwrap());
            declined.close(ours);
            assert!(!declined.is_full() && send(&theirs, b"x", &[]).is_err(), "{said}");
        }
        let (ours, theirs) = pair();
        (0..MAX_MESSAGES).for_each(|_| send(&theirs, b"hello", &[]).unwrap());
        assert!(may_hold_descriptors(&ours), "it is not read without end");
    }
}
