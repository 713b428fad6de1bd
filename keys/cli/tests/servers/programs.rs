//! Programs as processes: started, watched and ended by process id, with a time limit on every step.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Limit of each step. No result depends on a step's duration.
pub(crate) const BOUND: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The project's list: each line has a program or a file's path, and the Debian packages with it.
const PACKAGES: &str = include_str!("../../../../tools/xtask/packages.txt");

pub(crate) fn package_of(name: &str) -> &'static str {
    let entries = PACKAGES.lines().filter_map(|line| line.split_once(' '));
    let mut found =
        entries.filter(|(need, _)| *need == name || need.starts_with('/') && need.ends_with(&format!("/{name}")));
    found.next().unwrap_or_else(|| panic!("{name}: add it to tools/xtask/packages.txt")).1
}

/// The program. If it is missing, the test ends with the command that installs it.
pub(crate) fn program(name: &str) -> Command {
    let package = package_of(name);
    let path = found(name).unwrap_or_else(|| panic!("{name} is missing; run: sudo apt-get install {package}"));
    let mut command = Command::new(path);
    // The test's own settings of OpenSSL must not reach programs by accident.
    command.env_remove("OPENSSL_CONF").env_remove("OPENSSL_MODULES").env_remove("SIDECORE_SOCKET");
    command
}

fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let standard = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/lib/postfix/sbin"].map(PathBuf::from);
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let standard = standard.into_iter().chain(versions.map(|version| version.path().join("bin")));
    std::env::split_paths(&path).chain(standard).map(|directory| directory.join(name)).find(|path| path.is_file())
}

#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn ok(&self) -> bool {
        self.status.success()
    }

    pub(crate) fn expect(self, what: &str) -> String {
        assert!(self.ok(), "{what}: {}\n{}{}", self.status, self.stdout, self.stderr);
        self.stdout
    }
}

/// Runs the program to its end. A hanging program is killed and fails the test.
pub(crate) fn run(command: &mut Command) -> Done {
    let scratch = tempfile::tempdir().unwrap();
    let (stdout, stderr) = (scratch.path().join("out"), scratch.path().join("err"));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(&stdout).unwrap())
        .stderr(File::create(&stderr).unwrap())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let status = ended(&mut child, BOUND);
    let text = |path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let (stdout, stderr) = (text(stdout), text(stderr));
    let status = status.unwrap_or_else(|| {
        let _ = child.kill();
        let _ = child.wait();
        panic!("{command:?} hangs\n{stdout}{stderr}")
    });
    Done { status, stdout, stderr }
}

/// Waits for the end of a child. `None`: the limit passed.
pub(crate) fn ended(child: &mut Child, bound: Duration) -> Option<ExitStatus> {
    let mut status = None;
    wait_for(bound, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status
}

/// Polls until the condition holds. `false`: the limit passed.
pub(crate) fn wait_for(bound: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if start.elapsed() > bound {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

pub(crate) struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    pub(crate) fn start(name: &str, command: &mut Command, log: &Path) -> Self {
        Self::start_with_input(name, command.stdin(Stdio::null()), log)
    }

    /// The same with the command's own standard input.
    pub(crate) fn start_with_input(name: &str, command: &mut Command, log: &Path) -> Self {
        let file = File::create(log).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { name: name.to_owned(), child, log: log.to_owned() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    pub(crate) fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn wait_for_port(&mut self, port: u16) {
        let is_open = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        let open = wait_for(BOUND, || is_open() || !self.lives());
        assert!(open && self.lives(), "{} does not listen on {port}\n{}", self.name, self.log());
    }

    /// Waits until this socket can be connected to: its file is there a moment before.
    pub(crate) fn wait_for_socket(&mut self, socket: &Path) {
        let is_open = || UnixStream::connect(socket).is_ok();
        let open = wait_for(BOUND, || is_open() || !self.lives());
        assert!(open && self.lives(), "{} does not listen on {}\n{}", self.name, socket.display(), self.log());
    }

    pub(crate) fn wait_for_words(&mut self, words: &str) {
        let said = wait_for(BOUND, || self.log().contains(words) || !self.lives());
        assert!(said && self.log().contains(words), "{} does not say {words:?}\n{}", self.name, self.log());
    }

    pub(crate) fn family(&self) -> Vec<u32> {
        let mut family = vec![self.pid()];
        let mut next = 0;
        while let Some(pid) = family.get(next).copied() {
            family.extend(children(pid));
            next += 1;
        }
        family
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        send(self.pid(), signal);
    }

    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub(crate) fn stop(&mut self) {
        if self.lives() {
            self.signal(rustix::process::Signal::TERM);
        }
        let status = ended(&mut self.child, BOUND);
        assert!(status.is_some(), "{} does not end\n{}\n{}", self.name, self.log(), threads(&self.family()));
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of {}:\n{}", self.name, self.log());
        }
        let family = self.family();
        if self.lives() {
            self.signal(rustix::process::Signal::TERM);
        }
        if ended(&mut self.child, Duration::from_secs(10)).is_none() {
            for pid in family {
                send(pid, rustix::process::Signal::KILL);
            }
            let _ = self.child.wait();
        }
    }
}

/// What each thread of the processes waits for in the kernel.
fn threads(processes: &[u32]) -> String {
    let tasks = processes.iter().flat_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten());
    let word =
        |task: &std::fs::DirEntry, file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
    let each = |task: std::fs::DirEntry| {
        let [name, waits, call] = ["comm", "wchan", "syscall"].map(|file| word(&task, file));
        format!("{} {} {} {}", task.path().display(), name.trim(), waits, call.trim())
    };
    tasks.flatten().map(each).collect::<Vec<_>>().join("\n")
}

pub(crate) fn send(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    let _ = rustix::process::kill_process(pid, signal);
}

pub(crate) fn children(pid: u32) -> Vec<u32> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

/// Root's servers can change their user.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
