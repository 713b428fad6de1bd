//! The farm's four streams on its servers: waiting events, results, dead letters, and feeders' places.
//!
//! A stream's settings are its durability. Storage decides whether a server's end loses its messages. Replicas are the
//! number of servers with a message before it is acknowledged. Neither decides when a file reaches the disk. The
//! servers' `sync_interval` does, two minutes by default. A power failure of all replicas therefore loses the
//! messages acknowledged since.

pub(crate) mod error;
pub(crate) mod names;
mod shape;

use crate::args::Durability;
use crate::connect;
use async_nats::jetstream::context::RequestErrorKind;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{Config, Info, Stream};
use async_nats::jetstream::{Context, ErrorCode};
use error::StreamError;
use serde::Serialize;
use sidecore_nats::{Shortage, shortage};
use sidecore_terminal::output::tell;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// First server version with a limit of one message for each subject, and recognition of repeated ids.
const OLDEST: (i64, i64, i64) = (2, 9, 0);
/// First version whose replicas of a full stream take the same messages: before, each replica decides by itself, and one
/// that becomes the leader may lack what the former one acknowledged (nats-server, pull requests 7607 and 7608).
const AGREES: (i64, i64, i64) = (2, 14, 0);
const LEADER_TIMEOUT: Duration = Duration::from_secs(20);
pub(crate) const PAUSE: Duration = Duration::from_millis(250);

#[derive(Clone, Debug)]
pub(crate) struct Streams {
    pub(crate) events: Stream<()>,
    pub(crate) results: Stream<()>,
    pub(crate) dead: Stream<()>,
    pub(crate) places: Stream<()>,
}

pub(crate) async fn ensure(js: &Context, farm: &str, durability: &Durability) -> Result<Streams, StreamError> {
    let client = js.client();
    let (major, minor, patch) = OLDEST;
    if !client.is_server_compatible(major, minor, patch) {
        let version = client.server_info().version;
        return Err(StreamError::OldServer { version, major, minor });
    }
    complete(js, farm, durability).await?;
    handles(js, farm).await
}

/// Says what these servers may lose of a farm with replicas.
pub(crate) async fn warn_of_replicas(js: &Context, farm: &str) -> Result<(), StreamError> {
    let (client, (major, minor, patch)) = (js.client(), AGREES);
    if client.is_server_compatible(major, minor, patch) {
        return Ok(());
    }
    let [events, ..] = names::streams(farm);
    if let Response::Ok(info) = ask(js, format!("STREAM.INFO.{events}"), &()).await?
        && info.config.num_replicas > 1
    {
        let version = client.server_info().version;
        tell(format_args!(
            "NATS {version} may lose acknowledged events and results of a full farm with replicas when one of its servers ends: give --max-bytes room enough, or take {major}.{minor} or later"
        ));
    }
    Ok(())
}

/// Makes the missing streams of a farm, all of them or none, and checks the others. Returns the names of those made.
/// What `durability` leaves open is as the others have it: one that is made again is no less safe than before.
pub(crate) async fn complete(js: &Context, farm: &str, durability: &Durability) -> Result<Vec<String>, StreamError> {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for wanted in shape::all(farm, durability) {
        match ask(js, format!("STREAM.INFO.{}", wanted.name), &()).await? {
            Response::Ok(info) => {
                shape::check(&info.config, &wanted, durability)?;
                if shape::is_earlier(&info.config, &wanted) {
                    if shape::has_former_layout(&info.config) && info.state.messages > 0 {
                        return Err(StreamError::FormerLayout { name: wanted.name, events: info.state.messages });
                    }
                    update(js, farm, info.config.clone(), &wanted).await?;
                }
                there.push(info.config);
            }
            Response::Err { error } if error.error_code() == ErrorCode::STREAM_NOT_FOUND => missing.push(wanted.name),
            Response::Err { error } => return Err(StreamError::refused(error, &wanted)),
        }
    }
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let durability = shape::as_others_have_it(farm, durability, &there);
    let missing: Vec<Config> =
        shape::all(farm, &durability).into_iter().filter(|wanted| missing.contains(&wanted.name)).collect();
    if let Some(Shortage { needed, left, storage }) = shortage(js, &missing).await {
        return Err(StreamError::AccountSpace { needed, left, storage });
    }
    let mut made = Vec::new();
    for wanted in &missing {
        match one(js, wanted, &durability).await {
            Ok(true) => made.push(wanted.name.clone()),
            Ok(false) => {}
            Err(error) => {
                remove(js, &made).await;
                return Err(error);
            }
        }
    }
    Ok(made)
}

/// Brings a stream of an earlier version up to date. Who may not do that uses the stream as it is, but for the queue,
/// which takes other subjects now.
async fn update(js: &Context, farm: &str, there: Config, wanted: &Config) -> Result<(), StreamError> {
    let config = Config { subjects: wanted.subjects.clone(), allow_direct: wanted.allow_direct, ..there };
    match ask(js, format!("STREAM.UPDATE.{}", config.name), &config).await {
        Ok(Response::Err { error }) => Err(StreamError::refused(error, wanted)),
        Err(StreamError::Denied(_)) if shape::is_queue(wanted) => {
            Err(StreamError::Earlier { name: config.name, farm: farm.to_owned() })
        }
        Ok(Response::Ok(_)) | Err(StreamError::Denied(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Takes back what a failed command made, so that the next one may ask for less.
async fn remove(js: &Context, made: &[String]) {
    for name in made {
        // Another command may use it already.
        let is_empty = matches!(ask(js, format!("STREAM.INFO.{name}"), &()).await, Ok(Response::Ok(info)) if info.state.messages == 0);
        if is_empty {
            let _ = js.delete_stream(name).await;
        }
    }
}

pub(crate) async fn existing(js: &Context, farm: &str) -> Result<Streams, StreamError> {
    let (mut found, mut missing) = (0, Vec::new());
    for wanted in shape::all(farm, &Durability::default()) {
        match ask(js, format!("STREAM.INFO.{}", wanted.name), &()).await? {
            Response::Ok(info) => {
                shape::check(&info.config, &wanted, &Durability::default())?;
                found += 1;
            }
            Response::Err { error } if error.error_code() == ErrorCode::STREAM_NOT_FOUND => missing.push(wanted.name),
            Response::Err { error } => return Err(StreamError::refused(error, &wanted)),
        }
    }
    match missing.into_iter().next() {
        None => handles(js, farm).await,
        Some(name) if found > 0 => Err(StreamError::Missing { name, farm: farm.to_owned() }),
        Some(_) => Err(StreamError::NoFarm(farm.to_owned())),
    }
}

/// The streams without asking the servers, for a caller that knows they exist.
pub(crate) async fn handles(js: &Context, farm: &str) -> Result<Streams, StreamError> {
    let [events, results, dead, places] = names::streams(farm);
    let handle = async |name: String| {
        js.get_stream_no_info(&name).await.map_err(|source| StreamError::NoStream { name, source })
    };
    Ok(Streams {
        events: handle(events).await?,
        results: handle(results).await?,
        dead: handle(dead).await?,
        places: handle(places).await?,
    })
}

/// Makes a stream. `false`: another command made it meanwhile.
async fn one(js: &Context, wanted: &Config, durability: &Durability) -> Result<bool, StreamError> {
    match ask(js, format!("STREAM.CREATE.{}", wanted.name), wanted).await? {
        Response::Ok(info) => shape::check(&info.config, wanted, durability).map(|()| true),
        Response::Err { error } if error.error_code() == ErrorCode::STREAM_NAME_EXIST => {
            match ask(js, format!("STREAM.INFO.{}", wanted.name), &()).await? {
                Response::Ok(info) => shape::check(&info.config, wanted, durability).map(|()| false),
                Response::Err { error } => Err(StreamError::refused(error, wanted)),
            }
        }
        Response::Err { error } => Err(StreamError::refused(error, wanted)),
    }
}

/// One request to JetStream, repeated while its servers choose a leader.
async fn ask<T: Serialize + ?Sized>(js: &Context, what: String, with: &T) -> Result<Response<Info>, StreamError> {
    let end = Instant::now() + LEADER_TIMEOUT;
    loop {
        let reply: Result<Response<Info>, _> = tokio::select! {
            reply = js.request(what.clone(), with) => reply,
            denied = connect::denied() => return Err(StreamError::Denied(denied)),
        };
        let later = match &reply {
            Ok(Response::Err { error }) => error.error_code() == ErrorCode::CLUSTER_NOT_AVAILABLE,
            Err(error) => error.kind() == RequestErrorKind::TimedOut,
            Ok(Response::Ok(_)) => false,
        };
        if !later || Instant::now() >= end {
            return reply.map_err(|error| StreamError::unanswered(error, what));
        }
        sleep(PAUSE).await;
    }
}
