//! The two pages: the metrics, and where they are.

use super::account::Accounts;
use super::families;
use super::family::{Family, Labels, encode};
use crate::users::Users;
use sidecore::counters::{KeyCounter, LaneCounter, LaneStats, Snapshot};
use std::path::PathBuf;

/// What [`Exporter::metrics`] is.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Stands for all that have no metrics of their own. No key can have this name.
const OTHERS: &str = "(other)";

/// What is known from one scrape to the next.
#[derive(Debug)]
pub(super) struct Exporter {
    file: PathBuf,
    last: Option<Snapshot>,
    clients: Accounts<LaneCounter>,
    keys: Accounts<KeyCounter>,
    users: Users,
}

impl Exporter {
    /// Reads this file, and gives at most so many clients and keys metrics of their own.
    pub(super) fn new(file: PathBuf, clients: usize, keys: usize) -> Self {
        let clients = Accounts::new(clients, client(OTHERS, String::new(), String::new()));
        let keys = Accounts::new(keys, key(OTHERS));
        Self { file, last: None, clients, keys, users: Users::default() }
    }

    /// All metrics as they are now. Without a service: that there is none.
    pub(super) fn metrics(&mut self) -> String {
        match self.read() {
            Ok(now) => encode(self.families(now)),
            Err(_) => encode(vec![families::up(false)]),
        }
    }

    /// Where the metrics are, and what is wrong if something is.
    pub(super) fn links(&self) -> String {
        let state = match self.read() {
            Ok(now) => format!("The service runs, as process {}.", now.start.pid),
            Err(why) => format!("The service does not run: {}.", escaped(&why)),
        };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><title>sidecore</title>\n<h1>sidecore</h1>\n<p>{state}</p>\n\
             <p><a href=\"/metrics\">Metrics</a></p>\n</html>\n"
        )
    }

    fn read(&self) -> Result<Snapshot, String> {
        let now = Snapshot::read(&self.file)?;
        if now.is_alive() { Ok(now) } else { Err(format!("{}: no heartbeat", self.file.display())) }
    }

    fn families(&mut self, now: Snapshot) -> Vec<Family> {
        let recent = self.last.as_ref().map_or_else(|| now.clone(), |last| now.since(last));
        let labels = |lane: &LaneStats| client(&lane.name, lane.pid.to_string(), self.users.name(lane.uid));
        self.clients.take(recent.lanes.iter().map(|lane| (labels(lane), lane)).collect());
        self.keys.take(recent.keys.iter().map(|stored| (key(&stored.name), stored)).collect());
        let mut all = vec![families::up(true)];
        all.extend(families::service(&now));
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

/// As text of an HTML page.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
