//! Datagrams sent over a link at random times, and their arrival times by the kernel's stamps.

use super::super::super::pair::{FAR, NEAR, Pair};
use super::super::Link;
use crate::error::LabError;
use nix::cmsg_space;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::sockopt::{self, ReceiveTimestampns};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use sidecore::core::time::Nanos;
use sidecore_sim::engine::Random;
use std::fs::File;
use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PORT: u16 = 5218;
/// Number in a datagram: this value before counting starts.
const HELLO: u64 = u64::MAX;
const SIZE: usize = 64;
/// Tries of the first datagram, and the wait for each: address resolution between the ends takes time.
const HELLOS: u32 = 50;
const MOMENT: Duration = Duration::from_millis(40);
/// Receive buffer, bytes by the kernel's accounting.
const ROOM: usize = 32 << 20;
const ARRIVAL_TIMEOUT: Duration = Duration::from_millis(500);
const MAX_LOST: f64 = 0.01;
/// Largest accepted adjustment of the stamping clock during the run, ns.
const STEADY: u128 = 100_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    /// Mean rate per second; gaps are exponential.
    pub(super) rate: f64,
    pub(super) count: u32,
    pub(super) seed: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Went {
    /// Sending times since the first, ns.
    pub(super) sent_at: Vec<Nanos>,
    pub(super) latency_us: f64,
    pub(super) per_interrupt: f64,
}

impl Sending {
    pub(super) fn over(self, pair: &Pair, link: &Link) -> Result<Went, LabError> {
        let wrong = |error: std::io::Error| LabError::failed("the ends of the link do not find each other", error);
        let far = File::open(format!("/proc/{}/ns/net", pair.far.id())).map_err(wrong)?;
        let (heard, first) = mpsc::channel();
        let receiver = thread::spawn(move || receive(far, &heard));
        let socket = UdpSocket::bind((NEAR, 0)).map_err(wrong)?;
        socket.connect((FAR, PORT)).map_err(wrong)?;
        greet(&socket, &first)?;
        let before = link.counters()[0];
        let (clock, offset) = (Instant::now(), wall());
        let sent = self.send(&socket);
        let drift = wall().abs_diff(offset + clock.elapsed().as_nanos());
        let arrived = receiver.join().map_err(|_| LabError::broken("the far end failed"))??;
        if drift > STEADY {
            return Err(LabError::broken("the machine's clock was set meanwhile: measure again"));
        }
        let after = link.counters()[0];
        let interrupts = (after.interrupts - before.interrupts).max(1);
        let latencies: Vec<f64> = arrived
            .iter()
            .filter_map(|(number, at)| Some((*at as f64 - *sent.get(usize::try_from(*number).ok()?)? as f64) / 1e3))
            .collect();
        if (latencies.len() as f64) < f64::from(self.count) * (1.0 - MAX_LOST) {
            return Err(LabError::broken(format!(
                "of {} datagrams {} arrived: the machine has no time for the link",
                self.count,
                latencies.len()
            )));
        }
        Ok(Went {
            latency_us: latencies.iter().sum::<f64>() / latencies.len() as f64,
            per_interrupt: (after.delivered - before.delivered) as f64 / interrupts as f64,
            sent_at: sent.iter().map(|at| u64::try_from(at.saturating_sub(sent[0])).unwrap_or(0)).collect(),
        })
    }

    fn send(self, socket: &UdpSocket) -> Vec<u128> {
        let mut random = Random::new(self.seed);
        let (began, mut due) = (Instant::now(), Duration::ZERO);
        let mut sent = Vec::with_capacity(self.count as usize);
        for number in 0..u64::from(self.count) {
            due += Duration::from_secs_f64(random.exponential(1.0 / self.rate));
            thread::sleep(due.saturating_sub(began.elapsed()));
            sent.push(wall());
            // A datagram that is not sent counts as lost.
            let _ = socket.send(&datagram(number));
        }
        sent
    }
}

fn datagram(number: u64) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The clock of arrival stamps, ns.
fn wall() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

fn greet(socket: &UdpSocket, first: &Receiver<()>) -> Result<(), LabError> {
    for _ in 0..HELLOS {
        // It may be refused until the far socket exists.
        let _ = socket.send(&datagram(HELLO));
        match first.recv_timeout(MOMENT) {
            Ok(()) => return Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    Err(LabError::broken("no datagram came through the link"))
}

fn receive(namespace: File, heard: &Sender<()>) -> Result<Vec<(u64, u128)>, LabError> {
    let wrong = |error: nix::Error| LabError::failed("the far end cannot receive", error);
    setns(namespace, CloneFlags::CLONE_NEWNET).map_err(wrong)?;
    let socket = UdpSocket::bind((FAR, PORT)).map_err(|error| LabError::failed("the far end cannot receive", error))?;
    setsockopt(&socket, ReceiveTimestampns, &true).map_err(wrong)?;
    // The buffer holds datagrams while this thread is late. Without privileges it is smaller.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &ROOM).or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &ROOM));
    let patience = |time| socket.set_read_timeout(Some(time));
    // The greeting takes no longer.
    patience(MOMENT * (HELLOS + 1))?;
    let (mut bytes, mut space, mut arrived) = ([0; SIZE], cmsg_space!(TimeSpec), Vec::new());
    loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let stamp = match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::empty()) {
            Ok(message) => message.cmsgs().ok().and_then(|mut all| all.find_map(|message| stamp(&message))),
            Err(nix::errno::Errno::EINTR) => continue,
            // Silence: the run is over.
            Err(nix::errno::Errno::EAGAIN) => return Ok(arrived),
            Err(error) => return Err(wrong(error)),
        };
        let number = bytes.first_chunk().map_or(HELLO, |number| u64::from_le_bytes(*number));
        if number == HELLO {
            // The receiver of this channel waits only for the first one.
            let _ = heard.send(());
            patience(ARRIVAL_TIMEOUT)?;
        } else {
            arrived.extend(stamp.map(|at| (number, at)));
        }
    }
}

fn stamp(message: &ControlMessageOwned) -> Option<u128> {
    let ControlMessageOwned::ScmTimestampns(at) = message else { return None };
    Some(Duration::from(*at).as_nanos())
}
