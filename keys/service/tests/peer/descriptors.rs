//! A program that closes all descriptors and opens its own at their numbers, as daemons do; then it continues to use
//! its client.

use crate::options;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FileType, fstat, memfd_create};
use rustix::io::{Errno, fcntl_dupfd_cloexec, ioctl_fionbio, read};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use sidecore::client::{Client, Error, Options, Request, Session};
use sidecore::core::policy::notify::Notify;
use sidecore::core::session::{Class, Op};
use sidecore::engine::crypto::sample::sample;
use std::collections::BTreeSet;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd, RawFd};

mod ffi {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

    pub(super) fn close(fd: RawFd) {
        // SAFETY: what any program may do, and the matter of this test.
        unsafe { libc::close(fd) };
    }

    pub(super) fn put(from: OwnedFd, at: RawFd) -> OwnedFd {
        if from.as_raw_fd() == at {
            return from;
        }
        // SAFETY: as above; from here on it is the caller's.
        unsafe {
            assert_eq!(libc::dup2(from.as_raw_fd(), at), at);
            OwnedFd::from_raw_fd(at)
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    File,
    Socket,
    Packets,
    Event,
    Pipe,
}

const KINDS: [Kind; 5] = [Kind::File, Kind::Socket, Kind::Packets, Kind::Event, Kind::Pipe];
const USES: [fn(&mut Client, Session); 6] = [ring_and_wait, look, ask, arm, close_session, do_nothing];

/// For every use of a lane and every kind of descriptor at each of its numbers: the foreign descriptor stays
/// untouched.
pub(crate) fn use_foreign(socket: &str) {
    for go_on in USES {
        for first in 0..KINDS.len() {
            let before = open_numbers();
            let notify = [None, Some(Notify::Spin)][first % 2];
            let mut client = Client::connect(&Options { notify, ..options(socket) }).expect("a lane");
            let session = client.open_session(&sample(Class::NOOP, 0, 0).spec).expect("a session");
            let numbers: Vec<RawFd> = open_numbers().difference(&before).copied().collect();
            assert_eq!(numbers.len(), 4, "socket, doorbell with both its ends, wake-up pipe: {numbers:?}");
            for number in &numbers {
                ffi::close(*number);
            }
            let kinds = (first..).map(|place| KINDS[place % KINDS.len()]);
            let things: Vec<Thing> = numbers.iter().zip(kinds).map(|(number, kind)| Thing::at(*number, kind)).collect();
            go_on(&mut client, session);
            drop(client);
            things.iter().for_each(Thing::is_untouched);
            // The program closes its own descriptors.
            drop(things);
            let mut next = Client::connect(&options(socket)).expect("another lane");
            next.open_session(&sample(Class::NOOP, 0, 0).spec).expect("a session");
        }
    }
    println!("done");
}

pub(crate) fn begin_without(socket: &str) {
    let mut output = std::fs::File::from(fcntl_dupfd_cloexec(std::io::stdout(), 100).expect("a descriptor"));
    (0..3).for_each(ffi::close);
    let mut client = Client::connect(&options(socket)).expect("a lane");
    client.open_session(&sample(Class::NOOP, 0, 0).spec).expect("a session");
    assert!(open_numbers().iter().all(|number| *number > 2));
    writeln!(output, "done").expect("the test reads");
}

fn open_numbers() -> BTreeSet<RawFd> {
    let listed = std::fs::read_dir("/proc/self/fd").expect("procfs");
    let numbers: Vec<RawFd> =
        listed.map(|entry| entry.expect("procfs").file_name().to_string_lossy().parse().expect("a number")).collect();
    // Not the directory itself.
    numbers.into_iter().filter(|number| std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok()).collect()
}

fn is_gone<T>(result: Result<T, Error>) {
    let error = result.err();
    assert!(matches!(error, Some(Error::Gone(_))), "{error:?}");
}

fn ring_and_wait(client: &mut Client, session: Session) {
    submit(client, session);
    is_gone(client.wait());
}

fn look(client: &mut Client, session: Session) {
    submit(client, session);
    is_gone(client.check());
    is_gone(client.wait_for(60_000_000_000));
}

fn submit(client: &mut Client, session: Session) {
    let request = Request { session, op: Op::Noop, head_len: 0, inputs: &[], outputs: &[], urgent: true };
    client.submit(0, &request).expect("room");
    client.ring();
}

fn ask(client: &mut Client, _: Session) {
    is_gone(client.key_info("name"));
    is_gone(client.open_session(&sample(Class::NOOP, 0, 0).spec));
}

fn arm(client: &mut Client, session: Session) {
    submit(client, session);
    is_gone(client.arm());
    is_gone(client.wake_fd());
}

fn close_session(client: &mut Client, session: Session) {
    is_gone(client.close_session(session));
}

fn do_nothing(_: &mut Client, _: Session) {}

struct Thing {
    fd: OwnedFd,
    kind: Kind,
    inode: (u64, u64),
    receives: Option<OwnedFd>,
}

impl Thing {
    fn at(number: RawFd, kind: Kind) -> Self {
        let (made, receives): (OwnedFd, Option<OwnedFd>) = match kind {
            Kind::File => (memfd_create("data", rustix::fs::MemfdFlags::CLOEXEC).expect("a file"), None),
            Kind::Event => (eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an event"), None),
            Kind::Socket => pair(SocketType::STREAM),
            Kind::Packets => pair(SocketType::SEQPACKET),
            Kind::Pipe => {
                let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
                (writer, Some(reader))
            }
        };
        let status = fstat(&made).expect("a file");
        // At a high number that no other descriptor takes.
        let receives = receives.map(|end| fcntl_dupfd_cloexec(end, 200).expect("a descriptor"));
        if let Some(receives) = &receives {
            ioctl_fionbio(receives, true).expect("a descriptor");
        }
        let fd = ffi::put(made, number);
        Self { fd, kind, inode: (status.st_dev, status.st_ino), receives }
    }

    fn is_untouched(&self) {
        let status = fstat(self.fd.as_fd()).expect("it is still open");
        assert_eq!((status.st_dev, status.st_ino), self.inode, "{:?}", self.kind);
        if let Some(receives) = &self.receives {
            assert_eq!(
                read(receives, &mut [0; 64]),
                Err(Errno::AGAIN),
                "{:?}: nothing came, and nobody hung up",
                self.kind
            );
        }
        if matches!(self.kind, Kind::Event) {
            assert_eq!(read(&self.fd, &mut [0; 8]), Err(Errno::AGAIN), "nobody rang");
        }
        assert!(FileType::from_raw_mode(status.st_mode) != FileType::RegularFile || status.st_size == 0, "it is empty");
    }
}

fn pair(kind: SocketType) -> (OwnedFd, Option<OwnedFd>) {
    let (one, other) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a pair of sockets");
    (one, Some(other))
}
