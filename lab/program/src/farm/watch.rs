//! The owners of events, observed from outside: assignments of a dispatcher, and answers of nodes. They show the time
//! that a killed node's events had no owner, the events assigned more than once, and the late answers.

use crate::farm::error::FarmError;
use async_nats::Client;
use futures_util::StreamExt;
use sidecore_assign::wire::{DispatcherMessage, NodeMessage};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::task::JoinHandle;

/// An assignment sent before a dispatcher's or server's kill may still arrive within this time.
const STILL: Duration = Duration::from_millis(5);

pub(crate) struct Watcher {
    watch: Arc<Mutex<Watch>>,
    listening: JoinHandle<()>,
}

impl Watcher {
    pub(crate) async fn new(client: &Client, farm: &str) -> Result<Self, FarmError> {
        const WRONG: &str = "cannot listen to the farm";
        let mut down = client.subscribe(format!("farm.{farm}.down.>")).await.map_err(FarmError::nats(WRONG))?;
        let mut up = client.subscribe(format!("farm.{farm}.up")).await.map_err(FarmError::nats(WRONG))?;
        client.flush().await.map_err(FarmError::nats(WRONG))?;
        let watch = Arc::new(Mutex::new(Watch::default()));
        let heard = watch.clone();
        let listening = tokio::spawn(async move {
            loop {
                tokio::select! {
                    // Answers first: an answer that precedes an assignment was also sent before it.
                    biased;
                    Some(message) = up.next() => locked(&heard).hear_up(&message.payload),
                    Some(message) = down.next() => locked(&heard).hear_down(&message.subject, &message.payload),
                    else => return,
                }
            }
        });
        Ok(Self { watch, listening })
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Watch> {
        locked(&self.watch)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// No holder of the lock leaves the state half changed, so a panic does no harm.
pub(crate) fn locked<T>(watch: &Mutex<T>) -> MutexGuard<'_, T> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
pub(crate) struct Watch {
    events: HashMap<String, Event>,
    attempts: HashMap<Attempt, String>,
    nodes: HashMap<String, u64>,
    kills: Vec<Kill>,
    stops: Vec<Stop>,
    late: u64,
}

/// The node's incarnation, and the ticket.
type Attempt = (u64, u64);

#[derive(Debug)]
struct Event {
    first: SystemTime,
    last: Attempt,
    times: u32,
}

#[derive(Debug)]
struct Kill {
    at: SystemTime,
    incarnation: u64,
    left: BTreeSet<String>,
    moved: Option<SystemTime>,
}

#[derive(Debug)]
struct Stop {
    at: SystemTime,
    again: Option<SystemTime>,
}

impl Stop {
    fn overlaps(&self, from: SystemTime, to: SystemTime) -> bool {
        self.at <= to && self.again.is_none_or(|again| again >= from)
    }
}

impl Watch {
    pub(crate) fn welcomed(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn first(&self, id: &str) -> Option<SystemTime> {
        self.events.get(id).map(|event| event.first)
    }

    pub(crate) fn redone(&self) -> u64 {
        self.events.values().filter(|event| event.times > 1).count() as u64
    }

    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// Times from each kill of a node with events until other nodes had all of them. A kill does not count while the
    /// dispatcher or the server was away too: assignments were impossible then.
    pub(crate) fn gaps(&self) -> Vec<Duration> {
        let over = self.kills.iter().filter(|kill| kill.left.is_empty());
        let gap = |kill: &Kill| Some((kill.at, kill.moved?));
        let counts = |(from, to): &(SystemTime, SystemTime)| !self.stops.iter().any(|stop| stop.overlaps(*from, *to));
        over.filter_map(gap).filter(counts).filter_map(|(from, to)| to.duration_since(from).ok()).collect()
    }

    pub(crate) fn stops(&self) -> Vec<Duration> {
        self.stops.iter().filter_map(|stop| stop.again?.duration_since(stop.at).ok()).collect()
    }

    pub(crate) fn killed(&mut self, node: &str, at: SystemTime) {
        let Some(&incarnation) = self.nodes.get(node) else { return };
        let had = self.attempts.iter().filter(|((of, _), _)| *of == incarnation);
        let left = had.map(|(_, id)| id.clone()).collect();
        self.kills.push(Kill { at, incarnation, left, moved: None });
    }

    pub(crate) fn stopped(&mut self, at: SystemTime) {
        self.stops.push(Stop { at, again: None });
    }

    fn hear_down(&mut self, subject: &str, payload: &[u8]) {
        let now = SystemTime::now();
        let mut tokens = subject.rsplit('.');
        let incarnation = tokens.next().and_then(|token| token.parse().ok());
        let (Some(incarnation), Some(node)) = (incarnation, tokens.next()) else { return };
        match DispatcherMessage::decode(payload) {
            Some(DispatcherMessage::Welcome { .. }) => {
                self.nodes.insert(node.to_owned(), incarnation);
            }
            Some(DispatcherMessage::Events(list) | DispatcherMessage::ReportStart(list)) => {
                for event in list {
                    self.handed(now, (incarnation, event.ticket), event.id);
                }
            }
            _ => {}
        }
    }

    fn hear_up(&mut self, payload: &[u8]) {
        let Some(NodeMessage::Answers(answers)) = NodeMessage::decode(payload) else { return };
        for answer in &answers.list {
            self.answered((answers.incarnation, answer.ticket));
        }
    }

    fn handed(&mut self, now: SystemTime, attempt: Attempt, id: &str) {
        let event = self.events.entry(id.to_owned()).or_insert(Event { first: now, last: attempt, times: 0 });
        let former = (event.times > 0).then_some(event.last);
        event.last = attempt;
        event.times += 1;
        self.attempts.insert(attempt, id.to_owned());
        if let Some(former) = former {
            self.moved(now, former, id);
        }
        // The dispatcher does not know yet that this node is dead.
        if let Some(kill) = self.kills.iter_mut().rev().find(|kill| kill.incarnation == attempt.0) {
            kill.left.insert(id.to_owned());
        }
        for stop in self.stops.iter_mut().filter(|stop| stop.again.is_none() && now > stop.at + STILL) {
            stop.again = Some(now);
        }
    }

    fn moved(&mut self, now: SystemTime, former: Attempt, id: &str) {
        for kill in self.kills.iter_mut().rev().filter(|kill| kill.incarnation == former.0) {
            if kill.left.remove(id) {
                kill.moved = Some(now);
            }
        }
    }

    fn answered(&mut self, attempt: Attempt) {
        // A node may answer twice: no attempt is open the second time.
        let Some(id) = self.attempts.remove(&attempt) else { return };
        let is_current = self.events.get(&id).is_some_and(|event| event.last == attempt);
        if !is_current {
            self.late += 1;
        }
        for kill in self.kills.iter_mut().filter(|kill| kill.incarnation == attempt.0) {
            // The node had answered before it died.
            kill.left.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(1_000 + ms)
    }

    fn two() -> Watch {
        let nodes = [("a".to_owned(), 1), ("b".to_owned(), 2)];
        Watch { nodes: nodes.into(), ..Watch::default() }
    }

    #[test]
    fn a_gap_ends_when_all_that_a_node_had_is_with_others() {
        let mut watch = two();
        for (ticket, id) in [(1, "e-1"), (2, "e-2"), (3, "e-3")] {
            watch.handed(at(0), (1, ticket), id);
        }
        watch.answered((1, 1));
        watch.killed("a", at(10));
        watch.handed(at(50), (2, 4), "e-2");
        assert!(watch.gaps().is_empty());
        watch.handed(at(55), (2, 5), "e-3");
        assert_eq!(watch.gaps(), [Duration::from_millis(45)]);
        assert_eq!((watch.redone(), watch.late()), (2, 0));
    }

    #[test]
    fn what_a_dead_node_is_still_given_counts_and_what_it_had_answered_does_not() {
        let mut watch = two();
        watch.handed(at(0), (1, 1), "e-1");
        watch.killed("a", at(10));
        watch.answered((1, 1));
        watch.handed(at(12), (1, 2), "e-2");
        assert!(watch.gaps().is_empty());
        watch.handed(at(60), (2, 3), "e-2");
        assert_eq!(watch.gaps(), [Duration::from_millis(50)]);
    }

    #[test]
    fn a_node_that_dies_while_nobody_hands_out_does_not_count() {
        let mut watch = two();
        watch.handed(at(0), (1, 1), "e-1");
        watch.stopped(at(8));
        watch.killed("a", at(10));
        watch.handed(at(500), (2, 2), "e-1");
        assert_eq!((watch.gaps(), watch.stops()), (vec![], vec![Duration::from_millis(492)]));
        watch.handed(at(510), (2, 3), "e-2");
        watch.answered((2, 2));
        watch.killed("b", at(520));
        watch.handed(at(560), (3, 4), "e-2");
        assert_eq!(watch.gaps(), [Duration::from_millis(40)]);
    }

    #[test]
    fn a_node_without_events_leaves_no_gap() {
        let mut watch = two();
        watch.killed("a", at(10));
        watch.killed("nobody", at(10));
        assert!(watch.gaps().is_empty());
    }

    #[test]
    fn an_answer_to_what_somebody_else_has_is_late() {
        let mut watch = two();
        watch.handed(at(0), (1, 1), "e-1");
        watch.handed(at(50), (2, 2), "e-1");
        watch.answered((1, 1));
        watch.answered((1, 1));
        assert_eq!((watch.late(), watch.redone()), (1, 1));
        watch.answered((2, 2));
        assert_eq!(watch.late(), 1);
        assert_eq!(watch.first("e-1"), Some(at(0)));
    }

    #[test]
    fn a_stop_ends_with_the_first_event_that_was_not_under_way() {
        let mut watch = two();
        watch.stopped(at(10));
        watch.handed(at(11), (1, 1), "e-1");
        assert!(watch.stops().is_empty());
        watch.handed(at(90), (1, 2), "e-2");
        watch.handed(at(95), (1, 3), "e-3");
        assert_eq!(watch.stops(), [Duration::from_millis(80)]);
    }
}
