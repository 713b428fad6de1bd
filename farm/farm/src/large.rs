//! Events and results that are larger than a message of the servers. Their octets are an object in one of NATS's object
//! stores, and the message has a reference to it.
//!
//! A farm has two stores, of events and of results, once a command gave it room with `--large-bytes`. An object has a name
//! that nobody guesses and that no other has, so that who removes it cannot mean another's: the dispatcher removes that of
//! an event whose result is stored, a taker that of a result that all takers have. What a killed process leaves behind
//! ends by its age.

use crate::connect::denied;
use crate::ids::{self, hexadecimal};
use crate::node::task::{Outcome, Task};
use crate::streams::names;
use crate::wire::is_token;
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind, PublishErrorKind};
use async_nats::jetstream::stream::{DirectGetError, DirectGetErrorKind, Stream};
use async_nats::jetstream::{Context, ErrorCode};
use async_nats::{HeaderMap, StatusCode};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use bytes::Bytes;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use sidecore_assign::Payload;
use std::borrow::Cow;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Most octets of an event or a result: feeders, nodes and takers have the whole of one in memory.
pub(crate) const LARGEST: usize = 256 << 20;
/// Most octets of a part of an object, and what servers add to a part that they send. A reader waits for each part, so
/// that small ones would take their time from a distant server.
const MAX_PART: usize = 1 << 20;
const BESIDE: usize = 4_096;
/// Parts on their way to the servers at a time.
const WINDOW: usize = 4;
/// Least octets of a part that is not the last: a reader waits for each.
const MIN_PART: usize = 16 << 10;
/// What a part and the description of an object need in a store beside their octets.
const RECORD: u64 = 512;
/// Most octets of an object's name.
const MAX_NAME: usize = 256;
/// Most characters of the name of an object's parts.
const MAX_PARTS_NAME: usize = 64;
/// Time between the acknowledgement of an event and the removal of its object: the acknowledgement may be lost, and the
/// event is done once more.
const REMOVE_AFTER: Duration = Duration::from_secs(5);
/// Objects that wait for their removal. Further ones end by their age.
const MAX_REMOVALS: usize = 4_096;
/// How long a replica may lack an object that is stored, and the time between two looks at it.
const LAG: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);
/// How long the servers may take for the description of an object: where there is no store, earlier ones do not answer.
const DESCRIPTION_TIMEOUT: Duration = Duration::from_secs(2);

/// As JSON, so that other NATS clients can feed large events, too.
#[derive(Debug, Serialize, Deserialize)]
struct Reference {
    object: String,
    /// Of the object, in hexadecimal.
    sha256: String,
    octets: u64,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LargeError {
    #[error("the farm has no room for what is larger than a message: `sidecore farm feed --large-bytes 4GiB` makes it")]
    NoStore,
    #[error(
        "the server refuses this account the store of large events or results ({0}): packaging/farm/accounts.conf gives it"
    )]
    Denied(String),
    #[error("the object {0} is gone: removed, or older than the farm keeps it")]
    Gone(String),
    #[error("the object {0} is not what was stored")]
    Spoilt(String),
    #[error("the reference to an object is none")]
    NoReference,
    #[error("the store of large events or results is full")]
    Full,
    #[error("an event or a result may have {LARGEST} octets at most, and this has {0}")]
    TooLarge(usize),
    #[error("{0} octets are more than the {1} that the store of large events holds: its operator makes it larger")]
    TooLargeForStore(u64, u64),
    #[error(
        "no answer about an object: does the farm have room for large events (`sidecore farm feed --large-bytes`)?"
    )]
    NoAnswer,
    #[error("the servers do not give or take an object: {0}")]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

/// What a message of the farm carries.
pub(crate) fn payload_of(headers: Option<&HeaderMap>, carried: Bytes) -> Payload {
    Payload::new(carried, headers.is_some_and(|headers| headers.get(names::LARGE).is_some()))
}

/// `None`: the payload has its octets itself, or its reference is none.
fn reference_of(payload: &Payload) -> Option<Reference> {
    let reference: Reference = serde_json::from_slice(payload.is_reference.then_some(&payload.carried)?).ok()?;
    let has_name = (1..=MAX_NAME).contains(&reference.object.len());
    (has_name && reference.octets <= LARGEST as u64).then_some(reference)
}

/// Whether a node stored this result for the event `id`: no node has the result of another removed.
pub(crate) fn is_result_of(payload: &Payload, id: &str) -> bool {
    reference_of(payload).is_none_or(|reference| reference.object.split_once('/').is_some_and(|(of, _)| of == id))
}

/// What distinguishes a payload from others: of two objects with the same octets, the same.
pub(crate) fn identity(payload: &Payload) -> Cow<'_, [u8]> {
    match reference_of(payload) {
        Some(Reference { sha256, .. }) => format!("object {sha256}").into_bytes().into(),
        None => Cow::Borrowed(payload),
    }
}

/// Octets of the event or the result itself. Of a reference, as it says.
pub(crate) fn octets(payload: &Payload) -> u64 {
    reference_of(payload).map_or(payload.len() as u64, |reference| reference.octets)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    Events,
    Results,
}

/// One of the two stores. It reads and writes objects with few of JetStream's requests, in the form that NATS's tools
/// know: the library's own way needs more, and who may have them can have the servers send to whom it likes.
pub(crate) struct Store {
    js: Context,
    name: String,
    contents: Contents,
}

/// What a store keeps of an object beside its parts.
#[derive(Serialize, Deserialize)]
struct Description {
    name: String,
    bucket: String,
    /// The name of its parts.
    nuid: String,
    size: u64,
    chunks: usize,
    digest: String,
    #[serde(default)]
    deleted: bool,
}

impl Store {
    pub(crate) fn new(js: Context, farm: &str, contents: Contents) -> Self {
        let [events, results] = names::stores(farm);
        let name = if contents == Contents::Events { events } else { results };
        Self { js, name, contents }
    }

    /// Whether the farm has it.
    pub(crate) async fn is_there(&self) -> Result<bool, LargeError> {
        self.unless_denied(async {
            match self.js.get_stream(names::stream_of(&self.name)).await {
                Ok(_) => Ok(true),
                Err(error) if is_missing(&error) => Ok(false),
                Err(error) => Err(LargeError::Failed(error.into())),
            }
        })
        .await
    }

    /// Stores the octets of the event or result `id`.
    pub(crate) async fn put(&self, id: &str, octets: &Bytes) -> Result<Payload, LargeError> {
        if octets.len() > LARGEST {
            return Err(LargeError::TooLarge(octets.len()));
        }
        let secret = ids::secret().map_err(|error| LargeError::Failed(error.into()))?;
        let digest = digest(&SHA256, octets);
        let description = Description {
            name: format!("{id}/{secret}"),
            bucket: self.name.clone(),
            nuid: secret,
            size: octets.len() as u64,
            chunks: octets.len().div_ceil(self.part_size()),
            digest: format!("SHA-256={}", URL_SAFE.encode(digest)),
            deleted: false,
        };
        // A node may not ask.
        if self.contents == Contents::Events {
            self.unless_denied(self.room(description.size)).await?;
        }
        let put = self.unless_denied(self.put_all(&description, octets)).await;
        if put.is_err() && self.contents == Contents::Events {
            // Parts without a description would fill the store. A node may not remove them: they end by their age.
            drop(self.unless_denied(self.purge(self.parts_subject(&description.nuid))).await);
        }
        put?;
        let reference =
            Reference { object: description.name, sha256: hexadecimal(digest.as_ref()), octets: description.size };
        Ok(Payload::reference(json(&reference)?))
    }

    /// Whether the store has room for an object now: without it, many parts would come and be removed again.
    async fn room(&self, octets: u64) -> Result<(), LargeError> {
        let info = match self.stream().await?.get_info().await {
            Ok(info) => info,
            Err(error) => return Err(LargeError::Failed(error.into())),
        };
        let Ok(most) = u64::try_from(info.config.max_bytes) else { return Ok(()) };
        let needed = octets + (octets / self.part_size() as u64 + 2) * RECORD;
        match needed {
            _ if needed > most => Err(LargeError::TooLargeForStore(octets, most)),
            _ if needed > most.saturating_sub(info.state.bytes) => Err(LargeError::Full),
            _ => Ok(()),
        }
    }

    async fn put_all(&self, description: &Description, octets: &Bytes) -> Result<(), LargeError> {
        let size = self.part_size();
        let parts: Vec<Bytes> =
            (0..octets.len()).step_by(size).map(|begin| octets.slice(begin..octets.len().min(begin + size))).collect();
        for window in parts.chunks(WINDOW) {
            let subject = || self.parts_subject(&description.nuid);
            try_join_all(window.iter().map(|part| self.publish(subject(), part.clone()))).await?;
        }
        self.publish(self.description_subject(&description.name), json(description)?).await
    }

    async fn publish(&self, subject: String, body: Bytes) -> Result<(), LargeError> {
        let stored = match self.js.publish(subject, body).await {
            Ok(stored) => stored.await,
            Err(error) => Err(error),
        };
        stored.map(drop).map_err(|error| match error.kind() {
            PublishErrorKind::StreamNotFound => LargeError::NoStore,
            _ if error.to_string().contains("maximum bytes") => LargeError::Full,
            _ => LargeError::Failed(error.into()),
        })
    }

    fn part_size(&self) -> usize {
        self.js.client().max_payload().saturating_sub(BESIDE).clamp(1, MAX_PART)
    }

    fn parts_subject(&self, nuid: &str) -> String {
        format!("$O.{}.C.{nuid}", self.name)
    }

    fn description_subject(&self, object: &str) -> String {
        format!("$O.{}.M.{}", self.name, URL_SAFE.encode(object))
    }

    /// The octets that a payload stands for.
    pub(crate) async fn get(&self, payload: &Payload) -> Result<Bytes, LargeError> {
        let end = Instant::now() + LAG;
        loop {
            match self.get_now(payload).await {
                Err(LargeError::Gone(_)) if Instant::now() < end => sleep(PAUSE).await,
                got => return got,
            }
        }
    }

    /// The same for who cannot wait: `Gone` may also mean that a replica lags behind.
    pub(crate) async fn get_now(&self, payload: &Payload) -> Result<Bytes, LargeError> {
        if !payload.is_reference {
            return Ok(payload.carried.clone());
        }
        let reference = reference_of(payload).ok_or(LargeError::NoReference)?;
        let got = self.unless_denied(self.read(&reference)).await?;
        if got.len() as u64 != reference.octets || hexadecimal(digest(&SHA256, &got).as_ref()) != reference.sha256 {
            return Err(LargeError::Spoilt(reference.object));
        }
        Ok(got.into())
    }

    async fn read(&self, reference: &Reference) -> Result<Vec<u8>, LargeError> {
        let Reference { object, octets, .. } = reference;
        let Description { nuid, size, .. } =
            self.look_up(object).await?.ok_or_else(|| LargeError::Gone(object.clone()))?;
        if size != *octets {
            return Err(LargeError::Spoilt(object.clone()));
        }
        let (stream, subject) = (self.stream().await?, self.parts_subject(&nuid));
        let (mut got, mut from) = (Vec::new(), 1);
        while (got.len() as u64) < size {
            let part = stream.direct_get_next_for_subject(&subject, Some(from)).await;
            let part = part.map_err(|error| not_read(error, object))?;
            from = part.sequence + 1;
            got.extend_from_slice(&part.payload);
            if part.payload.len() < MIN_PART && (got.len() as u64) < size {
                return Err(LargeError::Spoilt(object.clone()));
            }
        }
        Ok(got)
    }

    /// What the store says of an object. `None`: it has none of that name.
    async fn look_up(&self, object: &str) -> Result<Option<Description>, LargeError> {
        let stream = self.stream().await?;
        let first =
            timeout(DESCRIPTION_TIMEOUT, stream.direct_get_next_for_subject(self.description_subject(object), None));
        let first = match first.await.map(|first| first.map_err(|error| not_read(error, object))) {
            Ok(Ok(first)) => first,
            Ok(Err(LargeError::Gone(_))) => return Ok(None),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(LargeError::NoAnswer),
        };
        match serde_json::from_slice::<Description>(&first.payload) {
            Ok(told) if told.deleted => Ok(None),
            // Who stored it says so: it must not name the parts of others.
            Ok(told) if is_token(&told.nuid, MAX_PARTS_NAME) => Ok(Some(told)),
            _ => Err(LargeError::Spoilt(object.to_owned())),
        }
    }

    /// Removes the object of a payload, and all that the store knows of it.
    pub(crate) async fn remove(&self, payload: &Payload) -> Result<(), LargeError> {
        if !payload.is_reference {
            return Ok(());
        }
        let Reference { object, sha256, octets } = reference_of(payload).ok_or(LargeError::NoReference)?;
        self.unless_denied(async {
            let Some(Description { nuid, size, digest, .. }) = self.look_up(&object).await? else { return Ok(()) };
            // Somebody else's: who does not know what is in it has no right to it.
            if size != octets || digest_of(&digest) != Some(sha256) {
                return Err(LargeError::Spoilt(object));
            }
            self.purge(self.parts_subject(&nuid)).await?;
            self.purge(self.description_subject(&object)).await
        })
        .await
    }

    async fn purge(&self, subject: String) -> Result<(), LargeError> {
        let purged = self.stream().await?.purge().filter(subject).await;
        purged.map(drop).map_err(|error| LargeError::Failed(error.into()))
    }

    async fn stream(&self) -> Result<Stream<()>, LargeError> {
        let stream = self.js.get_stream_no_info(names::stream_of(&self.name)).await;
        stream.map_err(|error| LargeError::Failed(error.into()))
    }

    async fn unless_denied<T>(&self, work: impl Future<Output = Result<T, LargeError>>) -> Result<T, LargeError> {
        tokio::select! {
            done = work => done,
            said = denied() => Err(LargeError::Denied(said)),
        }
    }
}

/// Removes objects that nobody needs any more, in a task: no decision waits for it.
pub(crate) struct Remover {
    give: mpsc::Sender<(Instant, Payload)>,
    removing: JoinHandle<()>,
}

impl Remover {
    pub(crate) fn new(store: Store) -> Self {
        let (give, mut take) = mpsc::channel::<(Instant, Payload)>(MAX_REMOVALS);
        let removing = tokio::spawn(async move {
            while let Some((due, payload)) = take.recv().await {
                // Nobody waits until it is due once the dispatcher ends, which has sent its acknowledgements by then.
                while !take.is_closed() && Instant::now() < due {
                    sleep_until(due.min(Instant::now() + PAUSE)).await;
                }
                // One that stays ends by its age.
                drop(store.remove(&payload).await);
            }
        });
        Self { give, removing }
    }

    /// Does nothing for a payload without an object.
    pub(crate) fn remove_soon(&self, payload: &Payload) {
        if payload.is_reference {
            drop(self.give.try_send((Instant::now() + REMOVE_AFTER, payload.clone())));
        }
    }

    /// Removes what waits for it.
    pub(crate) async fn close(self) {
        drop(self.give);
        // A task that ended early has nothing more to remove.
        let _ = self.removing.await;
    }
}

/// Both stores as a node uses them: it reads the events that it works on, and stores results of more than `most` octets.
pub(crate) struct NodeStores {
    events: Store,
    results: Store,
    most: usize,
}

impl NodeStores {
    pub(crate) fn new(js: &Context, farm: &str, most: usize) -> Self {
        let store = |contents| Store::new(js.clone(), farm, contents);
        Self { events: store(Contents::Events), results: store(Contents::Results), most }
    }

    /// The task with its octets and the time that is left for it, or why there are none. That counts as a try: whose fault
    /// it is another node decides.
    pub(crate) async fn whole(&self, task: &Task, begun: Instant) -> Result<Task, Outcome> {
        match timeout(task.limit, self.events.get(&task.body)).await {
            Ok(Ok(octets)) => Ok(Task { body: octets.into(), limit: left(task, begun), ..task.clone() }),
            Ok(Err(error)) => Err(Outcome::Failed(error.to_string())),
            Err(_) => Err(Outcome::Failed("its object took longer than the time limit".to_owned())),
        }
    }

    /// What is answered.
    pub(crate) async fn answer(&self, task: &Task, begun: Instant, outcome: Outcome) -> Outcome {
        let Outcome::Done(result) = &outcome else { return outcome };
        if result.len() <= self.most {
            return outcome;
        }
        let (size, most) = (result.len(), self.most);
        let too_large =
            |why: &str| Outcome::Failed(format!("the result has {size} octets, and a message {most}: {why}"));
        match timeout(left(task, begun), self.results.put(&task.id, result)).await {
            Ok(Ok(reference)) => Outcome::Done(reference),
            Ok(Err(error)) => too_large(&error.to_string()),
            Err(_) => too_large("the servers did not take it within the time limit"),
        }
    }
}

/// The dispatcher gives reading, working and storing one limit together.
fn left(task: &Task, begun: Instant) -> Duration {
    task.limit.saturating_sub(begun.elapsed())
}

/// The digest in a description, in hexadecimal.
fn digest_of(described: &str) -> Option<String> {
    Some(hexadecimal(&URL_SAFE.decode(described.strip_prefix("SHA-256=")?).ok()?))
}

fn not_read(error: DirectGetError, object: &str) -> LargeError {
    match error.kind() {
        DirectGetErrorKind::NotFound => LargeError::Gone(object.to_owned()),
        DirectGetErrorKind::ErrorResponse(StatusCode::NO_RESPONDERS, _) => LargeError::NoStore,
        _ => LargeError::Failed(error.into()),
    }
}

fn json(value: &impl Serialize) -> Result<Bytes, LargeError> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| LargeError::Failed(error.into()))
}

fn is_missing(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(why) if why.error_code() == ErrorCode::STREAM_NOT_FOUND)
}
