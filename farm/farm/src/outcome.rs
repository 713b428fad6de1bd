//! `farm result`: what became of one event. It takes nothing out of the farm.

use crate::args;
use crate::connect::{self, Role};
use crate::error::FarmError;
use crate::large::{self, Contents, LargeError, Store};
use crate::streams::{self, names};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use async_nats::jetstream::{self};
use sidecore_terminal::error::REFUSED;
use sidecore_terminal::output::{tell, unless_closed};
use std::io::{self, Write};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const PAUSE: Duration = Duration::from_millis(250);

/// Writes the event's result to standard output. The exit code shows whether there is one.
pub(crate) async fn run(args: args::Outcome) -> Result<u8, FarmError> {
    let client = connect::connect(&args.farm, Role::Operator).await?;
    let js = jetstream::new(client);
    let (farm, id) = (&args.farm.farm, &args.id);
    let streams = streams::existing(&js, farm).await?;
    let large = Store::new(js, farm, Contents::Results);
    let (begun, wait) = (Instant::now(), args.wait.unwrap_or_default());
    loop {
        if let Some(result) = last(&streams.results, names::result(farm, id)).await?.filter(is_committed) {
            let result = large::payload_of(Some(&result.headers), result.payload);
            if !large::is_result_of(&result, id) {
                return Err(LargeError::NoReference.into());
            }
            let result = large.get(&result).await?;
            let mut stdout = io::stdout();
            let written = stdout.write_all(&result).and_then(|()| stdout.flush());
            unless_closed(written).map_err(FarmError::output)?;
            return Ok(0);
        }
        if let Some(letter) = last(&streams.dead, names::dead(farm, id)).await? {
            let reason = letter.headers.get(names::REASON).map_or("", |reason| reason.as_str()).escape_debug();
            tell(format_args!("{id} is a dead letter: {reason}; `sidecore farm dead --again {id}` feeds it once more"));
            return Ok(REFUSED);
        }
        if begun.elapsed() >= wait {
            tell(format_args!(
                "{id} has no result: it waits or is with a node, or nobody fed it, or its result was taken out of the farm (`results --keep` leaves it)"
            ));
            return Ok(REFUSED);
        }
        sleep(PAUSE.min(wait.saturating_sub(begun.elapsed()))).await;
    }
}

/// The last message of a subject.
pub(crate) async fn last(stream: &Stream<()>, subject: String) -> Result<Option<StreamMessage>, FarmError> {
    let asked = tokio::select! {
        asked = stream.get_last_raw_message_by_subject(&subject) => asked,
        said = connect::denied() => return Err(FarmError::denied("read results and dead letters", said)),
    };
    match asked {
        Ok(message) => Ok(Some(message)),
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(FarmError::nats("cannot read results and dead letters")(error)),
    }
}

/// Whether a dispatcher made it: other programs may write there too.
fn is_committed(message: &StreamMessage) -> bool {
    message.headers.get(names::KIND).is_some()
}
