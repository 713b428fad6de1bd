//! The program of `bench sockets --op udp`: sends datagrams to one receiver by the C library's `send`, as a shipper of
//! metrics does.

use super::super::error::BenchError;
use super::super::sockets::content::Content;
use super::super::task::Sending;
use super::sending::CLOCK_EVERY;
use sidecore_ipc::sys::clock;
use sidecore_measure::experiment::Measured;
use std::net::{Ipv4Addr, UdpSocket};

/// Returns the datagrams that count, and the bytes of all.
pub(super) fn send(sending: &Sending) -> Result<Measured, BenchError> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(sending.to)?;
    let content = Content::new(sending.size, sending.checked);
    let mut message = content.at(0, sending.size).to_vec();
    let start = clock::now() + sending.warm_up;
    let mut sent = 0;
    let mut measured = None;
    loop {
        for _ in 0..CLOCK_EVERY {
            content.number(sent, &mut message);
            socket.send(&message).map_err(BenchError::on(format!("datagram {sent}")))?;
            sent += 1;
        }
        let now = clock::now();
        if now < start {
            continue;
        }
        let (began, cpu, before) = *measured.get_or_insert_with(|| (now, clock::process_cpu(), sent));
        if now >= began + sending.ns {
            let (ops, cpu_ns) = (sent - before, clock::process_cpu() - cpu);
            let bytes = sent * sending.size as u64;
            return Ok(Measured { ops, ns: now - began, began, cpu_ns, bytes, ..Measured::default() });
        }
    }
}
