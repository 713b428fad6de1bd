//! Feeds dead letters again. Each is in the farm or among the dead letters at every moment.
//!
//! A letter cannot keep its own name until its event is in the queue. If the event died again meanwhile, the stream
//! would refuse its second letter as a duplicate, and it would be lost with the first. So the letter first gets another
//! name and a mark, then its event enters the queue, and only then the letter is removed. By the mark the servers
//! recognise an event that a run before this one fed.

use super::DeadEvent;
use crate::error::{Cause, FarmError};
use crate::feed::HEADROOM;
use crate::ids;
use crate::streams::names;
use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::stream::Stream;
use sidecore_nats::Padding;
use sidecore_terminal::error::REFUSED;
use sidecore_terminal::output::tell;

/// Prefix of a letter's name on its way back. No id has it.
pub(super) const MARK: &str = "again+";

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
    for letter in &sound {
        feed(js, farm, dead, letter).await?;
    }
    tell(format_args!("fed {} of {} dead letters again", sound.len(), sound.len() + odd));
    Ok(if odd == 0 { 0 } else { REFUSED })
}

async fn set_aside(js: &Context, farm: &str, dead: &Stream<()>, letter: &mut DeadEvent) -> Result<(), FarmError> {
    if letter.again {
        return Ok(());
    }
    let name = names::dead(farm, &format!("{MARK}{}", letter.id));
    let mark = ids::secret()?;
    let mut headers = letter.headers();
    headers.insert(names::AGAIN, mark.as_str());
    let aside = if let Some(ack) = publish(js, name.clone(), headers, letter).await? {
        DeadEvent { sequence: ack.sequence, again: true, mark, ..letter.clone() }
    } else {
        // An earlier run was stopped between the copy and the removal.
        let last = dead.get_last_raw_message_by_subject(&name).await;
        DeadEvent::read(&last.map_err(|error| cannot(letter, error))?)
    };
    remove(dead, letter).await?;
    *letter = aside;
    Ok(())
}

/// Puts an event back into the queue. An earlier run may have done so.
async fn feed(js: &Context, farm: &str, dead: &Stream<()>, letter: &DeadEvent) -> Result<(), FarmError> {
    let mut headers = HeaderMap::new();
    headers.insert(names::ID, format!("{}.{}", letter.id, letter.mark));
    headers.insert(names::KIND, letter.kind.as_str());
    publish(js, names::event(farm, &letter.kind), headers, letter).await?;
    remove(dead, letter).await
}

/// Publishes a letter's event. `None`: the stream already has a message of this name.
async fn publish(
    js: &Context,
    subject: String,
    mut headers: HeaderMap,
    letter: &DeadEvent,
) -> Result<Option<async_nats::jetstream::publish::PublishAck>, FarmError> {
    if letter.body.is_reference {
        headers.insert(names::LARGE, "1");
    }
    Padding::of(&js.client()).add(&mut headers, subject.len(), letter.body.len());
    let sent = js
        .publish_with_headers(subject, headers, letter.body.carried.clone())
        .await
        .map_err(|error| cannot(letter, error))?;
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
