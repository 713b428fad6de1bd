//! `farm dead`: lists dead events, and feeds them again.

mod again;

use crate::args;
use crate::connect;
use crate::error::FarmError;
use crate::streams::{self, names};
use crate::{ids, large};
use async_nats::HeaderMap;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use async_nats::jetstream::{self};
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;
use sidecore_assign::Payload;
use sidecore_terminal::output::{print, tell};

const MAX_REASON_CHARS: usize = 120;

#[derive(Clone, Debug, Serialize)]
struct DeadEvent {
    id: String,
    kind: String,
    tries: u32,
    reason: String,
    bytes: usize,
    /// The event had more bytes.
    cut: bool,
    /// Bytes of the event; `null`: the header is no number.
    whole_bytes: Option<usize>,
    #[serde(skip)]
    body: Payload,
    #[serde(skip)]
    sequence: u64,
    again: bool,
    /// Of one that a run of `--again` has begun with.
    #[serde(skip)]
    mark: String,
}

pub(crate) async fn run(args: args::Dead) -> Result<u8, FarmError> {
    let client = connect::connect(&args.farm, connect::Role::Operator).await?;
    let js = jetstream::new(client);
    let streams = streams::existing(&js, &args.farm.farm).await?;
    let letters = letters(&streams.dead, &args).await?;
    if args.again {
        return again::run(&js, &args.farm.farm, &streams.dead, letters).await;
    }
    print(&if args.json { lines(&letters)? } else { table(&letters) }).map_err(FarmError::output)?;
    Ok(0)
}

async fn letters(dead: &Stream<()>, args: &args::Dead) -> Result<Vec<DeadEvent>, FarmError> {
    let all = names::dead(&args.farm.farm, "*");
    let mut letters = Vec::new();
    let mut sequence = 1;
    while let Some(message) = from(dead, &all, sequence).await? {
        sequence = message.sequence + 1;
        let letter = DeadEvent::read(&message);
        if !args.ids.is_empty() && !args.ids.contains(&letter.id) {
            continue;
        }
        if letters.len() == args.most {
            tell(format_args!("there are more than {}: --most N shows N", args.most));
            break;
        }
        letters.push(letter);
    }
    Ok(letters)
}

/// The first message from this number on.
pub(crate) async fn from(dead: &Stream<()>, subject: &str, sequence: u64) -> Result<Option<StreamMessage>, FarmError> {
    let asked = tokio::select! {
        asked = dead.get_first_raw_message_by_subject(subject, sequence) => asked,
        said = connect::denied() => return Err(FarmError::denied("read dead letters", said)),
    };
    match asked {
        Ok(message) => Ok(Some(message)),
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(FarmError::nats("cannot read dead letters")(error)),
    }
}

/// Whether a run of `--again` has begun with this letter.
pub(crate) fn is_on_its_way(letter: &StreamMessage) -> bool {
    letter.subject.rsplit('.').next().is_some_and(|token| token.starts_with(again::MARK))
}

impl DeadEvent {
    fn read(message: &StreamMessage) -> Self {
        let header = |name: &str| message.headers.get(name).map(|value| value.as_str().to_owned());
        let token = message.subject.rsplit('.').next().unwrap_or_default();
        let again = token.strip_prefix(again::MARK);
        let body = large::payload_of(Some(&message.headers), message.payload.clone());
        let (bytes, whole) = (large::octets(&body) as usize, header(names::WHOLE));
        Self {
            id: again.unwrap_or(token).to_owned(),
            kind: header(names::KIND).unwrap_or_default(),
            tries: header(names::TRIES).and_then(|tries| tries.parse().ok()).unwrap_or(0),
            reason: header(names::REASON).unwrap_or_default(),
            bytes,
            cut: whole.is_some(),
            whole_bytes: whole.map_or(Some(bytes), |whole| whole.parse().ok()),
            again: again.is_some(),
            // Copies of an earlier version have none.
            mark: header(names::AGAIN).unwrap_or_else(|| message.sequence.to_string()),
            body,
            sequence: message.sequence,
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(names::KIND, self.kind.as_str());
        headers.insert(names::TRIES, self.tries.to_string());
        headers.insert(names::REASON, self.reason.as_str());
        headers
    }

    /// Why it cannot be fed. `most`: bytes that an event may have. Other programs may write into the farm too.
    fn why_not(&self, most: usize) -> Option<String> {
        if !ids::is_one(&self.id) || args::name(&self.kind).is_err() {
            return Some("its id or its kind is none".to_owned());
        }
        if self.cut {
            return Some(format!("it is cut, bytes kept: {}; feed its event from the source", self.size()));
        }
        let carried = self.body.len();
        let too_large = || format!("the server's max_payload leaves {most} bytes for an event, and it has {carried}");
        (carried > most).then(too_large)
    }

    fn size(&self) -> String {
        match (self.cut, self.whole_bytes) {
            (false, _) => self.bytes.to_string(),
            (true, Some(whole)) => format!("{} of {whole}", self.bytes),
            (true, None) => format!("{} of an unknown number", self.bytes),
        }
    }
}

fn lines(letters: &[DeadEvent]) -> Result<String, FarmError> {
    let line = |letter| serde_json::to_string(letter).map(|line| line + "\n").map_err(FarmError::output);
    letters.iter().map(line).collect()
}

fn table(letters: &[DeadEvent]) -> String {
    if letters.is_empty() {
        return "no dead letters\n".into();
    }
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(["id", "kind", "tries", "bytes", "reason"]);
    for letter in letters {
        let reason: String = letter.reason.chars().flat_map(char::escape_debug).take(MAX_REASON_CHARS).collect();
        let id = letter.id.escape_debug().to_string();
        let kind = letter.kind.escape_debug().to_string();
        let size = letter.size() + if letter.cut { " (cut)" } else { "" };
        table.add_row([id, kind, letter.tries.to_string(), size, reason]);
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
