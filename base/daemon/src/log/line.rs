//! Formats an event as one line: plain text, with the level's number in front for the journal, or a JSON object.
//!
//! Text of a client cannot break a line: letters that end it, colour it or change its direction are escaped.

use super::queue::{Lost, Queue};
use crate::events::{Level, TARGET};
use der::DateTime;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;
use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Longest value in bytes; a longer one is cut.
const MAX_VALUE_BYTES: usize = 2048;
const CUT: &str = "…";

#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub(super) json: bool,
    /// The journal reads the lines, and adds the time itself.
    pub(super) journal: bool,
}

pub(super) struct Lines {
    pub(super) queue: Arc<Queue>,
    pub(super) format: Format,
    /// The least important level with lines.
    pub(super) level: tracing::Level,
}

/// Of the service's events only. It has no spans.
impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == TARGET && *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level.into())
    }

    fn event(&self, event: &Event<'_>) {
        let level = Level::from(*event.metadata().level());
        let mut values = Values::default();
        event.record(&mut values);
        self.queue.push(level, self.format.line(level, &now(), &values));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Format {
    pub(super) fn lost(self, Lost { lines, notices }: Lost) -> String {
        let event = [("event", Value::from("lines-lost")), ("lines", Value::from(lines))];
        let values = Values {
            message: "lines of this log were not read in time and are lost".to_owned(),
            fields: event.into_iter().chain([("notices", Value::from(notices))]).collect(),
        };
        self.line(Level::Warning, &now(), &values)
    }

    fn line(self, level: Level, time: &str, values: &Values) -> String {
        let number = if self.journal { format!("<{}>", level.number()) } else { String::new() };
        let line =
            if self.json { values.json(level, time) } else { values.text((!self.journal).then_some((time, level))) };
        number + &line + "\n"
    }
}

#[derive(Debug, Default)]
struct Values {
    message: String,
    /// In the order of the source, with `event` first.
    fields: Vec<(&'static str, Value)>,
}

impl Values {
    fn text(&self, stamp: Option<(&str, Level)>) -> String {
        let mut line = stamp.map_or_else(String::new, |(time, level)| format!("{time} {}: ", level.name()));
        let (events, fields): (Vec<_>, Vec<_>) = self.fields.iter().partition(|(name, _)| *name == "event");
        for (_, event) in events {
            // Writing to a string does not fail.
            let _ = write!(line, "{}: ", plain(event));
        }
        line.extend(self.message.chars().flat_map(one_line));
        for (name, value) in fields {
            let _ = write!(line, " {name}={}", plain(value));
        }
        line
    }

    fn json(&self, level: Level, time: &str) -> String {
        let mut line = Vec::new();
        let mut serializer = serde_json::Serializer::new(&mut line);
        let done = serializer.serialize_map(None).and_then(|mut map| {
            map.serialize_entry("time", time)?;
            map.serialize_entry("level", level.name())?;
            for (name, value) in &self.fields {
                map.serialize_entry(name, value)?;
            }
            map.serialize_entry("message", &self.message)?;
            SerializeMap::end(map)
        });
        // Strings and numbers always serialise, and JSON is UTF-8.
        debug_assert!(done.is_ok());
        String::from_utf8_lossy(&line).chars().flat_map(escaped_in_json).collect()
    }

    fn take(&mut self, field: &Field, value: impl Into<Value>) {
        match (field.name(), value.into()) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for Values {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.take(field, cut(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, cut(value.to_owned()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.take(field, value);
    }
}

fn cut(text: String) -> String {
    if text.len() <= MAX_VALUE_BYTES {
        return text;
    }
    let end = (0..=MAX_VALUE_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].to_owned() + CUT
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if is_word(text) => text.clone(),
        Value::String(text) => format!("{text:?}"),
        number_or_truth => number_or_truth.to_string(),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/,@+".contains(&byte))
}

/// One letter of a message. Rust's `escape_debug` escapes every letter that does not print as itself.
fn one_line(letter: char) -> impl Iterator<Item = char> {
    let is_itself = "\"'\\".contains(letter) || letter.escape_debug().len() == 1;
    let (itself, escaped) = if is_itself { (Some(letter), None) } else { (None, Some(letter.escape_debug())) };
    itself.into_iter().chain(escaped.into_iter().flatten())
}

/// JSON escapes only letters below the space. All others that control a terminal are escaped here, in JSON's form.
fn escaped_in_json(letter: char) -> impl Iterator<Item = char> {
    let is_itself = "\"'\\".contains(letter) || letter.escape_debug().len() == 1;
    let text = if is_itself { letter.to_string() } else { utf16(letter) };
    text.chars().collect::<Vec<_>>().into_iter()
}

fn utf16(letter: char) -> String {
    letter.encode_utf16(&mut [0; 2]).iter().fold(String::new(), |text, unit| text + &format!("\\u{unit:04x}"))
}

fn now() -> String {
    date(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// In UTC. Years of more than four digits have no date.
fn date(since: Duration) -> String {
    let seconds = DateTime::from_unix_duration(since).map(|date| date.to_string()).unwrap_or_default();
    format!("{}.{:06}Z", seconds.trim_end_matches('Z'), since.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TIME: &str = "2026-01-02T03:04:05.000006Z";
    const FORGED: &str = "a\n<2>b\r\u{1b}[31m\u{202e}c\u{7f}\u{85}\u{2028}\" = 'x\\n";

    fn values() -> Values {
        let fields = vec![
            ("event", Value::from("refused")),
            ("key", Value::from("www.example")),
            ("name", Value::from(FORGED)),
            ("empty", Value::from("")),
            ("uid", Value::from(33)),
            ("left", Value::from(-1)),
            ("at_rest", Value::from(true)),
        ];
        Values { message: format!("refused: {FORGED}"), fields }
    }

    fn line(json: bool, journal: bool) -> String {
        Format { json, journal }.line(Level::Info, TIME, &values())
    }

    #[test]
    fn text_is_one_line_with_the_values_as_words() {
        let text = line(false, false);
        assert!(
            text.starts_with("2026-01-02T03:04:05.000006Z info: refused: refused: a\\n<2>b\\r\\u{1b}[31m"),
            "{text}"
        );
        assert!(text.contains(" key=www.example name=\"a\\n<2>b"), "{text}");
        assert!(text.ends_with(" empty=\"\" uid=33 left=-1 at_rest=true\n"), "{text}");
    }

    #[test]
    fn the_journal_gets_the_level_and_no_time() {
        assert!(line(false, true).starts_with("<6>refused: refused: a"));
        assert!(line(true, true).starts_with("<6>{\"time\":"));
    }

    #[test]
    fn json_is_one_object_that_says_the_same() {
        let text = line(true, false);
        let read: Value = serde_json::from_str(&text).unwrap();
        let expected = json!({
            "time": TIME, "level": "info", "event": "refused", "key": "www.example", "name": FORGED, "empty": "",
            "uid": 33, "left": -1, "at_rest": true, "message": format!("refused: {FORGED}"),
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn no_line_can_be_forged() {
        for text in [line(false, false), line(false, true), line(true, false), line(true, true)] {
            let inside = text.strip_suffix('\n').unwrap();
            let harmless = |letter: char| "\"'\\".contains(letter) || letter.escape_debug().len() == 1;
            assert!(inside.chars().all(harmless), "{text:?}");
        }
    }

    #[test]
    fn the_time_is_a_date_in_utc_with_microseconds() {
        assert_eq!(date(Duration::from_micros(1_767_323_045_000_006)), TIME);
        assert_eq!(date(Duration::ZERO), "1970-01-01T00:00:00.000000Z");
        assert_eq!(date(Duration::from_millis(951_868_799_999)), "2000-02-29T23:59:59.999000Z");
    }

    #[test]
    fn values_are_cut_between_letters() {
        assert_eq!(cut("ä".repeat(MAX_VALUE_BYTES / 2)).len(), MAX_VALUE_BYTES);
        let long = cut("a".to_owned() + &"ä".repeat(MAX_VALUE_BYTES));
        assert_eq!((long.len(), long.ends_with("ä…")), (MAX_VALUE_BYTES - 1 + CUT.len(), true));
    }
}
