//! A program that lives and dies at a test's word while the test speaks on its connection, and a service of sockets in a
//! process of its own.

use crate::neighbour::become_user;
use crate::wait_for_line;
use sidecore::config::Config;
use sidecore::sockets::Sockets;
use sidecore::sys::clock;
use sidecore_client::sys::packet::{connect_by, send};
use std::io::stdin;
use std::os::fd::AsFd;

/// Connects as that user, and hands the connection over through standard input, which is a socket.
pub(crate) fn run(socket: &str, uid: u32) {
    become_user(uid);
    let control = connect_by(socket.as_ref(), clock::now() + 10_000_000_000).expect("the service listens");
    send(stdin(), b"here", &[control.as_fd()]).expect("a test");
    wait_for_line();
}

/// Serves until killed or told to end.
pub(crate) fn serve(socket: &str, config: &str) {
    let config = Config { socket: socket.into(), ..Config::parse(config).expect("a good configuration") };
    let _service = Sockets::start(&config).expect("a service");
    println!("serving");
    wait_for_line();
}
