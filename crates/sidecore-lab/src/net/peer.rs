//! The far end: does what near ends ask for, each over a connection of its own.
//!
//! Strangers may ask as well. So what can be asked for is limited in number, size and time, and traffic goes to nobody but
//! the address that asked.

use super::flow::{Connection, Flow, Side, choose_cpus};
use super::protocol::{Answer, Ask, Control, Direction, Load, Transport, VERSION, Window};
use crate::output;
use serde_json::Value;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Most near ends at a time.
const MOST: u32 = 4;
/// How long a near end may say nothing. Its load ends then.
const SILENCE: Duration = Duration::from_secs(60);
/// How long the connections of a load may take to come: a path that loses packets takes its time.
const ARRIVAL: Duration = Duration::from_secs(6);
/// How long one that came may take to show its token: as long as TCP sends it for the third time.
const SHOW: Duration = Duration::from_secs(2);
/// How often it looks whether the near end is there.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of a token.
const TOKEN: usize = size_of::<u64>();

/// Serves for ever.
///
/// # Errors
/// The listener's.
pub(super) fn serve(listener: &TcpListener) -> io::Result<()> {
    let count = Arc::new(AtomicU32::new(0));
    loop {
        let (connection, from) = listener.accept()?;
        let others = count.fetch_add(1, Ordering::Relaxed);
        let own = count.clone();
        thread::Builder::new().name("near end".to_owned()).spawn(move || {
            let mut control = Control::new(connection);
            let done = if others < MOST { session(&mut control) } else { refuse(&mut control, "this peer is busy") };
            if let Err(error) = done {
                output::tell(format!("{from}: {error}"));
            }
            own.fetch_sub(1, Ordering::Relaxed);
        })?;
    }
}

fn refuse(control: &mut Control, why: &str) -> io::Result<()> {
    control.say(&Answer::Refused(why.to_owned()))
}

/// One near end, load after load, until it hangs up.
fn session(control: &mut Control) -> io::Result<()> {
    control.connection().set_nodelay(true)?;
    control.connection().set_read_timeout(Some(SILENCE))?;
    control.connection().set_write_timeout(Some(SILENCE))?;
    while let Some(asked) = control.hear::<Value>()? {
        // The rest of what another version asks may not be known here.
        if let Some(version) = asked["Begin"]["version"].as_u64().filter(|version| *version != u64::from(VERSION)) {
            return refuse(control, &other_version(version));
        }
        match serde_json::from_value(asked)? {
            Ask::Begin { load, cpus, window, .. } => match check(&load, cpus, window) {
                Ok(cpus) => run(control, &load, &cpus, window)?,
                // Another load may do.
                Err(why) => refuse(control, &why)?,
            },
            Ask::Count | Ask::End | Ask::Go => return refuse(control, "no load has begun"),
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

/// Whether that can be done here. The CPUs to do it on.
fn check(load: &Load, cpus: Option<usize>, window: Option<Window>) -> Result<Vec<usize>, String> {
    load.check()?;
    window.map_or(Ok(()), Window::check)?;
    choose_cpus(Side::Far, cpus)
}

/// One load, on those CPUs.
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
        // What is sent from now on may leave no room for what is said, so that must have come before.
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
        None => count(control, flow),
    }
}

/// Counts when it is asked to.
fn count(control: &mut Control, flow: Flow) -> io::Result<()> {
    loop {
        match control.hear()? {
            Some(Ask::Count) => control.say(&Answer::Counted(Box::new(flow.count())))?,
            Some(Ask::End) => {
                drop(flow);
                return control.say(&Answer::Ended);
            }
            Some(Ask::Begin { .. } | Ask::Go) => return refuse(control, "one load at a time"),
            None => return Ok(()),
        }
    }
}

/// Counts at the begin and at the end of the window, and says so when it is asked.
fn count_window(control: &mut Control, flow: Flow, window: Window) -> io::Result<()> {
    let began = Instant::now();
    while !flow.has_traffic() && began.elapsed() < ARRIVAL {
        thread::sleep(Duration::from_millis(1));
    }
    if !is_there_for(control, Duration::from_millis(window.warm_up_ms))? {
        return Ok(());
    }
    let before = flow.count();
    if !is_there_for(control, Duration::from_millis(window.counted_ms))? {
        return Ok(());
    }
    let after = flow.count();
    drop(flow);
    match control.hear()? {
        Some(Ask::Count) => control.say(&Answer::Window(Box::new([before, after]))),
        Some(_) => refuse(control, "the load has ended"),
        None => Ok(()),
    }
}

/// Waits so long, while the near end does not hang up. Whether it has not.
fn is_there_for(control: &Control, time: Duration) -> io::Result<bool> {
    let until = Instant::now() + time;
    let connection = control.connection();
    connection.set_nonblocking(true)?;
    let mut is_there = true;
    while let Some(rest) = until.checked_duration_since(Instant::now()).filter(|rest| is_there && !rest.is_zero()) {
        thread::sleep(rest.min(LOOK));
        is_there = !matches!(connection.peek(&mut [0]), Ok(0));
    }
    connection.set_nonblocking(false)?;
    Ok(is_there)
}

/// That many connections from the address that asks, each of which knew the token.
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

/// `None`: it did not know the token.
fn shows(mut stream: TcpStream, token: u64) -> Option<Connection> {
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(SHOW)).ok()?;
    let mut shown = [0; TOKEN];
    stream.read_exact(&mut shown).ok()?;
    (shown == token.to_le_bytes()).then_some(Connection::Tcp(stream))
}

/// That many sockets, each connected to where the token came from.
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
                // Somebody else's, or none yet.
                _ => check_time(until)?,
            }
        }
    }
    Ok(sockets.into_iter().map(Connection::Udp).collect())
}

fn addresses(control: &Control) -> io::Result<(IpAddr, IpAddr)> {
    Ok((control.connection().local_addr()?.ip(), control.connection().peer_addr()?.ip()))
}

fn check_time(until: Instant) -> io::Result<()> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "the connections of the load did not come");
    if Instant::now() < until { Ok(()) } else { Err(late()) }
}

/// What a stranger cannot guess.
fn token() -> io::Result<u64> {
    let mut bytes = [0; TOKEN];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
