//! The receiver of the measured program's datagrams: one thread that takes and counts them.

use super::content::Content;
use super::ffi::{Batch, receive_buffer};
use super::peer::{PeerReport, failed};
use crate::bench::task::Sending;
use sidecore_ipc::sys::clock;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Receive buffer in bytes by the kernel's accounting: a second of traffic of a program alone, if the system permits
/// it.
const ROOM: usize = 128 << 20;
const WAIT: Duration = Duration::from_millis(10);
/// Missing datagrams count as lost after a silence of this length since the program's end, ns.
const LOSS_TIMEOUT_NS: u64 = 100_000_000;
/// Value of `sent` until the program has ended.
pub(super) const UNKNOWN: u64 = u64::MAX;

pub(super) fn prepare(socket: &UdpSocket) -> io::Result<()> {
    receive_buffer(socket, ROOM)?;
    socket.set_read_timeout(Some(WAIT))
}

pub(super) fn receive(socket: &UdpSocket, sending: &Sending, sent: &AtomicU64) -> io::Result<PeerReport> {
    let mut report = PeerReport::new();
    let mut batch = Batch::new(sending.size);
    let mut order = Order { content: Content::new(sending.size, sending.checked), next: 0 };
    let mut heard_at = clock::now();
    loop {
        let count = batch.receive(socket).or_else(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(0),
            _ => Err(error),
        })?;
        for datagram in batch.datagrams(count) {
            if datagram.len() != sending.size {
                return Err(failed(format!("a datagram of {} bytes, and {} were sent", datagram.len(), sending.size)));
            }
            if sending.checked {
                order.check(datagram)?;
            }
        }
        let now = clock::now();
        report.came(now, (count * sending.size) as u64);
        if count > 0 {
            heard_at = now;
        }
        let sent = sent.load(Ordering::Acquire);
        if sent != UNKNOWN && (report.bytes >= sent || now > heard_at + LOSS_TIMEOUT_NS) {
            report.ended(now);
            report.cpu_ns = clock::thread_cpu();
            return Ok(report);
        }
    }
}

/// Expects increasing numbers; gaps are allowed.
struct Order {
    content: Content,
    next: u64,
}

impl Order {
    fn check(&mut self, datagram: &[u8]) -> io::Result<()> {
        let number = datagram.first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
        if number < self.next {
            let last = self.next - 1;
            return Err(failed(format!("datagram {number} came after datagram {last}: late, or a second time")));
        }
        if !self.content.is_numbered(number, datagram) {
            return Err(failed(format!("other bytes than were sent in what says to be datagram {number}")));
        }
        self.next = number + 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_may_be_lost_but_not_late_doubled_or_changed() {
        let datagram = |number| {
            let mut datagram = vec![0; 64];
            Content::new(64, true).number(number, &mut datagram);
            datagram
        };
        let check = |datagrams: &[Vec<u8>]| {
            let mut order = Order { content: Content::new(64, true), next: 0 };
            datagrams.iter().try_for_each(|datagram| order.check(datagram)).map_err(|error| error.to_string())
        };
        assert_eq!(check(&[0, 1, 5, 6].map(datagram)), Ok(()));
        for late in [[0, 1, 1], [0, 2, 1]] {
            assert!(check(&late.map(datagram)).unwrap_err().contains("late, or a second time"));
        }
        let mut changed = datagram(3);
        changed[63] ^= 1;
        assert!(check(&[changed]).unwrap_err().contains("other bytes"));
    }

    #[test]
    fn what_does_not_come_ends_the_wait() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        prepare(&socket).unwrap();
        let to = socket.local_addr().unwrap();
        let program = UdpSocket::bind("127.0.0.1:0").unwrap();
        program.send_to(&[0; 64], to).unwrap();
        program.send_to(&[1; 64], to).unwrap();
        let sending = Sending::example(to);
        let report = receive(&socket, &sending, &AtomicU64::new(3 * 64)).unwrap();
        assert_eq!(report.bytes, 128);
        program.send_to(&[0; 65], to).unwrap();
        assert!(receive(&socket, &sending, &AtomicU64::new(UNKNOWN)).is_err());
    }
}
