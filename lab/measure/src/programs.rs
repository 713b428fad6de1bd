//! Other programs of a measurement, and CPU times of them and of the service.

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use sidecore_ipc::sys::clock;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Failure of a program that a measurement needs.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Not installed, or not built.
    #[error("{what}: {remedy}")]
    Missing {
        /// The missing part.
        what: String,
        /// The command that installs or builds it.
        remedy: String,
    },
    /// The kernel did not start it.
    #[error("cannot start {name}: {error}")]
    Start {
        /// The program.
        name: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// It ended with an error.
    #[error("{name} failed: {said}")]
    Tool {
        /// The program.
        name: String,
        /// Its standard error.
        said: String,
    },
    /// A server that takes no connection.
    #[error("{name} does not listen: {errors}")]
    Silent {
        /// The server.
        name: &'static str,
        /// The last line of its errors.
        errors: String,
    },
    /// A file of the kernel with times, in another format.
    #[error("{0} does not begin with a time")]
    NoTime(String),
    /// A system call failed.
    #[error("{what}: {error}")]
    On {
        /// Its object.
        what: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ProgramError {
    /// Names the object of a failed system call.
    pub fn on(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::On { what: what.into(), error }
    }
}

const SERVICE_THREADS: &str = "sidecore";
/// Longest wait for a program to be ready, and to end, ns.
const MAX_WAIT_NS: u64 = 5_000_000_000;

/// A command for this program, pinned to a core if one is given.
pub fn on_core(cpu: Option<usize>, program: &str) -> Command {
    let Some(cpu) = cpu else { return Command::new(program) };
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string(), program]);
    command
}

/// Whether all these programs are installed; `install` is the remedy.
///
/// # Errors
/// One is not.
pub fn need(programs: &[&str], install: &str) -> Result<(), ProgramError> {
    let missing = programs.iter().find(|program| Command::new(program).arg("--version").output().is_err());
    let Some(missing) = missing else { return Ok(()) };
    Err(ProgramError::Missing { what: format!("{missing} is not installed"), remedy: install.to_owned() })
}

/// Runs a command to its end.
///
/// # Errors
/// It did not start, or failed: with its standard error.
pub fn done(command: &mut Command) -> Result<(), ProgramError> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let (name, said) = (command.get_program().display().to_string(), String::from_utf8_lossy(&output.stderr));
    Err(ProgramError::Tool { name, said: said.trim().to_owned() })
}

/// Writes a key in PKCS#8 as PEM, and as DER in a file with the extension `der`.
///
/// # Errors
/// A file, or OpenSSL.
pub fn write_pem(key: &[u8], pem: &Path) -> Result<(), ProgramError> {
    let der = pem.with_extension("der");
    fs::write(&der, key)?;
    let mut convert = Command::new("openssl");
    convert.args(["pkcs8", "-topk8", "-nocrypt", "-inform", "DER", "-in"]).arg(&der).arg("-out").arg(pem);
    done(&mut convert)
}

/// A running program, ended when dropped.
pub struct Server(pub Child);

impl Server {
    /// Starts it. `name` is for messages.
    ///
    /// # Errors
    /// The kernel did not start it.
    pub fn start(command: &mut Command, name: &str, errors: impl Into<Stdio>) -> Result<Self, ProgramError> {
        let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn();
        started.map(Self).map_err(|error| ProgramError::Start { name: name.to_owned(), error })
    }

    /// Waits until `is_true`, for five seconds at most. `false`: it ended, or the time is over.
    ///
    /// # Errors
    /// Those of `is_true`.
    pub fn wait_until<E: From<io::Error>>(&mut self, mut is_true: impl FnMut() -> Result<bool, E>) -> Result<bool, E> {
        let until = clock::now() + MAX_WAIT_NS;
        while !is_true()? {
            if self.0.try_wait()?.is_some() || clock::now() > until {
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(true)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM first: nginx then ends its worker. `Child::kill` would leave the worker running.
        let _ = Command::new("kill").arg(self.0.id().to_string()).stderr(Stdio::null()).status();
        let _ = self.wait_until(|| Ok::<_, io::Error>(false));
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPU time of a thread so far, ns. For a process with one thread this is all of it.
///
/// # Errors
/// There is no such thread.
pub fn cpu(process: u32, thread: u32) -> Result<u64, ProgramError> {
    let path = format!("/proc/{process}/task/{thread}/schedstat");
    let text = fs::read_to_string(&path).map_err(ProgramError::on(&path))?;
    let ran = text.split(' ').next().and_then(|ns| ns.parse().ok());
    ran.ok_or(ProgramError::NoTime(path))
}

/// CPU time so far of a process and its children, ns. Threads that ended count; children that ended do not.
///
/// # Errors
/// There is no such process.
pub fn family_cpu(process: u32) -> Result<u64, ProgramError> {
    let own = Pid::from_raw(process.cast_signed());
    let own = clock_getcpuclockid(own).and_then(ClockId::now).map_err(io::Error::from)?;
    let mut sum = Duration::from(own).as_nanos() as u64;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        // Threads and children may have ended by now.
        let children = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| family_cpu(child.parse().ok()?).ok());
        sum += children.sum::<u64>();
    }
    Ok(sum)
}

/// CPU time so far of the service's threads in this process, ns.
///
/// # Errors
/// The kernel shows no threads.
pub fn service_cpu() -> Result<u64, ProgramError> {
    let process = std::process::id();
    let mut sum = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        let path = thread?.path();
        let number = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        // The main thread has the command's name, and only waits and counts.
        if let Some(thread) = number.filter(|number| *number != process && name.starts_with(SERVICE_THREADS)) {
            // It may have ended by now.
            sum += cpu(process, thread).unwrap_or(0);
        }
    }
    Ok(sum)
}

/// A port of the loopback interface without a listener.
///
/// # Errors
/// No socket is available.
pub fn free_port() -> Result<u16, ProgramError> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Makes a certificate of the key for localhost.
///
/// # Errors
/// OpenSSL failed.
pub fn certify(key: &Path, certificate: &Path) -> Result<(), ProgramError> {
    let mut request = Command::new("openssl");
    request.args(["req", "-x509", "-new", "-days", "2", "-subj", "/CN=localhost", "-key"]).arg(key);
    done(request.arg("-out").arg(certificate))
}

/// Number of handshakes in the output of `openssl s_time`: it precedes `connections in … real seconds`.
pub fn counted(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("real seconds"))?;
    line.split(' ').next()?.parse().ok().filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_ended_threads_counts() {
        let before = family_cpu(std::process::id()).unwrap();
        let used = thread::spawn(|| {
            while clock::thread_cpu() < 20_000_000 {}
            clock::thread_cpu()
        });
        let used = used.join().unwrap();
        assert!(family_cpu(std::process::id()).unwrap() - before >= used);
    }

    #[test]
    fn connections_are_read_from_what_openssl_says() {
        let said = "Collecting connection statistics for 1 seconds\n***\n\n872 connections in 0.41s; 2126.83 connections/user \
                    sec, bytes read 0\n872 connections in 2 real seconds, 0 bytes read per connection\n";
        assert_eq!(counted(said), Some(872));
        assert_eq!(counted("0 connections in 2 real seconds, 0 bytes\n"), None);
        assert_eq!(counted(""), None);
    }
}
