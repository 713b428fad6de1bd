//! The near end of a path: has the far end take part in a load, and counts at both ends.

use super::account::Account;
use super::flow::{Connection, Flow, Latencies, Side, choose_cpus};
use super::protocol::{Answer, Ask, Control, Direction, Load, Transport, VERSION, Window};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the far end may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a far end that was just started may take to listen.
const ARRIVAL: Duration = Duration::from_secs(5);
/// Between two datagrams that open a UDP connection, of which some may be lost.
const HELLO: Duration = Duration::from_millis(20);

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
                    thread::sleep(Duration::from_millis(20));
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
        self.start(load, None)
    }

    /// Traffic begins that the far end counts by itself, in that window.
    ///
    /// # Errors
    /// The same.
    pub(super) fn begin_window(&mut self, load: &Load, window: Window) -> Result<Running<'_>, String> {
        self.start(load, Some(window))
    }

    fn start(&mut self, load: &Load, window: Option<Window>) -> Result<Running<'_>, String> {
        load.check()?;
        let cpus = choose_cpus(Side::Near, self.cpus)?;
        let answer = self.ask(&Ask::Begin { version: VERSION, load: *load, cpus: self.cpus, window })?;
        let Answer::Ready { ports, token } = answer else { return Err(unexpected(answer)) };
        let connections = self.connect(load, &ports, token);
        // The peer waits for those that did not come, and has nothing else to say until then.
        self.lost = connections.is_err();
        let connections = connections.map_err(|error| format!("no connection to the peer: {error}"))?;
        self.wait_for(&connections, token)?;
        let flow = Flow::begin(load, Side::Near, &cpus, connections);
        let flow = flow.map_err(|error| format!("cannot send or receive here: {error}"))?;
        if load.direction == Direction::Receive {
            self.say(&Ask::Go)?;
        }
        Ok(Running { path: self, flow })
    }

    /// Until the far end has all of them.
    fn wait_for(&mut self, connections: &[Connection], token: u64) -> Result<(), String> {
        let over = AtomicBool::new(false);
        let answer = thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) && show(connections, token) {
                    thread::sleep(HELLO);
                }
            });
            let answer = self.hear();
            over.store(true, Ordering::Relaxed);
            answer
        })?;
        if answer == Answer::Begun { Ok(()) } else { Err(unexpected(answer)) }
    }

    fn connect(&self, load: &Load, ports: &[u16], token: u64) -> io::Result<Vec<Connection>> {
        let address = |at: usize| {
            let port = ports.get(at).or(ports.first()).filter(|_| load.transport == Transport::Tcp || at < ports.len());
            port.map(|port| SocketAddr::new(self.far, *port)).ok_or(io::ErrorKind::InvalidData)
        };
        let open = |at| match load.transport {
            Transport::Tcp => open_tcp(address(at)?, token).map(Connection::Tcp),
            Transport::Udp => open_udp(address(at)?).map(Connection::Udp),
        };
        (0..load.connections).map(open).collect()
    }

    fn ask(&mut self, ask: &Ask) -> Result<Answer, String> {
        self.say(ask)?;
        self.hear()
    }

    fn say(&mut self, ask: &Ask) -> Result<(), String> {
        let said = self.control.say(ask);
        self.lost = said.is_err();
        said.map_err(|error| lost(&error))
    }

    fn hear(&mut self) -> Result<Answer, String> {
        let answer = self.control.hear();
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

    /// Whether a message was sent or received here.
    pub(super) fn has_traffic(&self) -> bool {
        self.flow.has_traffic()
    }

    /// What was counted here by now.
    pub(super) fn count_near(&self) -> Account {
        self.flow.count()
    }

    /// Ends it. What the far end has counted in its window, and the latencies of round trips.
    ///
    /// # Errors
    /// The far end is gone.
    pub(super) fn end_window(self) -> Result<(Account, Latencies), String> {
        let latencies = self.flow.end();
        let answer = self.path.ask(&Ask::Count)?;
        let Answer::Window(counted) = answer else { return Err(unexpected(answer)) };
        let [before, after] = *counted;
        Ok((after.since(&before), latencies))
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

fn open_udp(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(to)?;
    Ok(socket)
}

/// Shows the token on what has no connection of its own. Whether there is any.
fn show(connections: &[Connection], token: u64) -> bool {
    let mut any = false;
    for connection in connections {
        if let Connection::Udp(socket) = connection {
            // One that cannot be sent now is sent again.
            let _ = socket.send(&token.to_le_bytes());
            any = true;
        }
    }
    any
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
        thread::spawn(move || serve(&listener));
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
        let answer = path.ask(&Ask::Begin { version: VERSION, load: large, cpus: None, window: None }).unwrap();
        assert!(matches!(answer, Answer::Refused(why) if why.contains("bytes")), "asked by a stranger");
        let mut other = Path::to(at).unwrap();
        let newer =
            Ask::Begin { version: VERSION + 1, load: load(Transport::Tcp, Direction::Send), cpus: None, window: None };
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
                     \"size\":64,\"connections\":1}}}\n";
        connection.write_all(asked.as_bytes()).unwrap();
        let answer: Option<Answer> = Control::new(connection).hear().unwrap();
        assert!(
            matches!(&answer, Some(Answer::Refused(why)) if why.contains("install the same sidecore")),
            "{answer:?}"
        );
    }

    #[test]
    fn the_far_end_counts_by_itself_in_a_window() {
        let mut path = Path::to(peer()).unwrap();
        let mut window_of = |direction| {
            let window = Window { warm_up_ms: 20, counted_ms: 30 };
            let running = path.begin_window(&load(Transport::Udp, direction), window).unwrap();
            while !running.has_traffic() {}
            thread::sleep(Duration::from_millis(60));
            let (far, _) = running.end_window().unwrap();
            assert!(far.at_ns >= 30_000_000, "{direction:?}: {far:?}");
            (far.sent.messages > 0, far.received.messages > 0)
        };
        for (direction, counted) in [
            (Direction::Send, (false, true)),
            (Direction::Receive, (true, false)),
            (Direction::RoundTrip, (true, true)),
        ] {
            // On a busy machine nothing may run in so short a window.
            assert!((0..1_000).any(|_| window_of(direction) == counted), "{direction:?}");
        }
        let long = Window { warm_up_ms: 0, counted_ms: u64::MAX };
        let refused = path.begin_window(&load(Transport::Tcp, Direction::Send), long).unwrap_err();
        assert!(refused.contains("60 s at most"), "{refused}");
    }

    #[test]
    fn a_load_that_is_refused_leaves_the_path_as_it_is() {
        let mut path = Path::to(peer()).unwrap();
        let one = load(Transport::Tcp, Direction::Send);
        let answer =
            path.ask(&Ask::Begin { version: VERSION, load: one, cpus: Some(usize::MAX), window: None }).unwrap();
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
        let answer = path.ask(&Ask::Begin { version: VERSION, load: one, cpus: None, window: None }).unwrap();
        let Answer::Ready { ports, token } = answer else { panic!("{answer:?}") };
        let to = SocketAddr::new(path.far, ports[0]);
        let mut stranger = open_tcp(to, !token).unwrap();
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(matches!(io::Read::read(&mut stranger, &mut [0]), Ok(0) | Err(_)), "it is hung up on");
        let mut known = open_tcp(to, token).unwrap();
        assert_eq!(path.hear(), Ok(Answer::Begun));
        path.say(&Ask::Go).unwrap();
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
