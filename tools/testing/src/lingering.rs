//! Sockets that take long to close.

use rustix::net::sockopt;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// A TCP socket that takes a day to close, and its peer.
///
/// # Panics
/// The system has no connection.
pub fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // A small buffer is enough where the peer's room is smaller.
    sockopt::set_socket_recv_buffer_size(&listener, 2048).unwrap();
    let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let there = listener.accept().unwrap().0;
    sockopt::set_socket_send_buffer_size(&here, 32_768).unwrap();
    here.set_nonblocking(true).unwrap();
    while (&here).write(&[7; 8192]).is_ok() {}
    sockopt::set_socket_linger(&here, Some(Duration::from_secs(86_400))).unwrap();
    (here, there)
}
