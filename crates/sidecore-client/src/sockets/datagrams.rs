//! Moving datagrams of a ring to the kernel, which the service does, or the program for itself.

use crate::shm::BankMemory;
use crate::sys::udp::{self, Pieces};
use rustix::io::Errno;
use sidecore_core::streams::cursor::{Cursors, Fault};
use sidecore_core::streams::datagrams::{HEADER, MOST, Run};
use sidecore_core::streams::layout::{HEAD, SHARED};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// What one system call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many bytes of the ring are moved.
    Moved(u32),
    /// Nothing is moved; the next one does it in another way.
    Again,
    /// The kernel reported this, which the program is to be told. It is for what was sent before, or for a datagram that is
    /// dropped; what the ring holds goes on.
    Noted(Errno),
    /// The kernel takes nothing now.
    Blocked,
}

/// What one who moves a stream's datagrams remembers of it.
#[derive(Debug)]
pub struct Mover {
    /// To whom; `None`: the socket is connected.
    to: Option<SocketAddr>,
    /// The kernel cuts no messages of this socket.
    alone: bool,
    /// Calls that failed since something was moved.
    failed: u8,
}

impl Mover {
    /// Of a fresh stream, on a socket that is connected, or to that address.
    pub fn new(to: Option<SocketAddr>) -> Self {
        Self { to, alone: false, failed: 0 }
    }

    /// To whom its datagrams go; `None`: to the socket's peer.
    pub fn to(&self) -> Option<&SocketAddr> {
        self.to.as_ref()
    }

    /// Moves the first datagrams of that ring, which is held, by one call; the cursors are those that it has now.
    ///
    /// # Errors
    /// What the ring holds cannot be.
    pub fn step(&mut self, socket: impl AsFd, bank: &BankMemory, place: u32, cursors: &Cursors) -> Result<Step, Fault> {
        let most = if self.alone || self.failed > 1 { 1 } else { MOST };
        let run = Run::first(cursors, most, |extent| {
            let mut length = [0; HEADER as usize];
            bank.span(place, extent).copy_to(&mut length);
            u32::from_le_bytes(length)
        })?;
        let Some(run) = run else { return Ok(Step::Moved(0)) };
        let pieces = Pieces::new(run.payloads().map(|extent| bank.span(place, extent))).ok_or(Fault)?;
        let segment = u16::try_from(run.len()).ok().filter(|_| run.count() > 1);
        let moved = || bank.word(place, SHARED, HEAD).store(cursors.moved(run.ring_bytes()), Ordering::Release);
        Ok(match udp::send(socket, &pieces, segment, self.to.as_ref()) {
            Ok(()) => {
                moved();
                self.failed = 0;
                Step::Moved(run.ring_bytes())
            }
            Err(Errno::AGAIN) => Step::Blocked,
            // Without checksums by the device, or on a path with smaller packets. One that is too large is told alone.
            Err(Errno::IO | Errno::INVAL | Errno::MSGSIZE) if segment.is_some() => {
                self.alone = true;
                Step::Again
            }
            Err(error) => {
                self.failed += 1;
                match (self.failed, run.count()) {
                    (1, _) => Step::Noted(error),
                    // Once more, and it is for this datagram.
                    (_, 1) => {
                        moved();
                        self.failed = 0;
                        Step::Noted(error)
                    }
                    _ => Step::Again,
                }
            }
        })
    }
}
