//! The kernel's account of CPU time: idle time of each CPU, from the text of `/proc/stat`.

use crate::error::LabError;
use std::collections::BTreeMap;
use std::fs;

/// Time of each CPU that was idle, waited for a disk, or was taken by a hypervisor, us. Kernels may estimate busy time
/// from ticks, but they measure idle time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Account(BTreeMap<usize, u64>);

const STAT: &str = "/proc/stat";
/// The file's unit, us. It holds on all of Linux's architectures except two old ones.
const TICK_US: u64 = 10_000;
/// Fields of a line, after its name: idle, iowait, steal.
const NOT_BUSY: [usize; 3] = [3, 4, 7];

impl Account {
    pub(super) fn now() -> Result<Self, LabError> {
        let text = fs::read_to_string(STAT).map_err(|error| LabError::failed(STAT, error))?;
        Self::parse(&text).ok_or_else(|| LabError::broken(format!("{STAT} says nothing of CPUs")))
    }

    pub(super) fn cpus(&self) -> Vec<usize> {
        self.0.keys().copied().collect()
    }

    pub(super) fn idle_us_since(&self, earlier: &Self, cpus: &[usize]) -> u64 {
        let since = |cpu| Some(self.0.get(cpu)?.saturating_sub(*earlier.0.get(cpu)?));
        cpus.iter().filter_map(since).fold(0, u64::saturating_add)
    }

    fn parse(text: &str) -> Option<Self> {
        let cpus: BTreeMap<_, _> = text.lines().filter_map(of_cpu).collect();
        (!cpus.is_empty()).then_some(Self(cpus))
    }
}

fn of_cpu(line: &str) -> Option<(usize, u64)> {
    let (name, ticks) = line.split_once(' ')?;
    let cpu = name.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = ticks.split_whitespace().map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let not_busy = NOT_BUSY.iter().map(|field| ticks.get(*field).copied().unwrap_or(0));
    Some((cpu, not_busy.fold(0, u64::saturating_add).saturating_mul(TICK_US)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "cpu  1 2 3 400 5 6 7 8 0 0\ncpu0 1 0 0 100 10 0 0 1 0 0\ncpu3 9 9 9 300 0 9 9 0\nintr 5 0\n";

    #[test]
    fn idle_waiting_and_stolen_time_is_not_busy() {
        let early = Account::parse(TEXT).unwrap();
        assert_eq!(early.cpus(), [0, 3]);
        let late = Account::parse(&TEXT.replace(" 300 ", " 350 ").replace("100 10", "101 12")).unwrap();
        assert_eq!(late.idle_us_since(&early, &[0, 3]), 530_000);
        assert_eq!(late.idle_us_since(&early, &[3, 7]), 500_000);
        assert_eq!(early.idle_us_since(&late, &[0, 3]), 0);
    }

    #[test]
    fn a_text_without_cpus_is_refused_and_short_lines_count_what_they_have() {
        assert_eq!(Account::parse("cpu 1 2\ncpux 1 2 3\ncpu1 a b c d\n"), None);
        assert_eq!(Account::parse("cpu1 1 2 3 4"), Some(Account([(1, 40_000)].into())));
    }
}
