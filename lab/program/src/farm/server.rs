//! A private nats-server for `try` and `bench`: found, started on a free port, killed, restarted, ended.

use crate::farm::crew::{Process, ProcessError, Role, last_line};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::time::sleep;

const PROGRAM: &str = "nats-server";
const HOW_TO_GET_IT: &str = "install it with `apt-get install nats-server`, or a newer one with \
     `go install github.com/nats-io/nats-server/v2@latest`, or name yours with --nats-server FILE";
const START_TIMEOUT: Duration = Duration::from_secs(20);
const INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("no {PROGRAM} on the path: {HOW_TO_GET_IT}")]
    NotFound,
    #[error("{} is no {PROGRAM} that runs here: {source}; {HOW_TO_GET_IT}", program.display())]
    NotStarted { program: PathBuf, source: io::Error },
    #[error("{} is no {PROGRAM} that runs here: to --version it says \"{said}\"; {HOW_TO_GET_IT}", program.display())]
    Another { program: PathBuf, said: String },
    #[error("cannot make a directory for the server: {0}")]
    Directory(io::Error),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("{source}; its log: {log}")]
    Ended { source: ProcessError, log: String },
    #[error("{PROGRAM} takes no connections after {} s; its log ends with: {log}", START_TIMEOUT.as_secs())]
    Slow { log: String },
}

/// A server with JetStream in a private directory. Dropping it removes the directory unless it is kept.
#[derive(Debug)]
pub(crate) struct Server {
    // Fields drop in this order: the process ends before its directory is removed.
    process: Process,
    version: String,
    port: u16,
    dir: TempDir,
}

impl Server {
    pub(crate) async fn start(named: Option<&Path>) -> Result<Self, ServerError> {
        let program = match named {
            Some(named) => named.to_owned(),
            None => find(&places()).ok_or(ServerError::NotFound)?,
        };
        let version = version(&program)?;
        let dir = tempfile::Builder::new().prefix("sidecore-farm-").tempdir();
        let dir = dir.map_err(ServerError::Directory)?;
        let mut process = role(&program, dir.path(), None).start()?;
        let port = port(&mut process, dir.path()).await?;
        process.be_again_as(role(&program, dir.path(), Some(port)));
        let server = Self { process, version, port, dir };
        server.ready().await?;
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Why it ended without a kill. `None`: it runs.
    pub(crate) fn ended(&mut self) -> Option<ProcessError> {
        self.process.ended()
    }

    pub(crate) fn cpu_time(&self) -> Duration {
        self.process.cpu_time()
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    pub(crate) async fn start_again(&mut self) -> Result<(), ServerError> {
        self.process.start_again()?;
        self.ready().await
    }

    pub(crate) fn keep(mut self) -> PathBuf {
        self.process.kill();
        // Log and ids are enough for a diagnosis, and the store may be large.
        let _ = fs::remove_dir_all(self.dir.path().join("store"));
        self.dir.keep()
    }

    async fn ready(&self) -> Result<(), ServerError> {
        let begun = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            if begun.elapsed() > START_TIMEOUT {
                return Err(slow(self.dir.path()));
            }
            sleep(INTERVAL).await;
        }
        Ok(())
    }
}

fn role(program: &Path, dir: &Path, port: Option<u16>) -> Role {
    let port = port.map_or_else(|| "-1".to_owned(), |port| port.to_string());
    let mut arguments: Vec<OsString> = ["-js", "-a", "127.0.0.1", "-p", &port].map(OsString::from).to_vec();
    for (option, path) in [("-sd", "store"), ("-l", "server.log"), ("--ports_file_dir", "")] {
        arguments.extend([option.into(), dir.join(path).into()]);
    }
    Role { name: PROGRAM.into(), program: program.to_owned(), arguments, log: dir.join("server.err"), reads: false }
}

async fn port(process: &mut Process, dir: &Path) -> Result<u16, ServerError> {
    let begun = Instant::now();
    loop {
        if let Some(port) = written_port(dir) {
            return Ok(port);
        }
        if let Some(source) = process.ended() {
            return Err(match last_line(&dir.join("server.log")) {
                Some(log) => ServerError::Ended { source, log },
                None => source.into(),
            });
        }
        if begun.elapsed() > START_TIMEOUT {
            return Err(slow(dir));
        }
        sleep(INTERVAL).await;
    }
}

fn slow(dir: &Path) -> ServerError {
    ServerError::Slow { log: last_line(&dir.join("server.log")).unwrap_or_else(|| "nothing".to_owned()) }
}

fn written_port(dir: &Path) -> Option<u16> {
    let is_ports = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "ports");
    let file = fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path()).find(is_ports)?;
    let ports: serde_json::Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let url = ports.get("nats")?.get(0)?.as_str()?;
    url.rsplit_once(':')?.1.parse().ok()
}

fn places() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let go = env::var_os("GOPATH").map(PathBuf::from);
    let go = go.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join("go")));
    env::split_paths(&path).chain(go.map(|go| go.join("bin"))).collect()
}

fn find(places: &[PathBuf]) -> Option<PathBuf> {
    places.iter().map(|place| place.join(PROGRAM)).find(|program| program.is_file())
}

/// The number in `nats-server: v2.9.10`.
fn version(program: &Path) -> Result<String, ServerError> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|source| ServerError::NotStarted { program: program.to_owned(), source })?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let number = said.strip_prefix("nats-server: v").map(str::to_owned);
    number.ok_or_else(|| ServerError::Another { program: program.to_owned(), said })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidecore_testing::skipped;

    #[test]
    fn where_there_is_none_it_is_said_how_to_get_one() {
        assert_eq!(find(&[PathBuf::from("/nowhere")]), None);
        assert!(HOW_TO_GET_IT.contains("apt-get install nats-server"));
    }

    #[tokio::test]
    async fn a_program_that_is_no_server_is_refused() {
        let error = Server::start(Some(Path::new("/bin/true"))).await.unwrap_err().to_string();
        assert!(error.contains("/bin/true is no nats-server that runs here"), "{error}");
        let error = Server::start(Some(Path::new("/nowhere/nats-server"))).await.unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
    }

    #[tokio::test]
    async fn a_killed_server_comes_back_with_what_it_stored() {
        if find(&places()).is_none() {
            return skipped("no nats-server: apt-get install nats-server");
        }
        let mut server = Server::start(None).await.unwrap();
        assert!(server.version().starts_with(|first: char| first.is_ascii_digit()), "{}", server.version());
        let url = server.url();
        let stream = async_nats::jetstream::stream::Config {
            name: "kept".into(),
            subjects: vec!["kept.*".into()],
            ..Default::default()
        };
        let jetstream = async_nats::jetstream::new(async_nats::connect(&url).await.unwrap());
        jetstream.create_stream(stream).await.unwrap();
        jetstream.publish("kept.one", "a body".into()).await.unwrap().await.unwrap();
        server.kill();
        server.start_again().await.unwrap();
        assert_eq!(server.url(), url);
        let jetstream = async_nats::jetstream::new(async_nats::connect(&url).await.unwrap());
        assert_eq!(jetstream.get_stream("kept").await.unwrap().cached_info().state.messages, 1);
        let dir = server.dir().to_owned();
        drop(server);
        assert!(!dir.exists());
    }
}
