//! The program that `cargo xtask count` runs under callgrind for programs: small messages into a ring of the service of
//! sockets, as the preloaded library offers them. Only the rounds after a few are instrumented.

use sidecore_core::policy::notify::Notify;
use sidecore_ipc::shm::span::Span;
use sidecore_sockets::program::{Candidate, Process, promote};
use sidecore_sockets::protocol::{Report, SOCKET_VARIABLE};
use sidecore_sockets::stream::{Offered, Sent, Stream};
use sidecore_sockets::sys::signals_blocked::SignalsBlocked;
use sidecore_sockets_service::{Config, NotifyConfig, Sockets};
use sidecore_streams::rule::PathReason;
use sidecore_streams::slot::{Key, SlotWord};
use sidecore_testing::sys;
use std::error::Error;
use std::hint::black_box;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::thread;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Rounds before the first counted one.
const WARM_UP: u32 = 8;
/// Interval of the program's looks: the sidecore is done within it, too.
const NAP: Duration = Duration::from_millis(5);
const PAYLOAD: usize = 64;
/// Naps before giving up on a service that valgrind slows down.
const TRIES: u32 = 12_000;

/// Called with the number of rounds to count, and how many messages a round has.
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rounds, depth] = arguments.as_slice() else { return Err("run it by `cargo xtask count`".into()) };
    sends(rounds.parse()?, depth.parse()?)
}

/// Rounds of `depth` messages. After each the program sleeps until the ring is empty, so that all of the next one
/// fit.
fn sends(rounds: u32, depth: u32) -> Result<()> {
    let socket = std::env::var_os(SOCKET_VARIABLE).ok_or("no socket is named for the service")?.into();
    let notify = NotifyConfig { service: Notify::Park };
    let config = Config { notify, socket, ..Config::default() };
    let _service = Sockets::start(&config)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let connection = TcpStream::connect(listener.local_addr()?)?;
    let (mut peer, _) = listener.accept()?;
    let reader = thread::spawn(move || io::copy(&mut peer, &mut io::sink()));
    let slot = SlotWord::new();
    slot.make();
    let key = Key::new(connection.as_raw_fd().cast_unsigned(), slot.look().ticket());
    let stream = promoted(connection.as_fd(), key)?;
    let mut message = [7; PAYLOAD];
    for round in 0..WARM_UP + rounds {
        wake(stream, key, &mut message)?;
        if round >= WARM_UP {
            sys::start_instrumentation();
        }
        for _ in 0..depth {
            let piece = Span::of(black_box(&mut message));
            if stream.offer(key, piece, false) != Offered::Taken {
                // The sidecore has emptied the ring, and sleeps.
                sys::stop_instrumentation();
                wake(stream, key, &mut message)?;
                if round >= WARM_UP {
                    sys::start_instrumentation();
                }
            }
        }
        // The number of looks until all is moved varies, and is not counted.
        sys::stop_instrumentation();
        while stream.waiting(key) > 0 {
            thread::sleep(NAP);
        }
    }
    let (_, sent) = stream.settle(key, true);
    sent.ok_or("the kernel counts other bytes than were sent")?;
    connection.shutdown(std::net::Shutdown::Write)?;
    reader.join().map_err(|_| "the peer failed")??;
    Ok(())
}

/// Sends until the sidecore is awake: until a message waits for it.
fn wake(stream: &Stream, key: Key, message: &mut [u8]) -> Result<()> {
    for _ in 0..TRIES {
        let piece = Span::of(message);
        let len = piece.len();
        if stream.send(key, [piece].into_iter(), len, false, false) != Sent::Taken(len) {
            return Err("a message was not taken".into());
        }
        if stream.waiting(key) > 0 {
            return Ok(());
        }
    }
    Err("no message wakes the sidecore".into())
}

fn promoted(connection: BorrowedFd<'_>, key: Key) -> Result<&'static Stream> {
    let candidate = Candidate { socket: connection, key, to: None, sent: None };
    let process = Process { may_prepare: || true, sends_unseen: || false, sockets: Report::default, tick: || () };
    for _ in 0..TRIES {
        match promote(&candidate, process, &SignalsBlocked::new()) {
            Err(PathReason::Few | PathReason::NoService) => thread::sleep(NAP),
            other => return Ok(other.map_err(PathReason::words)?),
        }
    }
    Err("the service of sockets does not answer".into())
}
