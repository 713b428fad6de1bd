//! The farm's four streams, as its servers keep them: events that wait, results, dead letters, and how far feeders are.
//!
//! A stream's settings are its durability. Storage says whether a server's end loses what it had; replicas, how many servers have
//! each message before it is acknowledged. Neither says when a file reaches the disk: that is the servers' own `sync_interval`, two
//! minutes by default, so that a power failure of all replicas loses what was acknowledged since.

pub(crate) mod names;
mod refused;
mod shape;

pub(crate) use shape::REMEMBERED;

use crate::args::Durability;
use crate::connect;
use async_nats::jetstream::context::RequestErrorKind;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{Config, Info, Stream};
use async_nats::jetstream::{Context, ErrorCode};
use serde::Serialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What refuses a second message of one subject, and recognises one that is published again, needs this server.
const OLDEST: (i64, i64, i64) = (2, 9, 0);
/// How long servers that choose a leader are waited for.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(250);

/// The streams of a farm.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    /// Events that wait, in a work queue.
    pub(crate) events: Stream<()>,
    /// One result for each event's id.
    pub(crate) results: Stream<()>,
    /// Events that were given up.
    pub(crate) dead: Stream<()>,
    /// How far each feeder's events are stored.
    pub(crate) places: Stream<()>,
}

/// Makes the farm's streams, or checks them where they exist.
///
/// # Errors
/// They cannot be made, or are others than asked for: says why, and what to do.
pub(crate) async fn ensure(js: &Context, farm: &str, durability: &Durability) -> Result<Streams, String> {
    let client = js.client();
    let (major, minor, patch) = OLDEST;
    if !client.is_server_compatible(major, minor, patch) {
        let version = client.server_info().version;
        return Err(format!(
            "the server is NATS {version}, which lacks what a farm needs of JetStream: take {major}.{minor} or later"
        ));
    }
    for wanted in shape::all(farm, durability) {
        one(js, &wanted, durability).await?;
    }
    handles(js, farm).await
}

/// The streams of a farm that somebody has made.
///
/// # Errors
/// There is none of this name: says who makes it.
pub(crate) async fn existing(js: &Context, farm: &str) -> Result<Streams, String> {
    for wanted in shape::all(farm, &Durability::default()) {
        match ask(js, format!("STREAM.INFO.{}", wanted.name), &()).await? {
            Response::Ok(info) => shape::check(&info.config, &wanted, &Durability::default())?,
            Response::Err { error } if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                return Err(format!("there is no farm {farm} here yet: `sidecore farm feed --farm {farm}` makes it"));
            }
            Response::Err { error } => return Err(refused::stream(&error, &wanted)),
        }
    }
    handles(js, farm).await
}

/// The streams without asking for them, for whoever was told that they exist.
pub(crate) async fn handles(js: &Context, farm: &str) -> Result<Streams, String> {
    let [events, results, dead, places] = names::streams(farm);
    let handle =
        async |name: String| js.get_stream_no_info(&name).await.map_err(|error| format!("no stream {name}: {error}"));
    Ok(Streams {
        events: handle(events).await?,
        results: handle(results).await?,
        dead: handle(dead).await?,
        places: handle(places).await?,
    })
}

/// One stream: as it is, or made.
async fn one(js: &Context, wanted: &Config, durability: &Durability) -> Result<(), String> {
    let name = &wanted.name;
    let there = match ask(js, format!("STREAM.INFO.{name}"), &()).await? {
        Response::Ok(info) => info,
        Response::Err { error } if error.error_code() == ErrorCode::STREAM_NOT_FOUND => match made(js, wanted).await? {
            Some(info) => info,
            None => return ask_again(js, wanted, durability).await,
        },
        Response::Err { error } => return Err(refused::stream(&error, wanted)),
    };
    shape::check(&there.config, wanted, durability)
}

/// What somebody else has made meanwhile.
async fn ask_again(js: &Context, wanted: &Config, durability: &Durability) -> Result<(), String> {
    match ask(js, format!("STREAM.INFO.{}", wanted.name), &()).await? {
        Response::Ok(info) => shape::check(&info.config, wanted, durability),
        Response::Err { error } => Err(refused::stream(&error, wanted)),
    }
}

/// Makes a stream. `None`: it exists by now, with other settings.
async fn made(js: &Context, wanted: &Config) -> Result<Option<Info>, String> {
    match ask(js, format!("STREAM.CREATE.{}", wanted.name), wanted).await? {
        Response::Ok(info) => Ok(Some(info)),
        Response::Err { error } if error.error_code() == ErrorCode::STREAM_NAME_EXIST => Ok(None),
        Response::Err { error } => Err(refused::stream(&error, wanted)),
    }
}

/// One question to JetStream, repeated while its servers choose a leader.
async fn ask<T: Serialize + ?Sized>(js: &Context, what: String, with: &T) -> Result<Response<Info>, String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let reply: Result<Response<Info>, _> = tokio::select! {
            reply = js.request(what.clone(), with) => reply,
            denied = connect::denied() => return Err(refused::denied(&denied)),
        };
        let later = match &reply {
            Ok(Response::Err { error }) => error.error_code() == ErrorCode::CLUSTER_NOT_AVAILABLE,
            Err(error) => error.kind() == RequestErrorKind::TimedOut,
            Ok(Response::Ok(_)) => false,
        };
        if !later || Instant::now() >= end {
            return reply.map_err(|error| refused::request(&error, &what));
        }
        sleep(PAUSE).await;
    }
}
