//! `sidecore net link`: traffic through such a link, and cleanup after it.

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use serde_json::Value;
use sidecore_sim::engine::Random;
use sidecore_testing::skipped;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const NEAR: &str = "198.18.0.1:7000";
const FAR: &str = "198.18.0.2:7000";
/// Far longer than any step: only a failing test waits for this time.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(200);

struct Running {
    process: Child,
    near: File,
    far: File,
    far_process: u32,
    scratch: TempDir,
}

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidecore-lab"));
    command.args(["net", "link"]).args(arguments);
    command
}

fn said(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = lab(arguments).stdout(Stdio::null()).output().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

fn link(arguments: &[&str]) -> Option<Running> {
    if !Uid::effective().is_root() || !Path::new("/dev/net/tun").exists() {
        skipped("only root enters the namespaces of another process, and interfaces are made with /dev/net/tun");
        return None;
    }
    let scratch = tempfile::tempdir().unwrap();
    let json = scratch.path().join("counters.json");
    let mut command = lab(arguments);
    let mut process = command.arg("--json").arg(&json).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.as_mut().unwrap()).lines();
    let mut end = || {
        let line = lines.next().unwrap().unwrap();
        let number = line.split_whitespace().skip_while(|word| *word != "-t").nth(1).unwrap();
        let number: u32 = number.parse().unwrap();
        (number, File::open(format!("/proc/{number}/ns/net")).unwrap())
    };
    let ((_, near), (far_process, far)) = (end(), end());
    Some(Running { process, near, far, far_process, scratch })
}

impl Running {
    fn near<T: Send + 'static>(&self, does: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
        inside(&self.near, does)
    }

    fn far<T: Send + 'static>(&self, does: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
        inside(&self.far, does)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().cast_signed()), signal).unwrap();
    }

    /// Interrupts the link and returns its counters: near to far, and back.
    fn counters(mut self) -> [Value; 2] {
        self.signal(Signal::SIGINT);
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
        let rows = fs::read_to_string(self.scratch.path().join("counters.json")).unwrap();
        let rows: Vec<_> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        rows.try_into().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A failed test leaves it running.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn inside<T: Send + 'static>(namespace: &File, does: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    let namespace = namespace.try_clone().unwrap();
    thread::spawn(move || {
        setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
        does()
    })
}

fn bound(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    socket
}

fn of(counters: &Value, name: &str) -> u64 {
    counters[name].as_u64().unwrap()
}

fn echo(socket: &UdpSocket, enough: &AtomicBool) -> u64 {
    socket.set_read_timeout(Some(MOMENT)).unwrap();
    let (mut buffer, mut came) = ([0; 2048], 0);
    while !enough.load(Ordering::Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            came += 1;
            socket.send_to(&buffer[..length], from).unwrap();
        }
    }
    came
}

fn ask(socket: &UdpSocket, question: &[u8]) {
    let mut buffer = [0; 2048];
    let begun = Instant::now();
    while begun.elapsed() < TEST_TIMEOUT {
        socket.send(question).unwrap();
        while let Ok(length) = socket.recv(&mut buffer) {
            if &buffer[..length] == question {
                return;
            }
        }
    }
    panic!("no datagram is echoed");
}

fn with_echo(link: &Running, does: impl FnOnce(&UdpSocket) + Send + 'static) -> u64 {
    let enough = Arc::new(AtomicBool::new(false));
    let socket = link.far(|| bound(FAR)).join().unwrap();
    let far = link.far({
        let enough = enough.clone();
        move || echo(&socket, &enough)
    });
    let near = link.near(move || {
        let socket = bound(NEAR);
        socket.set_read_timeout(Some(MOMENT)).unwrap();
        socket.connect(FAR).unwrap();
        // Resolves the addresses before the measurement.
        ask(&socket, b"begin");
        does(&socket);
    });
    let done = near.join();
    enough.store(true, Ordering::Relaxed);
    let came = far.join().unwrap();
    done.unwrap();
    came
}

fn burst(link: &Running, datagrams: usize, length: usize) -> u64 {
    with_echo(link, move |socket| {
        (0..datagrams).for_each(|_| assert_eq!(socket.send(&vec![7; length]).unwrap(), length));
        ask(socket, b"end");
    })
}

fn stream(link: &Running, bytes: usize) {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let content = |seed| {
        let mut random = Random::new(seed);
        move || (0..1 << 13).flat_map(|_| random.bits().to_le_bytes()).collect::<Vec<u8>>()
    };
    let far = link.far(move || {
        let listener = TcpListener::bind(FAR).unwrap();
        ready.send(()).unwrap();
        let (mut connection, _) = listener.accept().unwrap();
        connection.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let (mut expected, mut came) = (content(5), vec![0; 1 << 16]);
        for part in 0..bytes >> 16 {
            connection.read_exact(&mut came).unwrap();
            assert!(came == expected(), "part {part} is not as it was sent");
        }
        assert_eq!(connection.read(&mut came).unwrap(), 0, "more came than was sent");
    });
    is_ready.recv().unwrap();
    let near = link.near(move || {
        let mut connection = TcpStream::connect(FAR).unwrap();
        let mut next = content(5);
        (0..bytes >> 16).for_each(|_| connection.write_all(&next()).unwrap());
    });
    near.join().unwrap();
    far.join().unwrap();
}

#[test]
fn a_round_trip_takes_twice_the_delay_at_least() {
    let Some(link) = link(&["--delay-us", "20000"]) else { return };
    with_echo(&link, |socket| {
        let begun = Instant::now();
        ask(socket, b"one");
        assert!(begun.elapsed() >= Duration::from_millis(40));
    });
}

#[test]
fn a_round_trip_takes_eight_accesses_to_registers_at_least() {
    // Accesses in each direction: a doorbell, two reads for the interrupt, and a descriptor.
    let Some(link) = link(&["--register-us", "1000"]) else { return };
    with_echo(&link, |socket| {
        let begun = Instant::now();
        ask(socket, b"one");
        assert!(begun.elapsed() >= Duration::from_millis(8));
    });
}

#[test]
fn as_many_frames_are_lost_as_the_seed_says() {
    let Some(link) = link(&["--loss-percent", "20", "--seed", "5", "--no-offload"]) else { return };
    burst(&link, 500, 100);
    let [there, back] = link.counters();
    for (counters, seed) in [(&there, 5), (&back, !5)] {
        let mut random = Random::new(seed);
        let lost = (0..of(counters, "frames")).filter(|_| random.uniform() < 0.2).count();
        assert_eq!(of(counters, "lost"), lost as u64, "{counters}");
    }
    assert!(of(&there, "lost") > 50, "{there}");
}

#[test]
fn each_frame_is_counted_once() {
    let settings = ["--rate-mbit", "10", "--queue", "10000", "--loss-percent", "2", "--moderate-count", "4"];
    let Some(link) = link(&[&settings[..], &["--moderate-us", "500", "--register-us", "1"]].concat()) else { return };
    let echoed = burst(&link, 400, 1000);
    let [there, back] = link.counters();
    for counters in [&there, &back] {
        let [frames, lost, dropped, delivered, refused, doorbells, interrupts, accesses] =
            ["frames", "lost", "dropped", "delivered", "refused", "doorbells", "interrupts", "accesses"]
                .map(|name| of(counters, name));
        // The kernel occasionally sends frames of its own, which may still be in flight.
        let under_way = frames - lost - dropped - delivered - refused;
        assert!(under_way < 10, "{counters}");
        assert_eq!(accesses, doorbells + 2 * interrupts + delivered + refused, "{counters}");
        assert!(interrupts * 4 >= delivered, "{counters}");
    }
    assert!(of(&there, "dropped") > 100, "{there}");
    assert!(of(&there, "delivered") >= echoed, "{there}: {echoed} came");
}

#[test]
fn a_packet_is_no_longer_than_was_set() {
    let Some(link) = link(&["--mtu", "576", "--no-offload"]) else { return };
    stream(&link, 1 << 20);
    let [there, _] = link.counters();
    let mean = of(&there, "bytes") / of(&there, "frames");
    assert!((500..=590).contains(&mean), "{there}");
}

#[test]
fn a_hundred_megabytes_arrive_as_they_were_sent() {
    let moderated = ["--no-offload", "--moderate-count", "16", "--moderate-us", "100"];
    for settings in [&[][..], &moderated, &["--no-offload", "--checksums"]] {
        let Some(link) = link(settings) else { return };
        stream(&link, 100 << 20);
        let [there, _] = link.counters();
        assert!(of(&there, "delivered_bytes") > 100 << 20, "{there}");
    }
}

#[test]
fn what_is_lost_is_sent_again_and_arrives() {
    let settings = ["--rate-mbit", "400", "--delay-us", "500", "--loss-percent", "0.5", "--queue", "60000"];
    let Some(link) = link(&settings) else { return };
    stream(&link, 10 << 20);
    let [there, _] = link.counters();
    assert!(of(&there, "lost") > 0, "{there}");
}

#[test]
fn a_link_that_is_killed_leaves_no_interface() {
    let Some(mut link) = link(&[]) else { return };
    let interfaces = || fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    assert!(link.near(interfaces).join().unwrap().contains("near:"));
    assert!(link.far(interfaces).join().unwrap().contains("far:"));
    link.signal(Signal::SIGKILL);
    link.process.wait().unwrap();
    assert!(!link.near(interfaces).join().unwrap().contains("near:"));
    assert!(!link.far(interfaces).join().unwrap().contains("far:"));
    let begun = Instant::now();
    while Path::new(&format!("/proc/{}", link.far_process)).exists() {
        assert!(begun.elapsed() < TEST_TIMEOUT, "the far end goes on");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_command_runs_in_the_near_end_and_gives_its_exit_code() {
    let Some(_) = link(&[]) else { return };
    let (code, _) =
        said(&["--", "sh", "-c", "grep -q near: /proc/net/dev && test -d /proc/$SIDECORE_FAR_PID && exit 7"]);
    assert_eq!(code, Some(7));
    assert_eq!(said(&["--", "sh", "-c", "kill -TERM $$"]).0, Some(128 + 15));
    let (code, text) = said(&["--", "/no/such/program"]);
    assert_eq!((code, text.contains("/no/such/program: No such file")), (Some(2), true), "{text}");
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let cases = [
        (&["--rate-mbit", "0"][..], "write a whole number from 1 on"),
        (&["--loss-percent", "101"], "--loss-percent is 0 to 100"),
        (&["--loss-percent", "nan"], "--loss-percent is 0 to 100"),
        (&["--mtu", "10"], "--mtu is 68"),
        (&["--delay-us=-5"], "--delay-us is"),
        (&["--moderate-count", "0", "--moderate-us", "5"], "--moderate-count is 1 to 4096"),
        (&["--moderate-count", "5"], "--moderate-us"),
        (&["--queue", "999999999999"], "--queue is"),
    ];
    for (arguments, remedy) in cases {
        let (code, text) = said(arguments);
        assert_eq!((code, text.contains(remedy)), (Some(2), true), "{arguments:?}: {text}");
    }
}
