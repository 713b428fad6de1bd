//! Whether a path is still there after it was changed, and whether somebody is there to say so.

use crate::interrupt::Interrupt;
use crate::net::measure::find_peer;
use crate::net::protocol::{Direction, Load, Serving, Transport};
use crate::output;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the peer may take to answer.
const REACH: Duration = Duration::from_secs(10);
/// How long somebody may take to confirm.
const CONFIRMATION: Duration = Duration::from_secs(60);
/// How often to look for an interrupt.
const LOOK: Duration = Duration::from_millis(100);

/// A new connection to the peer is made, and answers come over it.
///
/// # Errors
/// None does in time.
pub(super) fn reaches(peer: &str) -> Result<(), String> {
    let (say, hear) = mpsc::channel();
    let peer = peer.to_owned();
    thread::spawn(move || say.send(round_trips(&peer)));
    hear.recv_timeout(REACH).unwrap_or_else(|_| Err("the peer did not answer within 10 s".to_owned()))
}

fn round_trips(peer: &str) -> Result<(), String> {
    let load = Load {
        transport: Transport::Tcp,
        direction: Direction::RoundTrip,
        // Larger than any packet that is tried.
        size: 1 << 16,
        connections: 1,
        rate: None,
        serving: Serving::default(),
    };
    let mut path = find_peer(peer)?;
    let mut running = path.begin(&load)?;
    let until = Instant::now() + REACH;
    while running.count()?.near.received.messages == 0 {
        if Instant::now() > until {
            return Err("no answer came from the peer".to_owned());
        }
        thread::sleep(LOOK);
    }
    running.end().map(drop)
}

/// Somebody types Enter.
///
/// # Errors
/// Nobody does, in time or at all.
pub(super) fn asks(interrupt: &Interrupt) -> Result<(), String> {
    output::tell("The settings are changed. Press Enter within 60 s to keep them.");
    let (say, hear) = mpsc::channel();
    // It ends with the process if nobody types anything.
    thread::spawn(move || {
        let mut line = String::new();
        say.send(io::stdin().read_line(&mut line).is_ok_and(|read| read > 0))
    });
    let until = Instant::now() + CONFIRMATION;
    while Instant::now() < until && !interrupt.came() {
        match hear.recv_timeout(LOOK) {
            Ok(true) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
            Ok(false) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Err("nobody confirmed it".to_owned())
}
