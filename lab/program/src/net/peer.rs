//! The peer: serves loads for other processes, each over its own connection.
//!
//! Strangers may connect as well. So requests are limited in number, size and time, and traffic goes only to the
//! requesting address.

mod client_slots;
mod log;

use super::error::LoadError;
use super::flow::{Connection, Flow, Side, choose_cpus};
use super::protocol::{Answer, Ask, Control, Direction, Load, MAX_ASK, Transport, VERSION, Window, not_understood};
use super::why::look::Look;
use client_slots::ClientSlots;
use log::Log;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

const LINES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);
/// Longest silence of a client. Its load ends then.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest load that the client ends. A load with a window ends by itself.
const MAX_LOAD_TIME: Duration = Duration::from_secs(600);
/// Longest wait for the connections of a load: a path that loses packets needs time.
const ARRIVAL: Duration = Duration::from_secs(6);
/// Longest wait for the token of a new connection: TCP's third try.
const SHOW: Duration = Duration::from_secs(2);
/// Traffic after a window until the client requests the counts: its own window may end later. Limited, because this
/// traffic may delay the request.
const LINGER: Duration = Duration::from_secs(2);
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
const TOKEN: usize = size_of::<u64>();

pub(super) fn serve(listener: &TcpListener) -> io::Result<()> {
    let (slots, log, own_log) = (ClientSlots::default(), Log::new(LINES), Log::new(1));
    loop {
        let begun = listener.accept().and_then(|(connection, from)| begin(connection, from, &slots, &log));
        match begun {
            Ok(()) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBADF | libc::EINVAL | libc::ENOTSOCK)) => {
                return Err(error);
            }
            // The connection broke, or the system has no room temporarily. Other loads continue.
            Err(error) => {
                own_log.say(format!("cannot take a near end now: {error}"));
                thread::sleep(PAUSE);
            }
        }
    }
}

fn begin(connection: TcpStream, from: SocketAddr, slots: &ClientSlots, log: &Log) -> io::Result<()> {
    let slot = match slots.take(from.ip()) {
        Ok(slot) => slot,
        Err(why) => return refuse_at_once(&connection, why),
    };
    let log = log.clone();
    let serves = move || {
        let _slot = slot;
        if let Err(error) = session(connection) {
            log.say(format!("{from}: {error}"));
        }
    };
    thread::Builder::new().name("near end".to_owned()).spawn(serves).map(drop)
}

/// Does not wait: a new connection has room for the line, or its client is gone.
fn refuse_at_once(mut connection: &TcpStream, why: &str) -> io::Result<()> {
    connection.set_nonblocking(true)?;
    let mut line = serde_json::to_vec(&Answer::Refused(why.to_owned()))?;
    line.push(b'\n');
    let _ = connection.write(&line);
    Ok(())
}

fn refuse(control: &mut Control, why: &str) -> io::Result<()> {
    control.say(&Answer::Refused(why.to_owned()))
}

fn session(connection: TcpStream) -> io::Result<()> {
    let control = &mut Control::new(connection, CLIENT_TIMEOUT, MAX_ASK)?;
    while let Some(asked) = control.hear::<Value>()? {
        // The rest of another version's request may be unknown to this version.
        if let Some(version) = asked["Begin"]["version"].as_u64().filter(|version| *version != u64::from(VERSION)) {
            return refuse(control, &other_version(version));
        }
        match serde_json::from_value(asked).map_err(|error| not_understood(&error))? {
            Ask::Begin { load, cpus, window, .. } => match check(&load, cpus, window) {
                Ok(cpus) => run(control, &load, &cpus, window)?,
                // Another load may succeed.
                Err(why) => refuse(control, &why.to_string())?,
            },
            Ask::Count | Ask::Look | Ask::End | Ask::Go => return refuse(control, "no load has begun"),
        }
    }
    Ok(())
}

fn other_version(there: u64) -> String {
    format!(
        "this peer speaks version {VERSION} of the protocol, and the near end version {there}: \
         install the same sidecore at both ends"
    )
}

fn check(load: &Load, cpus: Option<usize>, window: Option<Window>) -> Result<Vec<usize>, LoadError> {
    load.check()?;
    window.map_or(Ok(()), Window::check)?;
    choose_cpus(Side::Far, cpus)
}

fn run(control: &mut Control, load: &Load, cpus: &[usize], window: Option<Window>) -> io::Result<()> {
    let connections = match load.transport {
        Transport::Tcp => tcp(control, load.connections),
        Transport::Udp => udp(control, load.connections),
    };
    let connections = match connections {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            return refuse(control, "the connections of the load did not come: a firewall may drop them");
        }
        connections => connections?,
    };
    let begin = || Flow::begin(load, Side::Far, cpus, connections);
    let flow = if load.direction == Direction::Receive {
        control.say(&Answer::Begun)?;
        // Traffic may leave no room for other lines, so the answer must have arrived before it starts.
        match control.hear()? {
            Some(Ask::Go) => begin()?,
            Some(_) => return refuse(control, "it is not told to go"),
            None => return Ok(()),
        }
    } else {
        let flow = begin()?;
        control.say(&Answer::Begun)?;
        flow
    };
    match window {
        Some(window) => count_window(control, flow, window),
        None => count(control, flow, Instant::now() + MAX_LOAD_TIME),
    }
}

fn count(control: &mut Control, flow: Flow, until: Instant) -> io::Result<()> {
    loop {
        let asked = control.hear()?;
        if Instant::now() >= until {
            drop(flow);
            return refuse(control, &format!("a load lasts {} s at most", MAX_LOAD_TIME.as_secs()));
        }
        match asked {
            Some(Ask::Count) => control.say(&Answer::Counted(Box::new(flow.count())))?,
            Some(Ask::Look) => {
                let (_, there) = addresses(control)?;
                control.say(&Answer::Seen(Box::new(Look::of_load(flow.count(), there))))?;
            }
            Some(Ask::End) => {
                drop(flow);
                return control.say(&Answer::Ended);
            }
            Some(Ask::Begin { .. } | Ask::Go) => return refuse(control, "one load at a time"),
            None => return Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Near {
    Counts,
    /// The client has counted its window and requests this end's counts.
    Asks,
    /// The client has closed the connection, or was refused.
    Gone,
}

fn count_window(control: &mut Control, flow: Flow, window: Window) -> io::Result<()> {
    let began = Instant::now();
    while !flow.has_traffic() && began.elapsed() < ARRIVAL {
        thread::sleep(Duration::from_millis(1));
    }
    let begins = Instant::now() + Duration::from_millis(window.warm_up_ms);
    let mut near = wait(control, Near::Counts, begins)?;
    let before = flow.count();
    // The window has its full length, however late it starts.
    near = wait(control, near, Instant::now() + Duration::from_millis(window.counted_ms))?;
    let after = flow.count();
    let lingers = Instant::now() + LINGER;
    while near == Near::Counts && control.is_quiet() && Instant::now() < lingers {
        thread::sleep(CHECK_INTERVAL);
    }
    drop(flow);
    if near == Near::Counts {
        near = heard(control)?;
    }
    if near == Near::Gone { Ok(()) } else { control.say(&Answer::Window(Box::new([before, after]))) }
}

fn wait(control: &mut Control, mut near: Near, until: Instant) -> io::Result<Near> {
    while let Some(rest) = until.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero()) {
        if near == Near::Gone {
            break;
        }
        thread::sleep(rest.min(CHECK_INTERVAL));
        if !control.is_quiet() {
            // A client asks once. Its window may end before this one.
            near = if near == Near::Counts { heard(control)? } else { Near::Gone };
        }
    }
    Ok(near)
}

fn heard(control: &mut Control) -> io::Result<Near> {
    match control.hear()? {
        Some(Ask::Count) => Ok(Near::Asks),
        Some(_) => refuse(control, "a load with a window is counted once, and ends then").map(|()| Near::Gone),
        None => Ok(Near::Gone),
    }
}

/// From the client's address, each with the right token.
fn tcp(control: &mut Control, count: usize) -> io::Result<Vec<Connection>> {
    let (here, there) = addresses(control)?;
    let listener = TcpListener::bind(SocketAddr::new(here, 0))?;
    listener.set_nonblocking(true)?;
    let token = token()?;
    control.say(&Answer::Ready { ports: vec![listener.local_addr()?.port()], token })?;
    let until = Instant::now() + ARRIVAL;
    let mut connections = Vec::new();
    while connections.len() < count {
        match listener.accept() {
            Ok((stream, from)) if from.ip() == there => connections.extend(shows(stream, token)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error),
        }
        check_time(until)?;
    }
    Ok(connections)
}

/// `None`: the token is wrong.
fn shows(mut stream: TcpStream, token: u64) -> Option<Connection> {
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(SHOW)).ok()?;
    let mut shown = [0; TOKEN];
    stream.read_exact(&mut shown).ok()?;
    (shown == token.to_le_bytes()).then_some(Connection::Tcp(stream))
}

/// Each is connected to the sender of the right token.
fn udp(control: &mut Control, count: usize) -> io::Result<Vec<Connection>> {
    let (here, there) = addresses(control)?;
    let sockets = (0..count).map(|_| UdpSocket::bind(SocketAddr::new(here, 0))).collect::<io::Result<Vec<_>>>()?;
    let ports = sockets.iter().map(|socket| Ok(socket.local_addr()?.port())).collect::<io::Result<_>>()?;
    let token = token()?;
    control.say(&Answer::Ready { ports, token })?;
    let until = Instant::now() + ARRIVAL;
    for socket in &sockets {
        socket.set_read_timeout(Some(SHOW))?;
        loop {
            let mut shown = [0; TOKEN];
            match socket.recv_from(&mut shown) {
                Ok((TOKEN, from)) if from.ip() == there && shown == token.to_le_bytes() => {
                    socket.connect(from)?;
                    break;
                }
                // A wrong token, or none yet.
                _ => check_time(until)?,
            }
        }
    }
    Ok(sockets.into_iter().map(|socket| Connection::Udp(socket, token)).collect())
}

fn addresses(control: &Control) -> io::Result<(IpAddr, IpAddr)> {
    Ok((control.connection().local_addr()?.ip(), control.connection().peer_addr()?.ip()))
}

fn check_time(until: Instant) -> io::Result<()> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "the connections of the load did not come");
    if Instant::now() < until { Ok(()) } else { Err(late()) }
}

/// Strangers cannot guess it.
fn token() -> io::Result<u64> {
    let mut bytes = [0; TOKEN];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn flow() -> (TcpStream, Flow) {
        let (near, far) = pair();
        let load = Load::new(Transport::Tcp, Direction::RoundTrip, 1, 1);
        (near, Flow::begin(&load, Side::Far, &[], vec![Connection::Tcp(far)]).unwrap())
    }

    #[test]
    fn a_load_ends_though_its_near_end_goes_on() {
        let (near, far) = pair();
        let mut near = Control::new(near, CLIENT_TIMEOUT, MAX_ASK).unwrap();
        let mut far = Control::new(far, CLIENT_TIMEOUT, MAX_ASK).unwrap();
        near.say(&Ask::Count).unwrap();
        let (_connection, flow) = flow();
        count(&mut far, flow, Instant::now()).unwrap();
        let answer = near.hear().unwrap();
        assert!(matches!(&answer, Some(Answer::Refused(why)) if why.contains("600 s at most")), "{answer:?}");
    }

    #[test]
    fn who_goes_or_says_something_else_ends_the_window() {
        let far_away = || Instant::now() + Duration::from_secs(3_600);
        for said in ["\"Go\"\n", "\"Count\"\n\"Count\"\n", ""] {
            let (mut near, far) = pair();
            near.write_all(said.as_bytes()).unwrap();
            let near = (!said.is_empty()).then_some(near);
            let mut far = Control::new(far, CLIENT_TIMEOUT, MAX_ASK).unwrap();
            assert_eq!(wait(&mut far, Near::Counts, far_away()).unwrap(), Near::Gone, "{said}");
            drop(near);
        }
        // Closing with unread data resets the connection.
        let (near, mut far) = pair();
        far.write_all(b"unread").unwrap();
        while near.peek(&mut [0]).unwrap() == 0 {}
        drop(near);
        let mut far = Control::new(far, CLIENT_TIMEOUT, MAX_ASK).unwrap();
        assert_eq!(wait(&mut far, Near::Counts, far_away()).unwrap(), Near::Gone);
    }

    fn counting() -> (Control, TcpStream, thread::JoinHandle<io::Result<()>>) {
        let (near, far) = pair();
        let near = Control::new(near, CLIENT_TIMEOUT, super::super::protocol::MAX_ANSWER).unwrap();
        let mut far = Control::new(far, CLIENT_TIMEOUT, MAX_ASK).unwrap();
        let (mut connection, flow) = flow();
        connection.write_all(&[0]).unwrap();
        let window = Window { warm_up_ms: 0, counted_ms: 1 };
        (near, connection, thread::spawn(move || count_window(&mut far, flow, window)))
    }

    #[test]
    fn there_is_traffic_until_the_near_end_asks() {
        let (mut near, mut connection, counts) = counting();
        // Long after the window.
        for _ in 0..100 {
            connection.read_exact(&mut [0]).unwrap();
            thread::sleep(Duration::from_millis(2));
            connection.write_all(&[0]).unwrap();
        }
        near.say(&Ask::Count).unwrap();
        assert!(matches!(near.hear().unwrap(), Some(Answer::Window(_))));
        counts.join().unwrap().unwrap();
    }

    #[test]
    fn traffic_ends_though_the_near_end_cannot_ask() {
        let (mut near, mut connection, counts) = counting();
        let mut traffic = Vec::new();
        connection.read_to_end(&mut traffic).unwrap();
        assert_eq!(traffic, [0]);
        near.say(&Ask::Count).unwrap();
        assert!(matches!(near.hear().unwrap(), Some(Answer::Window(_))));
        counts.join().unwrap().unwrap();
    }

    #[test]
    fn a_peer_goes_on_though_nobody_can_be_taken_for_a_while() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // No client waits: the listener reports an error.
        listener.set_nonblocking(true).unwrap();
        let at = listener.local_addr().unwrap();
        let serves = thread::spawn(move || serve(&listener));
        thread::sleep(PAUSE);
        let mut near = Control::new(TcpStream::connect(at).unwrap(), CLIENT_TIMEOUT, MAX_ASK).unwrap();
        near.say(&Ask::Count).unwrap();
        assert!(matches!(near.hear().unwrap(), Some(Answer::Refused(_))));
        assert!(!serves.is_finished());
    }
}
