//! Real programs, and each way of failure.

mod each;
mod pipe;

use super::line::Line;
use crate::node::task::{Outcome, Task};
use bytes::Bytes;
use std::ffi::OsString;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);
const MAX_RESULT_BYTES: usize = 100_000;

fn line(words: &[&str]) -> Line {
    let line = Line::find(&words.iter().map(OsString::from).collect::<Vec<_>>()).unwrap();
    line.with_environment(std::env::vars_os(), &[])
}

fn task(id: &str, body: impl Into<Bytes>) -> Task {
    Task { id: id.to_owned(), kind: "kind".to_owned(), body: body.into().into(), limit: LONG }
}

fn done(result: impl Into<Bytes>) -> Outcome {
    Outcome::Done(result.into().into())
}

fn failed(reason: &str) -> Outcome {
    Outcome::Failed(reason.to_owned())
}

#[test]
fn a_program_gets_what_is_on_the_list_or_asked_for_of_the_nodes_environment() {
    let of_node = ["PATH", "LC_ALL", "LD_PRELOAD", "NATS_URL", "NATS_CREDS", "MODEL", "LC", "PATHS", "TZ"];
    let of_node = of_node.map(|name| (OsString::from(name), OsString::from("value")));
    let passed = |further: &[&str]| {
        let further: Vec<OsString> = further.iter().map(OsString::from).collect();
        let line = line(&["env"]).with_environment(of_node.iter().cloned(), &further);
        let command = line.command(&[("FARM_ID", "1")]);
        let mut names: Vec<String> = command.get_envs().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(passed(&[]), ["FARM_ID", "LC_ALL", "PATH", "TZ"]);
    assert_eq!(passed(&["MODEL", "absent"]), ["FARM_ID", "LC_ALL", "MODEL", "PATH", "TZ"]);
}

#[test]
fn a_program_that_is_not_there_is_found_out_before_the_first_event() {
    for words in [&[][..], &["no-such-program"], &["/proc/self/environ"], &["/"]] {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let why = Line::find(&words).unwrap_err().to_string();
        assert!(why.starts_with("no program"), "{why}");
    }
}
