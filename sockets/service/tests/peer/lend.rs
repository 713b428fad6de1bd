//! A program that lives and dies on a test's command while the test uses its connection, and a service of sockets in
//! a process of its own.

use crate::sys::Never;
use crate::user::become_user;
use crate::{config, wait_for_line};
use sidecore_ipc::message;
use sidecore_ipc::sys::clock;
use sidecore_ipc::sys::packet::{connect_by, send};
use sidecore_ipc::sys::poll::wait_readable;
use sidecore_sockets::protocol::{Ask, Reply};
use sidecore_sockets_service::Config;
use sidecore_sockets_service::Sockets;
use sidecore_streams::layout::ABI;
use std::io::stdin;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

pub(crate) fn run(socket: &str, uid: u32) {
    become_user(uid);
    let control = connect_by(socket.as_ref(), clock::now() + 10_000_000_000).expect("the service listens");
    send(stdin(), b"here", &[control.as_fd()]).expect("a test");
    wait_for_line();
}

/// Makes the service wait for a socket's lock, which this program never releases.
pub(crate) fn hold_up(socket: &str, uid: u32) {
    let never = Never::new().expect("root may");
    become_user(uid);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let here = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let here = OwnedFd::from(here);
    let control = connect_by(socket.as_ref(), clock::now() + 10_000_000_000).expect("the service listens");
    message::send(&control, &Ask::Hello { abi: ABI, name: "held up".to_owned() }, &[]).expect("room");
    wait_readable(control.as_fd(), None).expect("an answer");
    let welcome: (Reply, Vec<OwnedFd>) = message::receive(&control).expect("an answer");
    assert_eq!(welcome.1.len(), 3, "{welcome:?}");
    never.send(&here);
    message::send(&control, &Ask::Promote { place: 0, stream: 1 }, &[here.as_fd()]).expect("room");
    println!("holding");
    wait_for_line();
}

pub(crate) fn serve(socket: &str, text: &str) {
    let config = config(text);
    let config = Config { socket: socket.into(), ..config };
    let mut service = Sockets::start(&config).expect("a service");
    let warnings = service.take_warnings().expect("nobody has them");
    thread::spawn(move || warnings.iter().for_each(|warning| println!("{warning}")));
    println!("serving");
    wait_for_line();
}
