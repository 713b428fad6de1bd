//! A minimal HTTP server for scrapers: one request a connection, with limits on size, time and number. A connection
//! beyond the limit ends the oldest, so idle clients keep no scraper out.

use super::format::Format;
use crate::error::TerminalError;
use nix::errno::Errno;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most connections at a time; with one more, the oldest is closed.
const CONNECTIONS: usize = 16;
/// Threads, including those of ended connections: a thread that makes a page cannot be stopped.
const THREADS: usize = 2 * CONNECTIONS;
/// Longest request, bytes.
const REQUEST: usize = 8 * 1024;
const HEADERS: usize = 64;
/// Lifetime of a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// Code and reason.
    pub status: &'static str,
    /// Content type.
    pub kind: &'static str,
    /// The page.
    pub body: String,
}

impl Answer {
    /// One line of text.
    pub fn text(status: &'static str, body: &str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: body.to_owned() }
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    patience: Duration,
}

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Without its query.
    pub path: String,
    /// The format of metrics.
    pub format: Format,
    head_only: bool,
}

/// Served connections, the oldest first. The condition variable is notified when one ends.
#[derive(Debug, Default)]
struct Open(Mutex<(u64, VecDeque<Served>)>, Condvar);

#[derive(Debug)]
struct Served {
    number: u64,
    stream: TcpStream,
    /// It was shut down. Its thread may still make a page.
    is_over: bool,
}

impl Open {
    /// Adds a connection and returns its number. The oldest makes room. With [`THREADS`] threads it waits for one to
    /// end.
    fn enter(&self, stream: &TcpStream) -> io::Result<u64> {
        let stream = stream.try_clone()?;
        let is_full = |open: &mut (u64, VecDeque<Served>)| open.1.len() >= THREADS;
        let mut open = self.1.wait_while(self.lock(), is_full).unwrap_or_else(PoisonError::into_inner);
        let (last, served) = &mut *open;
        let count = served.iter().filter(|one| !one.is_over).count();
        if let Some(oldest) = served.iter_mut().find(|one| !one.is_over).filter(|_| count >= CONNECTIONS) {
            oldest.is_over = true;
            // The peer may have closed it.
            let _ = oldest.stream.shutdown(Shutdown::Both);
        }
        *last += 1;
        served.push_back(Served { number: *last, stream, is_over: false });
        Ok(*last)
    }

    fn leave(&self, number: u64) {
        self.lock().1.retain(|other| other.number != number);
        self.1.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, (u64, VecDeque<Served>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Connection {
    stream: TcpStream,
    until: Instant,
}

impl Server {
    /// Listens at this address.
    ///
    /// # Errors
    /// The address is in use, or not of this machine.
    pub fn bind(address: SocketAddr) -> Result<Self, TerminalError> {
        let listener = TcpListener::bind(address).map_err(|error| TerminalError::Listen(address, error))?;
        Ok(Self { listener, patience: PATIENCE })
    }

    /// Limits the lifetime of connections; 5 s by default.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0; 4], 0)))
    }

    /// Serves forever. `page` makes the answers.
    ///
    /// # Errors
    /// The socket takes no connections any more.
    pub fn run(&self, page: &(impl Fn(&Wanted) -> Answer + Sync)) -> Result<(), TerminalError> {
        let open = Open::default();
        std::thread::scope(|scope| {
            loop {
                match self.listener.accept() {
                    Ok((stream, _)) => {
                        let (open, until) = (&open, Instant::now() + self.patience);
                        // Without a descriptor for this connection there is none for further ones.
                        let Ok(number) = open.enter(&stream) else { continue };
                        scope.spawn(move || {
                            // The error concerns only this client.
                            let _ = Connection { stream, until }.serve(page);
                            open.leave(number);
                        });
                    }
                    Err(error) if is_passing(&error) => std::thread::sleep(Duration::from_millis(10)),
                    Err(error) => return Err(TerminalError::Accept(error)),
                }
            }
        })
    }
}

/// True if a later connection may work: this one was aborted, or descriptors or memory are short.
fn is_passing(error: &io::Error) -> bool {
    use Errno::{ECONNABORTED, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM, EPERM, EPROTO};
    let passing = [ECONNABORTED, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM, EPERM, EPROTO];
    error.raw_os_error().is_some_and(|code| passing.contains(&Errno::from_raw(code)))
}

impl Connection {
    fn serve(mut self, page: &impl Fn(&Wanted) -> Answer) -> io::Result<()> {
        let (answer, head_only) = match self.request()? {
            Ok(wanted) => (page(&wanted), wanted.head_only),
            Err(refusal) => (refusal, false),
        };
        let allow = if answer.status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Vary: Accept\r\nConnection: close\r\n\r\n",
            answer.status,
            answer.kind,
            answer.body.len()
        );
        self.send(head.as_bytes())?;
        if !head_only {
            self.send(answer.body.as_bytes())?;
        }
        self.stream.shutdown(Shutdown::Write)
    }

    fn request(&mut self) -> io::Result<Result<Wanted, Answer>> {
        let (mut bytes, mut len) = ([0; REQUEST], 0);
        while len < REQUEST {
            self.stream.set_read_timeout(Some(self.left()?))?;
            match self.stream.read(&mut bytes[len..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => len += more,
            }
            if let Some(request) = parse(&bytes[..len]) {
                return Ok(request);
            }
        }
        Ok(Err(Answer::text("431 Request Header Fields Too Large", "the request is too long\n")))
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(self.left()?))?;
            match self.stream.write(bytes)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                sent => bytes = &bytes[sent..],
            }
        }
        Ok(())
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// `None`: the request is not whole yet.
fn parse(bytes: &[u8]) -> Option<Result<Wanted, Answer>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(error) => return Some(Err(Answer::text("400 Bad Request", &format!("{error}\n")))),
    }
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    let path = target.split_once('?').map_or(target, |(path, _)| path).to_owned();
    let accept = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let accept: Vec<_> = accept.map(|header| String::from_utf8_lossy(header.value)).collect();
    let format = Format::accepted(&accept.join(","));
    Some(match method {
        "GET" | "HEAD" => Ok(Wanted { path, format, head_only: method == "HEAD" }),
        _ => Err(Answer::text("405 Method Not Allowed", "use GET\n")),
    })
}
