//! `farm cancel`: takes events out of the queue before a node has them. They become dead letters.
//!
//! The command asks the active dispatcher. Events that it holds and no node has end at once. Most of a long queue is still
//! in the stream, where nothing finds an event by its id. So the dispatcher remembers the request for its term, and
//! ends matching events as the stream delivers them, up to the last one that was there at the time of the request: a
//! feeder may use the same ids again later.

use crate::args;
use crate::connect::{self, Role};
use crate::error::FarmError;
use crate::streams;
use async_nats::jetstream;
use async_nats::{Client, Subscriber};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use sidecore_nats::subscribe;
use sidecore_terminal::error::REFUSED;
use sidecore_terminal::output::{print, tell};
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tokio::time::timeout;

/// Patterns of one request, which is far smaller than a message may be.
const MAX_PATTERNS: usize = 1_000;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// A standby takes less time to become active.
const ATTEMPTS: u32 = 5;

pub(crate) fn subject(farm: &str) -> String {
    format!("farm.{farm}.cancel")
}

/// Where the dispatcher answers. It may not write to the inboxes of others.
pub(crate) fn answers(farm: &str) -> String {
    format!("farm.{farm}.cancelled")
}

/// Ends the events of `patterns` whose number in the queue is `up_to` at most.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) up_to: u64,
    pub(crate) patterns: Vec<Box<str>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Of the request.
    pub(crate) number: u64,
    pub(crate) cancelled: u64,
    /// Events that a node has: it does them.
    pub(crate) with_nodes: u64,
    /// Patterns that events still to come may match.
    pub(crate) noted: u64,
    /// Patterns that could not be noted: the dispatcher remembers as many as it may.
    pub(crate) refused: u64,
}

pub(crate) async fn run(args: args::Cancel) -> Result<u8, FarmError> {
    let client = connect::connect(&args.farm, Role::Operator).await?;
    let farm = &args.farm.farm;
    let streams = streams::existing(&jetstream::new(client.clone()), farm).await?;
    let info = streams.events.get_info().await.map_err(FarmError::nats("cannot look at the queue"))?;
    let mut heard = subscribe(&client, answers(farm)).await?;
    let mut sum = Answer::default();
    for patterns in args.patterns.chunks(MAX_PATTERNS) {
        let patterns = patterns.iter().map(|pattern| pattern.as_str().into()).collect();
        let number = RandomState::new().hash_one(std::process::id());
        let request = Request { number, up_to: info.state.last_sequence, patterns };
        let Some(answer) = ask(&client, farm, &request, &mut heard).await? else {
            tell(format_args!(
                "no dispatcher of the farm {farm} answers: start one with `sidecore farm dispatch`; one that runs may lack the \
                 subjects {} and {}, which packaging/farm/accounts.conf gives it",
                subject(farm),
                answers(farm)
            ));
            return Ok(REFUSED);
        };
        sum.cancelled += answer.cancelled;
        sum.with_nodes += answer.with_nodes;
        sum.noted += answer.noted;
        sum.refused += answer.refused;
    }
    print(&shown(&sum)).map_err(FarmError::output)?;
    if sum.refused > 0 {
        tell(format_args!(
            "{} could not be noted: the dispatcher remembers 65536 ids and 64 patterns; start it again, which forgets them",
            sum.refused
        ));
    }
    Ok(if sum.refused > 0 { REFUSED } else { 0 })
}

/// `None`: nobody answers. A repeated request changes nothing more, so its first answer counts.
async fn ask(
    client: &Client,
    farm: &str,
    request: &Request,
    heard: &mut Subscriber,
) -> Result<Option<Answer>, FarmError> {
    let body = serde_json::to_vec(request).map_err(|error| FarmError::output(format!("cannot write JSON: {error}")))?;
    let is_meant = |answer: &Answer| answer.number == request.number;
    for _ in 0..ATTEMPTS {
        let sent = client.publish(subject(farm), body.clone().into()).await;
        sent.map_err(FarmError::nats("cannot ask the dispatcher"))?;
        let answer = async {
            while let Some(message) = heard.next().await {
                if let Some(answer) = serde_json::from_slice(&message.payload).ok().filter(is_meant) {
                    return Some(answer);
                }
            }
            None
        };
        tokio::select! {
            answer = timeout(ANSWER_TIMEOUT, answer) => if let Ok(Some(answer)) = answer { return Ok(Some(answer)) },
            said = connect::denied() => return Err(FarmError::denied("cancel events", said)),
        }
    }
    Ok(None)
}

fn shown(sum: &Answer) -> String {
    let mut text = format!("cancelled: {}\n", sum.cancelled);
    if sum.cancelled > 0 {
        text += "they are dead letters now: `sidecore farm dead --again ID` feeds one again\n";
    }
    if sum.with_nodes > 0 {
        let _ = writeln!(text, "with a node, which does them: {}", sum.with_nodes);
    }
    if sum.noted > 0 {
        text += "of the others, those that still wait in the queue are cancelled when the dispatcher comes to them; if it ends before, cancel again\n";
    }
    text
}
