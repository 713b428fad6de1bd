//! `sidecore export`: the counters for Prometheus, over HTTP.
//!
//! A process of its own that only reads the counter file, at each scrape: nothing that a scraper does reaches the
//! service, and the exporter stays when the service goes.

use crate::args::Export;
use crate::output;
use http::{Answer, Server};
use page::Exporter;
use std::sync::{Mutex, PoisonError};

mod account;
mod families;
mod family;
mod http;
mod page;
#[cfg(test)]
mod tests;

/// Answers until it is ended.
pub(crate) fn run(args: &Export) -> Result<(), String> {
    let server = Server::bind(args.listen).map_err(|error| {
        format!("{}: {error}; name another address and port of this machine with --listen", args.listen)
    })?;
    output::tell(format_args!("metrics at http://{}/metrics", server.address()));
    let exporter = Mutex::new(Exporter::new(args.counters.path(), args.clients as usize, args.keys as usize));
    server.run(&|path| answer(&mut exporter.lock().unwrap_or_else(PoisonError::into_inner), path))
}

fn answer(exporter: &mut Exporter, path: &str) -> Answer {
    match path {
        "/metrics" => Answer { status: "200 OK", kind: page::CONTENT_TYPE, body: exporter.metrics() },
        "/" => Answer { status: "200 OK", kind: "text/html; charset=utf-8", body: exporter.links() },
        _ => Answer::text("404 Not Found", "there are / and /metrics\n"),
    }
}
