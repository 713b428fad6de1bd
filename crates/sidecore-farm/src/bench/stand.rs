//! What all scenarios stand on: a server of their own, a connection to it, a seed.

use crate::args::bench::Common;
use crate::server::Server;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions};
use sidecore_terminal::output::tell;
use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Pause before a lost connection is tried again: a server is killed on purpose here.
const AGAIN: Duration = Duration::from_millis(10);
/// Longest wait for an answer of a server that lives.
const ANSWER: Duration = Duration::from_secs(2);
/// How often something is looked at that is waited for.
const INTERVAL: Duration = Duration::from_millis(20);

/// The server, and the way to it.
pub(crate) struct Stand {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) js: Context,
    pub(crate) seed: u64,
    pub(crate) quick: bool,
}

impl Stand {
    /// Starts a server and connects to it.
    ///
    /// # Errors
    /// There is none, or it does not work: says what to do.
    pub(crate) async fn new(common: &Common, quick: bool) -> Result<Self, String> {
        let server = Server::start(common.nats_server.as_deref()).await?;
        tell(format_args!("nats-server {} at {}", server.version(), server.url()));
        let client = connect(&server.url()).await?;
        let mut js = jetstream::new(client.clone());
        js.set_timeout(ANSWER);
        Ok(Self { server, client, js, seed: common.seed, quick })
    }

    /// What a short run takes, or a long one.
    pub(crate) fn pick<T>(&self, quick: T, long: T) -> T {
        if self.quick { quick } else { long }
    }

    /// Where processes write what they say.
    pub(crate) fn logs(&self) -> &Path {
        self.server.dir()
    }

    /// The engine, as rows name it.
    pub(crate) fn engine(&self) -> String {
        format!("nats-server {}", self.server.version())
    }
}

/// A connection that is made again whenever it is lost.
///
/// # Errors
/// There is no server.
pub(crate) async fn connect(url: &str) -> Result<Client, String> {
    let options = ConnectOptions::new().max_reconnects(None).reconnect_delay_callback(|_| AGAIN);
    options.connect(url).await.map_err(|error| format!("cannot connect to the server that was started: {error}"))
}

/// Waits until something holds. Questions that fail meanwhile are asked again.
///
/// # Errors
/// It does not hold in that time: says what was waited for, and why it failed last.
pub(crate) async fn until(
    what: impl Display,
    patience: Duration,
    mut holds: impl AsyncFnMut() -> Result<bool, String>,
) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let held = holds().await;
        if held == Ok(true) {
            return Ok(());
        }
        if begun.elapsed() > patience {
            let why = held.err().map_or_else(String::new, |why| format!(": {why}"));
            return Err(format!("waited {} s for {what}{why}", patience.as_secs()));
        }
        sleep(INTERVAL).await;
    }
}
