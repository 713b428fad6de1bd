//! Questions to a service of sockets: whether a trusted one listens, and which sockets it knows.

use super::protocol::{Ask, DEFAULT_SERVICE_USER, RefusalCode, Refused, Reply, Row};
use sidecore_core::time::Nanos;
use sidecore_ipc::environment::service_users_or;
use sidecore_ipc::message::{decode, encode};
use sidecore_ipc::sys::packet::{MAX_PACKET, connect_own, receive, send};
use sidecore_ipc::sys::verified_fd::{VerifiedFd, closed};
use sidecore_ipc::sys::{clock, peer, poll};
use sidecore_ipc::trust::{is_trusted, number_of, refused};
use sidecore_ipc::versions::SIDECORE;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Time limit for the service to accept, and to answer, ns.
const REPLY_TIMEOUT_NS: Nanos = 2_000_000_000;
/// Limit of pages of one list: guards against an endless one.
const MAX_PAGES: usize = 1 << 16;
/// Time for programs to report, ns, and the first pause between two attempts, which doubles.
const REPORTS: Nanos = 50_000_000;
const PAUSE: Duration = Duration::from_millis(1);

/// Users whose service this process trusts, except root and its own user, by number: for a program that cannot look up
/// names. Unknown names are omitted.
pub fn trusted_users() -> String {
    let users = service_users_or(DEFAULT_SERVICE_USER);
    let numbers = users.iter().filter_map(|user| number_of(user)).map(|number| number.to_string());
    numbers.collect::<Vec<_>>().join(",")
}

/// Checks that a trusted service accepts programs at this socket.
///
/// # Errors
/// None does, this user may not connect to it, or its user is not trusted.
pub fn listens(socket: &Path) -> io::Result<()> {
    connect(socket, &service_users_or(DEFAULT_SERVICE_USER), REPLY_TIMEOUT_NS).map(drop)
}

/// Connects to the service of root, of the own user or of one of `users`. `timeout`: ns.
///
/// # Errors
/// As for [`listens`].
pub(super) fn connect(socket: &Path, users: &[String], timeout: Nanos) -> io::Result<VerifiedFd> {
    let service = connect_own(socket, clock::now().saturating_add(timeout)).map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => refused(socket, error),
        _ => error,
    })?;
    // The service will receive programs' sockets, so not every listener will do.
    let user = peer::credentials(service.get().ok_or_else(closed)?)?.uid;
    if is_trusted(user, users) {
        return Ok(service);
    }
    let foreign = format!(
        "it is that of user {user}, who is neither root nor its caller, and is not named in SIDECORE_SERVICE_USER"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, foreign))
}

/// Reason for having no list of sockets.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// No trusted service answers.
    #[error(
        "no service of sockets at {}: {error}; start one with `sidecore sockets serve`, or name its socket in \
         SIDECORE_SOCKETS",
        .socket.display()
    )]
    NoService {
        /// The service's socket.
        socket: PathBuf,
        /// The error of the connection or of the answer.
        error: io::Error,
    },
    /// The service refuses, for this reason.
    #[error("the service of sockets gives no list: {0}")]
    Refused(Refused),
    /// The answer is of another version.
    #[error(
        "no list came, the service is of another version than this command (sidecore {SIDECORE}): restart it after an upgrade or rollback"
    )]
    Version,
}

/// A list of sockets, including fresh reports of programs.
#[derive(Debug)]
pub struct List {
    /// As for [`rows`].
    pub rows: Vec<Row>,
    /// Sockets in no ring above the limit of a program's report.
    pub others: u64,
}

/// As [`rows`], after programs have reported their sockets in no ring. For a program that does not answer in time, the
/// list has its previous report.
///
/// # Errors
/// As for [`rows`].
pub fn list(socket: &Path) -> Result<List, ListError> {
    let until = clock::now().saturating_add(REPORTS);
    let (mut pending, mut others) = reports(socket, true)?;
    let mut pause = PAUSE;
    while pending > 0 && clock::now() < until {
        thread::sleep(pause.min(Duration::from_nanos(until.saturating_sub(clock::now()))));
        pause *= 2;
        (pending, others) = reports(socket, false)?;
    }
    Ok(List { rows: rows(socket)?, others })
}

fn reports(socket: &Path, fresh: bool) -> Result<(u32, u64), ListError> {
    match answer(socket, &Ask::Reports { fresh })? {
        Reply::Reports { pending, others } => Ok((pending, others)),
        reply => Err(no_list(reply)),
    }
}

/// The sockets of this user's programs; for root those of all users. Each page is a separate question: a socket opened
/// or closed in between may be missing, and any other is listed once.
///
/// # Errors
/// No service answers, or it refuses.
pub fn rows(socket: &Path) -> Result<Vec<Row>, ListError> {
    let (mut rows, mut from) = (Vec::new(), 0);
    for _ in 0..MAX_PAGES {
        let (page, next) = page(socket, from)?;
        rows.extend(page);
        match next {
            Some(next) if next > from => from = next,
            _ => break,
        }
    }
    Ok(rows)
}

fn page(socket: &Path, from: u64) -> Result<(Vec<Row>, Option<u64>), ListError> {
    match answer(socket, &Ask::List { from })? {
        Reply::Sockets { rows, next } => Ok((rows, next)),
        reply => Err(no_list(reply)),
    }
}

fn no_list(reply: Reply) -> ListError {
    match reply {
        Reply::Refused(Refused { code: RefusalCode::OtherVersion | RefusalCode::Protocol, .. }) => ListError::Version,
        Reply::Refused(refused) => ListError::Refused(refused),
        Reply::NoBank(why) => ListError::Refused(Refused::other(why)),
        _ => ListError::Version,
    }
}

fn answer(socket: &Path, question: &Ask) -> Result<Reply, ListError> {
    ask(socket, question).map_err(|error| ListError::NoService { socket: socket.to_owned(), error })
}

fn ask(socket: &Path, question: &Ask) -> io::Result<Reply> {
    let service = connect(socket, &service_users_or(DEFAULT_SERVICE_USER), REPLY_TIMEOUT_NS)?.into_owned()?;
    let mut buffer = [0; MAX_PACKET];
    send(&service, encode(question, &mut buffer).map_err(io::Error::other)?, &[])?;
    if !poll::wait_readable(service.as_fd(), Some(REPLY_TIMEOUT_NS))? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    match receive(&service, &mut buffer)? {
        (0, _) => Err(io::ErrorKind::ConnectionReset.into()),
        (len, _) => decode(&buffer[..len])
            .map_err(|_| io::Error::other("what answers is another service, or of another version")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::MAX_ROWS;
    use rustix::net::{SocketAddrUnix, accept, bind, listen};
    use sidecore_ipc::sys::packet;
    use std::thread;

    fn row(number: usize) -> Row {
        Row {
            serial: number as u32,
            pid: number as u32,
            uid: 0,
            program: "test".to_owned(),
            place: number as u32,
            stream: 1,
            descriptor: 3,
            open: false,
            peer: None,
            why: 1,
            messages: 1,
            kernel_messages: 0,
            kernel_bytes: None,
            bytes: 64,
            transfers: 1,
            drains: 0,
            waiting: 0,
            saved_ns: None,
            gone_ns: None,
        }
    }

    fn answers(listener: impl AsFd, questions: usize, reply: impl Fn(Ask) -> Reply) {
        for _ in 0..questions {
            let program = accept(&listener).unwrap();
            let mut buffer = [0; MAX_PACKET];
            let (len, _) = receive(&program, &mut buffer).unwrap();
            let reply = reply(decode(&buffer[..len]).unwrap());
            send(&program, encode(&reply, &mut buffer).unwrap(), &[]).unwrap();
        }
    }

    fn limited(_: Ask) -> Reply {
        Reply::Refused(Refused::limit("not now"))
    }

    fn without_a_code(_: Ask) -> Reply {
        Reply::NoBank("not now".to_owned())
    }

    fn foreign(_: Ask) -> Reply {
        Reply::Refused(Refused::protocol("no message of this protocol"))
    }

    #[test]
    fn all_pages_are_asked_for_and_reasons_are_told() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("socket");
        assert!(listens(&path).is_err());
        assert!(rows(&path).unwrap_err().to_string().contains("sidecore sockets serve"));
        let listener = packet::socket().unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 8).unwrap();
        let all: Vec<Row> = (0..MAX_ROWS + 7).map(row).collect();
        let page = |asked: Ask| match asked {
            Ask::List { from } => {
                let next = from + MAX_ROWS as u64;
                let rows = all.iter().skip(from as usize).take(MAX_ROWS).cloned().collect();
                Reply::Sockets { rows, next: (next < all.len() as u64).then_some(next) }
            }
            other => panic!("{other:?}"),
        };
        thread::scope(|scope| {
            let service = scope.spawn(|| answers(&listener, 2, page));
            assert_eq!(rows(&path).unwrap(), all);
            service.join().unwrap();
            let service = scope.spawn(|| answers(&listener, 2, |_| Reply::Sockets { rows: Vec::new(), next: Some(5) }));
            assert_eq!(rows(&path).unwrap(), [], "who is sent back and forth has seen all");
            service.join().unwrap();
            for refusal in [limited as fn(Ask) -> Reply, without_a_code] {
                let service = scope.spawn({
                    let listener = &listener;
                    move || answers(listener, 1, refusal)
                });
                assert!(rows(&path).unwrap_err().to_string().ends_with("no list: not now"));
                service.join().unwrap();
            }
            let service = scope.spawn(|| answers(&listener, 1, foreign));
            assert!(matches!(rows(&path), Err(ListError::Version)));
            service.join().unwrap();
        });
    }
}
