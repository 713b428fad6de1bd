//! CPUs of a flow's threads.

use super::Side;
use crate::net::error::LoadError;
use sidecore_daemon::sys::cpu;
use std::io;

/// `count` of the CPUs that this process may use. The local end uses the first ones, the peer the last ones, because
/// both may share a machine. Empty: all CPUs.
pub(in crate::net) fn choose(side: Side, count: Option<usize>) -> Result<Vec<usize>, LoadError> {
    count.map_or(Ok(Vec::new()), |count| of(&cpu::allowed(), side, count))
}

fn of(allowed: &[usize], side: Side, count: usize) -> Result<Vec<usize>, LoadError> {
    if !(1..=allowed.len()).contains(&count) {
        return Err(LoadError::Cpus { side: side.name(), most: allowed.len(), count });
    }
    let first = if side == Side::Near { 0 } else { allowed.len() - count };
    Ok(allowed[first..first + count].to_vec())
}

/// Limits the calling thread to some CPUs until drop.
#[derive(Debug)]
pub(super) struct Limited {
    before: Vec<usize>,
}

impl Limited {
    pub(super) fn to(cpus: &[usize]) -> io::Result<Self> {
        if cpus.is_empty() {
            return Ok(Self { before: Vec::new() });
        }
        let before = cpu::allowed();
        cpu::limit(cpus)?;
        Ok(Self { before })
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        if !self.before.is_empty() {
            // It was possible before.
            let _ = cpu::limit(&self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_take_cpus_from_both_sides() {
        let allowed = [0, 2, 5];
        assert_eq!(of(&allowed, Side::Near, 2), Ok(vec![0, 2]));
        assert_eq!(of(&allowed, Side::Far, 2), Ok(vec![2, 5]));
        assert_eq!(of(&allowed, Side::Far, 3), Ok(allowed.to_vec()));
        for count in [0, 4, usize::MAX] {
            assert!(of(&allowed, Side::Far, count).unwrap_err().to_string().contains("the far end has 1 to 3 CPUs"));
        }
        assert_eq!(choose(Side::Near, None), Ok(Vec::new()));
    }

    #[test]
    fn a_thread_is_limited_for_a_while_and_those_it_starts_for_good() {
        let before = cpu::allowed();
        let last = &before[before.len() - 1..];
        let limited = Limited::to(last).unwrap();
        let started = std::thread::spawn(cpu::allowed);
        drop(limited);
        assert_eq!((started.join().unwrap().as_slice(), cpu::allowed()), (last, before.clone()));
    }
}
