//! The pages of an exporter: its metrics, and a first page for people.

use super::http::{Answer, Server, Wanted};
use crate::error::TerminalError;
use crate::output;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

/// A program that gives metrics to Prometheus.
pub trait Exporter {
    /// The heading of its first page.
    const TITLE: &'static str;

    /// All metrics, as text of `OpenMetrics`.
    fn metrics(&mut self) -> String;

    /// A sentence about what it watches, for its first page. Empty: there is none.
    fn state(&mut self) -> String {
        String::new()
    }
}

/// Answers at this address until the socket takes no connections any more. The address is told on standard error.
///
/// # Errors
/// As for [`Server::bind`] and [`Server::run`].
pub fn export(listen: SocketAddr, exporter: impl Exporter + Send) -> Result<(), TerminalError> {
    let server = Server::bind(listen)?;
    output::tell(format_args!("metrics at http://{}/metrics", server.address()));
    let exporter = Mutex::new(exporter);
    server.run(&|wanted| answer(&mut *exporter.lock().unwrap_or_else(PoisonError::into_inner), wanted))
}

/// The page that is wanted.
pub fn answer(exporter: &mut impl Exporter, wanted: &Wanted) -> Answer {
    let format = wanted.format;
    match wanted.path.as_str() {
        "/metrics" => Answer { status: "200 OK", kind: format.kind(), body: format.of(exporter.metrics()) },
        "/" => Answer { status: "200 OK", kind: "text/html; charset=utf-8", body: first_page(exporter) },
        _ => Answer::text("404 Not Found", "there are / and /metrics\n"),
    }
}

fn first_page<E: Exporter>(exporter: &mut E) -> String {
    let state = escaped(&exporter.state());
    let state = if state.is_empty() { state } else { format!("<p>{state}</p>\n") };
    let title = E::TITLE;
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><title>{title}</title>\n<h1>{title}</h1>\n{state}\
         <p><a href=\"/metrics\">Metrics</a></p>\n</html>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
