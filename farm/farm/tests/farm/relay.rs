//! A relay to a NATS server: a test drops, delays and stops messages there.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Longest line of the protocol that is relayed, bytes.
const MAX_LINE_BYTES: u64 = 1 << 20;

#[derive(Debug, Default)]
struct Rules {
    /// Messages of this subject do not reach the client.
    unheard: Option<String>,
    /// No message to the server follows one whose subject has this prefix.
    last: Option<String>,
    held: bool,
    delay: Duration,
    /// Number of cuts. A change ends the connections.
    cuts: u64,
}

pub(crate) struct Relay {
    port: u16,
    rules: Arc<(Mutex<Rules>, Condvar)>,
}

impl Relay {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let rules = Arc::<(Mutex<Rules>, Condvar)>::default();
        let shared = rules.clone();
        // The thread ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    relay(&client, &server, &shared);
                }
            }
        });
        Self { port, rules }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) fn mute(&self, subject: &str) {
        self.set(|rules| rules.unheard = Some(subject.to_owned()));
    }

    /// Holds all messages to the server after one whose subject has this prefix.
    pub(crate) fn hold_after(&self, subject: &str) {
        self.set(|rules| rules.last = Some(subject.to_owned()));
    }

    pub(crate) fn is_holding(&self) -> bool {
        self.rules.0.lock().unwrap_or_else(PoisonError::into_inner).held
    }

    pub(crate) fn delay(&self, delay: Duration) {
        self.set(|rules| rules.delay = delay);
    }

    pub(crate) fn cut(&self) {
        self.set(|rules| rules.cuts += 1);
    }

    pub(crate) fn release(&self) {
        self.set(|rules| *rules = Rules { cuts: rules.cuts, ..Rules::default() });
    }

    fn set(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.rules.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.rules.1.notify_all();
    }
}

fn relay(client: &TcpStream, server: &TcpStream, rules: &Arc<(Mutex<Rules>, Condvar)>) {
    let cuts = rules.0.lock().unwrap_or_else(PoisonError::into_inner).cuts;
    for (from, to, to_server) in [(client, server, true), (server, client, false)] {
        let (from, to, rules) = (from.try_clone().unwrap(), to.try_clone().unwrap(), rules.clone());
        let (frames, late) = mpsc::channel();
        thread::spawn(move || {
            let _ = pass(&from, &frames, to_server, &rules, cuts);
            drop(from.shutdown(Shutdown::Both));
        });
        thread::spawn(move || {
            let _ = write_late(&to, &late);
            drop(to.shutdown(Shutdown::Both));
        });
    }
}

fn pass(
    from: &TcpStream,
    to: &mpsc::Sender<(Instant, Vec<u8>)>,
    to_server: bool,
    rules: &(Mutex<Rules>, Condvar),
    cuts: u64,
) -> io::Result<()> {
    // A timeout, so that a cut is noticed on an idle connection.
    from.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut from = BufReader::with_capacity(1 << 16, from);
    loop {
        let mut frame = Vec::new();
        let is_cut = || rules.0.lock().unwrap_or_else(PoisonError::into_inner).cuts != cuts;
        let Some(subject) = read(&mut from, &mut frame, is_cut)? else { return Ok(()) };
        let (lock, changed) = rules;
        let mut now = lock.lock().unwrap_or_else(PoisonError::into_inner);
        if to_server {
            while now.held && now.cuts == cuts {
                now = changed.wait(now).unwrap_or_else(PoisonError::into_inner);
            }
            now.held |= now.last.as_deref().is_some_and(|last| subject.starts_with(last));
        }
        if now.cuts != cuts {
            return Ok(());
        }
        let is_dropped = !to_server && now.unheard.as_deref() == Some(&subject);
        if !is_dropped && to.send((Instant::now() + now.delay, frame)).is_err() {
            return Ok(());
        }
    }
}

fn write_late(mut to: &TcpStream, frames: &mpsc::Receiver<(Instant, Vec<u8>)>) -> io::Result<()> {
    for (due, frame) in frames {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        to.write_all(&frame)?;
    }
    Ok(())
}

/// Reads a whole message of the protocol. Returns its subject, empty if it has none. `None`: the connection has ended.
fn read(
    from: &mut BufReader<&TcpStream>,
    frame: &mut Vec<u8>,
    is_cut: impl Fn() -> bool,
) -> io::Result<Option<String>> {
    if !patiently(&is_cut, || from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', frame).map(drop))?
        || frame.is_empty()
    {
        return Ok(None);
    }
    let line = String::from_utf8_lossy(frame).into_owned();
    let mut words = line.split_whitespace();
    let kind = words.next().unwrap_or_default();
    if !["PUB", "HPUB", "MSG", "HMSG"].contains(&kind.to_ascii_uppercase().as_str()) {
        return Ok(Some(String::new()));
    }
    let subject = words.next().unwrap_or_default().to_owned();
    let length: u64 = words.last().and_then(|length| length.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let whole = frame.len() + length as usize + 2;
    while frame.len() < whole {
        let rest = (whole - frame.len()) as u64;
        let before = frame.len();
        let goes_on = patiently(&is_cut, || from.by_ref().take(rest).read_to_end(frame).map(drop))?;
        if !goes_on || frame.len() == before {
            return Ok(None);
        }
    }
    Ok(Some(subject))
}

/// Repeats a read after timeouts. `false`: the connection was cut.
fn patiently(is_cut: impl Fn() -> bool, mut read: impl FnMut() -> io::Result<()>) -> io::Result<bool> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !is_cut() => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            done => return done.map(|()| true),
        }
    }
}
