//! The near end of a path: has the far end take part in a load, and counts at both ends.

use super::account::Account;
use super::flow::{Connection, Flow, Latencies, Side, choose_cpus};
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
    /// How many CPUs the threads of each end run on; `None`: all.
    cpus: Option<usize>,
    /// Nobody answers any more.
    lost: bool,
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
        Ok(Self { control: Control::new(connection), far: peer.ip(), cpus: None, lost: false })
    }

    /// Loads from now on run on so many CPUs at each end; `None`: on all.
    pub(super) fn use_cpus(&mut self, count: Option<usize>) {
        self.cpus = count;
    }

    /// Whether the far end is gone: nothing goes over this path any more.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Traffic begins.
    ///
    /// # Errors
    /// The far end refuses it, or is gone.
    pub(super) fn begin(&mut self, load: &Load) -> Result<Running<'_>, String> {
        load.check()?;
        let cpus = choose_cpus(Side::Near, self.cpus)?;
        let answer = self.ask(&Ask::Begin { version: VERSION, load: *load, cpus: self.cpus })?;
        let Answer::Ready { ports, token } = answer else { return Err(unexpected(answer)) };
        let connections = self.connect(load, &ports, token);
        // The peer waits for those that did not come, and hangs up.
        self.lost = connections.is_err();
        let connections = connections.map_err(|error| format!("no connection to the peer: {error}"))?;
        let flow = Flow::begin(load, Side::Near, &cpus, connections);
        let flow = flow.map_err(|error| format!("cannot send or receive here: {error}"))?;
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
        let answer = self.control.say(ask).and_then(|()| self.control.hear());
        self.lost = !matches!(answer, Ok(Some(_)));
        answer.map_err(|error| lost(&error))?.ok_or_else(|| "the peer is lost: it hung up".to_owned())
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
    match error.kind() {
        // What a time limit of a socket says.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("the peer is lost: no answer for {} s", PATIENCE.as_secs())
        }
        _ => format!("the peer is lost: {error}"),
    }
}

fn unexpected(answer: Answer) -> String {
    match answer {
        Answer::Refused(why) => format!("the peer refused: {why}"),
        answer => format!("the peer said {answer:?} out of turn"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer::serve;
    use super::super::protocol::{Direction, MAX_SIZE};
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    fn peer() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || serve(&listener));
        at
    }

    fn load(transport: Transport, direction: Direction) -> Load {
        Load { transport, direction, size: 100, connections: 3, rate: None }
    }

    #[test]
    fn both_ends_count_what_goes_over_each_kind_of_load() {
        let mut path = Path::to(peer()).unwrap();
        for transport in [Transport::Tcp, Transport::Udp] {
            for direction in [Direction::Send, Direction::Receive, Direction::RoundTrip] {
                let mut running = path.begin(&load(transport, direction)).unwrap();
                running.keep_latencies(true);
                // Who sends counts a message when it is sent, and may have been asked before who received it.
                loop {
                    let both = running.count().unwrap();
                    let (sender, receiver) = match direction {
                        Direction::Receive => (&both.far, &both.near),
                        _ => (&both.near, &both.far),
                    };
                    assert!(sender.at_ns > 0 && receiver.at_ns > 0, "{transport:?} {direction:?}");
                    if sender.sent.bytes >= 10_000 && receiver.received.bytes >= 10_000 {
                        break;
                    }
                }
                let latencies = running.end().unwrap();
                assert_eq!(latencies.is_empty(), direction != Direction::RoundTrip, "{transport:?} {direction:?}");
            }
        }
    }

    #[test]
    fn what_a_peer_refuses_is_said_and_harms_no_other() {
        let at = peer();
        let mut path = Path::to(at).unwrap();
        let large = Load { size: MAX_SIZE + 1, ..load(Transport::Tcp, Direction::Send) };
        assert!(path.begin(&large).unwrap_err().contains("1 to 1048576 bytes"), "asked at home");
        let answer = path.ask(&Ask::Begin { version: VERSION, load: large, cpus: None }).unwrap();
        assert!(matches!(answer, Answer::Refused(why) if why.contains("bytes")), "asked by a stranger");
        let mut other = Path::to(at).unwrap();
        let newer = Ask::Begin { version: VERSION + 1, load: load(Transport::Tcp, Direction::Send), cpus: None };
        let answer = other.ask(&newer);
        assert!(matches!(answer.unwrap(), Answer::Refused(why) if why.contains("version")));
        let mut third = Path::to(at).unwrap();
        assert!(matches!(third.ask(&Ask::Count).unwrap(), Answer::Refused(_)), "nothing has begun");
        let mut good = Path::to(at).unwrap();
        assert!(good.begin(&load(Transport::Tcp, Direction::Send)).is_ok());
    }

    #[test]
    fn a_near_end_of_another_version_is_told_what_to_do() {
        let mut connection = TcpStream::connect(peer()).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        // As version 1 asked.
        let asked = "{\"Begin\":{\"version\":1,\"load\":{\"transport\":\"Tcp\",\"direction\":\"Send\",\
                     \"size\":64,\"connections\":1,\"rate\":null}}}\n";
        connection.write_all(asked.as_bytes()).unwrap();
        let answer: Option<Answer> = Control::new(connection).hear().unwrap();
        assert!(
            matches!(&answer, Some(Answer::Refused(why)) if why.contains("install the same sidecore")),
            "{answer:?}"
        );
    }

    #[test]
    fn a_load_that_is_refused_leaves_the_path_as_it_is() {
        let mut path = Path::to(peer()).unwrap();
        let one = load(Transport::Tcp, Direction::Send);
        let answer = path.ask(&Ask::Begin { version: VERSION, load: one, cpus: Some(usize::MAX) }).unwrap();
        assert!(matches!(&answer, Answer::Refused(why) if why.contains("the far end has 1 to ")), "{answer:?}");
        path.use_cpus(Some(usize::MAX));
        assert!(path.begin(&one).unwrap_err().contains("the near end has 1 to "));
        path.use_cpus(Some(1));
        assert!(!path.is_lost());
        assert!(path.begin(&one).unwrap().end().is_ok());
    }

    #[test]
    fn who_does_not_know_the_token_is_no_part_of_the_load() {
        let mut path = Path::to(peer()).unwrap();
        let one = Load { connections: 1, ..load(Transport::Tcp, Direction::Receive) };
        let answer = path.ask(&Ask::Begin { version: VERSION, load: one, cpus: None }).unwrap();
        let Answer::Ready { ports, token } = answer else { panic!("{answer:?}") };
        let to = SocketAddr::new(path.far, ports[0]);
        let mut stranger = open_tcp(to, !token).unwrap();
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(matches!(io::Read::read(&mut stranger, &mut [0]), Ok(0) | Err(_)), "it is hung up on");
        let mut known = open_tcp(to, token).unwrap();
        assert!(io::Read::read(&mut known, &mut [0; 100]).unwrap() > 0);
    }

    #[test]
    fn a_peer_takes_four_near_ends_at_a_time() {
        let at = peer();
        let mut four: Vec<_> = (0..4).map(|_| Path::to(at).unwrap()).collect();
        let mut running: Vec<_> =
            four.iter_mut().map(|path| path.begin(&load(Transport::Tcp, Direction::RoundTrip)).unwrap()).collect();
        assert!(running.iter_mut().all(|running| running.count().is_ok()));
        let mut fifth = Path::to(at).unwrap();
        assert!(fifth.begin(&load(Transport::Tcp, Direction::Send)).unwrap_err().contains("busy"));
    }
}
