//! One UDP socket, connected to its peer. Datagrams may be lost, so no wait is unlimited.

use super::super::protocol::MAX_DATAGRAM;
use super::{Latencies, Role, Worker, is_only_a_look};
use std::io;
use std::net::UdpSocket;

pub(super) fn run(mut worker: Worker, socket: &UdpSocket, role: Role, token: u64) -> Latencies {
    let _ = match role {
        Role::Sends => sends(&mut worker, socket),
        Role::Receives => receives(&worker, socket, token, false),
        Role::Asks => asks(&mut worker, socket),
        Role::Answers => receives(&worker, socket, token, true),
    };
    worker.latencies
}

fn passes(error: &io::Error) -> bool {
    // The peer's port may not be open yet, or closed already, or a queue on the path is full.
    is_only_a_look(error)
        || error.kind() == io::ErrorKind::ConnectionRefused
        || error.raw_os_error() == Some(libc::ENOBUFS)
}

fn sends(worker: &mut Worker, socket: &UdpSocket) -> io::Result<()> {
    let message = vec![0; worker.size];
    while !worker.is_over() {
        worker.pace.next();
        match socket.send(&message) {
            Ok(sent) => worker.counters.sent.add(1, sent),
            Err(error) if passes(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn receives(worker: &Worker, socket: &UdpSocket, token: u64, answers: bool) -> io::Result<()> {
    let mut buffer = vec![0; MAX_DATAGRAM];
    while !worker.is_over() {
        let read = match socket.recv(&mut buffer) {
            Ok(read) => read,
            Err(error) if passes(&error) => continue,
            Err(error) => return Err(error),
        };
        if buffer[..read] == token.to_le_bytes() {
            continue;
        }
        worker.counters.received.add(1, read);
        if answers && socket.send(&buffer[..read]).is_ok() {
            worker.counters.sent.add(1, read);
        }
    }
    Ok(())
}

fn asks(worker: &mut Worker, socket: &UdpSocket) -> io::Result<()> {
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut number = 0_u64;
    let mut message = vec![0; worker.size];
    while !worker.is_over() {
        let began = worker.pace.next();
        number += 1;
        // The number, as far as the message has room: a late answer to another question is recognized.
        message.iter_mut().zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
        match socket.send(&message) {
            Ok(sent) => worker.counters.sent.add(1, sent),
            Err(error) if passes(&error) => continue,
            Err(error) => return Err(error),
        }
        loop {
            match socket.recv(&mut buffer) {
                Ok(read) if buffer[..read] != message[..] => {}
                Ok(read) => {
                    worker.counters.received.add(1, read);
                    worker.answered(began);
                    break;
                }
                // Lost, or refused.
                Err(error) if passes(&error) => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
