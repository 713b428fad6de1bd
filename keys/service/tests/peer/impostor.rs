//! An impostor at the service's socket, which prints the size of clients' messages.

use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, recv, socket_with,
};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use sidecore::client::{Client, Options};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

pub(crate) fn run(socket: &str, uid: &str) {
    let number = uid.parse().expect("a number");
    let (uid, gid) = (Uid::from_raw(number), Gid::from_raw(number));
    set_thread_groups(&[]).expect("root may");
    set_thread_res_gid(gid, gid, gid).expect("root may");
    set_thread_res_uid(uid, uid, uid).expect("root may");
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let listener = listener.expect("a socket");
    bind(&listener, &SocketAddrUnix::new(socket).expect("a short path")).expect("a place for it");
    listen(&listener, 8).expect("clients");
    set_permissions(socket, Permissions::from_mode(0o666)).expect("its own file");
    println!("listening");
    loop {
        let client = accept(&listener).expect("a client");
        let (said, _) = recv(&client, &mut [0; 16 * 1024][..], RecvFlags::empty()).expect("a message, or the end");
        println!("{said} bytes");
    }
}

pub(crate) fn visit(socket: &str) {
    let mut options = Options::default();
    println!("{}", options.socket.display());
    println!("{}", options.service_users.join(","));
    options.socket = socket.into();
    match Client::connect(&options) {
        Ok(_) => println!("attached"),
        Err(error) => println!("{error}"),
    }
}
