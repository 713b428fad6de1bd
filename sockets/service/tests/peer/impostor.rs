//! An impostor at the service's socket, which prints the size of programs' messages.

use crate::user::become_user;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, recv, socket_with,
};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

pub(crate) fn run(socket: &str, uid: u32) {
    become_user(uid);
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let listener = listener.expect("a socket");
    bind(&listener, &SocketAddrUnix::new(socket).expect("a short path")).expect("a place for it");
    listen(&listener, 8).expect("programs");
    set_permissions(socket, Permissions::from_mode(0o666)).expect("its own file");
    println!("listening");
    loop {
        let program = accept(&listener).expect("a program");
        let (said, _) = recv(&program, &mut [0; 16 * 1024][..], RecvFlags::empty()).expect("a message, or the end");
        println!("{said} bytes");
    }
}
