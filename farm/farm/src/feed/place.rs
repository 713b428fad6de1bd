//! A feeder's place: the end of the completed part of its source, stored in the farm.

use super::error::InputError;
use crate::connect;
use crate::error::FarmError;
use crate::ids;
use crate::streams::{PAUSE, error::StreamError, names};
use async_nats::jetstream::Context;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{DirectGetErrorKind, LastRawMessageErrorKind, Stream};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time that the servers of a cluster have to agree on a farm that was just made, before it counts as missing.
const SETTLES: Duration = Duration::from_secs(5);
/// A place that is no feeder's: names have no plus sign.
const PROBE: &str = "probe+";
/// A place without an answer for this time is sent again.
const OVERDUE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) number: u64,
    /// Bytes before it, of a file.
    #[serde(default)]
    pub(super) offset: u64,
    /// The last path that is done, of a directory, escaped as ids are.
    #[serde(default)]
    pub(super) path: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedPosition {
    source: String,
    /// The feeder's secret; places of earlier versions have none.
    #[serde(default)]
    salt: Option<String>,
    #[serde(flatten)]
    mark: Mark,
}

#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) subject: String,
    source: String,
    salt: String,
    mark: Mark,
    saved: Option<Mark>,
    sent: Option<(Mark, Instant)>,
    /// Number of the last place sent. Answers to earlier ones do not count.
    serial: u64,
}

impl Keeper {
    /// Loads the place of a feeder, or begins one. It is stored before the first event, so that no other source is fed
    /// under the same name and ids.
    ///
    /// `may_look`: the account may read streams.
    pub(super) async fn open(
        js: &Context,
        farm: &str,
        feeder: &str,
        source: String,
        may_look: bool,
    ) -> Result<Self, FarmError> {
        let subject = names::place(farm, feeder);
        let (mark, salt) = match kept(js, farm, &subject, may_look).await? {
            Some(place) if place.source == source => (checked(place.mark, feeder)?, place.salt),
            Some(place) => {
                let (feeder, fed) = (feeder.to_owned(), place.source);
                return Err(InputError::AnotherSource { feeder, fed, source_name: source }.into());
            }
            None => (Mark::default(), None),
        };
        let salt = salt.map_or_else(ids::secret, Ok)?;
        let mut keeper = Self { subject, source, salt, mark, saved: None, sent: None, serial: 0 };
        let place = keeper.place_at(Instant::now());
        let stored = async { js.publish(keeper.subject.clone(), place).await?.await };
        tokio::select! {
            stored = stored => stored.map_err(FarmError::nats(format!("cannot keep the place of feeder {feeder}")))?,
            said = connect::denied() => return Err(denied("keep", said)),
        };
        keeper.arrived(keeper.serial);
        Ok(keeper)
    }

    pub(super) fn place(&self) -> &Mark {
        &self.mark
    }

    pub(super) fn salt(&self) -> &str {
        &self.salt
    }

    pub(super) fn advance(&mut self, mark: Mark) {
        self.mark = mark;
    }

    /// The place to store now. `None`: it is stored, or an earlier one is on its way.
    pub(super) fn due(&mut self, now: Instant) -> Option<Bytes> {
        let waits = self.sent.as_ref().is_some_and(|(_, at)| now.duration_since(*at) < OVERDUE);
        (!waits && !self.is_saved()).then(|| self.place_at(now))
    }

    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    pub(super) fn arrived(&mut self, serial: u64) {
        if serial == self.serial {
            self.saved = self.sent.take().map(|(mark, _)| mark).or(self.saved.take());
        }
    }

    pub(super) fn failed(&mut self, serial: u64) {
        if serial == self.serial {
            self.sent = None;
        }
    }

    pub(super) fn cut_off(&mut self) {
        self.sent = None;
    }

    pub(super) fn is_saved(&self) -> bool {
        self.saved.as_ref() == Some(&self.mark)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.sent.is_none()
    }

    fn place_at(&mut self, now: Instant) -> Bytes {
        self.sent = Some((self.mark.clone(), now));
        self.serial += 1;
        let place =
            SavedPosition { source: self.source.clone(), salt: Some(self.salt.clone()), mark: self.mark.clone() };
        // Text and numbers always serialise.
        serde_json::to_vec(&place).unwrap_or_default().into()
    }
}

/// How many events a feeder has fed, by its place. `None`: it has none.
pub(crate) async fn events_fed(js: &Context, farm: &str, subject: &str) -> Result<Option<u64>, FarmError> {
    Ok(kept(js, farm, subject, true).await?.map(|place| place.mark.number))
}

async fn kept(js: &Context, farm: &str, subject: &str, may_look: bool) -> Result<Option<SavedPosition>, FarmError> {
    let places = crate::streams::handles(js, farm).await?.places;
    let message = tokio::select! {
        asked = places.direct_get_last_for_subject(subject) => match asked {
            Ok(message) => Some(message),
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => None,
            // An earlier version made the stream.
            Err(_) if may_look => last(&places, subject).await?,
            Err(_) => return Err(StreamError::NotForFeeders(farm.to_owned()).into()),
        },
        said = connect::denied() => return Err(denied("read", said)),
    };
    let Some(message) = message else { return Ok(None) };
    serde_json::from_slice(&message.payload)
        .map(Some)
        .map_err(|source| InputError::NoPlace { subject: subject.to_owned(), source }.into())
}

/// The namespace that servers give this account's events and places: a place is stored and read. `denied`: what the
/// account may not do.
pub(super) async fn namespace(js: &Context, farm: &str, denied: StreamError) -> Result<String, FarmError> {
    let places = crate::streams::handles(js, farm).await?.places;
    let subject = names::place(farm, PROBE);
    let probe = async || {
        js.publish(subject.clone(), Bytes::new()).await.ok()?.await.ok()?;
        places.direct_get_last_for_subject(subject.clone()).await.ok()
    };
    // In a cluster a stream that was just made may have no leader yet, and a server that answers may lack what the leader
    // has stored: neither says that the farm is not there.
    let probed = async {
        let end = Instant::now() + SETTLES;
        loop {
            let found = probe().await;
            if found.is_some() || Instant::now() >= end {
                return found;
            }
            sleep(PAUSE).await;
        }
    };
    let kept = tokio::select! {
        found = probed => found,
        _ = connect::denied() => return Err(denied.into()),
    };
    let kept = kept.ok_or_else(|| StreamError::NotForFeeders(farm.to_owned()))?;
    let namespace = kept.subject.strip_prefix(names::place(farm, "").as_str()).and_then(|rest| rest.split_once('.'));
    Ok(namespace.ok_or_else(|| StreamError::NotForFeeders(farm.to_owned()))?.0.to_owned())
}

async fn last(places: &Stream<()>, subject: &str) -> Result<Option<StreamMessage>, FarmError> {
    match places.get_last_raw_message_by_subject(subject).await {
        Ok(message) => Ok(Some(message)),
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(FarmError::nats(format!("cannot read {subject}"))(error)),
    }
}

fn denied(what: &str, said: String) -> FarmError {
    let what = format!("{what} a feeder's place").into();
    FarmError::Denied { what, said, remedy: "; allow it, or leave --name out" }
}

/// Other programs may write into the farm too.
fn checked(mark: Mark, feeder: &str) -> Result<Mark, FarmError> {
    let sound = mark.path.as_ref().is_none_or(|path| ids::unescaped(path).is_some());
    if sound { Ok(mark) } else { Err(InputError::ForgedPath(feeder.to_owned()).into()) }
}

pub(super) fn named(what: &str, path: &Path) -> Result<String, FarmError> {
    let whole = path.canonicalize().map_err(FarmError::file("cannot read", path))?;
    Ok(format!("{what} {}", whole.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeper() -> Keeper {
        Keeper {
            subject: "s".into(),
            source: "file x".into(),
            salt: "s".into(),
            mark: Mark::default(),
            saved: None,
            sent: None,
            serial: 0,
        }
    }

    #[test]
    fn a_place_is_stored_until_the_one_that_is_meant_has_arrived() {
        let (mut keeper, now) = (keeper(), Instant::now());
        assert!(keeper.due(now).is_some());
        keeper.advance(Mark { number: 5, ..Mark::default() });
        keeper.arrived(keeper.serial());
        assert!(!keeper.is_saved(), "what arrived is the place before");
        assert!(keeper.due(now).is_some());
        keeper.arrived(keeper.serial() - 1);
        assert!(!keeper.is_saved(), "an answer that was late");
        keeper.arrived(keeper.serial());
        assert!(keeper.is_saved() && keeper.due(now).is_none());
    }

    #[test]
    fn a_server_that_answers_late_stores_a_place_all_the_same() {
        let (mut keeper, now) = (keeper(), Instant::now());
        assert!(keeper.due(now).is_some());
        let asked = keeper.serial();
        for ticks in 1..20 {
            assert!(keeper.due(now + ticks * Duration::from_millis(250)).is_none(), "it is on its way");
        }
        keeper.arrived(asked);
        assert!(keeper.is_saved());
    }

    #[test]
    fn a_place_that_was_refused_or_lost_is_sent_again() {
        let (mut keeper, now) = (keeper(), Instant::now());
        assert!(keeper.due(now).is_some());
        keeper.failed(keeper.serial());
        assert!(keeper.due(now).is_some());
        keeper.cut_off();
        assert!(keeper.due(now).is_some() && keeper.due(now).is_none());
        assert!(keeper.due(now + OVERDUE).is_some());
    }

    #[test]
    fn a_place_with_a_path_out_of_its_directory_is_refused() {
        let with = |path: &str| checked(Mark { path: Some(path.into()), ..Mark::default() }, "f");
        assert!(with("a_2fb").is_ok() && with("_2e_2e_2fb").is_err() && with("_2fetc").is_err());
    }
}
