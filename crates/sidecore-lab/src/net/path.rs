//! The near end of a path: has the far end take part in a load, and counts at both ends.

use super::account::Account;
use super::flow::{Connection, Flow, Latencies, Side};
use super::peer::TOKEN;
use super::protocol::{Answer, Ask, Control, Load, Transport, VERSION};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// How long the far end may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a far end that was just started may take to listen.
const ARRIVAL: Duration = Duration::from_secs(5);
/// How often a datagram that opens a UDP connection is sent, and how long each is waited for.
const HELLOS: u32 = 25;
const HELLO: Duration = Duration::from_millis(100);

/// A path to a far end that listens.
#[derive(Debug)]
pub(super) struct Path {
    control: Control,
    far: IpAddr,
}

/// A load that goes on.
#[derive(Debug)]
pub(super) struct Running<'p> {
    path: &'p mut Path,
    flow: Flow,
}

/// What both ends have counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Both {
    pub(super) near: Account,
    pub(super) far: Account,
}

impl Path {
    /// To that peer.
    ///
    /// # Errors
    /// Nobody answers there.
    pub(super) fn to(peer: SocketAddr) -> Result<Self, String> {
        let until = Instant::now() + ARRIVAL;
        let connection = loop {
            match TcpStream::connect_timeout(&peer, PATIENCE) {
                Ok(connection) => break connection,
                Err(error) if Instant::now() < until && error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(format!("no peer at {peer}: {error}; start `sidecore net peer` there")),
            }
        };
        let set = connection.set_nodelay(true).and_then(|()| connection.set_read_timeout(Some(PATIENCE)));
        set.and_then(|()| connection.set_write_timeout(Some(PATIENCE))).map_err(|error| lost(&error))?;
        Ok(Self { control: Control::new(connection), far: peer.ip() })
    }

    /// Traffic begins.
    ///
    /// # Errors
    /// The far end refuses it, or is gone.
    pub(super) fn begin(&mut self, load: &Load) -> Result<Running<'_>, String> {
        load.check()?;
        let answer = self.ask(&Ask::Begin { version: VERSION, load: *load })?;
        let Answer::Ready { ports, token } = answer else { return Err(unexpected(answer)) };
        let connections = self.connect(load, &ports, token);
        let connections = connections.map_err(|error| format!("no connection to the peer: {error}"))?;
        let flow = Flow::begin(load, Side::Near, connections).map_err(|error| lost(&error))?;
        Ok(Running { path: self, flow })
    }

    fn connect(&self, load: &Load, ports: &[u16], token: u64) -> io::Result<Vec<Connection>> {
        let address = |at: usize| {
            let port = ports.get(at).or(ports.first()).filter(|_| load.transport == Transport::Tcp || at < ports.len());
            port.map(|port| SocketAddr::new(self.far, *port)).ok_or(io::ErrorKind::InvalidData)
        };
        let open = |at| match load.transport {
            Transport::Tcp => open_tcp(address(at)?, token).map(Connection::Tcp),
            Transport::Udp => open_udp(address(at)?, token).map(Connection::Udp),
        };
        (0..load.connections).map(open).collect()
    }

    fn ask(&mut self, ask: &Ask) -> Result<Answer, String> {
        let answer = self.control.say(ask).and_then(|()| self.control.hear()).map_err(|error| lost(&error))?;
        answer.ok_or_else(|| "the peer hung up".to_owned())
    }
}

impl Running<'_> {
    /// What was counted by now.
    ///
    /// # Errors
    /// The far end is gone.
    pub(super) fn count(&mut self) -> Result<Both, String> {
        let answer = self.path.ask(&Ask::Count)?;
        let Answer::Counted(far) = answer else { return Err(unexpected(answer)) };
        Ok(Both { near: self.flow.count(), far: *far })
    }

    /// Latencies count from now on, or do not.
    pub(super) fn keep_latencies(&self, kept: bool) {
        self.flow.keep_latencies(kept);
    }

    /// Ends it. The latencies of its round trips.
    ///
    /// # Errors
    /// The far end is gone.
    pub(super) fn end(self) -> Result<Latencies, String> {
        let latencies = self.flow.end();
        let answer = self.path.ask(&Ask::End)?;
        if answer == Answer::Ended { Ok(latencies) } else { Err(unexpected(answer)) }
    }
}

impl Both {
    pub(super) fn since(&self, before: &Self) -> Self {
        Self { near: self.near.since(&before.near), far: self.far.since(&before.far) }
    }
}

fn open_tcp(to: SocketAddr, token: u64) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.write_all(&token.to_le_bytes())?;
    Ok(stream)
}

fn open_udp(to: SocketAddr, token: u64) -> io::Result<UdpSocket> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(HELLO))?;
    for _ in 0..HELLOS {
        socket.send(&token.to_le_bytes())?;
        let mut answer = [0; TOKEN];
        if matches!(socket.recv(&mut answer), Ok(TOKEN)) && answer == token.to_le_bytes() {
            return Ok(socket);
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no datagram comes through: a firewall may drop UDP"))
}

fn lost(error: &io::Error) -> String {
    format!("the peer is lost: {error}")
}

fn unexpected(answer: Answer) -> String {
    match answer {
        Answer::Refused(why) => format!("the peer refused: {why}"),
        answer => format!("the peer said {answer:?} out of turn"),
    }
}
