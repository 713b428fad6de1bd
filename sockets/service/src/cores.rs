//! The cores of users' threads. One thread alone may spin on a core that the service owns.

use sidecore_daemon::config::Sidecores;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Debug)]
pub(super) struct Cores {
    cores: Vec<(usize, AtomicU32)>,
    owned: bool,
}

#[derive(Debug)]
pub(super) struct Core {
    of: Arc<Cores>,
    index: Option<usize>,
}

impl Cores {
    pub(super) fn new(sidecores: &Sidecores) -> Arc<Self> {
        let cores = sidecores.cpus.iter().map(|cpu| (*cpu, AtomicU32::new(0))).collect();
        Arc::new(Self { cores, owned: sidecores.owned })
    }

    pub(super) fn take(self: &Arc<Self>) -> Core {
        let threads = |index: &usize| self.cores[*index].1.load(Ordering::Relaxed);
        let index = (0..self.cores.len()).min_by_key(threads);
        if let Some(index) = index {
            self.cores[index].1.fetch_add(1, Ordering::Relaxed);
        }
        Core { of: self.clone(), index }
    }
}

impl Core {
    /// Its number; `None`: the thread has no fixed core.
    pub(super) fn cpu(&self) -> Option<usize> {
        self.index.map(|index| self.of.cores[index].0)
    }

    pub(super) fn may_spin(&self) -> bool {
        self.of.owned && self.index.is_some_and(|index| self.of.cores[index].1.load(Ordering::Relaxed) == 1)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(index) = self.index {
            self.of.cores[index].1.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_spread_and_spin_where_they_are_alone() {
        let cores = Cores::new(&Sidecores { cpus: vec![3, 5], owned: true });
        let [first, second] = [cores.take(), cores.take()];
        assert_eq!([&first, &second].map(Core::cpu), [Some(3), Some(5)]);
        assert!(first.may_spin() && second.may_spin());
        let third = cores.take();
        assert_eq!((third.cpu(), first.may_spin(), third.may_spin(), second.may_spin()), (Some(3), false, false, true));
        drop(first);
        assert!(third.may_spin());
    }

    #[test]
    fn nobody_spins_on_a_core_that_is_shared_with_others_or_on_none() {
        let shared = Cores::new(&Sidecores { cpus: vec![1], owned: false }).take();
        assert_eq!((shared.cpu(), shared.may_spin()), (Some(1), false));
        let none = Cores::new(&Sidecores::default()).take();
        assert_eq!((none.cpu(), none.may_spin()), (None, false));
    }
}
