//! A service that is stopped but not dead: operations fail in time.

use super::{Site, made};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use sidecore::client::Options;
use sidecore::config::Config;
use sidecore::core::session::Op;
use sidecore::engine::crypto::Scheme;
use sidecore::service::Service;
use sidecore_client::keyops::ask::find;
use sidecore_client::keyops::call::{Request, call};
use sidecore_client::keyops::lanes;
use sidecore_client::keyops::wait::Caller;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SOCKET: &str = "SIDECORE_TEST_SERVES_AT";
const TIMEOUT: Duration = Duration::from_millis(500);
/// Ten times the limit, and far below the 30 s of earlier versions.
const BOUND: Duration = Duration::from_secs(5);

struct Elsewhere(Child);

impl Elsewhere {
    fn start(socket: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--nocapture", "ffi::tests::patience::this_program_serves_where_it_is_told"]);
        let mut child = command.env(SOCKET, socket).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("serving")));
        Self(child)
    }

    fn stop(&self) {
        let process = Pid::from_child(&self.0);
        kill_process(process, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(process), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped());
    }

    fn go_on(&self) {
        kill_process(Pid::from_child(&self.0), Signal::CONT).unwrap();
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The other process of the test below; without the variable it does nothing.
#[test]
fn this_program_serves_where_it_is_told() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let _service = Service::start(Config { socket: socket.into(), ..Config::default() }).unwrap();
    println!("serving");
    let _ = std::io::stdin().read(&mut [0]);
}

fn fails<T>(work: impl FnOnce() -> Result<T, sidecore_client::keyops::failure::Failure>) -> String {
    let start = Instant::now();
    let failure = work().err().expect("a stopped service does nothing");
    let took = start.elapsed();
    assert!(took >= TIMEOUT && took < BOUND, "{took:?}");
    failure.text
}

#[test]
fn a_stopped_service_costs_an_operation_no_more_than_its_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let service = Elsewhere::start(&socket);
    let options = Options { socket, timeout: TIMEOUT, ..Options::default() };
    let site = Site { key: made(&options), options, ..Site::new() };
    let sign = || {
        let (key, input) = (&site.key, &[7; 32][..]);
        let request = Request { key, scheme: Scheme::EcdsaRaw, op: Op::SignDigest, head: &[], input, max_output: 72 };
        call(Caller::thread(&site.options), &request)
    };
    assert!(site.works());
    service.stop();
    // First over the existing lane, then over a new one with a question.
    for _ in 0..2 {
        let told = fails(sign);
        assert!(told.contains("no answer within 500 ms") && told.contains("timeout_ms"), "{told}");
        lanes::close_idle();
    }
    let told = fails(|| find(&site.options, "name"));
    assert!(told.contains("no answer within 500 ms"), "{told}");
    service.go_on();
    let goes_on = (0..10).any(|_| site.works());
    assert!(goes_on, "the service goes on, and so do its clients");
}
