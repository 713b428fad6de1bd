//! A service for one test, a program that speaks its protocol by hand, and connections.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use sidecore_core::policy::notify::Notify;
use sidecore_core::sync::AtomicU64;
use sidecore_ipc::message;
use sidecore_ipc::sys::clock;
use sidecore_ipc::sys::packet::{connect_by, receive};
use sidecore_ipc::sys::wake::ring_pipe;
use sidecore_sockets::protocol::{Ask, Refused, Reply, Row};
use sidecore_sockets::shm::BankMemory;
use sidecore_sockets::sys::{tcp, udp};
use sidecore_sockets_service::{Config, NotifyConfig, Sockets, SocketsConfig};
use sidecore_streams::bell::Rung;
use sidecore_streams::cursor::{Cursors, pieces, word};
use sidecore_streams::layout::{
    ABI, BASE, BELL, Bank, ERROR, HEAD, PLACES, SHARED, STATE, TAIL, TRANSFERS, WISH, WRITER,
};
use sidecore_streams::place::{LeaveRequest, PlaceState, leave_word, state_of};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Running {
    service: Option<Sockets>,
    directory: TempDir,
}

impl Deref for Running {
    type Target = Sockets;

    fn deref(&self) -> &Sockets {
        self.service.as_ref().unwrap()
    }
}

impl Running {
    pub(crate) fn end(&mut self) {
        self.service = None;
    }

    pub(crate) fn again(&mut self) {
        let socket = self.directory.path().join("socket");
        self.service = Some(Sockets::start(&Config { socket, ..config() }).unwrap());
    }
}

pub(crate) fn open_to_all(socket: &Path) {
    for (path, mode) in [(socket, 0o666), (socket.parent().unwrap(), 0o755)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
}

pub(crate) const OTHER: u32 = 54_321;

pub(crate) fn config() -> Config {
    Config { notify: NotifyConfig { service: Notify::Park }, ..Config::default() }
}

pub(crate) fn start(config: &Config) -> Running {
    let directory = tempfile::tempdir().unwrap();
    let config = Config { socket: directory.path().join("socket"), ..config.clone() };
    Running { service: Some(Sockets::start(&config).unwrap()), directory }
}

pub(crate) struct Apart {
    process: Child,
    said: BufReader<ChildStdout>,
    socket: PathBuf,
    _directory: TempDir,
}

impl Apart {
    pub(crate) fn start(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore-sockets-peer"));
        command.args(["serve", socket.to_str().unwrap(), config]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        let mut service = Self { process, said, socket, _directory: directory };
        assert_eq!(service.says(), "serving\n");
        // It measures at first, in threads with descriptors of their own, which have their names a moment after they
        // exist. What is left: the main thread, the one that accepts, and the one that prints warnings.
        until("it has measured", || service.threads().len() == 3);
        service
    }

    pub(crate) fn says(&mut self) -> String {
        until("a word of the service", || self.has_said());
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn has_said(&self) -> bool {
        !self.said.buffer().is_empty() || readable(self.said.get_ref())
    }

    /// Limits its descriptors to `most`; `None`: the limit of this process.
    pub(crate) fn limit_descriptors(&self, most: Option<u64>) {
        let (process, own) = (Pid::from_child(&self.process), getrlimit(Resource::Nofile).maximum);
        prlimit(Some(process), Resource::Nofile, Rlimit { current: most.or(own), maximum: own }).unwrap();
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn end(&mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    pub(crate) fn threads(&self) -> Vec<(String, char)> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        // One may end just now.
        let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
        let read = |stat: String| {
            let (name, rest) = stat.rsplit_once(") ")?;
            Some((name.split_once('(')?.1.to_owned(), rest.chars().next()?))
        };
        stats.filter_map(read).filter(|(_, state)| !"ZX".contains(*state)).collect()
    }

    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count()
    }

    /// CPU time that it took so far, clock ticks of 10 ms.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        // The 14th and 15th, counted from the end of the name.
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn limited(limits: &SocketsConfig) -> Running {
    start(&Config { sockets: limits.clone(), ..config() })
}

pub(crate) fn connect(socket: &Path) -> OwnedFd {
    connect_by(socket, clock::now() + TIMEOUT.as_nanos() as u64).unwrap()
}

pub(crate) fn say(control: &OwnedFd, ask: &Ask, fds: &[&dyn AsFd]) {
    let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
    message::send(control, ask, &fds).unwrap();
}

/// The answer, with its descriptors. `None`: the service hung up.
pub(crate) fn answer(control: &OwnedFd) -> Option<(Reply, Vec<OwnedFd>)> {
    until("an answer", || readable(control));
    match message::receive(control) {
        Ok(answer) => Some(answer),
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Waits until the service has hung up. Returns the text of its refusal, if it sent one.
pub(crate) fn hung_up(control: &OwnedFd) -> Option<String> {
    refusal(control).map(|refused| refused.text)
}

/// Waits until the service has hung up. Returns its refusal, if it sent one.
pub(crate) fn refusal(control: &OwnedFd) -> Option<Refused> {
    let mut why = None;
    while let Some((reply, _)) = answer(control) {
        if let Reply::Refused(said) = reply {
            why = Some(said);
        }
    }
    why
}

pub(crate) fn readable(fd: impl AsFd) -> bool {
    let mut set = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 2_000_000 })) == Ok(1)
}

pub(crate) fn rows(socket: &Path) -> Vec<Row> {
    let mut rows = rows_by(&connect(socket));
    rows.retain(|row| row.gone_ns.is_none());
    rows
}

pub(crate) fn reports(control: &OwnedFd, fresh: bool) -> (u32, u64) {
    say(control, &Ask::Reports { fresh }, &[]);
    match answer(control) {
        Some((Reply::Reports { pending, others }, _)) => (pending, others),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn rows_by(control: &OwnedFd) -> Vec<Row> {
    rows_from(control, 0)
}

pub(crate) fn rows_from(control: &OwnedFd, from: u64) -> Vec<Row> {
    let (mut all, mut next) = (Vec::new(), Some(from));
    while let Some(from) = next {
        let (rows, further) = page(control, from);
        assert!(further.is_none_or(|further| further > from));
        all.extend(rows);
        next = further;
    }
    all
}

pub(crate) fn page(control: &OwnedFd, from: u64) -> (Vec<Row>, Option<u64>) {
    say(control, &Ask::List { from }, &[]);
    match answer(control) {
        Some((Reply::Sockets { rows, next }, _)) => (rows, next),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    let mut holds = holds;
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TIMEOUT, "{what}: not after {TIMEOUT:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn until_at_once(what: &str, holds: impl FnMut() -> bool) {
    let mut holds = holds;
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TIMEOUT, "{what}: not after {TIMEOUT:?}");
    }
}

pub(crate) fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let there = listener.accept().unwrap().0;
    there.set_read_timeout(Some(TIMEOUT)).unwrap();
    (here, there)
}

pub(crate) fn got(there: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    there.read_exact(&mut bytes).unwrap();
    bytes
}

pub(crate) fn all(there: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    there.read_to_end(&mut bytes).unwrap();
    bytes
}

/// A process that made a connection to the service, and whose end is the program's. Killed when dropped.
pub(crate) struct Lender {
    child: Child,
    /// The process runs while this is open.
    _meeting: OwnedFd,
}

impl Lender {
    pub(crate) fn start(socket: &Path, uid: u32) -> (Self, OwnedFd) {
        let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore-sockets-peer"));
        command.args(["lend", socket.to_str().unwrap(), &uid.to_string()]).stdin(there);
        let child = command.spawn().unwrap();
        // The process has the only other copy of its end: a lender that fails is noticed.
        drop(command);
        let (_, mut fds) = receive(&here, &mut [0; 16]).unwrap();
        (Self { child, _meeting: here }, fds.remove(0))
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A process of that user that blocks its thread of the service forever. `None`: this machine does not permit it.
pub(crate) fn held_up(socket: &Path, uid: u32) -> Option<Child> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore-sockets-peer"));
    command.args(["hold-up", socket.to_str().unwrap(), &uid.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (line == "holding\n").then_some(process)
}

pub(crate) struct Churner {
    process: Child,
    said: BufReader<ChildStdout>,
}

impl Churner {
    pub(crate) fn start(socket: &Path, what: &str, uid: u32) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore-sockets-peer"));
        command.args(["churn", socket.to_str().unwrap(), what, &uid.to_string()]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        let mut churner = Self { process, said };
        assert_eq!(churner.line(), "churning");
        churner
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn connections(&mut self) -> u64 {
        self.process.stdin.as_mut().unwrap().write_all(b"how many\n").unwrap();
        self.line().parse().unwrap()
    }
}

impl Drop for Churner {
    fn drop(&mut self) {
        // It may have failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

pub(crate) struct Program {
    pub(crate) control: OwnedFd,
    pub(crate) banks: Vec<BankMemory>,
    writer: OwnedFd,
    _reader: OwnedFd,
}

impl Program {
    pub(crate) fn attach(service: &Sockets) -> Self {
        Self::hello(connect(service.socket()))
    }

    pub(crate) fn hello(control: OwnedFd) -> Self {
        Self::named(control, "a test")
    }

    pub(crate) fn named(control: OwnedFd, name: &str) -> Self {
        say(&control, &Ask::Hello { abi: ABI, name: name.to_owned() }, &[]);
        let Some((Reply::Welcome { ring_bytes }, fds)) = answer(&control) else { panic!("not welcome") };
        let [memory, writer, reader] = <[OwnedFd; 3]>::try_from(fds).unwrap();
        let bank = BankMemory::open(memory, Bank::new(ring_bytes).unwrap()).unwrap();
        Self { control, banks: vec![bank], writer, _reader: reader }
    }

    /// Asks for 64 places more, possibly beyond the limit. `false`: the service has hung up.
    pub(crate) fn try_add_bank(&self) -> bool {
        message::send(&self.control, &Ask::Bank, &[]).is_ok() && answer(&self.control).is_some()
    }

    pub(crate) fn add_bank(&mut self) -> Result<(), String> {
        say(&self.control, &Ask::Bank, &[]);
        match answer(&self.control).unwrap() {
            (Reply::Bank, fds) => {
                self.banks.push(BankMemory::open(&fds[0], self.banks[0].layout()).unwrap());
                Ok(())
            }
            (Reply::NoBank(why), _) => Err(why),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn promote(&self, place: u32, number: u32, socket: &impl AsFd) -> Stream<'_> {
        let stream = self.begin(place, number, socket);
        say(&self.control, &Ask::Promote { place, stream: number }, &[socket]);
        stream
    }

    pub(crate) fn begin(&self, place: u32, number: u32, socket: &impl AsFd) -> Stream<'_> {
        let bank = &self.banks[(place / PLACES) as usize];
        let stream = Stream { program: self, bank, place, number, tail: 0 };
        for (line, word) in [(WRITER, TAIL), (WRITER, WISH), (SHARED, HEAD), (SHARED, ERROR), (SHARED, TRANSFERS)] {
            stream.word(line, word).store(0, Ordering::Relaxed);
        }
        // The kernel does not count datagrams.
        let base = if udp::is_connected_udp(socket) { 0 } else { tcp::accepted(socket).unwrap() };
        stream.word(SHARED, BASE).store(base, Ordering::Relaxed);
        bank.hold(place % PLACES).release();
        bank.bell(place % PLACES).disarm();
        stream
    }

    pub(crate) fn announce(&self, place: u32) {
        let bank = place / PLACES;
        self.banks[bank as usize].announced().fetch_or(1 << (place % PLACES), Ordering::Release);
        self.banks[0].announced_banks().0[bank as usize / 64].fetch_or(1 << (bank % 64), Ordering::Release);
        if self.banks[0].doorbell().must_wake() {
            ring_pipe(&self.writer);
        }
    }
}

pub(crate) struct Stream<'p> {
    program: &'p Program,
    pub(crate) bank: &'p BankMemory,
    pub(crate) place: u32,
    pub(crate) number: u32,
    pub(crate) tail: u64,
}

impl Stream<'_> {
    pub(crate) fn word(&self, line: usize, word: usize) -> &AtomicU64 {
        self.bank.word(self.place % PLACES, line, word)
    }

    pub(crate) fn read(&self, line: usize, word: usize) -> u64 {
        self.word(line, word).load(Ordering::Acquire)
    }

    pub(crate) fn state(&self) -> Option<PlaceState> {
        state_of(self.read(SHARED, STATE), self.number)
    }

    pub(crate) fn until_state(&self, state: PlaceState) {
        until(&format!("{state:?}"), || self.state() == Some(state));
    }

    pub(crate) fn room(&self) -> usize {
        let size = self.bank.layout().ring_bytes();
        Cursors::read(self.read(SHARED, HEAD), word(self.tail, false), size).unwrap().room() as usize
    }

    pub(crate) fn write_silently(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room(), "there is room");
        let mut from = 0;
        for extent in pieces(self.tail, bytes.len() as u32, self.bank.layout().ring_bytes()) {
            let to = from + extent.len as usize;
            self.bank.span(self.place % PLACES, extent).copy_from(&bytes[from..to]);
            from = to;
        }
        self.tail += bytes.len() as u64;
        self.word(WRITER, TAIL).store(word(self.tail, false), Ordering::Release);
    }

    /// Notifies the service as far as it needs. `false`: the service does not look any more.
    pub(crate) fn ring(&self) -> bool {
        match self.bank.bell(self.place % PLACES).ring() {
            Rung::Watched => {}
            Rung::Announce => self.program.announce(self.place),
            Rung::Shut => return false,
        }
        true
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> bool {
        self.write_silently(bytes);
        self.ring()
    }

    pub(crate) fn write_all(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            until("room", || self.room() > 0);
            let (now, later) = rest.split_at(rest.len().min(self.room()));
            assert!(self.write(now));
            rest = later;
        }
    }

    pub(crate) fn wish(&self, wish: LeaveRequest) {
        self.word(WRITER, WISH).store(leave_word(self.number, wish), Ordering::Release);
        if self.ring() {
            self.program.announce(self.place);
        }
    }

    pub(crate) fn until_armed(&self) {
        until("an armed bell", || self.bell() == 1);
    }

    pub(crate) fn is_taken(&self) -> bool {
        until("an armed bell or a shut one", || self.bell() != 0);
        self.bell() == 1
    }

    fn bell(&self) -> u64 {
        self.bank.word(self.place % PLACES, BELL, 0).load(Ordering::Relaxed)
    }
}

pub(crate) fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| (at % 251) as u8).collect()
}
