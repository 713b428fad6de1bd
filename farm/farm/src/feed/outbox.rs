//! Events that were read and are not dealt with: in order, within limits, published as often as needed.

use super::input::Found;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Stored,
    /// Stored before this feeder started.
    Already,
    Refused,
    Shed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingState {
    Ready,
    Sent(Instant),
    /// Its object is on its way, or waits for that.
    Storing,
    Over(Outcome),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) event: u64,
    /// From 1 on.
    pub(super) number: u32,
}

#[derive(Debug)]
struct Pending {
    found: Found,
    state: PendingState,
    tries: u32,
}

#[derive(Debug)]
pub(super) struct Outbox {
    pending: VecDeque<Pending>,
    first: u64,
    ready: VecDeque<u64>,
    bytes: u64,
    most: usize,
    most_bytes: u64,
}

impl Outbox {
    pub(super) fn new(most: usize, most_bytes: u64) -> Self {
        Self { pending: VecDeque::new(), first: 0, ready: VecDeque::new(), bytes: 0, most, most_bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// The number of the first event that is not dealt with.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn has_room(&self) -> bool {
        self.is_empty() || self.len() < self.most && self.bytes < self.most_bytes
    }

    pub(super) fn push(&mut self, found: Found) {
        let number = self.first + self.pending.len() as u64;
        self.bytes += size(&found);
        let state = if found.body.is_ok() { PendingState::Ready } else { PendingState::Over(Outcome::Refused) };
        if state == PendingState::Ready {
            self.ready.push_back(number);
        }
        self.pending.push_back(Pending { found, state, tries: 0 });
    }

    pub(super) fn publish(&mut self, now: Instant) -> Option<(Attempt, &Found)> {
        let is_ready = |number: u64| {
            let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
            self.pending.get(at).filter(|pending| pending.state == PendingState::Ready).map(|_| number)
        };
        // Skips events that an earlier attempt has stored after all.
        let event = std::iter::from_fn(|| self.ready.pop_front()).find_map(is_ready)?;
        let pending = self.pending.get_mut(usize::try_from(event - self.first).ok()?)?;
        pending.state = PendingState::Sent(now);
        pending.tries += 1;
        Some((Attempt { event, number: pending.tries }, &pending.found))
    }

    /// Marks an event as stored by any attempt, or as recognised. A duplicate on the first attempt was stored before
    /// this feeder started.
    pub(super) fn stored(&mut self, attempt: Attempt, duplicate: bool) {
        let is_open =
            |pending: &&mut Pending| !matches!(pending.state, PendingState::Over(_)) && attempt.number <= pending.tries;
        let Some(pending) = self.pending(attempt.event).filter(is_open) else { return };
        let outcome = if duplicate && attempt.number == 1 { Outcome::Already } else { Outcome::Stored };
        pending.state = PendingState::Over(outcome);
    }

    /// Notes that an attempt waits for the event's object.
    pub(super) fn storing(&mut self, attempt: Attempt) {
        if let Some(pending) = self.latest(attempt) {
            pending.state = PendingState::Storing;
        }
    }

    /// Ends an event that will not be stored. `None`: it was over before, or another attempt has no answer yet.
    pub(super) fn give_up(&mut self, attempt: Attempt, outcome: Outcome) -> Option<&Found> {
        let pending = self.latest(attempt)?;
        pending.state = PendingState::Over(outcome);
        Some(&pending.found)
    }

    /// Queues an event for another attempt. `false`: another attempt has no answer yet.
    pub(super) fn again(&mut self, attempt: Attempt) -> bool {
        let is_latest = self.latest(attempt).is_some();
        if is_latest {
            self.make_ready(attempt.event);
        }
        is_latest
    }

    fn make_ready(&mut self, number: u64) {
        let Some(pending) = self.sent(number) else { return };
        pending.state = PendingState::Ready;
        let at = self.ready.partition_point(|ready| *ready < number);
        self.ready.insert(at, number);
    }

    /// Queues all events again whose attempt is older than `age` and has no answer. Returns their number.
    pub(super) fn again_since(&mut self, now: Instant, age: Duration) -> usize {
        let overdue =
            |pending: &Pending| matches!(pending.state, PendingState::Sent(at) if now.duration_since(at) >= age);
        let numbers: Vec<u64> = (self.first..)
            .zip(&self.pending)
            .filter(|(_, pending)| overdue(pending))
            .map(|(number, _)| number)
            .collect();
        for number in &numbers {
            self.make_ready(*number);
        }
        numbers.len()
    }

    pub(super) fn pop(&mut self) -> Option<(Found, Outcome)> {
        let PendingState::Over(outcome) = self.pending.front()?.state else { return None };
        let found = self.pending.pop_front()?.found;
        self.first += 1;
        self.bytes -= size(&found);
        Some((found, outcome))
    }

    fn latest(&mut self, attempt: Attempt) -> Option<&mut Pending> {
        self.sent(attempt.event).filter(|pending| pending.tries == attempt.number)
    }

    fn sent(&mut self, number: u64) -> Option<&mut Pending> {
        self.pending(number).filter(|pending| matches!(pending.state, PendingState::Sent(_) | PendingState::Storing))
    }

    fn pending(&mut self, number: u64) -> Option<&mut Pending> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.pending.get_mut(at)
    }
}

fn size(found: &Found) -> u64 {
    found.body.as_ref().map_or(0, |body| body.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::input::InvalidInput;
    use super::*;

    fn event(number: u64) -> Found {
        Found { id: format!("f-{number}"), name: None, body: Ok("body".into()), after: None, asker: None }
    }

    fn filled(number: u64) -> Outbox {
        let mut outbox = Outbox::new(100, 1_000);
        (0..number).for_each(|number| outbox.push(event(number)));
        outbox
    }

    fn published(outbox: &mut Outbox) -> Vec<u64> {
        let now = Instant::now();
        std::iter::from_fn(|| outbox.publish(now).map(|(attempt, _)| attempt.event)).collect()
    }

    fn attempt(event: u64, number: u32) -> Attempt {
        Attempt { event, number }
    }

    fn over(outbox: &mut Outbox) -> Vec<(String, Outcome)> {
        std::iter::from_fn(|| outbox.pop().map(|(found, outcome)| (found.id, outcome))).collect()
    }

    #[test]
    fn events_are_over_in_the_order_in_which_they_were_read() {
        let mut outbox = filled(3);
        assert_eq!(published(&mut outbox), [0, 1, 2]);
        outbox.stored(attempt(2, 1), false);
        outbox.stored(attempt(1, 1), true);
        assert!(outbox.pop().is_none());
        outbox.stored(attempt(0, 1), false);
        let expected = [("f-0", Outcome::Stored), ("f-1", Outcome::Already), ("f-2", Outcome::Stored)];
        assert_eq!(over(&mut outbox), expected.map(|(id, outcome)| (id.to_owned(), outcome)));
        assert!(outbox.is_empty() && outbox.has_room());
    }

    #[test]
    fn what_is_published_again_and_recognised_was_stored_by_this_feeder() {
        let mut outbox = filled(2);
        published(&mut outbox);
        outbox.stored(attempt(0, 1), false);
        assert_eq!(outbox.again_since(Instant::now(), Duration::ZERO), 1);
        assert_eq!(published(&mut outbox), [1]);
        outbox.stored(attempt(1, 2), true);
        assert!(over(&mut outbox).iter().all(|(_, outcome)| *outcome == Outcome::Stored));
    }

    #[test]
    fn what_is_published_again_comes_before_what_is_new() {
        let mut outbox = filled(4);
        let now = Instant::now();
        outbox.publish(now);
        outbox.publish(now);
        assert!(outbox.again(attempt(1, 1)) && outbox.again(attempt(0, 1)));
        assert_eq!(published(&mut outbox), [0, 1, 2, 3]);
    }

    #[test]
    fn answers_to_what_is_over_or_never_was_change_nothing() {
        let mut outbox = filled(1);
        let first = attempt(0, 1);
        outbox.stored(first, false);
        assert!(!outbox.again(attempt(7, 1)));
        assert_eq!(published(&mut outbox), [0]);
        outbox.stored(first, false);
        assert!(outbox.give_up(first, Outcome::Shed).is_none());
        assert!(!outbox.again(first));
        assert_eq!(over(&mut outbox), [("f-0".to_owned(), Outcome::Stored)]);
        outbox.stored(first, false);
    }

    #[test]
    fn a_late_answer_to_an_earlier_attempt_gives_nothing_up() {
        let mut outbox = filled(1);
        published(&mut outbox);
        outbox.again_since(Instant::now(), Duration::ZERO);
        published(&mut outbox);
        for outcome in [Outcome::Shed, Outcome::Refused] {
            assert!(outbox.give_up(attempt(0, 1), outcome).is_none());
        }
        assert!(!outbox.again(attempt(0, 1)));
        outbox.stored(attempt(0, 2), false);
        assert_eq!(over(&mut outbox), [("f-0".to_owned(), Outcome::Stored)]);
    }

    #[test]
    fn an_earlier_attempt_that_stored_it_counts() {
        let mut outbox = filled(2);
        published(&mut outbox);
        outbox.again_since(Instant::now(), Duration::ZERO);
        published(&mut outbox);
        outbox.stored(attempt(0, 1), false);
        outbox.stored(attempt(1, 1), true);
        assert!(outbox.give_up(attempt(0, 2), Outcome::Shed).is_none());
        let outcomes: Vec<_> = over(&mut outbox).into_iter().map(|(_, outcome)| outcome).collect();
        assert_eq!(outcomes, [Outcome::Stored, Outcome::Already]);
    }

    #[test]
    fn an_attempt_that_stored_it_after_all_counts_before_the_next_one() {
        let mut outbox = filled(2);
        published(&mut outbox);
        outbox.again_since(Instant::now(), Duration::ZERO);
        outbox.stored(attempt(0, 1), false);
        assert_eq!(published(&mut outbox), [1]);
        outbox.stored(attempt(1, 2), false);
        assert!(over(&mut outbox).iter().all(|(_, outcome)| *outcome == Outcome::Stored));
    }

    #[test]
    fn what_is_unfit_is_refused_in_its_turn() {
        let mut outbox = filled(1);
        outbox.push(Found { body: Err(InvalidInput::TooLarge(9, 5)), ..event(1) });
        assert_eq!(published(&mut outbox), [0]);
        assert!(outbox.pop().is_none());
        outbox.give_up(attempt(0, 1), Outcome::Shed);
        assert_eq!(
            over(&mut outbox).iter().map(|(_, outcome)| *outcome).collect::<Vec<_>>(),
            [Outcome::Shed, Outcome::Refused]
        );
    }

    #[test]
    fn room_ends_by_number_and_by_bytes() {
        let mut by_number = Outbox::new(2, 1_000);
        let mut by_bytes = Outbox::new(100, 5);
        for outbox in [&mut by_number, &mut by_bytes] {
            outbox.push(event(0));
            assert!(outbox.has_room());
            outbox.push(event(1));
            assert!(!outbox.has_room());
        }
    }
}
