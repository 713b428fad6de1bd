//! A user that connects and hangs up in a loop.

use crate::neighbour::become_user;
use crate::raw::attach_request;
use crate::wait_for_line;
use sidecore::control;
use sidecore_ipc::sys::clock;
use sidecore_ipc::sys::packet::connect_by;
use sidecore_ipc::sys::poll::wait_readable;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Connections at a time: more than this machine has cores, in all likelihood.
const AT_A_TIME: usize = 8;
/// How long a connection or an answer may take, ns.
const TIMEOUT_NS: u64 = 60_000_000_000;

pub(crate) fn run(socket: &str, what: &str, uid: u32) {
    become_user(uid);
    let connections = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    once(socket, what);
                    connections.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        println!("churning");
        while wait_for_line().is_some() {
            println!("{}", connections.load(Ordering::Relaxed));
        }
        std::process::exit(0);
    });
}

fn once(socket: &str, what: &str) {
    let connection = connect_by(socket.as_ref(), clock::now() + TIMEOUT_NS).expect("the service listens");
    // It may have been declined, with the connection closed.
    let _ = match what {
        "nothing" => Ok(()),
        "lane" => control::send(&connection, &attach_request(8, 4096), &[]),
        _ => panic!("nothing to ask for: {what}"),
    };
    if what != "nothing" {
        answered(&connection);
    }
}

fn answered(connection: &OwnedFd) {
    wait_readable(connection.as_fd(), Some(TIMEOUT_NS)).expect("an answer");
}
