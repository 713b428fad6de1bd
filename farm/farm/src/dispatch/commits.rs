//! Results and dead letters on their way to their streams. An event is acknowledged once the server confirms them.

mod letter;
mod reply;

use super::known::Origin;
use super::outbox::Outbox;
use crate::assign::{End, Ended};
use crate::error::FarmError;
use crate::streams::names;
use crate::{ids, large};
use async_nats::header::NATS_ROLLUP;
use async_nats::{Client, HeaderMap, Message, Subject, Subscriber};
use bytes::Bytes;
use reply::{Asked, PublishResult, publish_result};
use serde_json::json;
use sidecore_core::time::Nanos;
use sidecore_nats::Padding;
use sidecore_terminal::output::tell;
use std::collections::VecDeque;

/// A result without an answer is sent again after this time. The server stores one of each id.
const CONFIRM_TIMEOUT: Nanos = 5_000_000_000;
const RETRY_LIMIT: usize = 16;
const SILENT: &str = "the server does not answer to results; sending them again";
const NO_STREAM: &str = "nobody keeps results: the stream is gone, or its servers are away";
const TOO_SMALL: &str =
    "the stream of dead letters takes no message that is large enough for a reason: raise its maximum message size";

struct Commit {
    ended: Ended<Origin>,
    /// Of the event: another event may have the same id.
    digest: String,
    /// Whether a dead letter's event is known to have no result.
    has_no_result: bool,
    whole: usize,
    sent: Nanos,
    serial: u64,
    refused: bool,
}

pub(super) struct Stored {
    pub(super) ended: Ended<Origin>,
    pub(super) already: bool,
}

pub(super) struct Commits {
    client: Client,
    padding: Padding,
    farm: String,
    inbox: String,
    under_way: Vec<Option<Commit>>,
    free: Vec<u32>,
    serial: u64,
    bytes: usize,
    refused: VecDeque<(u32, u64)>,
    why: String,
    /// Messages without a kind that had the subject of a commit.
    foreign: u64,
    /// A stream did not answer since the last look.
    lacks_stream: bool,
}

impl Commits {
    pub(super) async fn new(client: &Client, farm: &str) -> Result<(Self, Subscriber), FarmError> {
        let inbox = client.new_inbox();
        let confirmed = client.subscribe(format!("{inbox}.*.*.*")).await;
        let confirmed = confirmed.map_err(FarmError::nats("cannot receive confirmations"))?;
        let commits = Self {
            client: client.clone(),
            padding: Padding::of(client),
            farm: farm.to_owned(),
            inbox,
            under_way: Vec::new(),
            free: Vec::new(),
            serial: 0,
            bytes: 0,
            refused: VecDeque::new(),
            why: String::new(),
            foreign: 0,
            lacks_stream: false,
        };
        Ok((commits, confirmed))
    }

    pub(super) fn len(&self) -> usize {
        self.under_way.len() - self.free.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Why results are refused; empty: they are not.
    pub(super) fn why(&self) -> &str {
        &self.why
    }

    /// Whether a stream of results or dead letters was missing since the last call.
    pub(super) fn takes_lack_of_stream(&mut self) -> bool {
        std::mem::take(&mut self.lacks_stream)
    }

    pub(super) fn origin_mut(&mut self, index: u32) -> Option<&mut Origin> {
        Some(&mut self.under_way.get_mut(index as usize)?.as_mut()?.ended.event.origin)
    }

    pub(super) fn commit(&mut self, now: Nanos, ended: Ended<Origin>, outbox: &Outbox) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.under_way.push(None);
            (self.under_way.len() - 1) as u32
        });
        self.serial += 1;
        self.bytes += size_of(&ended);
        let (event, serial) = (&ended.event, self.serial);
        let (whole, digest) = (event.body.len(), ids::digest([event.kind.as_bytes(), &large::identity(&event.body)]));
        let has_no_result = matches!(ended.end, End::Done(_));
        self.under_way[index as usize] =
            Some(Commit { ended, digest, has_no_result, whole, sent: 0, serial, refused: false });
        self.send(now, index, outbox);
        index
    }

    pub(super) fn hear(&mut self, now: Nanos, message: &Message, outbox: &Outbox) -> Option<Stored> {
        let (index, serial, asked) = self.name_of(&message.subject)?;
        match publish_result(asked, message) {
            PublishResult::Stored => return self.stored(now, index, false, outbox),
            PublishResult::OfEvent(event) if self.is_of(index, event.as_deref()) => {
                return self.stored(now, index, true, outbox);
            }
            PublishResult::OfEvent(_) | PublishResult::Free | PublishResult::Foreign(_) if asked == Asked::Result => {
                self.ask_for_taken(now, index, outbox);
            }
            PublishResult::Free if asked == Asked::Taken => {
                self.note_no_result(index);
                self.send(now, index, outbox);
            }
            PublishResult::OfEvent(_) => {
                self.rename(index);
                self.send(now, index, outbox);
            }
            // Free: it was taken out meanwhile.
            PublishResult::Before | PublishResult::Free => return self.stored(now, index, true, outbox),
            PublishResult::Taken => self.ask(now, index, Asked::Look, outbox),
            PublishResult::Foreign(number) => self.remove(now, index, number, outbox),
            PublishResult::Removed => self.send(now, index, outbox),
            PublishResult::TooLarge if self.bury(index) => self.send(now, index, outbox),
            PublishResult::TooLarge => self.refuse(index, serial, TOO_SMALL.to_owned()),
            PublishResult::NoStream => {
                self.lacks_stream = true;
                self.refuse(index, serial, NO_STREAM.to_owned());
            }
            PublishResult::Refused(why) => self.refuse(index, serial, why),
        }
        None
    }

    fn stored(&mut self, now: Nanos, index: u32, already: bool, outbox: &Outbox) -> Option<Stored> {
        let Commit { ended, .. } = self.under_way[index as usize].take()?;
        self.free.push(index);
        self.bytes -= size_of(&ended);
        self.why.clear();
        self.again(now, 2, outbox);
        Some(Stored { ended, already })
    }

    fn remove(&mut self, now: Nanos, index: u32, number: u64, outbox: &Outbox) {
        self.foreign += 1;
        if self.foreign.is_power_of_two() {
            tell(format_args!("results that no dispatcher committed, taken away: {} so far", self.foreign));
        }
        self.ask(now, index, Asked::Remove(number), outbox);
    }

    /// Reads the message that has the commit's subject, or the event's result, or deletes a message by its number. A
    /// feeder can make the server put one there, with the reply subject of an event.
    fn ask(&mut self, now: Nanos, index: u32, asked: Asked, outbox: &Outbox) {
        let Some(commit) = &mut self.under_way[index as usize] else { return };
        commit.sent = now;
        let [_, results, dead, _] = names::streams(&self.farm);
        let is_result = asked == Asked::Result || matches!(commit.ended.end, End::Done(_));
        let stream = if is_result { results } else { dead };
        let last = |subject: String| ("GET", json!({ "last_by_subj": subject }));
        let (api, body) = match asked {
            Asked::Remove(number) => ("DELETE", json!({ "seq": number, "no_erase": true })),
            Asked::Result => last(names::result(&self.farm, &commit.ended.event.id)),
            Asked::Look | Asked::Store | Asked::Taken => last(commit.subject(&self.farm)),
        };
        let subject = format!("$JS.API.STREAM.MSG.{api}.{stream}");
        let serial = commit.serial;
        outbox.ask(subject.into(), self.reply(index, serial, asked), None, body.to_string().into());
    }

    /// Whether a dead letter's event had a result that was taken and removed: for two minutes the servers know results
    /// again. This one asks to replace what the stream holds, which the stream forbids, so that it is not stored. Servers look at
    /// that after they have looked for one like it; conditions on the last message they look at before, from NATS 2.12 on.
    fn ask_for_taken(&mut self, now: Nanos, index: u32, outbox: &Outbox) {
        let Some(commit) = &mut self.under_way[index as usize] else { return };
        commit.sent = now;
        let (event, serial) = (&commit.ended.event, commit.serial);
        let (mut headers, subject) = (HeaderMap::new(), names::result(&self.farm, &event.id));
        headers.insert(names::ID, letter::name_of_result(&event.id, &commit.digest));
        headers.insert(NATS_ROLLUP, "sub");
        outbox.ask(subject.into(), self.reply(index, serial, Asked::Taken), Some(headers), Bytes::new());
    }

    /// Whether what stands under a commit's id is of the same event. Earlier versions did not say of which.
    fn is_of(&self, index: u32, event: Option<&str>) -> bool {
        let commit = self.under_way[index as usize].as_ref();
        commit.zip(event).is_none_or(|(commit, event)| commit.digest == event)
    }

    fn note_no_result(&mut self, index: u32) {
        self.under_way[index as usize].iter_mut().for_each(|commit| commit.has_no_result = true);
    }

    /// Another event of the same id was there first: this one becomes a dead letter with an id of its own, under which
    /// it can be fed again.
    fn rename(&mut self, index: u32) {
        let Some(commit) = &mut self.under_way[index as usize] else { return };
        let before = size_of(&commit.ended);
        let event = &mut commit.ended.event;
        let beside = ids::beside(&event.id, &commit.digest);
        if let End::Done(_) = commit.ended.end {
            let reason =
                format!("another event has the id {}: feeders of one name, or a source that changed", event.id);
            commit.ended.end = End::Dead { reason, tries: 1 };
        }
        event.id = beside.into();
        self.bytes = self.bytes + size_of(&commit.ended) - before;
    }

    fn reply(&self, index: u32, serial: u64, asked: Asked) -> Subject {
        format!("{}.{index}.{serial}.{}", self.inbox, asked.token()).into()
    }

    fn refuse(&mut self, index: u32, serial: u64, why: String) {
        self.why = why;
        if let Some(commit) = &mut self.under_way[index as usize]
            && !std::mem::replace(&mut commit.refused, true)
        {
            self.refused.push_back((index, serial));
        }
    }

    pub(super) fn forget(&mut self) {
        self.under_way.clear();
        self.free.clear();
        self.refused.clear();
        self.why.clear();
        self.bytes = 0;
    }

    pub(super) fn send_all(&mut self, now: Nanos, outbox: &Outbox) {
        self.refused.clear();
        for index in 0..self.under_way.len() as u32 {
            self.send(now, index, outbox);
        }
    }

    pub(super) fn origins(&self, part: usize, parts: usize) -> impl Iterator<Item = &Origin> {
        let commits = self.under_way.iter().skip(part).step_by(parts).flatten();
        commits.map(|commit| &commit.ended.event.origin)
    }

    pub(super) fn tick(&mut self, now: Nanos, outbox: &Outbox) {
        self.again(now, RETRY_LIMIT, outbox);
        let late =
            |commit: &Commit| !commit.refused && commit.sent > 0 && now.saturating_sub(commit.sent) > CONFIRM_TIMEOUT;
        for index in 0..self.under_way.len() {
            if self.under_way[index].as_ref().is_some_and(late) {
                SILENT.clone_into(&mut self.why);
                self.send(now, index as u32, outbox);
            }
        }
    }

    fn again(&mut self, now: Nanos, most: usize, outbox: &Outbox) {
        for _ in 0..most {
            let Some((index, serial)) = self.refused.pop_front() else { return };
            if self.under_way[index as usize].as_ref().is_some_and(|commit| commit.serial == serial) {
                self.send(now, index, outbox);
            }
        }
    }

    fn send(&mut self, now: Nanos, index: u32, outbox: &Outbox) {
        self.refit(index);
        let Some(commit) = &mut self.under_way[index as usize] else { return };
        (commit.sent, commit.refused) = (now, false);
        // A dispatcher before this one may have stored a result that it could not acknowledge.
        if !commit.has_no_result {
            return self.ask(now, index, Asked::Result, outbox);
        }
        let event = &commit.ended.event;
        let most = self.client.max_payload().saturating_sub(self.padding.most());
        let (mut headers, body) = match &commit.ended.end {
            End::Done(result) => (letter::of_result(&event.id, &commit.digest, &event.kind), result.carried.clone()),
            End::Dead { reason, tries } => {
                let mut headers = letter::of_letter(reason, *tries, &event.kind, &commit.digest);
                if let Some(batch) = &event.origin.batch {
                    headers.insert(names::BATCH, &**batch);
                }
                letter::letter(headers, &event.body, commit.whole, most)
            }
        };
        if commit.is_large() {
            headers.insert(names::LARGE, "1");
        }
        let (serial, subject) = (commit.serial, commit.subject(&self.farm));
        self.padding.add(&mut headers, subject.len(), body.len());
        outbox.ask(subject.into(), self.reply(index, serial, Asked::Store), Some(headers), body);
    }

    /// A result that has become too large for the server becomes a dead letter.
    fn refit(&mut self, index: u32) {
        let most = self.client.max_payload().saturating_sub(self.padding.most());
        let too_large = |Commit { ended, digest, .. }: &Commit| matches!(&ended.end, End::Done(result) if letter::size_of_result(&ended.event.id, digest, &ended.event.kind, result.len()) > most);
        if self.under_way[index as usize].as_ref().is_some_and(too_large) {
            let _ = self.bury(index);
        }
    }

    /// Replaces a result by a dead letter with the event, or a letter by its reason alone. `false`: there is nothing
    /// smaller.
    fn bury(&mut self, index: u32) -> bool {
        let Some(commit) = &mut self.under_way[index as usize] else { return false };
        if matches!(commit.ended.end, End::Dead { .. }) && commit.ended.event.body.is_empty() {
            return false;
        }
        let before = size_of(&commit.ended);
        commit.ended.end = match &commit.ended.end {
            End::Done(result) => {
                let reason = format!("its result of {} octets is larger than the server takes", result.len());
                End::Dead { reason, tries: 1 }
            }
            End::Dead { reason, tries } => {
                commit.ended.event.body = Bytes::new().into();
                End::Dead { reason: format!("{reason}; too large to be kept"), tries: *tries }
            }
        };
        self.bytes = self.bytes + size_of(&commit.ended) - before;
        true
    }

    /// Index and serial of a commit under way, and the request that is answered. `None`: the commit has ended.
    fn name_of(&self, subject: &Subject) -> Option<(u32, u64, Asked)> {
        let mut tokens = subject.strip_prefix(self.inbox.as_str())?.strip_prefix('.')?.split('.');
        let (index, serial): (u32, u64) = (tokens.next()?.parse().ok()?, tokens.next()?.parse().ok()?);
        let asked = Asked::of(tokens.next()?)?;
        let commit = self.under_way.get(index as usize)?.as_ref()?;
        (commit.serial == serial).then_some((index, serial, asked))
    }
}

impl Commit {
    /// Whether what is stored is a reference. Its message is small, so that it has room for the header that says so.
    fn is_large(&self) -> bool {
        match &self.ended.end {
            End::Done(result) => result.is_reference,
            End::Dead { .. } => self.ended.event.body.is_reference,
        }
    }

    fn subject(&self, farm: &str) -> String {
        let id = &self.ended.event.id;
        match self.ended.end {
            End::Done(_) => names::result(farm, id),
            End::Dead { .. } => names::dead(farm, id),
        }
    }
}

fn size_of(ended: &Ended<Origin>) -> usize {
    let result = match &ended.end {
        End::Done(result) => result.len(),
        End::Dead { reason, .. } => reason.len(),
    };
    ended.event.body.len() + result
}
