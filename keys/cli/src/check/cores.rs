//! Cores and clocks, which the promised speed depends on.

use super::finding::{Finding, Text, topics};
use super::topology::Topology;

#[derive(Debug, Default)]
pub(super) struct Cores {
    /// In ascending order.
    pub(super) allowed: Vec<usize>,
    pub(super) sidecores: Vec<usize>,
    pub(super) topology: Topology,
}

pub(super) const CPUS: &str = "/sys/devices/system/cpu";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

topics! {
    CORES: "cores",
        for "a sidecore that spins needs a core beside the applications'",
        do "use a machine with more cores, or leave sidecores.owned = false: everything then parks";
    SIBLINGS: "hardware threads",
        for "a sidecore alone on its core; one that spins takes time and caches from the other thread of its core",
        do "leave the sidecore's sibling idle, or switch the threads off (/sys/devices/system/cpu/smt/control)";
    ISOLATED: "isolated cores",
        for "nothing else runs on a core that a sidecore owns",
        do "boot with isolcpus=N nohz_full=N for the cores in sidecores.cpus, or give them a cpuset of their own";
    CLOCK: "clock",
        for "stage times cost 20 ns; a clock that is read through a system call costs ten times that",
        do "boot with clocksource=tsc where the processor's counter is invariant";
    GOVERNOR: "frequency",
        for "measured rates and park costs stay what they were at start",
        do "cpupower frequency-set -g performance";
    IDLE: "idle states",
        for "a wake-up costs microseconds",
        do "forbid deep states: cpupower idle-set -D 50, or boot with intel_idle.max_cstate=1";
}
/// Longest exit latency of an idle state that keeps parking cheap, us.
const DEEP: u32 = 100;
const NAMED: usize = 4;

pub(super) fn judge(cores: &Cores, text: Text) -> Vec<Finding> {
    let governors = cores.allowed.iter().filter_map(|cpu| text(&format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor")));
    let latencies = (0..10).filter_map(|state| text(&format!("{CPUS}/cpu0/cpuidle/state{state}/latency")));
    let deepest: Option<u32> = latencies.filter_map(|text| text.trim().parse().ok()).max();
    vec![
        CORES.ok_if(cores.allowed.len() > 1, format!("{} to use", cores.allowed.len())),
        siblings(cores),
        ISOLATED.of(text(&format!("{CPUS}/isolated")).as_deref(), |list| match list.trim() {
            "" => (false, "none".to_owned()),
            list => (true, list.to_owned()),
        }),
        CLOCK.of(text(CLOCK_SOURCE).as_deref(), |clock| {
            let fast = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"].contains(&clock.trim());
            (fast, clock.trim().to_owned())
        }),
        governor(&governors.collect::<Vec<_>>()),
        IDLE.of(deepest, |us| (us <= DEEP, format!("the deepest takes {us} us to leave"))),
    ]
}

fn siblings(cores: &Cores) -> Finding {
    let looked_at = if cores.sidecores.is_empty() { &cores.allowed } else { &cores.sidecores };
    SIBLINGS.of(cores.topology.shared(looked_at), |shared| {
        let names = |threads: &Vec<usize>| threads.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ");
        let groups: Vec<String> = shared.iter().take(NAMED).map(names).collect();
        let more = if shared.len() > NAMED { format!(" and {} more", shared.len() - NAMED) } else { String::new() };
        match shared.len() {
            0 => (true, "one on each core".to_owned()),
            1 => (false, format!("{} are threads of one core", groups[0])),
            _ => (false, format!("{}{more} are threads of one core each", groups.join(", "))),
        }
    })
}

fn governor(governors: &[String]) -> Finding {
    let other = governors.iter().find(|governor| governor.trim() != "performance");
    GOVERNOR.of((!governors.is_empty()).then_some(other), |other| match other {
        Some(governor) => (false, format!("governor {}", governor.trim())),
        None => (true, "governor performance".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState::{self, Lacks, Ok, Unknown};
    use super::super::finding::system;
    use super::super::topology;
    use super::*;
    use std::fs;

    fn states(cores: &Cores, files: &[(&str, &str)]) -> Vec<FindingState> {
        judge(cores, &system(files)).into_iter().map(|finding| finding.state).collect()
    }

    fn topology(lists: &[(usize, &str)]) -> Topology {
        let root = tempfile::tempdir().unwrap();
        for (cpu, list) in lists {
            let directory = root.path().join(format!("cpu{cpu}/topology"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("thread_siblings_list"), list).unwrap();
        }
        topology::read(root.path(), &lists.iter().map(|(cpu, _)| *cpu).collect::<Vec<_>>())
    }

    #[test]
    fn a_machine_set_up_for_it_is_fine() {
        let cores =
            Cores { allowed: vec![0, 1, 2, 3], sidecores: vec![], topology: topology(&[(0, "0\n"), (1, "1\n")]) };
        let files = [
            ("/sys/devices/system/cpu/isolated", "2-3\n"),
            (CLOCK_SOURCE, "tsc\n"),
            ("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance\n"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "2\n"),
        ];
        assert_eq!(states(&cores, &files), [Ok; 6]);
    }

    #[test]
    fn a_laptop_lacks_all_of_it() {
        let cores = Cores { allowed: vec![0], sidecores: vec![], topology: topology(&[(0, "0-1\n")]) };
        let files = [
            ("/sys/devices/system/cpu/isolated", "\n"),
            (CLOCK_SOURCE, "hpet\n"),
            ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "2\n"),
            ("/sys/devices/system/cpu/cpu0/cpuidle/state9/latency", "890\n"),
        ];
        let findings = judge(&cores, &system(&files));
        assert!(findings.iter().all(|finding| finding.state == Lacks && !finding.breaks_a_promise()));
        assert!(findings[1].found == "0 and 1 are threads of one core" && findings[4].found.contains("powersave"));
    }

    #[test]
    fn siblings_of_a_sidecores_core_are_named() {
        let lists: Vec<(usize, String)> = (0..12).map(|cpu| (cpu, format!("{},{}", cpu % 6, cpu % 6 + 6))).collect();
        let lists: Vec<(usize, &str)> = lists.iter().map(|(cpu, list)| (*cpu, list.as_str())).collect();
        let found = |sidecores: &[usize]| {
            let cores = Cores { allowed: (0..12).collect(), sidecores: sidecores.to_vec(), topology: topology(&lists) };
            judge(&cores, &system(&[])).swap_remove(1).found
        };
        assert_eq!(found(&[8]), "2 and 8 are threads of one core");
        assert_eq!(found(&[]), "0 and 6, 1 and 7, 2 and 8, 3 and 9 and 2 more are threads of one core each");
    }

    #[test]
    fn what_is_not_said_is_unknown() {
        assert_eq!(states(&Cores::default(), &[])[1..], [Unknown; 5]);
    }
}
