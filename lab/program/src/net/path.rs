//! The local end of a path: starts loads at the peer, and counts at both ends.

use super::account::Account;
use super::error::PeerError;
use super::flow::{Connection, Flow, Latencies, Side, choose_cpus};
use super::protocol::{Answer, Ask, Control, Direction, Load, MAX_ANSWER, Transport, VERSION, Window};
use super::why::look::Look;
use crate::error::LabError;
use sidecore_measure::interrupt::Interrupt;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
const ARRIVAL: Duration = Duration::from_secs(5);
/// Traffic after the window. The peer's window starts with its own first message and may end later.
pub(super) const AFTER: Duration = Duration::from_millis(50);
const SHOWN: usize = 200;
/// Interval of datagrams that open a UDP connection; some may be lost.
const HELLO: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Path {
    control: Control,
    far: IpAddr,
    /// Number of CPUs of each end's threads; `None`: all.
    cpus: Option<usize>,
    lost: bool,
}

#[derive(Debug)]
pub(super) struct Running<'p> {
    path: &'p mut Path,
    flow: Flow,
    /// Of the peer's warm-up and window.
    time: Duration,
    /// Earliest end of the peer's window.
    ends: Instant,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Both {
    pub(super) near: Account,
    pub(super) far: Account,
}

impl Path {
    pub(super) fn to(peer: SocketAddr) -> Result<Self, LabError> {
        let until = Instant::now() + ARRIVAL;
        let connection = loop {
            match TcpStream::connect_timeout(&peer, REPLY_TIMEOUT) {
                Ok(connection) => break connection,
                Err(error) if Instant::now() < until && error.kind() == io::ErrorKind::ConnectionRefused => {
                    thread::sleep(Duration::from_millis(20));
                }
                Err(error) => {
                    let remedy = "start `sidecore net peer` there";
                    return Err(LabError::missing(format!("no peer at {peer}"), error, remedy));
                }
            }
        };
        let control =
            Control::new(connection, REPLY_TIMEOUT, MAX_ANSWER).map_err(|error| lost(error, REPLY_TIMEOUT))?;
        Ok(Self { control, far: peer.ip(), cpus: None, lost: false })
    }

    /// Without a port.
    pub(super) fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.far, 0)
    }

    pub(super) fn until(&mut self, interrupt: &Interrupt) {
        self.control.until(interrupt);
    }

    pub(super) fn use_cpus(&mut self, count: Option<usize>) {
        self.cpus = count;
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    pub(super) fn begin(&mut self, load: &Load) -> Result<Running<'_>, LabError> {
        self.start(load, None)
    }

    pub(super) fn begin_window(&mut self, load: &Load, window: Window) -> Result<Running<'_>, LabError> {
        self.start(load, Some(window))
    }

    fn start(&mut self, load: &Load, window: Option<Window>) -> Result<Running<'_>, LabError> {
        load.check()?;
        let cpus = choose_cpus(Side::Near, self.cpus)?;
        let answer = self.ask(&Ask::Begin { version: VERSION, load: *load, cpus: self.cpus, window })?;
        let Answer::Ready { ports, token } = answer else { return Err(unexpected(answer).into()) };
        let connections = self.connect(load, &ports, token);
        // The peer still waits for the missing connections and answers nothing else until then.
        self.lost |= connections.is_err();
        let connections = connections.map_err(|error| LabError::failed("no connection to the peer", error))?;
        self.wait_for(&connections, token)?;
        let flow = Flow::begin(load, Side::Near, &cpus, connections);
        // The load has begun at the peer, which accepts nothing else until it ends.
        self.lost |= flow.is_err();
        let flow = flow.map_err(|error| LabError::failed("cannot send or receive here", error))?;
        if load.direction == Direction::Receive {
            self.say(&Ask::Go)?;
        }
        let time = window.map_or(Duration::ZERO, Window::time);
        Ok(Running { path: self, flow, time, ends: Instant::now() + time })
    }

    fn wait_for(&mut self, connections: &[Connection], token: u64) -> Result<(), PeerError> {
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
            Transport::Udp => open_udp(address(at)?).map(|socket| Connection::Udp(socket, token)),
        };
        (0..load.connections).map(open).collect()
    }

    fn ask(&mut self, ask: &Ask) -> Result<Answer, PeerError> {
        self.say(ask)?;
        self.hear()
    }

    fn say(&mut self, ask: &Ask) -> Result<(), PeerError> {
        let said = self.control.say(ask);
        self.lost |= said.is_err();
        said.map_err(|error| lost(error, REPLY_TIMEOUT))
    }

    fn hear(&mut self) -> Result<Answer, PeerError> {
        self.hear_within(REPLY_TIMEOUT)
    }

    fn hear_within(&mut self, patience: Duration) -> Result<Answer, PeerError> {
        let answer = self.control.hear_within(patience);
        self.lost |= !matches!(answer, Ok(Some(_)));
        answer.map_err(|error| lost(error, patience))?.ok_or(PeerError::HungUp)
    }
}

impl Running<'_> {
    pub(super) fn count(&mut self) -> Result<Both, PeerError> {
        let answer = self.path.ask(&Ask::Count)?;
        let Answer::Counted(far) = answer else { return Err(unexpected(answer)) };
        Ok(Both { near: self.flow.count(), far: *far })
    }

    /// Of the local end, and of the peer.
    pub(super) fn look(&mut self) -> Result<[Look; 2], PeerError> {
        let answer = self.path.ask(&Ask::Look)?;
        let Answer::Seen(far) = answer else { return Err(unexpected(answer)) };
        Ok([Look::of_load(self.flow.count(), self.path.far), far.printable()])
    }

    pub(super) fn has_traffic(&self) -> bool {
        self.flow.has_traffic()
    }

    pub(super) fn count_near(&self) -> Account {
        self.flow.count()
    }

    pub(super) fn check(&mut self) -> Result<(), PeerError> {
        if self.path.control.is_quiet() { Ok(()) } else { Err(unexpected(self.path.hear()?)) }
    }

    pub(super) fn end_window(self) -> Result<(Account, Latencies), PeerError> {
        let latencies = self.flow.end();
        self.path.say(&Ask::Count)?;
        let rest = self.ends.saturating_duration_since(Instant::now());
        // TCP's back-off doubles: a line displaced by the traffic may take the same time once more.
        let answer = self.path.hear_within(rest + self.time + REPLY_TIMEOUT)?;
        let Answer::Window(counted) = answer else { return Err(unexpected(answer)) };
        let [before, after] = *counted;
        Ok((after.since(&before), latencies))
    }

    pub(super) fn keep_latencies(&self, kept: bool) {
        self.flow.keep_latencies(kept);
    }

    pub(super) fn end(self) -> Result<Latencies, PeerError> {
        let latencies = self.flow.end();
        let answer = self.path.ask(&Ask::End)?;
        if answer == Answer::Ended { Ok(latencies) } else { Err(unexpected(answer)) }
    }
}

fn open_tcp(to: SocketAddr, token: u64) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, REPLY_TIMEOUT)?;
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

fn show(connections: &[Connection], token: u64) -> bool {
    let mut any = false;
    for connection in connections {
        if let Connection::Udp(socket, _) = connection {
            // A datagram that cannot be sent now is repeated.
            let _ = socket.send(&token.to_le_bytes());
            any = true;
        }
    }
    any
}

fn lost(error: io::Error, patience: Duration) -> PeerError {
    match error.kind() {
        io::ErrorKind::TimedOut => PeerError::Silent(patience),
        _ => PeerError::Lost(error),
    }
}

fn unexpected(answer: Answer) -> PeerError {
    match answer {
        // A stranger may control this text, and it is printed to a terminal.
        Answer::Refused(why) => {
            PeerError::Refused(why.chars().filter(|shown| !shown.is_control()).take(SHOWN).collect())
        }
        _ => PeerError::Unexpected,
    }
}

#[cfg(test)]
mod tests {
    use super::super::account::Counted;
    use super::super::peer::serve;
    use super::super::protocol::{Direction, MAX_SIZE};
    use super::*;
    use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrIn};
    use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
    use std::os::fd::AsRawFd;

    fn peer() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || serve(&listener));
        at
    }

    fn load(transport: Transport, direction: Direction) -> Load {
        Load::new(transport, direction, 100, 3)
    }

    #[test]
    fn both_ends_count_what_goes_over_each_kind_of_load() {
        let mut path = Path::to(peer()).unwrap();
        for transport in [Transport::Tcp, Transport::Udp] {
            for direction in [Direction::Send, Direction::Receive, Direction::RoundTrip] {
                let mut running = path.begin(&load(transport, direction)).unwrap();
                running.keep_latencies(true);
                // The sender counts a message immediately, and may be read before the receiver has counted it.
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
        assert!(path.begin(&large).unwrap_err().to_string().contains("1 to 1048576 bytes"), "asked at home");
        let answer = path.ask(&Ask::Begin { version: VERSION, load: large, cpus: None, window: None }).unwrap();
        assert!(matches!(answer, Answer::Refused(why) if why.contains("bytes")), "asked by a stranger");
        let newer =
            Ask::Begin { version: VERSION + 1, load: load(Transport::Tcp, Direction::Send), cpus: None, window: None };
        let is_refused = |asked: &Ask, why: &str| {
            // The refused connection frees its place with a delay.
            let mut answers = (0..10_000).map(|_| Path::to(at).unwrap().ask(asked));
            answers.any(|answer| matches!(answer, Ok(Answer::Refused(said)) if said.contains(why)))
        };
        assert!(is_refused(&newer, "version"));
        assert!(is_refused(&Ask::Count, "no load has begun"), "nothing has begun");
        let begins = || Path::to(at).unwrap().begin(&load(Transport::Tcp, Direction::Send)).is_ok();
        assert!((0..10_000).any(|_| begins()));
    }

    #[test]
    fn a_near_end_of_another_version_is_told_what_to_do() {
        let mut connection = TcpStream::connect(peer()).unwrap();
        // The request of version 1.
        let asked = "{\"Begin\":{\"version\":1,\"load\":{\"transport\":\"Tcp\",\"direction\":\"Send\",\
                     \"size\":64,\"connections\":1}}}\n";
        connection.write_all(asked.as_bytes()).unwrap();
        let answer: Option<Answer> = Control::new(connection, REPLY_TIMEOUT, MAX_ANSWER).unwrap().hear().unwrap();
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
            // On a busy machine a short window may contain no traffic.
            assert!((0..1_000).any(|_| window_of(direction) == counted), "{direction:?}");
        }
        let long = Window { warm_up_ms: 0, counted_ms: u64::MAX };
        let refused = path.begin_window(&load(Transport::Tcp, Direction::Send), long).unwrap_err().to_string();
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
        assert!(path.begin(&one).unwrap_err().to_string().contains("the near end has 1 to "));
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
        stranger.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
        assert!(matches!(io::Read::read(&mut stranger, &mut [0]), Ok(0) | Err(_)), "it is hung up on");
        let mut known = open_tcp(to, token).unwrap();
        assert_eq!(path.hear().unwrap(), Answer::Begun);
        path.say(&Ask::Go).unwrap();
        assert!(io::Read::read(&mut known, &mut [0; 100]).unwrap() > 0);
    }

    fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
        let SocketAddr::V4(to) = to else { panic!("{to}") };
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket::socket(AddressFamily::Inet, SockType::Stream, flags, None).unwrap();
        socket::bind(socket.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(from, 0))).unwrap();
        socket::connect(socket.as_raw_fd(), &SockaddrIn::from(to)).unwrap();
        TcpStream::from(socket)
    }

    fn begin_from(from: Ipv4Addr, at: SocketAddr) -> (Control, TcpStream) {
        let mut control = Control::new(connect_from(from, at), REPLY_TIMEOUT, MAX_ANSWER).unwrap();
        let one = Load { connections: 1, ..load(Transport::Tcp, Direction::RoundTrip) };
        control.say(&Ask::Begin { version: VERSION, load: one, cpus: None, window: None }).unwrap();
        let answer = control.hear().unwrap();
        let Some(Answer::Ready { ports, token }) = answer else { panic!("{answer:?}") };
        let mut connection = connect_from(from, SocketAddr::new(at.ip(), ports[0]));
        connection.write_all(&token.to_le_bytes()).unwrap();
        assert_eq!(control.hear().unwrap(), Some(Answer::Begun));
        (control, connection)
    }

    #[test]
    fn a_peer_takes_four_near_ends_at_a_time() {
        let at = peer();
        let mut two: Vec<_> = (0..2).map(|_| Path::to(at).unwrap()).collect();
        let mut running: Vec<_> =
            two.iter_mut().map(|path| path.begin(&load(Transport::Tcp, Direction::RoundTrip)).unwrap()).collect();
        let mut third = Path::to(at).unwrap();
        let refused = third.begin(&load(Transport::Tcp, Direction::Send)).unwrap_err().to_string();
        assert!(refused.contains("two near ends of this address"), "{refused}");
        let mut others: Vec<_> = (0..2).map(|_| begin_from(Ipv4Addr::new(127, 0, 0, 2), at)).collect();
        assert!(running.iter_mut().all(|running| running.count().is_ok()));
        for (control, _) in &mut others {
            control.say(&Ask::Count).unwrap();
            assert!(matches!(control.hear().unwrap(), Some(Answer::Counted(_))));
        }
        let fifth = connect_from(Ipv4Addr::new(127, 0, 0, 3), at);
        let answer = Control::new(fifth, REPLY_TIMEOUT, MAX_ANSWER).unwrap().hear().unwrap();
        assert!(matches!(&answer, Some(Answer::Refused(why)) if why.contains("busy")), "{answer:?}");
    }

    #[test]
    fn what_opens_a_connection_is_no_traffic() {
        let mut path = Path::to(peer()).unwrap();
        let one = Load { connections: 1, ..load(Transport::Udp, Direction::Send) };
        let answer = path.ask(&Ask::Begin { version: VERSION, load: one, cpus: None, window: None }).unwrap();
        let Answer::Ready { ports, token } = answer else { panic!("{answer:?}") };
        let connections = path.connect(&one, &ports, token).unwrap();
        path.wait_for(&connections, token).unwrap();
        // A late one.
        assert!(show(&connections, token));
        let Connection::Udp(socket, _) = &connections[0] else { panic!("{connections:?}") };
        socket.send(&[0; 100]).unwrap();
        let received = loop {
            let Answer::Counted(far) = path.ask(&Ask::Count).unwrap() else { panic!("not counted") };
            if far.received.bytes >= 100 {
                break far.received;
            }
        };
        assert_eq!(received, Counted { messages: 1, bytes: 100 });
    }

    #[test]
    fn a_peer_that_says_too_much_is_cut_short() {
        let why = format!("\u{1b}[31m\r\n{}", "x".repeat(10_000));
        let shown = unexpected(Answer::Refused(why)).to_string();
        assert!(shown.len() < 300 && !shown.chars().any(char::is_control), "{shown}");
    }

    #[test]
    fn a_peer_that_goes_while_a_load_runs_is_missed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let control = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let control = Control::new(control, REPLY_TIMEOUT, MAX_ANSWER).unwrap();
        let mut path = Path { control, far: Ipv4Addr::LOCALHOST.into(), cpus: None, lost: false };
        let flow = Flow::begin(&load(Transport::Tcp, Direction::Send), Side::Near, &[], Vec::new()).unwrap();
        let mut running = Running { path: &mut path, flow, time: Duration::ZERO, ends: Instant::now() };
        running.check().unwrap();
        drop(far);
        let gone = (0..10_000).find_map(|_| running.check().err());
        assert_eq!(gone.unwrap().to_string(), "the peer is lost: it hung up");
        drop(running);
        assert!(path.is_lost());
    }
}
