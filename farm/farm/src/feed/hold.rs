//! While nothing can be stored: one attempt at a time, and log lines with the reason.

use crate::quiet::Quiet;
use crate::streams::{self, error::StreamError};
use async_nats::jetstream::Context;
use sidecore_core::time::Nanos;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const PROBE: Duration = Duration::from_millis(50);
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct Hold {
    /// To ask the servers why; `None`: this account may not.
    js: Option<Context>,
    farm: String,
    quiet: Quiet,
    begun: Instant,
    /// When the next event may be tried; `None`: all may.
    probe: Option<Instant>,
    /// The servers' answer, or their silence; `None`: the farm is full, or nothing is wrong.
    said: Option<String>,
    found: Option<StreamError>,
    look: Option<JoinHandle<Result<(), StreamError>>>,
    looked: Option<Instant>,
}

impl Hold {
    pub(super) fn new(js: Option<Context>, farm: &str) -> Self {
        let (quiet, begun) = (Quiet::default(), Instant::now());
        let farm = farm.to_owned();
        Self { js, farm, quiet, begun, probe: None, said: None, found: None, look: None, looked: None }
    }

    /// When the next event may be tried; `None`: all may be published.
    pub(super) fn probe(&self) -> Option<Instant> {
        self.probe
    }

    pub(super) fn tries(&mut self, now: Instant) {
        self.probe = Some(now + PROBE);
    }

    pub(super) fn full(&mut self) {
        self.said = None;
        self.holds();
        let text = "the farm is full: waiting until nodes have taken something (--when-full shed drops instead)";
        self.quiet.waits(self.now(), text);
    }

    pub(super) fn not_now(&mut self, said: String) {
        self.said = Some(said);
        self.holds();
        self.explain();
    }

    pub(super) fn silent(&mut self) {
        self.said = Some("no answer to what is published".to_owned());
        self.explain();
    }

    pub(super) fn goes_on(&mut self) {
        (self.probe, self.said, self.found) = (None, None, None);
        self.quiet.goes_on(self.now(), "going on");
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.quiet.is_waiting()
    }

    pub(super) async fn tick(&mut self, now: Instant) {
        self.quiet.tick(self.now());
        if let Some(look) = self.look.take_if(|look| look.is_finished()) {
            // The task is never cancelled.
            self.found = look.await.unwrap_or(Ok(())).err();
            self.explain();
        }
        let is_due = self.looked.is_none_or(|at| now.duration_since(at) >= CHECK_INTERVAL);
        if let Some(js) = self.js.clone()
            && self.said.is_some()
            && self.look.is_none()
            && is_due
        {
            self.looked = Some(now);
            let farm = self.farm.clone();
            self.look = Some(tokio::spawn(async move { streams::existing(&js, &farm).await.map(drop) }));
        }
    }

    fn holds(&mut self) {
        self.probe.get_or_insert(Instant::now() + PROBE);
    }

    fn explain(&mut self) {
        let Some(said) = &self.said else { return };
        let said = self.found.as_ref().map_or_else(|| said.clone(), ToString::to_string);
        let text = format!("nothing can be stored at the moment: {said}; trying again");
        self.quiet.waits(self.now(), &text);
    }

    fn now(&self) -> Nanos {
        self.begun.elapsed().as_nanos() as Nanos
    }
}
