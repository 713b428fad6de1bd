//! Attempts of an intruder with control of a service process.
//!
//! The process starts like `sidecore serve`, with or without the sandbox; then it tries one attack.

use rustix::process::{Pid, Resource, Rlimit, setrlimit, test_kill_process};
use sidecore::config::{Config, DUTY};
use sidecore::service::Service;
use sidecore_daemon::runtime_dir::RuntimeFiles;
use sidecore_daemon::sandbox::{self, Directories, Duty};
use std::fs::File;
use std::io::{self, Error};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;

mod ffi {
    use std::io::{Error, Result};
    use std::ptr::null_mut;

    fn outcome(value: i64) -> Result<()> {
        if value == -1 { Err(Error::last_os_error()) } else { Ok(()) }
    }

    pub(super) fn fork() -> Result<()> {
        // SAFETY: the child ends at once, without running anything of this program.
        match unsafe { libc::fork() } {
            // SAFETY: as above.
            0 => unsafe { libc::_exit(0) },
            pid => outcome(pid.into()),
        }
    }

    pub(super) fn listen(backlog: i32) -> Result<()> {
        let mut result = Err(Error::other("no socket listens"));
        for fd in 3..64 {
            let (mut listens, mut size) = (0, size_of::<libc::c_int>() as libc::socklen_t);
            let to = (&raw mut listens).cast();
            // SAFETY: `listens` is writable for `size`, which is writable itself; a number of no socket is an error.
            let asked = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, to, &raw mut size) };
            if asked == 0 && listens == 1 {
                // SAFETY: it reads and writes no memory of this process.
                result = result.or(outcome(unsafe { libc::listen(fd, backlog) }.into()));
            }
        }
        result
    }

    pub(super) fn trace(pid: i32) -> Result<()> {
        let nothing = null_mut::<libc::c_void>();
        // SAFETY: attaching reads and writes no memory of this process.
        outcome(unsafe { libc::ptrace(libc::PTRACE_ATTACH, pid, nothing, nothing) })
    }

    pub(super) fn read_memory(pid: i32) -> Result<()> {
        // SAFETY: no vectors are given, so nothing is read or written; the right to is checked all the same.
        outcome(unsafe { libc::process_vm_readv(pid, null_mut(), 0, null_mut(), 0, 0) } as i64)
    }

    pub(super) fn executable_memory() -> Result<()> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping at an address that the kernel picks overlaps nothing.
        let address = unsafe { libc::mmap(null_mut(), 4096, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(()) }
    }

    pub(super) fn unshare() -> Result<()> {
        // SAFETY: the thread keeps a copy of its root and current directories, which nothing here depends on.
        outcome(unsafe { libc::unshare(libc::CLONE_FS) }.into())
    }

    pub(super) fn ring_of_requests() -> Result<()> {
        let mut parameters = [0u64; 15];
        // SAFETY: the structure has 120 bytes, and zero is a value of each field.
        outcome(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) })
    }
}

pub(crate) fn run(what: &str, how: &str, directory: &Path, victim: &str) {
    let socket = directory.join("socket");
    let config = format!("socket = '{}'\n[sandbox]\nseccomp = true\nlandlock = true", socket.display());
    let mut config = Config::parse(&config).expect("a good configuration");
    // As `sidecore serve` does: the sandbox hides the file.
    config.read_subordinates().expect("the system's subordinate users");
    match how {
        "outside" => {
            let service = Service::start(config).expect("a service");
            say(attempt(what, victim));
            assert!(service.is_alive(), "a thread of the service ended");
        }
        "inside" => {
            let mut sandbox =
                sandbox::enter(&config.sandbox, DUTY, &config.directories()).unwrap_or_else(|error| fail(&error));
            let service = Service::start(config).expect("a service");
            sandbox.filter_calls(service.door()).unwrap_or_else(|error| fail(&error));
            say(attempt(what, victim));
            assert!(service.is_alive(), "a thread of the service ended");
        }
        "idle" => {
            let mut sandbox = sandbox::enter(&config.sandbox, Duty::NONE, &Directories::of_socket(&config.socket))
                .unwrap_or_else(|error| fail(&error));
            let mut files = RuntimeFiles::take(&config.socket, Vec::new()).expect("a place");
            let door = files.listen(&config.socket, config.socket_mode).expect("a socket");
            sandbox.filter_calls(door.as_raw_fd()).unwrap_or_else(|error| fail(&error));
            say(attempt(what, victim));
        }
        _ => panic!("no such service: {how}"),
    }
}

fn say(attempted: io::Result<()>) {
    match attempted {
        Ok(()) => println!("done"),
        Err(error) => println!("refused {}", error.raw_os_error().unwrap_or(0)),
    }
}

fn fail(error: &sandbox::SandboxError) -> ! {
    println!("no sandbox: {error}");
    std::process::exit(3)
}

fn attempt(what: &str, victim: &str) -> io::Result<()> {
    let process = || victim.parse::<i32>().expect("a process");
    match what {
        "execute" => Err(Command::new("/bin/echo").arg("done").exec()),
        "spawn" => Command::new("/bin/true").status().map(|_| ()),
        "fork" => ffi::fork(),
        "udp" => UdpSocket::bind("127.0.0.1:0").map(|_| ()),
        "tcp" => TcpListener::bind("127.0.0.1:0").map(|_| ()),
        "unix" => UnixDatagram::unbound().map(|_| ()),
        "pair" => UnixStream::pair().map(|_| ()),
        "listen" => ffi::listen(victim.parse().expect("a number")),
        "read" => File::open(victim).map(|_| ()),
        "write" => File::options().append(true).open(victim).map(|_| ()),
        "create" => File::create(victim).map(|_| ()),
        "trace" => ffi::trace(process()),
        "memory" => ffi::read_memory(process()),
        "signal" => Ok(test_kill_process(Pid::from_raw(process()).expect("a process"))?),
        "executable" => ffi::executable_memory(),
        "unshare" => ffi::unshare(),
        "io_uring" => ffi::ring_of_requests(),
        "limit" => Ok(setrlimit(Resource::Stack, Rlimit { current: Some(1 << 20), maximum: None })?),
        "thread" => thread::spawn(|| ()).join().map_err(|_| Error::other("the thread panicked")),
        _ => panic!("no such attempt: {what}"),
    }
}
