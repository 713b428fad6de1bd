//! A relay between a client and the service. It forwards all messages, and keeps a copy of them and of the lanes'
//! memory.

use crate::memory::Needles;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, sendmsg,
    socket_with,
};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

/// Room for the largest packet, and for more descriptors than a packet has.
const PACKET: usize = 64 * 1024;
const DESCRIPTORS: usize = 8;

#[derive(Default)]
struct Recorded {
    packets: Vec<Vec<u8>>,
    files: Vec<File>,
}

pub(crate) struct Relay {
    recorded: Arc<Mutex<Recorded>>,
}

impl Relay {
    pub(crate) fn start(at: &Path, to: &Path) -> Self {
        let recorded = Arc::new(Mutex::new(Recorded::default()));
        let listener = socket();
        bind(&listener, &SocketAddrUnix::new(at).unwrap()).unwrap();
        listen(&listener, 16).unwrap();
        let (copy, to) = (Arc::clone(&recorded), to.to_owned());
        thread::spawn(move || serve(&listener, &to, &copy));
        Self { recorded }
    }

    pub(crate) fn size(&self) -> (usize, u64) {
        let recorded = self.recorded.lock().unwrap();
        (recorded.packets.len(), recorded.files.iter().map(length).sum())
    }

    pub(crate) fn search(&self, needles: &Needles) -> BTreeSet<String> {
        let recorded = self.recorded.lock().unwrap();
        let mut found: BTreeSet<String> = recorded.packets.iter().flat_map(|packet| needles.in_bytes(packet)).collect();
        for file in &recorded.files {
            let mut memory = vec![0; length(file) as usize];
            file.read_exact_at(&mut memory, 0).unwrap();
            found.extend(needles.in_bytes(&memory));
        }
        found
    }
}

fn length(file: &File) -> u64 {
    let about = file.metadata().unwrap();
    if about.is_file() { about.len() } else { 0 }
}

fn socket() -> OwnedFd {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

fn serve(listener: &OwnedFd, to: &PathBuf, recorded: &Arc<Mutex<Recorded>>) {
    while let Ok(client) = accept_with(listener, SocketFlags::CLOEXEC) {
        let service = socket();
        if connect(&service, &SocketAddrUnix::new(to).unwrap()).is_err() {
            continue;
        }
        let (client, service) = (Arc::new(client), Arc::new(service));
        for (from, to) in [(&client, &service), (&service, &client)] {
            let (from, to, recorded) = (Arc::clone(from), Arc::clone(to), Arc::clone(recorded));
            thread::spawn(move || {
                while let Ok(true) = pass_on(&from, &to, &recorded) {}
                let _ = rustix::net::shutdown(&*to, rustix::net::Shutdown::Both);
            });
        }
    }
}

/// Forwards one packet. `false`: the connection has ended.
fn pass_on(from: &OwnedFd, to: &OwnedFd, recorded: &Mutex<Recorded>) -> io::Result<bool> {
    let mut packet = vec![0; PACKET];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(from, &mut [IoSliceMut::new(&mut packet)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let files: Vec<File> = control.drain().filter_map(rights).flatten().map(File::from).collect();
    packet.truncate(got.bytes);
    if packet.is_empty() {
        return Ok(false);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    if !borrowed.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
    }
    // Stored before forwarding: a caller with the reply finds the request in the copy.
    let mut recorded = recorded.lock().unwrap();
    let sent = sendmsg(to, &[IoSlice::new(&packet)], &mut control, SendFlags::NOSIGNAL);
    recorded.packets.push(packet);
    recorded.files.extend(files);
    Ok(sent.is_ok())
}

fn rights(message: RecvAncillaryMessage<'_>) -> Option<impl Iterator<Item = OwnedFd>> {
    match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    }
}
