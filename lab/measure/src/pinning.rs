//! The cores of sidecores and of clients.

use sidecore::core::policy::notify::Notify;
use sidecore_daemon::sys::cpu;
use sidecore_report::{Caveat, Reason};

/// Cores of sidecores and of clients.
#[derive(Debug, Clone, Default)]
pub struct Pinning {
    /// Cores of sidecores.
    pub sidecores: Vec<usize>,
    /// Cores of clients.
    pub clients: Vec<usize>,
    /// The service was running before, on unknown cores.
    pub is_unknown: bool,
}

impl Pinning {
    /// Sidecores receive the last allowed cores, clients the others. Both lists are empty if cores are too few: nothing
    /// is pinned and nothing spins then.
    pub fn new(sidecores: usize) -> Self {
        let mut clients = cpu::allowed();
        match clients.len().checked_sub(sidecores).filter(|left| *left > 0) {
            Some(split) => Self { sidecores: clients.split_off(split), clients, is_unknown: false },
            None => Self::default(),
        }
    }

    /// Policy of this number of clients: they spin only on cores of their own.
    pub fn client_policy(&self, clients: usize) -> Notify {
        if clients <= self.clients.len() { Notify::Spin } else { Notify::Park }
    }

    /// Core of a client. `None`: nothing is pinned.
    pub fn client(&self, index: usize) -> Option<usize> {
        (!self.clients.is_empty()).then(|| self.clients[index % self.clients.len()])
    }

    /// In words, for this number of clients.
    pub fn describe(&self, clients: usize) -> String {
        if self.is_unknown {
            return "nothing pinned, the service ran already".to_owned();
        }
        if self.clients.is_empty() {
            return "one core, nothing pinned".to_owned();
        }
        let used = &self.clients[..clients.clamp(1, self.clients.len())];
        format!("clients {used:?}, sidecores {:?}", self.sidecores)
    }
}

/// A doubt, if clients are more than their cores.
pub fn of_crowd(pinning: &Pinning, clients: usize) -> Option<Caveat> {
    if pinning.is_unknown {
        return None;
    }
    let seen = match pinning.clients.len() {
        0 => "clients and sidecores on one core".to_owned(),
        cores if clients > cores => format!("{clients} clients on {cores} core{}", if cores == 1 { "" } else { "s" }),
        _ => return None,
    };
    Some(Caveat::new(Reason::Crowded, seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_without_cores_are_a_crowd() {
        let pinning = Pinning { clients: vec![0, 1], sidecores: vec![2], is_unknown: false };
        assert_eq!(of_crowd(&pinning, 2), None);
        assert_eq!(of_crowd(&pinning, 8), Some(Caveat::new(Reason::Crowded, "8 clients on 2 cores")));
        assert!(of_crowd(&Pinning::default(), 1).is_some());
    }
}
