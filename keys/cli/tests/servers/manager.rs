//! A service manager that keeps a service's socket for the next service.

use crate::programs::{BOUND, wait_for};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, bind,
    listen, recvmsg, socket_with,
};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The manager of one service, with room for one descriptor: `FileDescriptorStoreMax=1`.
pub(crate) struct Manager {
    path: PathBuf,
    socket: OwnedFd,
    pub(crate) held: Option<OwnedFd>,
    /// The process that the service named as its main one.
    pub(crate) main: Option<u32>,
}

impl Manager {
    pub(crate) fn new(directory: &Path) -> Self {
        let path = directory.join("notify");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        Self { path, socket, held: None, main: None }
    }

    pub(crate) fn listen(&mut self, path: &Path) {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        listen(&socket, 16).unwrap();
        self.held = Some(socket);
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let Some(held) = &self.held else {
            let mut command = Command::new(program);
            command.stdin(Stdio::null()).env("NOTIFY_SOCKET", &self.path);
            return command;
        };
        // `exec` keeps the process id that the shell has put into `LISTEN_PID`.
        let script = "export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=socket; exec \"$0\" \"$@\" 3<&0 </dev/null";
        let mut command = Command::new("sh");
        command.args(["-c", script, program]).env("NOTIFY_SOCKET", &self.path);
        command.stdin(held.try_clone().unwrap());
        command
    }

    pub(crate) fn wait_until_ready(&mut self) {
        self.wait_for_line("READY=1");
    }

    /// Reads messages up to one with this line.
    pub(crate) fn wait_for_line(&mut self, expected: &str) {
        let said = wait_for(BOUND, || {
            while let Some(message) = self.next() {
                if message.lines().any(|line| line == expected) {
                    return true;
                }
            }
            false
        });
        assert!(said, "the service does not say {expected}");
    }

    fn next(&mut self) -> Option<String> {
        let (mut bytes, mut space) = ([0; 4096], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))]);
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags).ok()?;
        let message = String::from_utf8(bytes[..got.bytes].to_vec()).unwrap();
        if message.lines().any(|line| line == "FDSTOREREMOVE=1") {
            self.held = None;
        }
        if let Some(main) = message.lines().find_map(|line| line.strip_prefix("MAINPID=")) {
            self.main = main.parse().ok();
        }
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut sent) = part
                && self.held.is_none()
                && message.contains("FDSTORE=1")
            {
                self.held = sent.next();
            }
        }
        Some(message)
    }
}
