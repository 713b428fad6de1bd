//! One TCP connection.

use super::{Latencies, Role, Worker, is_only_a_look};
use std::io::{self, Read, Write};
use std::net::TcpStream;

const READ_BYTES: usize = 128 * 1024;

pub(super) fn run(mut worker: Worker, mut stream: TcpStream, role: Role) -> Latencies {
    // A broken connection ends its part of the load. Earlier traffic counts.
    let _ = match role {
        Role::Sends => sends(&mut worker, &mut stream),
        Role::Receives => receives(&worker, &mut stream),
        Role::Asks => asks(&mut worker, &mut stream),
        Role::Answers => answers(&worker, &mut stream),
    };
    worker.latencies
}

fn sends(worker: &mut Worker, stream: &mut TcpStream) -> io::Result<()> {
    let message = vec![0; worker.size];
    loop {
        worker.pace.next();
        if !whole(worker, message.len(), |from| stream.write(&message[from..]))? {
            return Ok(());
        }
        worker.counters.sent.add(1, message.len());
    }
}

fn receives(worker: &Worker, stream: &mut TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => worker.counters.received.add(1, read),
            Err(error) if !is_only_a_look(&error) => return Err(error),
            Err(_) => {}
        }
        if worker.is_over() {
            return Ok(());
        }
    }
}

fn asks(worker: &mut Worker, stream: &mut TcpStream) -> io::Result<()> {
    let mut message = vec![0; worker.size];
    loop {
        let began = worker.pace.next();
        if !whole(worker, message.len(), |from| stream.write(&message[from..]))? {
            return Ok(());
        }
        worker.counters.sent.add(1, message.len());
        if !whole(worker, message.len(), |from| some(stream.read(&mut message[from..])))? {
            return Ok(());
        }
        worker.counters.received.add(1, message.len());
        worker.answered(began);
    }
}

fn answers(worker: &Worker, stream: &mut TcpStream) -> io::Result<()> {
    let mut message = vec![0; worker.size];
    loop {
        if !whole(worker, message.len(), |from| some(stream.read(&mut message[from..])))? {
            return Ok(());
        }
        worker.counters.received.add(1, message.len());
        if !whole(worker, message.len(), |from| stream.write(&message[from..]))? {
            return Ok(());
        }
        worker.counters.sent.add(1, message.len());
    }
}

/// Repeats `part` until `len` bytes are done; its argument is the number done so far. `false`: the load has ended.
fn whole(worker: &Worker, len: usize, mut part: impl FnMut(usize) -> io::Result<usize>) -> io::Result<bool> {
    let mut done = 0;
    while done < len {
        if worker.is_over() {
            return Ok(false);
        }
        match part(done) {
            Ok(more) => done += more,
            Err(error) if is_only_a_look(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn some(read: io::Result<usize>) -> io::Result<usize> {
    read.and_then(|read| if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(read) })
}
