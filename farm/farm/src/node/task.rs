//! An event at a node, and what is done with it.

use sidecore_assign::Payload;
use std::rc::Rc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) body: Payload,
    /// The dispatcher's time limit; a node may allow less.
    pub(crate) limit: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done(Payload),
    /// The reason. It counts as a try of the event.
    Failed(String),
    /// The reason. Another node may do it, and it is no try.
    Refused(String),
}

/// Does events. The node's link calls it for at most one event a slot at a time.
pub(crate) trait Work: 'static {
    /// Does one event within its time limit. Dropping the future ends all work on it.
    async fn run(&self, task: &Task) -> Outcome;
}

impl<W: Work> Work for Rc<W> {
    async fn run(&self, task: &Task) -> Outcome {
        W::run(self, task).await
    }
}
