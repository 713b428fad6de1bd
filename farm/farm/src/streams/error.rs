//! Why a farm's streams cannot be used.

use super::names;
use async_nats::jetstream::context::{GetStreamError, RequestError, RequestErrorKind};
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::jetstream::{Error, ErrorCode};

#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    #[error("the server is NATS {version}, which lacks what a farm needs of JetStream: take {major}.{minor} or later")]
    OldServer { version: String, major: i64, minor: i64 },
    #[error("there is no farm {0} here yet: `sidecore farm feed --farm {0}` makes it")]
    NoFarm(String),
    #[error(
        "the farm {farm} lacks its stream {name}: a running dispatcher makes it again, and so does `sidecore farm feed --farm {farm}`"
    )]
    Missing { name: String, farm: String },
    #[error(
        "the farm {0} is not there for this account: its operator makes it, or brings one of an earlier version up to date, with `sidecore farm feed --farm {0} < /dev/null`; then the account needs what packaging/farm/accounts.conf gives a feeder"
    )]
    NotForFeeders(String),
    #[error("no stream {name}: {source}")]
    NoStream { name: String, source: GetStreamError },
    #[error(
        "JetStream is not enabled there; start the server as `nats-server -js`, or put `jetstream {{}}` into its configuration"
    )]
    NoJetStream,
    #[error(
        "JetStream is not enabled for this account; put `jetstream: enabled` into it in the servers' configuration"
    )]
    NotForAccount,
    #[error(
        "{0} replicas need as many servers in one cluster, and this server is alone: take --replicas 1, or configure a cluster"
    )]
    Alone(usize),
    #[error(
        "{replicas} replicas of {bytes} bytes do not fit on the servers that are up ({source}): take fewer --replicas or a smaller --max-bytes, or start more servers"
    )]
    NoPeers { replicas: usize, bytes: i64, source: Error },
    #[error(
        "the servers have no {bytes} bytes of {} left to set aside for {name} ({source}): take a smaller {}, or raise {} there",
        place(*storage).0,
        size_option(name),
        place(*storage).1
    )]
    NoSpace { name: String, bytes: i64, storage: StorageType, source: Error },
    #[error(
        "this account may set aside {left} more bytes of {}, and the farm's streams need {needed}: take a smaller --max-bytes or --large-bytes, or raise {} in the account's `jetstream` limits",
        place(*storage).0,
        account_limit(*storage)
    )]
    AccountSpace { needed: i128, left: i128, storage: StorageType },
    #[error(
        "this account may not set aside {bytes} bytes of {} for {name} ({source}): take a smaller {}, or raise {} in the account's `jetstream` limits",
        place(*storage).0,
        size_option(name),
        account_limit(*storage)
    )]
    NoAccountSpace { name: String, bytes: i64, storage: StorageType, source: Error },
    #[error(
        "another stream of this account already takes {0}: give this farm another name with --farm, or remove that stream"
    )]
    Overlap(String),
    #[error(
        "this account may have no more streams, and a farm needs four, or six with large events ({0}): raise `max_streams`"
    )]
    TooMany(String),
    #[error("the servers have no leader for {0}: most of them must be up and see each other")]
    NoLeader(String),
    #[error("the servers refuse the stream {name}: {source}")]
    Refused { name: String, source: Error },
    #[error(
        "no answer from JetStream to {0}: a server whose disk was full needs room and a new start; of several most must be up and see each other"
    )]
    NoAnswer(String),
    #[error("cannot ask JetStream for {what}: {source}")]
    Request { what: String, source: RequestError },
    #[error(
        "this account may not do that: {0}; allow it in the servers' configuration, or give other credentials with --creds"
    )]
    Denied(String),
    #[error(
        "the stream {name} exists and is no farm's: {odd}; give this farm another name with --farm, or remove the stream"
    )]
    Foreign { name: String, odd: String },
    #[error(
        "the stream {name} is of an earlier version, and this account may not change it: the farm's operator does so with `sidecore farm feed --farm {farm} < /dev/null`"
    )]
    Earlier { name: String, farm: String },
    #[error(
        "{events} events wait in {name} as an earlier version stored them, which this one would never hand out: let a dispatcher of that version finish them"
    )]
    FormerLayout { name: String, events: u64 },
    #[error(
        "the stream {name} exists and {is}, which {option} does not ask for: {fix}, or leave {option} out to use it as it is"
    )]
    Differs { name: String, option: &'static str, is: String, fix: String },
}

impl StreamError {
    pub(super) fn refused(source: Error, wanted: &Config) -> Self {
        let (name, bytes, replicas) = (wanted.name.clone(), wanted.max_bytes, wanted.num_replicas);
        match source.error_code() {
            ErrorCode::JETSTREAM_NOT_ENABLED => Self::NoJetStream,
            ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT | ErrorCode::NO_ACCOUNT | ErrorCode::NO_LIMITS => {
                Self::NotForAccount
            }
            ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED => Self::Alone(replicas),
            ErrorCode::CLUSTER_NO_PEERS => Self::NoPeers { replicas, bytes, source },
            ErrorCode::STORAGE_RESOURCES_EXCEEDED
            | ErrorCode::MEMORY_RESOURCES_EXCEEDED
            | ErrorCode::INSUFFICIENT_RESOURCES => Self::NoSpace { name, bytes, storage: wanted.storage, source },
            ErrorCode::ACCOUNT_RESOURCES_EXCEEDED | ErrorCode::STREAM_MAX_STREAM_BYTES_EXCEEDED => {
                Self::NoAccountSpace { name, bytes, storage: wanted.storage, source }
            }
            ErrorCode::STREAM_SUBJECT_OVERLAP => Self::Overlap(wanted.subjects.join(", ")),
            ErrorCode::MAXIMUM_STREAMS_LIMIT => Self::TooMany(name),
            ErrorCode::CLUSTER_NOT_AVAILABLE => Self::NoLeader(name),
            _ => Self::Refused { name, source },
        }
    }

    pub(super) fn unanswered(source: RequestError, what: String) -> Self {
        match source.kind() {
            RequestErrorKind::NoResponders => Self::NoJetStream,
            RequestErrorKind::TimedOut => Self::NoAnswer(what),
            _ => Self::Request { what, source },
        }
    }
}

fn size_option(stream: &str) -> &'static str {
    if names::is_store(stream) { "--large-bytes" } else { "--max-bytes" }
}

fn account_limit(storage: StorageType) -> &'static str {
    match storage {
        StorageType::File => "`max_file`",
        StorageType::Memory => "`max_mem`",
    }
}

fn place(storage: StorageType) -> (&'static str, &'static str) {
    match storage {
        StorageType::File => ("files", "max_file_store"),
        StorageType::Memory => ("memory", "max_memory_store"),
    }
}
