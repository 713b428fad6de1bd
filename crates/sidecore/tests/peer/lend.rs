//! A program that lives and dies at a test's word: the test speaks on its connection.

use crate::neighbour::become_user;
use sidecore::sys::clock;
use sidecore_client::sys::packet::{connect_by, send};
use std::io::{Read, stdin};
use std::os::fd::AsFd;

/// Connects as that user, and hands the connection over through standard input, which is a socket.
pub(crate) fn run(socket: &str, uid: u32) {
    become_user(uid);
    let control = connect_by(socket.as_ref(), clock::now() + 10_000_000_000).expect("the service listens");
    send(stdin(), b"here", &[control.as_fd()]).expect("a test");
    // Until the test lets go.
    let _ = stdin().read(&mut [0]);
}
