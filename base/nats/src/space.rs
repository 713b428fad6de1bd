//! Whether an account may set aside what a farm's streams need together. JetStream itself says so at the last stream only.

use async_nats::jetstream::Context;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{Config, StorageType};
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;

/// An account without permission to ask gets no answer: then the servers decide stream by stream.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// What is needed of an account's state. Servers before 2.10 do not say what is set aside.
#[derive(Debug, Deserialize)]
struct Account {
    limits: Limits,
    #[serde(default)]
    reserved_storage: u64,
    #[serde(default)]
    reserved_memory: u64,
}

/// Below 0: no limit.
#[derive(Debug, Deserialize)]
struct Limits {
    max_storage: i64,
    max_memory: i64,
}

/// What an account may not set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Bytes that the streams need together.
    pub needed: i128,
    /// Bytes that the account may still set aside.
    pub left: i128,
    /// Of files or of memory.
    pub storage: StorageType,
}

/// Whether the account lacks room for streams that are to be made. `None`: it has it, or it does not say.
pub async fn shortage(js: &Context, missing: &[Config]) -> Option<Shortage> {
    let asked = timeout(ANSWER_TIMEOUT, js.request::<_, _, Response<Account>>("INFO", &())).await;
    let Ok(Ok(Response::Ok(account))) = asked else { return None };
    let limits = [
        (StorageType::File, account.limits.max_storage, account.reserved_storage),
        (StorageType::Memory, account.limits.max_memory, account.reserved_memory),
    ];
    limits.into_iter().find_map(|(storage, most, reserved)| {
        let of = missing.iter().filter(|config| config.storage == storage);
        let needed: i128 = of.map(|config| i128::from(config.max_bytes) * config.num_replicas as i128).sum();
        let left = i128::from(most) - i128::from(reserved);
        (needed > 0 && most >= 0 && needed > left).then_some(Shortage { needed, left: left.max(0), storage })
    })
}
