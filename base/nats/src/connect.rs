//! A connection to NATS servers. Once made, it reconnects without limit.

pub(crate) mod error;
pub(crate) mod login;

use crate::Farm;
use async_nats::{Client, ConnectOptions, Event, ServerError};
use error::ConnectError;
use sidecore_terminal::output::tell;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pauses between reconnections grow by this, up to the longest.
const STEP: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The last permission that servers denied. They report it separately: the denied request simply has no answer.
static DENIED: LazyLock<watch::Sender<String>> = LazyLock::new(|| watch::Sender::new(String::new()));

/// Connects. NATS sends answers, and every event from JetStream, to an inbox: `inboxes` is the prefix of the client's
/// inboxes, one for each role of a program, so that permissions keep the other roles out. It is below NATS's own prefix,
/// as `_INBOX.node`, so accounts that allow `_INBOX.>` allow it.
///
/// # Errors
/// The options do not fit, or no server accepts the connection now. Losses later are no errors: the client reconnects.
pub async fn connect(farm: &Farm, inboxes: &str) -> Result<Client, ConnectError> {
    connect_and_hear(farm, inboxes, |_| ()).await
}

/// As [`connect`], and hands each event of the connection to `heard`.
///
/// # Errors
/// As those of [`connect`].
pub async fn connect_and_hear<F: Fn(&Event) + Send + Sync + 'static>(
    farm: &Farm,
    inboxes: &str,
    heard: F,
) -> Result<Client, ConnectError> {
    let options = options(farm, inboxes).await?.event_callback(listener(login::public(&farm.server), heard));
    options.connect(farm.server.as_slice()).await.map_err(|error| ConnectError::new(error, farm))
}

/// What the servers say when they deny the next permission.
pub async fn denied() -> String {
    let mut said = denials();
    // The sender is never dropped.
    drop(said.changed().await);
    said.borrow().clone()
}

/// What the servers said when they denied a permission, from now on.
pub fn denials() -> watch::Receiver<String> {
    DENIED.subscribe()
}

async fn options(farm: &Farm, inboxes: &str) -> Result<ConnectOptions, ConnectError> {
    let mut options = ConnectOptions::new()
        .name(format!("sidecore farm {}", farm.farm))
        .custom_inbox_prefix(inboxes)
        .connection_timeout(CONNECT_TIMEOUT)
        .max_reconnects(None)
        .reconnect_delay_callback(|attempts| {
            STEP.saturating_mul(u32::try_from(attempts).unwrap_or(u32::MAX)).min(MAX_PAUSE)
        });
    if let Some(creds) = &farm.creds {
        let read = options.credentials_file(creds).await;
        options = read.map_err(|source| ConnectError::Credentials { path: creds.clone(), source })?;
    }
    // The library ignores a login in an address.
    options = match login::of(&farm.server)? {
        Some(login::Login::User(user, password)) => options.user_and_password(user, password),
        Some(login::Login::Token(token)) => options.token(token),
        None => options,
    };
    if let Some(ca) = &farm.tls_ca {
        options = options.add_root_certificates(readable(ca)?.to_owned());
    }
    if let (Some(cert), Some(key)) = (&farm.tls_cert, &farm.tls_key) {
        options = options.add_client_certificate(readable(cert)?.to_owned(), readable(key)?.to_owned());
    }
    Ok(options)
}

/// Opens the file once, because the library only reports a TLS failure for a file that cannot be read.
fn readable(path: &Path) -> Result<&Path, ConnectError> {
    let opened = std::fs::File::open(path).map(|_| path);
    opened.map_err(|source| ConnectError::Certificate { path: path.to_owned(), source })
}

fn listener<F: Fn(&Event) + Send + Sync + 'static>(
    servers: String,
    heard: F,
) -> impl Fn(Event) -> std::future::Ready<()> + Send + Sync + 'static {
    let lost = AtomicBool::new(false);
    move |event| {
        match &event {
            Event::Disconnected => {
                lost.store(true, Ordering::Relaxed);
                tell(format_args!("lost the connection to {servers}; trying again"));
            }
            Event::Connected if lost.swap(false, Ordering::Relaxed) => {
                tell(format_args!("connected to {servers} again"));
            }
            Event::ServerError(ServerError::Other(said)) if said.to_lowercase().contains("permissions violation") => {
                DENIED.send_replace(said.clone());
            }
            Event::ServerError(said) => tell(said),
            _ => {}
        }
        heard(&event);
        std::future::ready(())
    }
}
