//! Status messages of a farm's dispatchers: the newest, and its age.

use crate::args::Farm;
use crate::connect::{Role, connect};
use crate::error::FarmError;
use crate::status::Status;
use async_nats::Subscriber;
use futures_util::StreamExt;
use sidecore_core::text::shown;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::{Instant as Deadline, timeout_at};

/// A dispatcher that is silent for this time is gone: eight intervals of its status.
const DISPATCHER_TIMEOUT: Duration = Duration::from_secs(2);
/// Most standby dispatchers counted, and most nodes shown: no dispatcher has more.
const STANDING_BY: usize = 16;
const NODES: usize = 256;
const MAX_TEXT_CHARS: usize = 200;

pub(crate) struct Words {
    farm: String,
    subscription: Subscriber,
}

#[derive(Debug, Default)]
pub(crate) struct StatusWatch {
    active: Option<(Instant, Status)>,
    standing_by: BTreeMap<u64, Instant>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct View {
    pub(crate) active: Option<Status>,
    pub(crate) standing_by: usize,
}

impl Words {
    pub(crate) async fn of(farm: &Farm) -> Result<Self, FarmError> {
        let client = connect(farm, Role::Operator).await?;
        let subject = format!("farm.{}.status", farm.farm);
        let subscription = client.subscribe(subject.clone()).await;
        let subscription = subscription.map_err(FarmError::nats(format!("cannot subscribe to {subject}")))?;
        Ok(Self { farm: farm.farm.clone(), subscription })
    }

    pub(crate) async fn next(&mut self) -> Result<Status, FarmError> {
        loop {
            let Some(message) = self.subscription.next().await else {
                return Err(FarmError::Closed("was closed"));
            };
            if let Some(status) = read(&message.payload, &self.farm) {
                return Ok(status);
            }
        }
    }

    pub(crate) async fn now(&mut self) -> Result<StatusWatch, FarmError> {
        let (mut watch, until) = (StatusWatch::default(), Deadline::now() + DISPATCHER_TIMEOUT);
        while watch.active.is_none() {
            match timeout_at(until, self.next()).await {
                Ok(status) => watch.take(status?, Instant::now()),
                Err(_) => break,
            }
        }
        Ok(watch)
    }
}

impl StatusWatch {
    /// Takes one dispatcher's status. Of two active ones the later dispatcher counts.
    pub(crate) fn take(&mut self, status: Status, now: Instant) {
        self.standing_by.retain(|_, heard| is_fresh(*heard, now));
        if status.active {
            self.standing_by.remove(&status.dispatcher);
            let later = |known: &(Instant, Status)| known.1.dispatcher > status.dispatcher && is_fresh(known.0, now);
            if !self.active.as_ref().is_some_and(later) {
                self.active = Some((now, status));
            }
        } else if self.standing_by.len() < STANDING_BY || self.standing_by.contains_key(&status.dispatcher) {
            self.standing_by.insert(status.dispatcher, now);
        }
    }

    pub(crate) fn view(&self, now: Instant) -> View {
        let active = self.active.as_ref().filter(|(heard, _)| is_fresh(*heard, now));
        let standing_by = self.standing_by.values().filter(|heard| is_fresh(**heard, now)).count();
        View { active: active.map(|(_, status)| status.clone()), standing_by }
    }
}

fn is_fresh(heard: Instant, now: Instant) -> bool {
    now.saturating_duration_since(heard) < DISPATCHER_TIMEOUT
}

/// Any program with access may publish here: displayed text has no control characters and a bounded length.
fn read(message: &[u8], farm: &str) -> Option<Status> {
    let mut status: Status = serde_json::from_slice(message).ok()?;
    if status.farm != farm {
        return None;
    }
    status.nodes.truncate(NODES);
    let names = status.nodes.iter_mut().map(|node| &mut node.name);
    for text in names.chain([&mut status.balance, &mut status.holds]) {
        *text = text.chars().take(MAX_TEXT_CHARS).map(shown).collect();
    }
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(dispatcher: u64, active: bool) -> Status {
        Status { farm: "f".to_owned(), dispatcher, active, ..Status::default() }
    }

    #[test]
    fn the_later_of_two_that_hand_out_is_believed_while_it_is_heard() {
        let (mut watch, start) = (StatusWatch::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(watch.view(start), View::default());
        for (ms, dispatcher) in [(0, 1), (1, 2), (2, 1)] {
            watch.take(status(dispatcher, true), at(ms));
        }
        assert_eq!(watch.view(at(2)).active.unwrap().dispatcher, 2);
        watch.take(status(1, true), at(2_500));
        assert_eq!(watch.view(at(2_500)).active.unwrap().dispatcher, 1, "the other one is gone");
        assert_eq!(watch.view(at(4_500)).active, None);
    }

    #[test]
    fn who_stands_by_is_counted_until_it_is_gone_or_hands_out() {
        let (mut watch, now) = (StatusWatch::default(), Instant::now());
        for dispatcher in 0..100 {
            watch.take(status(dispatcher, false), now);
            watch.take(status(dispatcher, false), now);
        }
        assert_eq!(watch.view(now).standing_by, STANDING_BY);
        watch.take(status(3, true), now);
        assert_eq!(watch.view(now).standing_by, STANDING_BY - 1);
        assert_eq!(watch.view(now + DISPATCHER_TIMEOUT), View::default());
    }

    #[test]
    fn words_of_others_and_rubbish_are_not_taken() {
        let good = serde_json::to_vec(&status(7, true)).unwrap();
        assert_eq!(read(&good, "f"), Some(status(7, true)));
        assert_eq!(read(&good, "g"), None);
        for rubbish in
            [&b""[..], b"{", b"[]", b"7", b"\xff", b"{\"farm\":\"f\",\"held\":-1}", "[".repeat(100_000).as_bytes()]
        {
            assert_eq!(read(rubbish, "f"), None);
        }
    }

    #[test]
    fn texts_drive_no_terminal_and_end() {
        let node = |name: &str| crate::status::Node { name: name.to_owned(), ..Default::default() };
        let mut hostile = status(1, true);
        hostile.balance = "\x1b]0;title\x07".repeat(1_000);
        hostile.holds = "a\nb\u{9b}c".to_owned();
        hostile.nodes = vec![node("\x1b[2J\r\n"); 1_000];
        let read = read(&serde_json::to_vec(&hostile).unwrap(), "f").unwrap();
        assert_eq!(read.nodes.len(), NODES);
        assert_eq!(read.balance.chars().count(), MAX_TEXT_CHARS);
        assert_eq!(
            (read.holds.as_str(), read.nodes[0].name.as_str()),
            ("a\u{fffd}b\u{fffd}c", "\u{fffd}[2J\u{fffd}\u{fffd}")
        );
        assert!(!read.balance.chars().any(char::is_control));
    }
}
