//! Prepares this machine for the tests: missing packages and tools are installed, and a setting of the kernel holds
//! until the tests end.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::packages;
use crate::Result;
use crate::tools;

const SETTINGS: &str = "/proc/sys/net/ipv4";
/// Message of `apt-get` for a lock that its option does not wait for: that of the lists.
const LOCKED: &str = "Could not get lock";
const LOCK_TIMEOUT: &str = "DPkg::Lock::Timeout=600";
const RETRIES: u32 = 120;

pub(super) struct Machine {
    pub(super) path: OsString,
    _congestion_control: Option<Afterwards>,
}

impl Machine {
    /// Installs missing packages, if this process may. Otherwise the error is the command to run.
    pub(super) fn prepare(root: &Path) -> Result<Self> {
        let path = tools::path(root)?;
        install(&packages::missing(&path), is_root()?.then(Apt::default))?;
        tools::DEB.ensure(root, &path)?;
        Self::as_it_is(root)
    }

    /// Installs nothing: tests without their programs are skipped.
    pub(super) fn as_it_is(root: &Path) -> Result<Self> {
        Ok(Self { path: tools::path(root)?, _congestion_control: allow_cubic(Path::new(SETTINGS))? })
    }
}

fn is_root() -> Result<bool> {
    Ok(fs::metadata("/proc/self")?.uid() == 0)
}

fn install(packages: &[&str], apt: Option<Apt>) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let line = format!("sudo apt-get install --no-install-recommends {}", packages.join(" "));
    match apt.filter(Apt::is_there) {
        None => Err(format!("packages are missing; run: {line}").into()),
        Some(apt) => apt.install(packages).map_err(|error| format!("{error}; run: {line}").into()),
    }
}

struct Apt {
    program: PathBuf,
    policy: PathBuf,
    retry_after: Duration,
}

impl Default for Apt {
    fn default() -> Self {
        Self {
            program: "/usr/bin/apt-get".into(),
            policy: "/usr/sbin/policy-rc.d".into(),
            retry_after: Duration::from_secs(5),
        }
    }
}

impl Apt {
    fn is_there(&self) -> bool {
        self.program.is_file()
    }

    fn install(&self, packages: &[&str]) -> Result<()> {
        let _policy = self.forbid_starts()?;
        self.run(&["update", "-q"])?;
        self.run(&[&["install", "-q", "-y", "--no-install-recommends"], packages].concat())
    }

    /// Forbids packages to start servers until the value is dropped. A policy that exists stays.
    fn forbid_starts(&self) -> io::Result<Option<Afterwards>> {
        if self.policy.exists() {
            return Ok(None);
        }
        write_program(&self.policy, "#!/bin/sh\nexit 101\n")?;
        Ok(Some(Afterwards::run("rm -f \"$1\"", [self.policy.as_os_str()])?))
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        println!("\n==> apt-get {}", arguments.join(" "));
        for _ in 0..RETRIES {
            let mut command = Command::new(&self.program);
            command.args(["-o", LOCK_TIMEOUT, "-o", "Dpkg::Use-Pty=0"]).args(arguments).stdin(Stdio::null());
            command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C").stdout(Stdio::inherit());
            let done = command.stderr(Stdio::piped()).output()?;
            let said = String::from_utf8_lossy(&done.stderr);
            eprint!("{said}");
            if done.status.success() {
                return Ok(());
            }
            if !said.contains(LOCKED) {
                return Err(format!("apt-get {} failed: {}", arguments[0], done.status).into());
            }
            thread::sleep(self.retry_after);
        }
        Err(format!("apt-get {}: another process keeps its lock", arguments[0]).into())
    }
}

/// Writes a new program, in another process: a child of this one that is about to execute something would keep an open
/// file, and the kernel starts no program while it is open for writing.
fn write_program(path: &Path, text: &str) -> io::Result<()> {
    let script = "set -C; printf %s \"$2\" >\"$1\" && chmod 755 \"$1\"";
    let status = Command::new("sh").args(["-c", script, "sh"]).arg(path).arg(text).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("cannot write {}", path.display()))) }
}

/// Allows `cubic` to all processes where the kernel has it: within a namespace the kernel takes only such an
/// algorithm. `None`: it is allowed already, or cannot be.
fn allow_cubic(settings: &Path) -> Result<Option<Afterwards>> {
    let file = settings.join("tcp_allowed_congestion_control");
    let has_cubic = |text: &str| text.split_whitespace().any(|name| name == "cubic");
    let available = fs::read_to_string(settings.join("tcp_available_congestion_control")).unwrap_or_default();
    let allowed = fs::read_to_string(&file).unwrap_or_default();
    let allowed = allowed.trim();
    if !has_cubic(&available) || has_cubic(allowed) {
        return Ok(None);
    }
    let Ok(mut setting) = OpenOptions::new().write(true).open(&file) else { return Ok(None) };
    let undo = Afterwards::run("printf '%s\\n' \"$2\" >\"$1\"", [file.as_os_str(), OsStr::new(allowed)])?;
    setting.write_all(format!("{allowed} cubic\n").as_bytes())?;
    Ok(Some(undo))
}

/// A shell that runs a script when this value is dropped, or when this process is killed.
struct Afterwards(Child);

impl Afterwards {
    fn run<'a>(script: &str, arguments: impl IntoIterator<Item = &'a OsStr>) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        // The pipe's end is this process's end. Signals of a terminal are for its process group only.
        shell.arg("-c").arg(format!("cat; {script}")).arg("sh").args(arguments).stdin(Stdio::piped()).process_group(0);
        shell.spawn().map(Self)
    }
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // A failure is reported on standard error.
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;

    struct Scripted {
        directory: PathBuf,
    }

    impl Scripted {
        fn new(name: &str, script: &str) -> Self {
            let directory = env::temp_dir().join(format!("sidecore-machine-{name}-{}", std::process::id()));
            fs::create_dir_all(&directory).unwrap();
            let own = Self { directory };
            let apt = own.apt().program;
            write_program(&apt, &format!("#!/bin/sh\ncd \"$(dirname \"$0\")\"\n{script}\n")).unwrap();
            own
        }

        fn apt(&self) -> Apt {
            let at = |name| self.directory.join(name);
            Apt { program: at("apt-get"), policy: at("policy-rc.d"), retry_after: Duration::ZERO }
        }

        fn said(&self, name: &str) -> String {
            fs::read_to_string(self.directory.join(name)).unwrap_or_default()
        }
    }

    impl Drop for Scripted {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }

    #[test]
    fn without_root_or_apt_the_error_is_the_line_with_all_packages() {
        assert!(install(&[], None).is_ok());
        let nowhere = Apt { program: "/no/apt-get".into(), ..Apt::default() };
        for apt in [None, Some(nowhere)] {
            let error = install(&["redis-server", "wrk"], apt).unwrap_err().to_string();
            let line = "sudo apt-get install --no-install-recommends redis-server wrk";
            assert_eq!(error, format!("packages are missing; run: {line}"));
        }
    }

    #[test]
    fn packages_are_installed_and_their_servers_not_started() {
        let script = "echo \"$*\" >>calls; ./policy-rc.d; echo $? >>policies; stat -c %a policy-rc.d >>policies";
        let apt = Scripted::new("installed", script);
        install(&["nginx", "wrk"], Some(apt.apt())).unwrap();
        let options = "-o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0";
        let install = "install -q -y --no-install-recommends nginx wrk";
        assert_eq!(apt.said("calls"), format!("{options} update -q\n{options} {install}\n"));
        assert_eq!(apt.said("policies"), "101\n755\n101\n755\n");
        assert!(!apt.apt().policy.exists());
    }

    #[test]
    fn a_locked_apt_is_waited_for_and_another_failure_is_told_with_the_line() {
        let script = "echo >>calls; [ $(wc -l <calls) -gt 3 ] || { echo \"E: Could not get lock x\" >&2; exit 100; }";
        let apt = Scripted::new("locked", script);
        install(&["wrk"], Some(apt.apt())).unwrap();
        assert_eq!(apt.said("calls").len(), 5);
        let always = Scripted::new("kept", "echo \"E: Could not get lock x\" >&2; exit 100");
        let error = install(&["wrk"], Some(always.apt())).unwrap_err().to_string();
        assert!(error.contains("another process keeps its lock; run: sudo apt-get install"), "{error}");
        let apt = Scripted::new("failed", "echo >>calls; echo E: no network >&2; exit 100");
        let error = install(&["wrk"], Some(apt.apt())).unwrap_err().to_string();
        assert!(error.starts_with("apt-get update failed: exit status: 100; run: sudo apt-get install"), "{error}");
        assert_eq!((apt.said("calls").len(), apt.apt().policy.exists()), (1, false));
    }

    #[test]
    fn a_policy_that_exists_stays() {
        let apt = Scripted::new("policy", "true");
        fs::write(apt.apt().policy, "another").unwrap();
        install(&["wrk"], Some(apt.apt())).unwrap();
        assert_eq!(apt.said("policy-rc.d"), "another");
    }

    #[test]
    fn cubic_is_allowed_as_long_as_the_tests_run() {
        let settings = Scripted::new("settings", "");
        let write = |name: &str, text| fs::write(settings.directory.join(name), text).unwrap();
        let allowed = || settings.said("tcp_allowed_congestion_control");
        write("tcp_available_congestion_control", "reno bbr cubic\n");
        write("tcp_allowed_congestion_control", "reno bbr\n");
        let undo = allow_cubic(&settings.directory).unwrap();
        assert!(undo.is_some());
        assert_eq!(allowed(), "reno bbr cubic\n");
        drop(undo);
        assert_eq!(allowed(), "reno bbr\n");
        write("tcp_available_congestion_control", "reno bbr\n");
        assert!(allow_cubic(&settings.directory).unwrap().is_none());
    }

    #[test]
    fn what_is_to_be_put_back_is_so_after_a_kill() {
        let scripted = Scripted::new("killed", "");
        let mark = scripted.directory.join("mark");
        let mut undo = Afterwards::run(": >\"$1\"", [mark.as_os_str()]).unwrap();
        assert!(!mark.exists());
        // The kernel does this at the end of a killed process.
        drop(undo.0.stdin.take());
        assert!(undo.0.wait().unwrap().success() && mark.exists());
    }
}
