//! `sidecore export`: the counters for Prometheus, over HTTP.
//!
//! The exporter is a separate process that only reads the counter file, at each scrape. A scraper therefore cannot
//! reach the service, and the exporter outlives it.

use crate::args::Export;
use crate::error::WatchError;
use families::Sum;
use sidecore_counters::{KeyCounter, LaneCounter, LaneStats, Snapshot};
use sidecore_terminal::metrics::{self, Accounts, Family, Labels, OTHERS, encode};
use sidecore_terminal::users::Users;
use std::path::PathBuf;

mod families;
#[cfg(test)]
mod tests;

/// Prefix of each metric's name.
const PREFIX: &str = "sidecore";

#[derive(Debug)]
struct Exporter {
    file: PathBuf,
    last: Option<Snapshot>,
    clients: Accounts<Sum<LaneCounter>>,
    keys: Accounts<Sum<KeyCounter>>,
    users: Users,
}

pub(crate) fn run(args: &Export) -> Result<(), WatchError> {
    args.sockets.refuse("sidecore sockets export")?;
    let exporter = Exporter::new(args.counters.path(), args.clients as usize, args.keys as usize);
    Ok(metrics::export(args.listen, exporter)?)
}

impl metrics::Exporter for Exporter {
    const TITLE: &'static str = "sidecore";

    /// Without a service: only the metric that reports its absence.
    fn metrics(&mut self) -> String {
        let mut all = match self.read() {
            Ok(now) => self.families(now),
            Err(_) => vec![families::up(false)],
        };
        all.push(Family::build());
        encode(PREFIX, all)
    }

    fn state(&mut self) -> String {
        match self.read() {
            Ok(now) => format!("The service runs, as process {}.", now.start.pid),
            Err(why) => format!("The service does not run: {why}."),
        }
    }
}

impl Exporter {
    /// At most `clients` clients and `keys` keys have metrics of their own.
    fn new(file: PathBuf, clients: usize, keys: usize) -> Self {
        let clients = Accounts::new(clients, client(OTHERS, String::new(), String::new()));
        let keys = Accounts::new(keys, key(OTHERS));
        Self { file, last: None, clients, keys, users: Users::default() }
    }

    fn read(&self) -> Result<Snapshot, WatchError> {
        let now = Snapshot::read(&self.file).map_err(WatchError::library)?;
        if now.is_alive() { Ok(now) } else { Err(WatchError::NoHeartbeat(self.file.clone())) }
    }

    fn families(&mut self, now: Snapshot) -> Vec<Family> {
        let recent = self.last.as_ref().map_or_else(|| now.clone(), |last| now.since(last));
        let labels = |lane: &LaneStats| client(&lane.name, lane.pid.to_string(), self.users.name(lane.uid));
        self.clients.take(recent.lanes.iter().map(|lane| (labels(lane), lane)).collect(), Sum::add);
        self.keys.take(recent.keys.iter().map(|stored| (key(&stored.name), stored)).collect(), Sum::add);
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
