//! Answers of JetStream to published events.

use async_nats::{Message, StatusCode};
use serde::Deserialize;

/// What a server says to a message that was published to a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Ack {
    /// The stream has it.
    Stored {
        /// It had one of the same id already.
        duplicate: bool,
    },
    /// The stream has no room for it now.
    Full,
    /// No server can store it now: servers choose a leader, or the stream is gone. The reason.
    NotNow(String),
    /// No stream will ever take it. The reason.
    Never(String),
}

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    duplicate: bool,
    seq: Option<u64>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

const STORE_FAILED: u64 = 10_077;
const NO_STORAGE: [u64; 4] = [10_047, 10_028, 10_023, 10_002];
const UNAVAILABLE: u16 = 503;
/// A copy of the message with the same id is on its way to the other servers: whether the stream has it is not known yet.
const IN_PROCESS: u64 = 10_158;

impl Ack {
    /// Reads the message that came to the reply subject.
    pub fn of(message: &Message) -> Self {
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            return Self::NotNow("no server has the farm's stream".into());
        }
        body(&message.payload)
    }
}

fn body(payload: &[u8]) -> Ack {
    match serde_json::from_slice::<Reply>(payload) {
        Ok(Reply { error: Some(failure), .. }) => failed(failure),
        Ok(Reply { seq: Some(_), duplicate, .. }) => Ack::Stored { duplicate },
        _ => Ack::NotNow("an answer that is not JetStream's".into()),
    }
}

fn failed(failure: Failure) -> Ack {
    let said = &failure.description;
    let full = failure.err_code == STORE_FAILED
        && (said.contains("maximum bytes") || said.contains("maximum messages exceeded"));
    if full || NO_STORAGE.contains(&failure.err_code) {
        Ack::Full
    } else if failure.code == UNAVAILABLE || failure.err_code == IN_PROCESS {
        Ack::NotNow(failure.description)
    } else {
        Ack::Never(failure.description)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let error = |code: u16, number: u64, said: &str| {
            body(
                format!(
                    r#"{{"error":{{"code":{code},"err_code":{number},"description":"{said}"}},"stream":"s","seq":0}}"#
                )
                .as_bytes(),
            )
        };
        assert_eq!(body(br#"{"stream":"s","seq":1}"#), Ack::Stored { duplicate: false });
        assert_eq!(body(br#"{"stream":"s","seq":1,"duplicate":true}"#), Ack::Stored { duplicate: true });
        assert_eq!(error(503, 10_077, "maximum bytes exceeded"), Ack::Full);
        assert_eq!(error(503, 10_023, "insufficient resources"), Ack::Full);
        assert!(matches!(error(503, 10_008, "no leader"), Ack::NotNow(_)));
        assert!(matches!(error(409, 10_158, "duplicate message id is in process"), Ack::NotNow(_)));
        assert!(matches!(error(400, 10_054, "message size exceeds maximum allowed"), Ack::Never(_)));
        for rubbish in ["", "{}", "[]", "+OK", r#"{"seq":"x"}"#] {
            assert!(matches!(body(rubbish.as_bytes()), Ack::NotNow(_)), "{rubbish}");
        }
    }
}
