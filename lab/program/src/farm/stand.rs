//! Base of all scenarios: a private server, a connection to it, a seed.

use super::error::Unmeasured;
use crate::args::farm::Common;
use crate::farm::error::FarmError;
use crate::farm::server::Server;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions};
use sidecore_nats::Signals;
use sidecore_terminal::output::tell;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Pause before a reconnection: scenarios kill the server on purpose.
const AGAIN: Duration = Duration::from_millis(10);
const ANSWER: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(20);

pub(crate) async fn unless_stopped(run: impl Future<Output = Result<u8, FarmError>>) -> Result<u8, FarmError> {
    let mut signals = Signals::new()?;
    tokio::select! {
        done = run => done,
        () = signals.next() => Err(Unmeasured::Stopped.into()),
    }
}

pub(crate) struct Stand {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) js: Context,
    pub(crate) seed: u64,
    pub(crate) quick: bool,
}

impl Stand {
    pub(crate) async fn new(common: &Common, quick: bool) -> Result<Self, FarmError> {
        let server = Server::start(common.nats_server.as_deref()).await?;
        tell(format_args!("nats-server {} at {}", server.version(), server.url()));
        let client = connect(&server.url()).await?;
        let mut js = jetstream::new(client.clone());
        js.set_timeout(ANSWER);
        Ok(Self { server, client, js, seed: common.seed, quick })
    }

    pub(crate) fn pick<T>(&self, quick: T, long: T) -> T {
        if self.quick { quick } else { long }
    }

    pub(crate) fn logs(&self) -> &Path {
        self.server.dir()
    }

    pub(crate) fn engine(&self) -> String {
        format!("nats-server {}", self.server.version())
    }
}

pub(crate) async fn connect(url: &str) -> Result<Client, FarmError> {
    let options = ConnectOptions::new().max_reconnects(None).reconnect_delay_callback(|_| AGAIN);
    options.connect(url).await.map_err(FarmError::nats("cannot connect to the server that was started"))
}

/// Polls until the condition holds. An error counts as not yet.
pub(crate) async fn until(
    what: &str,
    patience: Duration,
    mut holds: impl AsyncFnMut() -> Result<bool, FarmError>,
) -> Result<(), FarmError> {
    let begun = Instant::now();
    loop {
        let held = holds().await;
        if matches!(held, Ok(true)) {
            return Ok(());
        }
        if begun.elapsed() > patience {
            let (what, seconds) = (what.to_owned(), patience.as_secs());
            return Err(Unmeasured::Late { what, seconds, source: held.err().map(Into::into) }.into());
        }
        sleep(INTERVAL).await;
    }
}
