//! Moves datagrams from a ring to the kernel, in the service or in the program itself.

use crate::shm::BankMemory;
use crate::sys::udp::{self, Pieces};
use rustix::io::Errno;
use sidecore_streams::cursor::{Cursors, Fault};
use sidecore_streams::datagrams::{HEADER, MAX_RUN_DATAGRAMS, Run};
use sidecore_streams::layout::{HEAD, SHARED};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// Result of one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bytes of the ring that were moved.
    Moved(u32),
    /// Nothing was moved; the next call uses another way.
    Again,
    /// An error from the kernel, to be reported to the program. It belongs to an earlier datagram, or to one that is
    /// dropped; the rest of the ring remains valid.
    Noted(Errno),
    /// The kernel has no room now.
    Blocked,
}

/// State of moving one stream's datagrams.
#[derive(Debug)]
pub struct Mover {
    to: Option<SocketAddr>,
    /// One datagram per call: the kernel does not segment messages of this socket.
    alone: bool,
    failed: u8,
}

impl Mover {
    /// For a fresh stream, on a connected socket, or to this address.
    pub fn new(to: Option<SocketAddr>) -> Self {
        Self { to, alone: false, failed: 0 }
    }

    /// Receiver; `None`: the socket's peer.
    pub fn to(&self) -> Option<&SocketAddr> {
        self.to.as_ref()
    }

    /// Moves the first datagrams of this ring by one call. The caller holds the ring, and passes its present cursors.
    ///
    /// # Errors
    /// The ring's contents are malformed.
    pub fn step(&mut self, socket: impl AsFd, bank: &BankMemory, place: u32, cursors: &Cursors) -> Result<Step, Fault> {
        let most = if self.alone || self.failed > 1 { 1 } else { MAX_RUN_DATAGRAMS };
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
            // No checksums by the device, or a path with smaller packets. A datagram that is too large fails when it
            // is sent alone.
            Err(Errno::IO | Errno::INVAL | Errno::MSGSIZE) if segment.is_some() => {
                self.alone = true;
                Step::Again
            }
            Err(error) => {
                self.failed += 1;
                match (self.failed, run.count()) {
                    (1, _) => Step::Noted(error),
                    // A repeated error belongs to this datagram.
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
