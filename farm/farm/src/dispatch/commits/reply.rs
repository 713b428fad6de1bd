//! Answers of the servers to requests about commits.

use super::letter;
use crate::streams::names;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::RawMessage;
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{Message, StatusCode};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// The text of a refusal for a stream's limits names the limit.
const ONE_EACH: &str = "maximum messages per subject exceeded";

/// What a request is for. Its name is part of the subject of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Store,
    /// What stands under the name of the commit?
    Look,
    /// Has the event of a dead letter a result?
    Result,
    /// Had it one that somebody took out of the farm?
    Taken,
    /// The message of this number.
    Remove(u64),
}

impl Asked {
    pub(super) fn token(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Look => "look",
            Self::Result => "result",
            Self::Taken => "taken",
            Self::Remove(_) => "remove",
        }
    }

    pub(super) fn of(token: &str) -> Option<Self> {
        [Self::Store, Self::Look, Self::Result, Self::Taken, Self::Remove(0)]
            .into_iter()
            .find(|asked| asked.token() == token)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PublishResult {
    Stored,
    /// A dispatcher stored it before.
    Before,
    /// The name of the commit is taken.
    Taken,
    /// A dispatcher stored a message of this event under that name; `None`: of some event, by an earlier version.
    OfEvent(Option<String>),
    /// There is nothing under that name.
    Free,
    /// That message has this number and no kind: no dispatcher stored it.
    Foreign(u64),
    Removed,
    TooLarge,
    /// There is no such stream now, or nobody serves it.
    NoStream,
    Refused(String),
}

#[derive(Deserialize)]
struct PublishAck {
    #[serde(default)]
    duplicate: bool,
}

#[derive(Deserialize)]
struct Got {
    message: RawMessage,
}

pub(super) fn publish_result(asked: Asked, message: &Message) -> PublishResult {
    if message.status == Some(StatusCode::NO_RESPONDERS) {
        return PublishResult::NoStream;
    }
    let said = match asked {
        Asked::Store => read::<PublishAck>(message).map(|said| match said {
            Ok(ack) if ack.duplicate => PublishResult::Before,
            Ok(_) => PublishResult::Stored,
            Err(error) => refusal(&error),
        }),
        // It cannot be stored: the servers say whether they remember one like it, or that they may not do what it asks for.
        Asked::Taken => read::<PublishAck>(message).map(|said| match said {
            Ok(ack) if ack.duplicate => PublishResult::Before,
            Ok(_) => PublishResult::Free,
            Err(error) if error.error_code() == ErrorCode::STREAM_ROLLUP_FAILED => PublishResult::Free,
            Err(error) => refusal(&error),
        }),
        Asked::Look | Asked::Result => {
            read::<Got>(message).map(|said| said.map_or_else(|error| not_there(&error), |got| whose(got.message)))
        }
        Asked::Remove(_) => {
            read::<IgnoredAny>(message).map(|said| said.map_or_else(|error| other(&error), |_| PublishResult::Removed))
        }
    };
    said.unwrap_or_else(|| PublishResult::Refused("the server's answer to a result cannot be read".to_owned()))
}

fn read<T: DeserializeOwned>(message: &Message) -> Option<Result<T, jetstream::Error>> {
    match serde_json::from_slice(&message.payload).ok()? {
        Response::Ok(answer) => Some(Ok(answer)),
        Response::Err { error } => Some(Err(error)),
    }
}

fn refusal(error: &jetstream::Error) -> PublishResult {
    let description = words(error);
    match error.error_code() {
        _ if description.contains(ONE_EACH) => PublishResult::Taken,
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM => PublishResult::TooLarge,
        ErrorCode::STREAM_STORE_FAILED => PublishResult::Refused(format!(
            "the stream of results is full ({description}): `sidecore farm results` takes and removes results, `sidecore farm prune` says who has not taken them"
        )),
        _ => other(error),
    }
}

fn not_there(error: &jetstream::Error) -> PublishResult {
    match error.error_code() {
        ErrorCode::NO_MESSAGE_FOUND => PublishResult::Free,
        _ => other(error),
    }
}

fn other(error: &jetstream::Error) -> PublishResult {
    PublishResult::Refused(format!("results are refused: {}", words(error)))
}

fn words(error: &jetstream::Error) -> String {
    let text = error.to_string();
    text.split(" (code ").next().unwrap_or(&text).to_owned()
}

fn whose(message: RawMessage) -> PublishResult {
    let number = message.sequence;
    match StreamMessage::try_from(message) {
        Ok(message) if message.headers.get(names::KIND).is_some() => {
            PublishResult::OfEvent(letter::event_of(&message.headers).map(str::to_owned))
        }
        _ => PublishResult::Foreign(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_nats::Subject;

    fn heard(asked: Asked, body: &str, status: Option<StatusCode>) -> PublishResult {
        let payload = body.to_owned().into();
        let subject = Subject::from_static("x");
        publish_result(
            asked,
            &Message { subject, reply: None, payload, headers: None, status, description: None, length: 0 },
        )
    }

    fn error(code: u32, description: &str) -> String {
        format!(r#"{{"type":"t","error":{{"code":503,"err_code":{code},"description":"{description}"}}}}"#)
    }

    #[test]
    fn what_is_stored_is_told_from_what_is_refused() {
        let refused = |words: &str| PublishResult::Refused(words.to_owned());
        let full = "the stream of results is full (maximum bytes exceeded): `sidecore farm results` takes and removes results, `sidecore farm prune` says who has not taken them";
        for (body, expected) in [
            (r#"{"stream":"f-results","seq":7}"#.to_owned(), PublishResult::Stored),
            (r#"{"stream":"f-results","seq":7,"duplicate":true}"#.to_owned(), PublishResult::Before),
            (error(10_077, ONE_EACH), PublishResult::Taken),
            (error(10_077, "maximum bytes exceeded"), refused(full)),
            (error(10_054, "message size exceeds maximum allowed"), PublishResult::TooLarge),
            (error(10_008, "away"), refused("results are refused: away")),
            ("nonsense".to_owned(), refused("the server's answer to a result cannot be read")),
        ] {
            assert_eq!(heard(Asked::Store, &body, None), expected, "{body}");
        }
        for (body, expected) in [
            (r#"{"stream":"f-results","seq":7,"duplicate":true}"#.to_owned(), PublishResult::Before),
            (error(10_111, "rollup not permitted"), PublishResult::Free),
            (error(10_077, "maximum bytes exceeded"), refused(full)),
        ] {
            assert_eq!(heard(Asked::Taken, &body, None), expected, "{body}");
        }
        assert_eq!(heard(Asked::Store, "", Some(StatusCode::NO_RESPONDERS)), PublishResult::NoStream);
    }

    #[test]
    fn what_stands_there_is_a_dispatchers_if_it_has_a_kind() {
        let got = |headers: &str| {
            format!(
                r#"{{"message":{{"subject":"farm.f.results.a","seq":7,{headers}"data":"e30=","time":"2026-11-26T12:00:00Z"}}}}"#
            )
        };
        // `NATS/1.0`, `Farm-Kind: k`, and `NATS/1.0`, `Other: k`.
        let ours = got(r#""hdrs":"TkFUUy8xLjANCkZhcm0tS2luZDogaw0KDQo=","#);
        let other = got(r#""hdrs":"TkFUUy8xLjANCk90aGVyOiBrDQoNCg==","#);
        assert_eq!(heard(Asked::Look, &ours, None), PublishResult::OfEvent(None));
        for foreign in [got(""), other, got(r#""hdrs":"x","#)] {
            assert_eq!(heard(Asked::Look, &foreign, None), PublishResult::Foreign(7), "{foreign}");
        }
        assert_eq!(heard(Asked::Look, &error(10_037, "no message found"), None), PublishResult::Free, "taken out");
        assert_eq!(
            heard(Asked::Look, &error(1, "x"), None),
            PublishResult::Refused("results are refused: x".to_owned())
        );
        assert_eq!(heard(Asked::Remove(7), r#"{"success":true}"#, None), PublishResult::Removed);
        assert_eq!(
            heard(Asked::Remove(7), &error(1, "x"), None),
            PublishResult::Refused("results are refused: x".to_owned())
        );
    }
}
