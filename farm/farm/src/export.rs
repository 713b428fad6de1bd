//! `sidecore farm export`: the state of a farm for Prometheus, over HTTP.
//!
//! The exporter only listens to the dispatcher's status messages. A scraper therefore cannot reach the farm, and the
//! exporter outlives the dispatcher.

mod metrics;
#[cfg(test)]
mod tests;

use crate::args::watch::Export;
use crate::error::FarmError;
use crate::status_watch::{StatusWatch, View, Words};
use sidecore_terminal::metrics::{Exporter, Server, answer};
use sidecore_terminal::output;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::task::spawn_blocking;

pub(crate) async fn run(args: &Export) -> Result<u8, FarmError> {
    let server = Server::bind(args.listen).map_err(FarmError::output)?;
    let mut words = Words::of(&args.farm).await?;
    output::tell(format_args!("metrics at http://{}/metrics", server.address()));
    let watch = Arc::new(Mutex::new(StatusWatch::default()));
    let known = Arc::clone(&watch);
    let mut server = spawn_blocking(move || server.run(&|wanted| answer(&mut view(&known), wanted)));
    loop {
        tokio::select! {
            word = words.next() => lock(&watch).take(word?, Instant::now()),
            ended = &mut server => {
                ended?.map_err(FarmError::output)?;
                return Ok(0);
            }
        }
    }
}

fn view(watch: &Mutex<StatusWatch>) -> View {
    lock(watch).view(Instant::now())
}

fn lock(watch: &Mutex<StatusWatch>) -> std::sync::MutexGuard<'_, StatusWatch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exporter for View {
    const TITLE: &'static str = "sidecore farm";

    fn metrics(&mut self) -> String {
        metrics::page(self)
    }
}
