//! Real programs, and each way in which one fails.

mod each;
mod pipe;

use super::line::Line;
use super::{Outcome, Task};
use bytes::Bytes;
use std::ffi::OsString;
use std::time::Duration;

/// What no test reaches.
const LONG: Duration = Duration::from_secs(600);
/// Largest result.
const MOST: usize = 100_000;

fn line(words: &[&str]) -> Line {
    Line::find(&words.iter().map(OsString::from).collect::<Vec<_>>()).unwrap()
}

fn task(id: &str, body: impl Into<Bytes>) -> Task {
    Task { id: id.to_owned(), kind: "kind".to_owned(), body: body.into(), limit: LONG }
}

fn done(result: impl Into<Bytes>) -> Outcome {
    Outcome::Done(result.into())
}

fn failed(reason: &str) -> Outcome {
    Outcome::Failed(reason.to_owned())
}

#[test]
fn a_program_that_is_not_there_is_found_out_before_the_first_event() {
    for words in [&[][..], &["no-such-program"], &["/proc/self/environ"], &["/"]] {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let why = Line::find(&words).unwrap_err();
        assert!(why.starts_with("no program"), "{why}");
    }
}
