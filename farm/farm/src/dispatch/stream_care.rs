//! Looks after the farm's streams while the dispatcher runs: one that somebody deletes is made again.

use crate::args::Durability;
use crate::quiet::Quiet;
use crate::streams;
use crate::streams::error::StreamError;
use async_nats::jetstream::Context;
use sidecore_core::time::Nanos;
use sidecore_terminal::output::tell;
use tokio::sync::oneshot::{self, Receiver};

/// Interval of looks, ns, and the shorter one after a stream did not answer.
const EVERY: Nanos = 10_000_000_000;
const AGAIN: Nanos = 500_000_000;

#[derive(Debug, Default)]
pub(super) struct StreamCare {
    last: Nanos,
    under_way: Option<Receiver<Result<Vec<String>, StreamError>>>,
    quiet: Quiet,
}

impl StreamCare {
    /// Reports the last look, and starts the next one, in a task, if it is time for it. `lacks`: a stream did not
    /// answer.
    pub(super) fn look(&mut self, now: Nanos, lacks: bool, js: &Context, farm: &str, durability: &Durability) {
        if let Some(done) = self.under_way.as_mut().and_then(|under_way| under_way.try_recv().ok()) {
            self.under_way = None;
            self.report(now, done);
        }
        if self.under_way.is_some() || now.saturating_sub(self.last) < if lacks { AGAIN } else { EVERY } {
            return;
        }
        self.last = now;
        let (done, under_way) = oneshot::channel();
        self.under_way = Some(under_way);
        let (js, farm, durability) = (js.clone(), farm.to_owned(), durability.clone());
        tokio::spawn(async move {
            // The dispatcher may have ended.
            let _ = done.send(streams::complete(&js, &farm, &durability).await);
        });
    }

    fn report(&mut self, now: Nanos, done: Result<Vec<String>, StreamError>) {
        match done {
            Ok(made) => {
                for name in made {
                    tell(format_args!("the stream {name} was gone; made it again"));
                }
                if self.quiet.is_waiting() {
                    self.quiet.goes_on(now, "all streams are there");
                }
            }
            Err(error) => self.quiet.waits(now, &format!("cannot look after the streams: {error}")),
        }
    }
}
