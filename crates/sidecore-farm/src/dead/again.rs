//! Feeds dead letters again. Each is in the farm or among the dead letters at every moment.
//!
//! A letter cannot keep its own name until its event is in the queue. If the event died again meanwhile, the stream
//! would refuse its second letter as a duplicate, and it would be lost with the first. So the letter first gets another
//! name, then its event enters the queue, and only then the letter is removed. Servers recognise an id of the last two
//! minutes and store nothing: the command waits until that time is over.

use super::DeadEvent;
use crate::error::{Cause, FarmError};
use crate::feed::HEADROOM;
use crate::streams::{REMEMBERED, names};
use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::stream::Stream;
use sidecore_terminal::error::REFUSED;
use sidecore_terminal::output::tell;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Prefix of a letter's name on its way back. No id has it.
pub(super) const MARK: &str = "again+";
const PAUSE: Duration = Duration::from_secs(2);
const MARGIN: Duration = Duration::from_secs(30);

pub(super) async fn run(js: &Context, farm: &str, dead: &Stream<()>, letters: Vec<DeadEvent>) -> Result<u8, FarmError> {
    let most = js.client().max_payload().saturating_sub(HEADROOM);
    let mut odd = 0;
    let mut sound = Vec::new();
    for letter in letters {
        match letter.why_not(most) {
            Some(why) => {
                odd += 1;
                tell(format_args!("left {} alone: {why}", letter.id.escape_debug()));
            }
            None => sound.push(letter),
        }
    }
    for letter in &mut sound {
        set_aside(js, farm, dead, letter).await?;
    }
    // If an earlier run was stopped halfway, two letters are now the same one.
    sound.sort_by_key(|letter| letter.sequence);
    sound.dedup_by_key(|letter| letter.sequence);
    let end = Instant::now() + REMEMBERED + MARGIN;
    let all = sound.len();
    let mut told = false;
    loop {
        let mut left = Vec::new();
        for letter in sound {
            if !feed(js, farm, dead, &letter).await? {
                left.push(letter);
            }
        }
        sound = left;
        if sound.is_empty() || Instant::now() > end {
            break;
        }
        if !std::mem::replace(&mut told, true) {
            tell(format_args!(
                "{} were fed less than {} s ago: waiting until the servers take them again",
                sound.len(),
                REMEMBERED.as_secs()
            ));
        }
        sleep(PAUSE).await;
    }
    tell(format_args!("fed {} of {} dead letters again", all - sound.len(), all + odd));
    Ok(if sound.is_empty() && odd == 0 { 0 } else { REFUSED })
}

async fn set_aside(js: &Context, farm: &str, dead: &Stream<()>, letter: &mut DeadEvent) -> Result<(), FarmError> {
    if letter.again {
        return Ok(());
    }
    let name = names::dead(farm, &format!("{MARK}{}", letter.id));
    let copy = publish(js, name.clone(), letter.headers(), letter).await?;
    let sequence = match copy {
        Some(ack) => ack.sequence,
        // An earlier run was stopped between the copy and the removal.
        None => dead.get_last_raw_message_by_subject(&name).await.map_err(|error| cannot(letter, error))?.sequence,
    };
    remove(dead, letter).await?;
    (letter.sequence, letter.again) = (sequence, true);
    Ok(())
}

/// Puts an event back into the queue. `false`: the servers recognise its id and have stored nothing.
async fn feed(js: &Context, farm: &str, dead: &Stream<()>, letter: &DeadEvent) -> Result<bool, FarmError> {
    let mut headers = HeaderMap::new();
    headers.insert(names::ID, letter.id.as_str());
    headers.insert(names::KIND, letter.kind.as_str());
    let Some(ack) = publish(js, names::event(farm, &letter.kind), headers, letter).await? else { return Ok(false) };
    if ack.duplicate {
        return Ok(false);
    }
    remove(dead, letter).await.map(|()| true)
}

/// Publishes a letter's event. `None`: the stream already has a message of this name.
async fn publish(
    js: &Context,
    subject: String,
    headers: HeaderMap,
    letter: &DeadEvent,
) -> Result<Option<async_nats::jetstream::publish::PublishAck>, FarmError> {
    let sent =
        js.publish_with_headers(subject, headers, letter.body.clone()).await.map_err(|error| cannot(letter, error))?;
    match sent.await {
        Ok(ack) => Ok(Some(ack)),
        Err(error) if error.kind() == PublishErrorKind::Other && error.to_string().contains("per subject") => Ok(None),
        Err(error) => Err(cannot(letter, error)),
    }
}

async fn remove(dead: &Stream<()>, letter: &DeadEvent) -> Result<(), FarmError> {
    dead.delete_message(letter.sequence).await.map(drop).map_err(|error| cannot(letter, error))
}

fn cannot(letter: &DeadEvent, source: impl Into<Cause>) -> FarmError {
    FarmError::NotFedAgain { id: letter.id.clone(), source: source.into() }
}
