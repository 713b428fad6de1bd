//! `sidecore export` with a busy service: Prometheus's own checker finds no fault with the metrics.

use sidecore::client::{Client, Options};
use sidecore::config::Config;
use sidecore::core::session::Op;
use sidecore::service::Service;
use sidecore::spec::{Hash, KeyMaterial, Scheme, SessionSpec};
use sidecore_testing::skipped;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

struct Exporter {
    child: Child,
    address: String,
}

impl Exporter {
    fn of(socket: &Path) -> Self {
        let mut export = Command::new(env!("CARGO_BIN_EXE_sidecore-watch"));
        export.args(["export", "--listen", "127.0.0.1:0", "--socket"]).arg(socket).stderr(Stdio::piped());
        let mut child = export.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
        let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        Self { address: address.unwrap_or_else(|| panic!("{said}")).to_owned(), child }
    }

    fn page(&self, accept: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // The exporter runs until it is killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Verdict and output of `promtool check metrics`. `None`: promtool is not installed.
fn promtool(page: &str) -> Option<(bool, String)> {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match promtool.spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        child => child.unwrap(),
    };
    let mut input = child.stdin.take().unwrap();
    let page = page.to_owned();
    let feeder = thread::spawn(move || input.write_all(page.as_bytes()));
    let done = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    Some((done.status.success(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()))
}

fn load(client: &mut Client) {
    let spec = SessionSpec { scheme: Scheme::Digest(Hash::Sha256), key: KeyMaterial::None };
    let session = client.open_session(&spec).unwrap();
    for len in 1..200 {
        client.call(session, Op::Digest, 0, &vec![7; len * 16], 32).unwrap();
    }
    assert!(client.call(session, Op::Encrypt, 0, &[7; 16], 32).is_err());
}

#[test]
fn what_is_exported_under_load_is_clean_for_promtool_and_each_scraper_gets_its_format() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("socket");
    let _service = Service::start(Config { socket: socket.clone(), ..Config::default() }).unwrap();
    let mut client = Client::connect(&Options { socket: socket.clone(), ..Options::default() }).unwrap();
    load(&mut client);
    let exporter = Exporter::of(&socket);
    let (head, page) = exporter.page("text/plain;version=0.0.4;q=0.5,*/*;q=0.1");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    let version = concat!("\nsidecore_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1\n");
    assert!(page.contains(version) && page.contains("\nsidecore_class_requests_total{class=\"sha-256\"} "), "{page}");
    let (head, open) = exporter.page("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5");
    assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(open.ends_with("# EOF\n") && open.contains("# UNIT "), "{open}");
    let Some((clean, said)) = promtool(&page) else {
        return skipped("there is no promtool: apt-get install prometheus");
    };
    assert!(clean && said.is_empty(), "{said}");
    // The checker rejects names of the other format.
    assert!(!promtool(&open).unwrap().0);
}
