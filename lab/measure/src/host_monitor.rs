//! The kernel's view of the machine during a measurement: use of its processors by others, and its suitability for
//! measuring. All of it is optional: unreadable information is left out.

use crate::caveats::{HostActivity, of_machine, of_time};
use procfs::process::all_processes;
use procfs::{CurrentSI, KernelStats};
use sidecore_daemon::sys::cpu;
use sidecore_report::Caveat;
use std::collections::HashMap;
use std::fs;
use std::process;

const CPUS: &str = "/sys/devices/system/cpu";
/// The kernel counts in hundredths of a second. Shares of fewer ticks are meaningless.
const FEWEST_TICKS: u64 = 20;

/// Processor time so far, in ticks of the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostMonitor {
    all: u64,
    busy: u64,
    /// A part of that, for no process.
    interrupts: u64,
    stolen: u64,
    /// This process and its descendants.
    own: u64,
}

impl HostMonitor {
    /// The counts of now. `None`: the kernel does not say.
    pub fn now() -> Option<Self> {
        let total = KernelStats::current().ok()?.total;
        let more = |ticks: Option<u64>| ticks.unwrap_or(0);
        let stolen = more(total.steal);
        let interrupts = more(total.irq) + more(total.softirq);
        let busy = total.user + total.nice + total.system + interrupts;
        let all = busy + stolen + total.idle + more(total.iowait);
        Some(Self { all, busy, interrupts, stolen, own: own_ticks()? })
    }

    /// Without interrupts: packets of this program arrive in them.
    #[must_use]
    pub fn of_programs(self) -> Self {
        Self { busy: self.busy - self.interrupts, ..self }
    }

    /// Use by others since `before`. `None`: the time since then is too short.
    pub fn since(&self, before: &Self) -> Option<HostActivity> {
        let all = self.all.saturating_sub(before.all);
        // Counts of single processes are inexact: they must not make the others' share negative.
        let busy = self.busy.saturating_sub(before.busy).saturating_sub(self.own.saturating_sub(before.own));
        let share = |ticks: u64| ticks as f64 / all as f64;
        let stolen = self.stolen.saturating_sub(before.stolen);
        (all >= FEWEST_TICKS).then(|| HostActivity { busy: share(busy), stolen: share(stolen) })
    }
}

/// Use by others since then, if both are known.
pub fn host_activity(before: Option<&HostMonitor>) -> Option<HostActivity> {
    HostMonitor::now()?.since(before?)
}

/// Doubts about figures since `before`, from the use of the machine by other programs.
pub fn caveats_since(before: Option<HostMonitor>) -> Vec<Caveat> {
    of_time(before.and_then(|before| HostMonitor::now()?.of_programs().since(&before.of_programs())))
}

/// Doubts about this machine: its cores, their clock, the build.
pub fn of_this_machine() -> Vec<Caveat> {
    let allowed = cpu::allowed();
    let read = |path: String| fs::read_to_string(path).ok();
    let governors = allowed.iter().filter_map(|core| read(format!("{CPUS}/cpu{core}/cpufreq/scaling_governor")));
    of_machine(read(format!("{CPUS}/isolated")).as_deref(), &allowed, &governors.collect::<Vec<_>>())
}

#[derive(Debug, Clone, Copy)]
struct Process {
    parent: i32,
    ticks: u64,
}

fn own_ticks() -> Option<u64> {
    let stats = all_processes().ok()?.filter_map(|process| process.ok()?.stat().ok());
    let processes = stats.map(|stat| {
        let of_children = u64::try_from(stat.cutime + stat.cstime).unwrap_or(0);
        (stat.pid, Process { parent: stat.ppid, ticks: stat.utime + stat.stime + of_children })
    });
    let own = i32::try_from(process::id()).ok()?;
    Some(family(own, &processes.collect()))
}

fn family(eldest: i32, processes: &HashMap<i32, Process>) -> u64 {
    let is_of_it = |pid: i32| {
        // At most as many steps up as there are processes, because parents may change during the walk.
        let line = (0..processes.len()).scan(pid, |at, _| {
            let now = *at;
            *at = processes.get(&now)?.parent;
            Some(now)
        });
        line.into_iter().any(|pid| pid == eldest)
    };
    processes.iter().filter(|(pid, _)| is_of_it(**pid)).map(|(_, process)| process.ticks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_neither_this_program_nor_nobody_had_others_had() {
        let before = HostMonitor { all: 1_000, busy: 500, interrupts: 50, stolen: 10, own: 100 };
        let after = HostMonitor { all: 2_000, busy: 1_300, interrupts: 200, stolen: 60, own: 700 };
        let found = after.since(&before).unwrap();
        assert!((found.busy - 0.2).abs() < 1e-9 && (found.stolen - 0.05).abs() < 1e-9, "{found:?}");
        let programs = after.of_programs().since(&before.of_programs()).unwrap();
        assert!((programs.busy - 0.05).abs() < 1e-9, "{programs:?}");
        let ahead = HostMonitor { own: 5_000, ..after };
        assert_eq!(ahead.since(&before).map(|found| found.busy), Some(0.0));
        assert_eq!(before.since(&before), None);
        assert_eq!(host_activity(None), None);
    }

    #[test]
    fn children_of_children_are_of_the_family() {
        let process = |parent, ticks| Process { parent, ticks };
        let all = [(1, process(0, 1_000)), (5, process(1, 7)), (6, process(5, 20)), (7, process(6, 300))];
        let all = HashMap::from(all);
        assert_eq!((family(5, &all), family(7, &all), family(9, &all)), (327, 300, 0));
        let circle = HashMap::from([(2, process(3, 1)), (3, process(2, 1)), (4, process(4, 1))]);
        assert_eq!(family(4, &circle), 1);
    }

    #[test]
    fn this_process_is_seen_at_work() {
        let Some(before) = HostMonitor::now() else { return };
        let mut now = before;
        // Loops as long as necessary: others may have the processors, and the host's part of a tick counts as stolen.
        while now.own < before.own + 2 || now.all <= before.all || now.busy <= before.busy {
            now = HostMonitor::now().expect("it could be read before");
        }
    }
}
