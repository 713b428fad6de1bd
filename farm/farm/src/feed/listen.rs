//! Events over TCP.
//!
//! While too many events are read and not stored, the feeder reads nothing, and TCP makes the client wait. The client
//! receives `stored N` once all events up to its Nth are dealt with. Before that it receives `refused N WHY` or `shed
//! N` for each event that is not stored.

use super::input::{Asker, CHUNK, Found, InvalidInput};
use super::splitter::{Form, Record, Splitter};
use crate::args::Feed;
use crate::error::FarmError;
use crate::ids::Ids;
use rustix::fd::AsFd;
use rustix::net::sockopt;
use sidecore_terminal::output::tell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Lines about single events that wait for a client. A client that does not read them is disconnected.
const MAX_LINES: usize = 1_024;
const LINE_TIME: Duration = Duration::from_secs(10);
/// Keepalive of the kernel: silence before the first probe, time between probes, and their count.
const IDLE: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;
/// A peer that acknowledges nothing for this time is gone.
const UNANSWERED_MS: u32 = 60_000;
/// Pause after an error of accepting, e.g. when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Listen {
    listener: TcpListener,
    room: Arc<Semaphore>,
    shared: Arc<Shared>,
}

struct Shared {
    form: Form,
    limit: usize,
    event_time: Duration,
    ids: Ids,
    next: AtomicU64,
}

impl Listen {
    pub(super) async fn open(
        address: SocketAddr,
        args: &Feed,
        form: Form,
        limit: usize,
        ids: Ids,
    ) -> Result<Self, FarmError> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(FarmError::system(format!("cannot listen at {address}")))?;
        let at = listener.local_addr().unwrap_or(address);
        tell(format_args!("taking events at {at}"));
        let shared = Shared { form, limit, event_time: args.event_time, ids, next: AtomicU64::new(0) };
        Ok(Self { listener, room: Arc::new(Semaphore::new(args.connections.into())), shared: Arc::new(shared) })
    }

    /// A semaphore with one permit for each client that has not received its last line.
    pub(super) fn room(&self) -> Arc<Semaphore> {
        Arc::clone(&self.room)
    }

    pub(super) async fn run(self, give: Sender<Found>) -> Result<(), FarmError> {
        // Readers end with this set; writers end once all events of their clients are dealt with.
        let mut readers = JoinSet::new();
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tell(format_args!("cannot take a connection: {error}"));
                    sleep(PAUSE).await;
                    continue;
                }
            };
            // Fails if the connection has ended already.
            drop(find_dead(&stream));
            while readers.try_join_next().is_some() {}
            match Arc::clone(&self.room).try_acquire_owned() {
                Ok(room) => {
                    readers.spawn(connection(stream, Arc::clone(&self.shared), give.clone(), room));
                }
                // Its buffer is empty, so this never waits.
                Err(_) => {
                    drop(stream.try_write(b"refused 0 this feeder has as many connections as it may: try later\n"));
                }
            }
        }
    }
}

fn find_dead(stream: &impl AsFd) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, IDLE)?;
    sockopt::set_tcp_keepintvl(stream, INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    Ok(sockopt::set_tcp_user_timeout(stream, UNANSWERED_MS)?)
}

async fn connection(stream: TcpStream, shared: Arc<Shared>, give: Sender<Found>, room: OwnedSemaphorePermit) {
    let (input, output) = stream.into_split();
    let (lines, said) = channel(MAX_LINES);
    let (done, progress) = watch::channel(0);
    let asker = Arc::new(Asker { done, lines, deaf: Notify::new() });
    // The writer lives until all events of this client are dealt with.
    tokio::spawn(answer(output, progress, said, room));
    tokio::select! {
        () = read(input, &shared, &asker, give) => {}
        () = asker.deaf.notified() => {}
    }
}

async fn read(mut input: OwnedReadHalf, shared: &Shared, asker: &Arc<Asker>, give: Sender<Found>) {
    let mut splitter = Splitter::new(shared.form, shared.limit, 0);
    let mut number = 0;
    let mut begun = Instant::now();
    loop {
        while let Some(record) = splitter.cut() {
            number += 1;
            let Some(found) = found(record, number, shared, asker) else { return };
            if give.send(found).await.is_err() {
                return;
            }
            begun = Instant::now();
        }
        splitter.buffer.reserve(CHUNK);
        let partial = splitter.partial();
        let some = input.read_buf(&mut splitter.buffer);
        let read = if partial { timeout_at(begun + shared.event_time, some).await } else { Ok(some.await) };
        match read {
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(_)) if partial => {}
            Ok(Ok(_)) => begun = Instant::now(),
            Err(_) => {
                let most = shared.event_time;
                asker.refuse(format!("refused {} it was not whole {most:?} after it began\n", number + 1));
                return;
            }
        }
    }
    match splitter.end() {
        Ok(None) => {}
        Ok(Some(record)) => {
            if let Some(found) = found(record, number + 1, shared, asker) {
                drop(give.send(found).await);
            }
        }
        Err(why) => asker.refuse(format!("refused {} {why}\n", number + 1)),
    }
}

/// `None`: the client was sent the reason.
fn found(record: Record, number: u64, shared: &Shared, asker: &Arc<Asker>) -> Option<Found> {
    let body = match record {
        Record::Event(body) => Ok(body),
        Record::TooLarge(size) => Err(InvalidInput::TooLarge(size, shared.limit)),
        Record::Text => {
            asker.refuse(format!(
                "refused {number} text where an event's length should be: this feeder needs --lines for that\n"
            ));
            return None;
        }
    };
    let id = shared.ids.of_this_run(shared.next.fetch_add(1, Ordering::Relaxed));
    Some(Found { id, name: None, body, after: None, asker: Some((Arc::clone(asker), number)) })
}

/// Sends a client the outcome of its events. Lines about single events precede the number that covers them.
async fn answer(
    mut output: OwnedWriteHalf,
    mut progress: watch::Receiver<u64>,
    mut said: Receiver<String>,
    _room: OwnedSemaphorePermit,
) {
    loop {
        let line = tokio::select! {
            biased;
            Some(line) = said.recv() => line,
            changed = progress.changed() => match changed {
                Ok(()) => format!("stored {}\n", *progress.borrow_and_update()),
                Err(_) => break,
            },
        };
        if !matches!(timeout(LINE_TIME, output.write_all(line.as_bytes())).await, Ok(Ok(()))) {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_died_without_a_word_is_found_within_a_minute() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        find_dead(&accepted).unwrap();
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
        let probes = sockopt::tcp_keepcnt(&accepted).unwrap();
        let all = sockopt::tcp_keepidle(&accepted).unwrap() + sockopt::tcp_keepintvl(&accepted).unwrap() * probes;
        assert_eq!((all, sockopt::tcp_user_timeout(&accepted).unwrap()), (Duration::from_secs(60), 60_000));
    }
}
