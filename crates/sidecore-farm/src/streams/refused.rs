//! Messages about streams that servers refuse.

use async_nats::jetstream::context::{RequestError, RequestErrorKind};
use async_nats::jetstream::stream::{Config, StorageType};
use async_nats::jetstream::{Error, ErrorCode};

const NO_JETSTREAM: &str = "JetStream is not enabled there; start the server as `nats-server -js`, or put `jetstream {}` into its configuration";

/// For the creation or an inquiry of a stream.
pub(super) fn stream(error: &Error, wanted: &Config) -> String {
    let name = &wanted.name;
    match error.error_code() {
        ErrorCode::JETSTREAM_NOT_ENABLED => NO_JETSTREAM.into(),
        ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT | ErrorCode::NO_ACCOUNT | ErrorCode::NO_LIMITS => {
            "JetStream is not enabled for this account; put `jetstream: enabled` into it in the servers' configuration"
                .into()
        }
        ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED => {
            format!(
                "{} replicas need as many servers in one cluster, and this server is alone: take --replicas 1, or configure a cluster",
                wanted.num_replicas
            )
        }
        ErrorCode::CLUSTER_NO_PEERS => no_peers(error, wanted),
        ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::MEMORY_RESOURCES_EXCEEDED
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
        | ErrorCode::STREAM_MAX_STREAM_BYTES_EXCEEDED => no_space(error, wanted),
        ErrorCode::STREAM_SUBJECT_OVERLAP => format!(
            "another stream of this account already takes {}: give this farm another name with --farm, or remove that stream",
            wanted.subjects.join(", ")
        ),
        ErrorCode::MAXIMUM_STREAMS_LIMIT => {
            format!("this account may have no more streams, and a farm needs four ({name}): raise `max_streams`")
        }
        ErrorCode::CLUSTER_NOT_AVAILABLE => {
            format!("the servers have no leader for {name}: most of them must be up and see each other")
        }
        _ => format!("the servers refuse the stream {name}: {error}"),
    }
}

/// For a request without an answer.
pub(super) fn request(error: &RequestError, what: &str) -> String {
    match error.kind() {
        RequestErrorKind::NoResponders => NO_JETSTREAM.into(),
        RequestErrorKind::TimedOut => {
            format!(
                "no answer from JetStream to {what}: a server whose disk was full needs room and a new start; of several most must be up and see each other"
            )
        }
        _ => format!("cannot ask JetStream for {what}: {error}"),
    }
}

/// For a missing permission of the account.
pub(super) fn denied(said: &str) -> String {
    format!(
        "this account may not do that: {said}; allow it in the servers' configuration, or give other credentials with --creds"
    )
}

fn no_peers(error: &Error, wanted: &Config) -> String {
    format!(
        "{} replicas of {} bytes do not fit on the servers that are up ({error}): take fewer --replicas or a smaller --max-bytes, or start more servers",
        wanted.num_replicas, wanted.max_bytes
    )
}

fn no_space(error: &Error, wanted: &Config) -> String {
    let (place, limit) = match wanted.storage {
        StorageType::File => ("files", "max_file_store"),
        StorageType::Memory => ("memory", "max_memory_store"),
    };
    format!(
        "the servers have no {} bytes of {place} left to set aside for {} ({error}): take a smaller --max-bytes, or raise {limit} there",
        wanted.max_bytes, wanted.name
    )
}
