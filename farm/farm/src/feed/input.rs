//! Input of the publisher, from any source.

use super::place::Mark;
use crate::large::LARGEST;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc::Sender;
use tokio::sync::{Notify, watch};

pub(super) const CHUNK: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Found {
    pub(super) id: String,
    /// A displayed name, if the id does not say enough.
    pub(super) name: Option<String>,
    pub(super) body: Result<Bytes, InvalidInput>,
    pub(super) after: Option<Mark>,
    /// The client that receives the outcome, and the number among its own events.
    pub(super) asker: Option<(Arc<Asker>, u64)>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidInput {
    #[error("{0} bytes are more than the {1} that {why}", why = limit(*.1))]
    TooLarge(u64, usize),
    #[error("{0}")]
    NoFile(&'static str),
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

fn limit(most: usize) -> &'static str {
    if most >= LARGEST {
        return "an event may have";
    }
    "the server's max_payload leaves for an event: with --large-bytes, a farm's operator gives it room for larger ones"
}

#[derive(Debug)]
pub(super) struct Asker {
    pub(super) done: watch::Sender<u64>,
    pub(super) lines: Sender<String>,
    pub(super) deaf: Notify,
}

impl Asker {
    pub(super) fn refuse(&self, line: String) {
        if self.lines.try_send(line).is_err() {
            self.deaf.notify_one();
        }
    }

    /// All events up to this number are dealt with.
    pub(super) fn done(&self, number: u64) {
        self.done.send_replace(number);
    }
}
