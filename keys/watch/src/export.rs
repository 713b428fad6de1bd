//! `sidecore export`: the counters for Prometheus, over HTTP.
//!
//! The exporter is a separate process that only reads the counter file, at each scrape. A scraper therefore cannot
//! reach the service, and the exporter outlives it. A service of sockets has no counter file: the exporter asks it for
//! its list.

use crate::args::Export;
use crate::error::WatchError;
use crate::users::Users;
use account::Accounts;
use family::{Family, Labels, encode};
use sidecore_counters::{KeyCounter, LaneCounter, LaneStats, Snapshot};
use sidecore_terminal::metrics::{Answer, Server, Wanted};
use sidecore_terminal::output;
use sockets::Sockets;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

mod account;
mod families;
mod family;
mod sockets;
#[cfg(test)]
mod tests;

/// Label of all clients or keys without metrics of their own. No key can have this name.
const OTHERS: &str = "(other)";

#[derive(Debug)]
struct Exporter {
    file: PathBuf,
    last: Option<Snapshot>,
    clients: Accounts<LaneCounter>,
    keys: Accounts<KeyCounter>,
    users: Users,
    sockets: Sockets,
}

pub(crate) fn run(args: &Export) -> Result<(), WatchError> {
    let server = Server::bind(args.listen)?;
    output::tell(format_args!("metrics at http://{}/metrics", server.address()));
    let sockets = Sockets::new(&args.sockets, args.clients as usize);
    let exporter = Exporter::new(args.counters.path(), args.clients as usize, args.keys as usize, sockets);
    let exporter = Mutex::new(exporter);
    Ok(server.run(&|wanted| answer(&mut exporter.lock().unwrap_or_else(PoisonError::into_inner), wanted))?)
}

fn answer(exporter: &mut Exporter, wanted: &Wanted) -> Answer {
    let format = wanted.format;
    match wanted.path.as_str() {
        "/metrics" => Answer { status: "200 OK", kind: format.kind(), body: format.of(exporter.metrics()) },
        "/" => Answer { status: "200 OK", kind: "text/html; charset=utf-8", body: exporter.links() },
        _ => Answer::text("404 Not Found", "there are / and /metrics\n"),
    }
}

impl Exporter {
    /// At most `clients` clients and `keys` keys have metrics of their own.
    fn new(file: PathBuf, clients: usize, keys: usize, sockets: Sockets) -> Self {
        let clients = Accounts::new(clients, client(OTHERS, String::new(), String::new()));
        let keys = Accounts::new(keys, key(OTHERS));
        Self { file, last: None, clients, keys, users: Users::default(), sockets }
    }

    /// All metrics as `OpenMetrics` text. Without a service: only the metric that reports its absence.
    fn metrics(&mut self) -> String {
        self.sockets.ask(Instant::now());
        self.page()
    }

    fn page(&mut self) -> String {
        let mut all = match self.read() {
            Ok(now) => self.families(now),
            Err(_) => vec![families::up(false)],
        };
        all.push(families::build());
        all.extend(self.sockets.families());
        encode(all)
    }

    fn links(&self) -> String {
        let state = match self.read() {
            Ok(now) => format!("The service runs, as process {}.", now.start.pid),
            Err(why) => format!("The service does not run: {}.", escaped(&why.to_string())),
        };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><title>sidecore</title>\n<h1>sidecore</h1>\n<p>{state}</p>\n\
             <p><a href=\"/metrics\">Metrics</a></p>\n</html>\n"
        )
    }

    fn read(&self) -> Result<Snapshot, WatchError> {
        let now = Snapshot::read(&self.file).map_err(WatchError::library)?;
        if now.is_alive() { Ok(now) } else { Err(WatchError::NoHeartbeat(self.file.clone())) }
    }

    fn families(&mut self, now: Snapshot) -> Vec<Family> {
        let recent = self.last.as_ref().map_or_else(|| now.clone(), |last| now.since(last));
        let labels = |lane: &LaneStats| client(&lane.name, lane.pid.to_string(), self.users.name(lane.uid));
        self.clients.take(recent.lanes.iter().map(|lane| (labels(lane), lane)).collect());
        self.keys.take(recent.keys.iter().map(|stored| (key(&stored.name), stored)).collect());
        let mut all = vec![families::up(true)];
        all.extend(families::service(&now));
        all.extend(families::limits(&now.limits, &self.users));
        all.extend(families::sidecores(&now.sidecores));
        all.extend(families::devices(&now.devices));
        all.extend(families::classes(&now.classes));
        all.extend(families::clients(&self.clients));
        all.extend(families::sums(&self.keys));
        self.last = Some(now);
        all
    }
}

fn client(name: &str, pid: String, user: String) -> Labels {
    vec![("client", name.to_owned()), ("pid", pid), ("user", user)]
}

fn key(name: &str) -> Labels {
    vec![("key", name.to_owned())]
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
