//! What `sidecore set` changes while the service runs.

use super::{Command, Listener, Reply};
use crate::config::{HOPS, Setting, in_force};
use crate::service::command::{LaneKey, SidecoreHandle};
use crate::service::record;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// How long a sidecore may take to carry out a change.
const PATIENCE: Duration = Duration::from_secs(5);

type Outcome = Result<(), String>;

impl Listener {
    pub(super) fn set(&mut self, key: LaneKey, text: &str) -> Result<Reply, String> {
        self.administers(key, "change the service")?;
        let mut note = None;
        match Setting::parse(text)? {
            Setting::Notify(hop, notify) => {
                self.config.notify.set(hop, notify);
                let hops = self.config.notify;
                self.sidecores.iter().for_each(|sidecore| sidecore.send(Command::SetNotify(hops)));
                note = self.parking(hop);
            }
            Setting::Balance(balance) => {
                self.config.balance = balance;
                self.sidecores.iter().for_each(|sidecore| sidecore.send(Command::SetBalance(balance)));
            }
            Setting::Order(order) => {
                self.config.order = order;
                self.sidecores.iter().for_each(|sidecore| sidecore.send(Command::SetOrder(order)));
            }
            Setting::AddDevice(device) => {
                let only = device.sidecore;
                let on = |index: usize| only.is_none_or(|sidecore| sidecore == index);
                self.ask(on, |answer| Command::AddDevice(device.clone(), answer), |refused| refused == 0)?;
            }
            Setting::EndRecord => self.end_record()?,
            Setting::Device(name, action) => {
                // A device of one sidecore is unknown to the others: one that knows it is enough.
                let command = |answer| Command::Device(name.clone(), action, answer);
                let sidecores = self.sidecores.len();
                self.ask(|_| true, command, |refused| refused < sidecores)?;
            }
        }
        self.publish_policies();
        Ok(note.map_or(Reply::Done, Reply::Noted))
    }

    /// Which of these hops park under a policy that spins, and why.
    fn parking(&self, hop: Option<usize>) -> Option<String> {
        let waiters = self.counters.waiters();
        let notify = self.config.notify.hops().map(Some);
        // Hops that park for the same reason are told together.
        let mut told: Vec<(Vec<&str>, String)> = Vec::new();
        for (((of, name), policy), why) in HOPS.into_iter().enumerate().zip(notify).zip(waiters.parked(notify)) {
            let Some(why) = why.filter(|_| hop.is_none_or(|hop| hop == of)) else { continue };
            let force = in_force(policy, Some(&why));
            match told.iter_mut().find(|(_, other)| *other == force) {
                Some((names, _)) => names.push(name),
                None => told.push((vec![name], force)),
            }
        }
        let parts: Vec<String> = told.iter().map(|(names, force)| format!("{}: {force}", names.join(", "))).collect();
        (!parts.is_empty()).then(|| {
            let shared = waiters.sidecores.iter().chain(&waiters.workers).any(|place| !place.may_spin);
            let advice = if shared {
                "; only what owns its core spins: see sidecores.owned, or owned of the worker"
            } else {
                ""
            };
            parts.join("; ") + advice
        })
    }

    /// Takes the records from the sidecores and writes them.
    fn end_record(&self) -> Outcome {
        let Some(path) = &self.config.record else {
            return Err("nothing is recorded: start the service with `record`".to_owned());
        };
        for (index, sidecore) in self.sidecores.iter().enumerate() {
            let (answer, tape) = sync_channel(1);
            sidecore.send(Command::EndRecord(answer));
            let tape = tape.recv_timeout(PATIENCE).map_err(|_| "a sidecore does not answer".to_owned())?;
            let tape = tape.ok_or_else(|| "the record was ended before".to_owned())?;
            let path = self.config.record_path(index).unwrap_or_else(|| path.clone());
            record::write(&path, *tape).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    pub(super) fn publish_policies(&self) {
        self.counters.set_policies(self.config.notify.hops(), self.config.balance, self.config.order);
        self.counters.set_clients_may_spin(self.advice.may_spin());
    }

    /// Gives a command to each sidecore that it is `on`, waits for the answers, and judges by how many refused.
    fn ask(
        &self,
        on: impl Fn(usize) -> bool,
        command: impl Fn(SyncSender<Outcome>) -> Command,
        fine: impl Fn(usize) -> bool,
    ) -> Outcome {
        let asked: Vec<&SidecoreHandle> =
            self.sidecores.iter().enumerate().filter(|(index, _)| on(*index)).map(|(_, sidecore)| sidecore).collect();
        if asked.is_empty() {
            return Err(format!("no such sidecore: there are {}", self.sidecores.len()));
        }
        let mut refusals = Vec::new();
        for sidecore in asked {
            let (answer, outcome) = sync_channel(1);
            sidecore.send(command(answer));
            let outcome =
                outcome.recv_timeout(PATIENCE).unwrap_or_else(|_| Err("a sidecore does not answer".to_owned()));
            refusals.extend(outcome.err());
        }
        if fine(refusals.len()) { Ok(()) } else { Err(refusals.swap_remove(0)) }
    }
}
