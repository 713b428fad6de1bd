//! The two pages: the metrics, and where they are.

use super::account::{Account, Accounts};
use super::families;
use super::family::{Family, Labels, encode};
use crate::users::Users;
use sidecore::counters::{KeyCounter, LaneCounter, Snapshot};
use std::path::PathBuf;

/// What [`Exporter::metrics`] is.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Stands for all that have no metrics of their own. No key can have this name.
const OTHERS: &str = "(other)";

/// A process: name, process id, user.
type Client = (String, u32, u32);

/// What is known from one scrape to the next.
#[derive(Debug)]
pub(super) struct Exporter {
    file: PathBuf,
    last: Option<Snapshot>,
    clients: Accounts<Client>,
    keys: Accounts<String>,
    users: Users,
}

impl Exporter {
    /// Reads this file, and gives at most so many clients and keys metrics of their own.
    pub(super) fn new(file: PathBuf, clients: usize, keys: usize) -> Self {
        let clients = Accounts::new(clients, LaneCounter::ALL.map(LaneCounter::is_level).to_vec());
        let keys = Accounts::new(keys, KeyCounter::ALL.map(KeyCounter::is_level).to_vec());
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
        let now = Snapshot::read(&self.file).map_err(|error| error.to_string())?;
        if now.is_alive() { Ok(now) } else { Err(format!("{}: no heartbeat", self.file.display())) }
    }

    fn families(&mut self, now: Snapshot) -> Vec<Family> {
        let recent = self.last.as_ref().map_or_else(|| now.clone(), |last| now.since(last));
        let lanes = recent.lanes.iter().map(|lane| {
            let owner = (lane.name.clone(), lane.pid, lane.uid);
            (owner, LaneCounter::ALL.map(|counter| lane.get(counter)).to_vec(), &lane.stages[..])
        });
        self.clients.take(lanes.collect());
        let stored = recent.keys.iter().map(|key| {
            let counters = KeyCounter::ALL.map(|counter| key.get(counter)).to_vec();
            (key.name.clone(), counters, &key.stages[..])
        });
        self.keys.take(stored.collect());
        let Self { clients, keys, users, .. } = self;
        let clients: Vec<(Labels, &Account)> =
            clients.all().map(|(owner, account)| (client_labels(owner, users), account)).collect();
        let keys: Vec<(Labels, &Account)> = keys.all().map(|(name, account)| (key_labels(name), account)).collect();
        let mut all = vec![families::up(true)];
        all.extend(families::service(&now));
        all.extend(families::sidecores(&now.sidecores));
        all.extend(families::devices(&now.devices));
        all.extend(families::classes(&now.classes));
        all.extend(families::clients(&clients));
        all.extend(families::keys(&keys));
        self.last = Some(now);
        all
    }
}

fn client_labels(owner: Option<&Client>, users: &Users) -> Labels {
    let (name, pid, user) = owner.map_or_else(
        || (OTHERS.to_owned(), String::new(), String::new()),
        |(name, pid, uid)| (name.clone(), pid.to_string(), users.name(*uid)),
    );
    vec![("client", name), ("pid", pid), ("user", user)]
}

fn key_labels(name: Option<&String>) -> Labels {
    vec![("key", name.cloned().unwrap_or_else(|| OTHERS.to_owned()))]
}

/// As text of an HTML page.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
