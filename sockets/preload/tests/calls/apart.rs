//! A service in a process of its own, which a test may stop, hold up and kill.

use super::program::started;
use sidecore_core::words::LINE_BYTES;
use sidecore_sockets_service::SocketsConfig;
use sidecore_streams::layout::{Bank, HOLD, PLACES, SHARED};
use sidecore_testing::{go_on, stop};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// This test's program, started again.
pub(crate) struct Apart {
    process: Child,
    /// Open, for what the test's program prints further.
    _said: BufReader<ChildStdout>,
    socket: PathBuf,
}

/// Names the socket of [`Apart`] for its process.
const SOCKET: &str = "SIDECORE_TEST_SERVICE";

impl Apart {
    pub(crate) fn start(directory: &Path) -> Self {
        let socket = directory.join("apart");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "apart::a_service_apart", "--nocapture"]).env(SOCKET, &socket);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with("serving\n") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "no service");
        }
        Self { process, _said: said, socket }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn stop(&self) {
        stop(self.process.id());
    }

    pub(crate) fn go_on(&self) {
        go_on(self.process.id());
    }

    /// Has each ring without a holder be held by `holder`, as if the service were within a transfer, or by nobody (0).
    /// The number of rings that were held by `before`.
    pub(crate) fn hold(&self, before: u64, holder: u64) -> usize {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.process.id())).unwrap();
        let line = maps.lines().find(|line| line.contains("memfd:sidecore-streams")).expect("a bank");
        let start = u64::from_str_radix(line.split_once('-').unwrap().0, 16).unwrap();
        let memory = File::options().read(true).write(true).open(format!("/proc/{}/mem", self.process.id())).unwrap();
        let bank = Bank::new(SocketsConfig::default().ring_kib * 1024).unwrap();
        let mut count = 0;
        for place in 0..PLACES {
            let word = start + ((bank.place(place) + SHARED) * LINE_BYTES + HOLD * 8) as u64;
            let mut found = [0; 8];
            memory.read_exact_at(&mut found, word).unwrap();
            if u64::from_le_bytes(found) == before {
                memory.write_all_at(&holder.to_le_bytes(), word).unwrap();
                count += 1;
            }
        }
        count
    }

    pub(crate) fn kill(&mut self) {
        let _ = (self.process.kill(), self.process.wait());
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Serves until its standard input ends, in the process that [`Apart`] starts. Elsewhere it only shows that a service
/// starts and ends.
#[test]
fn a_service_apart() {
    let (directory, socket) = (tempfile::tempdir().unwrap(), std::env::var_os(SOCKET));
    let own = directory.path().join("socket");
    let _service = started(socket.as_ref().map_or(&own, |socket| Path::new(socket)));
    if socket.is_some() {
        println!("serving");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }
}
