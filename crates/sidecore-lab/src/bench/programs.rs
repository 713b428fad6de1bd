//! Other programs of a measurement, and CPU times of them and of the service.

use super::error::BenchError;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use sidecore::sys::clock;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const SERVICE_THREADS: &str = "sidecore";
/// Longest wait for a program to be ready, and to end, ns.
const MAX_WAIT_NS: u64 = 5_000_000_000;

pub(super) fn on_core(cpu: Option<usize>, program: &str) -> Command {
    let Some(cpu) = cpu else { return Command::new(program) };
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string(), program]);
    command
}

pub(super) fn need(programs: &[&str], install: &str) -> Result<(), BenchError> {
    let missing = programs.iter().find(|program| Command::new(program).arg("--version").output().is_err());
    let Some(missing) = missing else { return Ok(()) };
    Err(BenchError::Missing { what: format!("{missing} is not installed"), remedy: install.to_owned() })
}

pub(super) fn done(command: &mut Command) -> Result<(), BenchError> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let (name, said) = (command.get_program().display().to_string(), String::from_utf8_lossy(&output.stderr));
    Err(BenchError::Tool { name, said: said.trim().to_owned() })
}

pub(super) fn write_pem(key: &[u8], pem: &Path) -> Result<(), BenchError> {
    let der = pem.with_extension("der");
    fs::write(&der, key)?;
    let mut convert = Command::new("openssl");
    convert.args(["pkcs8", "-topk8", "-nocrypt", "-inform", "DER", "-in"]).arg(&der).arg("-out").arg(pem);
    done(&mut convert)
}

pub(super) struct Server(pub(super) Child);

impl Server {
    pub(super) fn start(command: &mut Command, name: &str, errors: impl Into<Stdio>) -> Result<Self, BenchError> {
        let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn();
        started.map(Self).map_err(|error| BenchError::Start { name: name.to_owned(), error })
    }

    pub(super) fn wait_until(
        &mut self,
        mut is_true: impl FnMut() -> Result<bool, BenchError>,
    ) -> Result<bool, BenchError> {
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
        let _ = self.wait_until(|| Ok(false));
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPU time of a thread so far, ns. For a process with one thread this is all of it.
pub(super) fn cpu(process: u32, thread: u32) -> Result<u64, BenchError> {
    let path = format!("/proc/{process}/task/{thread}/schedstat");
    let text = fs::read_to_string(&path).map_err(BenchError::on(&path))?;
    let ran = text.split(' ').next().and_then(|ns| ns.parse().ok());
    ran.ok_or(BenchError::NoTime(path))
}

/// CPU time so far of a process and its children, ns. Threads that ended count; children that ended do not.
pub(super) fn family_cpu(process: u32) -> Result<u64, BenchError> {
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
pub(super) fn service_cpu() -> Result<u64, BenchError> {
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

pub(super) fn free_port() -> Result<u16, BenchError> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

pub(super) fn certify(key: &Path, certificate: &Path) -> Result<(), BenchError> {
    let mut request = Command::new("openssl");
    request.args(["req", "-x509", "-new", "-days", "2", "-subj", "/CN=localhost", "-key"]).arg(key);
    done(request.arg("-out").arg(certificate))
}

/// Number of handshakes in the output of `openssl s_time`: it precedes `connections in … real seconds`.
pub(super) fn counted(said: &str) -> Option<u64> {
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
