//! The farm's four streams on its servers: waiting events, results, dead letters, and feeders' places.
//!
//! A stream's settings are its durability. Storage decides whether a server's end loses its messages. Replicas are the
//! number of servers with a message before it is acknowledged. Neither decides when a file reaches the disk. The
//! servers' `sync_interval` does, two minutes by default. A power failure of all replicas therefore loses the
//! messages acknowledged since.

pub(crate) mod error;
pub(crate) mod names;
mod shape;

pub(crate) use shape::REMEMBERED;

use crate::args::Durability;
use crate::connect;
use async_nats::jetstream::context::RequestErrorKind;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{Config, Info, Stream};
use async_nats::jetstream::{Context, ErrorCode};
use error::StreamError;
use serde::Serialize;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// First server version with a limit of one message for each subject, and recognition of repeated ids.
const OLDEST: (i64, i64, i64) = (2, 9, 0);
const LEADER_TIMEOUT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(250);

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
    for wanted in shape::all(farm, durability) {
        one(js, &wanted, durability).await?;
    }
    handles(js, farm).await
}

pub(crate) async fn existing(js: &Context, farm: &str) -> Result<Streams, StreamError> {
    for wanted in shape::all(farm, &Durability::default()) {
        match ask(js, format!("STREAM.INFO.{}", wanted.name), &()).await? {
            Response::Ok(info) => shape::check(&info.config, &wanted, &Durability::default())?,
            Response::Err { error } if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                return Err(StreamError::NoFarm(farm.to_owned()));
            }
            Response::Err { error } => return Err(StreamError::refused(error, &wanted)),
        }
    }
    handles(js, farm).await
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

async fn one(js: &Context, wanted: &Config, durability: &Durability) -> Result<(), StreamError> {
    let name = &wanted.name;
    let there = match ask(js, format!("STREAM.INFO.{name}"), &()).await? {
        Response::Ok(info) => info,
        Response::Err { error } if error.error_code() == ErrorCode::STREAM_NOT_FOUND => match made(js, wanted).await? {
            Some(info) => info,
            None => return ask_again(js, wanted, durability).await,
        },
        Response::Err { error } => return Err(StreamError::refused(error, wanted)),
    };
    shape::check(&there.config, wanted, durability)
}

async fn ask_again(js: &Context, wanted: &Config, durability: &Durability) -> Result<(), StreamError> {
    match ask(js, format!("STREAM.INFO.{}", wanted.name), &()).await? {
        Response::Ok(info) => shape::check(&info.config, wanted, durability),
        Response::Err { error } => Err(StreamError::refused(error, wanted)),
    }
}

async fn made(js: &Context, wanted: &Config) -> Result<Option<Info>, StreamError> {
    match ask(js, format!("STREAM.CREATE.{}", wanted.name), wanted).await? {
        Response::Ok(info) => Ok(Some(info)),
        Response::Err { error } if error.error_code() == ErrorCode::STREAM_NAME_EXIST => Ok(None),
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
