//! Policies that spin: the policies in force, and whether the owned cores are free.

use super::finding::{Finding, FindingState, topics};
use super::topology::{self, beginning};
use sidecore::core::policy::notify::{Notify, ThreadCore, Waiters};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) waiters: Waiters,
    /// In the order of the hops: service, to device, from device, client.
    pub(super) notify: [Option<Notify>; 4],
    /// Number of other processes that may run on each owned core. `None`: no process is visible.
    pub(super) others: Option<BTreeMap<usize, usize>>,
}

topics! {
    POLICIES: "policies in force",
        for "a policy that spins hears of requests without a sleep; it spins only on cores that are the service's alone",
        do "leave cores to the service (sidecores.cpus = [N], sidecores.owned = true) and one to clients; where none can be spared, notify = park does the same and says so";
    OWNED: "owned cores",
        for "nothing else runs on a core that the service owns: it spins there, and neither gets on",
        do "boot with isolcpus=N nohz_full=N, or give the service a cpuset of its own; or sidecores.owned = false";
}
const MAX_PROCESSES: usize = 65_536;
const MAX_STATUS: u64 = 65_536;

pub(super) fn judge(waiting: &Waiting) -> Vec<Finding> {
    let Waiting { waiters, notify, .. } = waiting;
    let fine = waiters.parked(*notify).iter().all(Option::is_none);
    let mut findings = vec![POLICIES.ok_if(fine, waiters.in_words(*notify))];
    findings.extend(owned(waiting));
    findings
}

/// `None`: no core is owned.
fn owned(waiting: &Waiting) -> Option<Finding> {
    let mut owners: BTreeMap<usize, usize> = BTreeMap::new();
    for cpu in owned_cores(&waiting.waiters) {
        *owners.entry(cpu).or_default() += 1;
    }
    if owners.is_empty() {
        return None;
    }
    if let Some((cpu, threads)) = owners.iter().find(|(_, threads)| **threads > 1) {
        return Some(OWNED.ok_if(false, format!("core {cpu} is to be owned by {threads} threads of the service")));
    }
    let Some(others) = &waiting.others else {
        return Some(OWNED.is(FindingState::Unknown, "other processes cannot be seen"));
    };
    let busy = owners.keys().find_map(|cpu| Some((cpu, others.get(cpu).filter(|others| **others > 0)?)));
    let cores: Vec<String> = owners.keys().map(usize::to_string).collect();
    Some(match busy {
        Some((cpu, others)) => {
            OWNED.ok_if(false, format!("processes that may run on core {cpu} beside the service: {others}"))
        }
        None => OWNED.ok_if(true, format!("no other process may run on {}", cores.join(", "))),
    })
}

pub(super) fn owned_cores(waiters: &Waiters) -> Vec<usize> {
    let places = waiters.sidecores.iter().chain(&waiters.workers);
    places.filter(|place: &&ThreadCore| place.may_spin).filter_map(|place| place.cpu).collect()
}

/// Number of processes that may run on each core, from a directory like `/proc`. Kernel threads and `except` do not
/// count. `None`: no process is visible.
pub(super) fn others(proc: &Path, cpus: &[usize], except: &[u32]) -> Option<BTreeMap<usize, usize>> {
    let processes = fs::read_dir(proc).ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let processes = processes.filter(|pid: &u32| !except.contains(pid)).take(MAX_PROCESSES);
    let allowed: Vec<Vec<usize>> =
        processes.filter_map(|pid| may_run_on(&beginning(&proc.join(format!("{pid}/status")), MAX_STATUS)?)).collect();
    let count = |cpu: usize| allowed.iter().filter(|allowed| allowed.contains(&cpu)).count();
    (!allowed.is_empty()).then(|| cpus.iter().map(|cpu| (*cpu, count(*cpu))).collect())
}

/// Cores of a process with memory of its own. Kernel threads have no `VmSize`.
fn may_run_on(status: &str) -> Option<Vec<usize>> {
    let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key));
    value("VmSize:")?;
    topology::list(value("Cpus_allowed_list:")?)
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState::{Lacks, Ok, Unknown};
    use super::*;
    use sidecore::config::Config;

    fn waiting(config: &str, cores: usize) -> Waiting {
        let config = Config::parse(config).unwrap();
        let notify = [Notify::BreakEven; 4].map(Some);
        Waiting { waiters: config.waiters(&(0..cores).collect::<Vec<_>>()), notify, others: None }
    }

    #[test]
    fn policies_that_park_lack_a_core_of_their_own() {
        let findings = judge(&waiting("sidecores.cpus = [1]", 2));
        let text = "service break-even (parks: core 1 is shared), to device break-even, from device break-even (parks: core \
                    1 is shared), client break-even";
        assert_eq!((findings.len(), findings[0].state, findings[0].found.as_str()), (1, Lacks, text));
        assert!(!findings[0].breaks_a_promise() && findings[0].text().contains("sidecores.owned = true"));
        let parked = Waiting { notify: [Some(Notify::Park); 4], ..waiting("", 1) };
        assert_eq!(judge(&parked)[0].state, Ok);
    }

    #[test]
    fn an_owned_core_is_free_if_nobody_else_may_run_there() {
        let mut own = waiting("sidecores = { cpus = [1], owned = true }", 2);
        assert_eq!((judge(&own)[0].state, judge(&own)[1].state), (Ok, Unknown));
        own.others = Some(BTreeMap::from([(1, 12)]));
        let taken = &judge(&own)[1];
        assert_eq!(
            (taken.state, taken.found.as_str()),
            (Lacks, "processes that may run on core 1 beside the service: 12")
        );
        own.others = Some(BTreeMap::from([(1, 0)]));
        assert_eq!(judge(&own)[1].found, "no other process may run on 1");
        let worker = "[[device]]\nname = 'w'\nkind = 'worker'\ncpu = 1\nowned = true";
        let twice = waiting(&format!("sidecores = {{ cpus = [1], owned = true }}\n{worker}"), 2);
        assert_eq!(judge(&twice)[1].found, "core 1 is to be owned by 2 threads of the service");
        assert_eq!(owned_cores(&twice.waiters), [1, 1]);
    }

    #[test]
    fn processes_are_counted_where_they_may_run_whatever_they_are_called() {
        let proc = tempfile::tempdir().unwrap();
        let process = |pid: &str, status: &[u8]| {
            fs::create_dir_all(proc.path().join(pid)).unwrap();
            fs::write(proc.path().join(pid).join("status"), status).unwrap();
        };
        assert_eq!(others(proc.path(), &[1], &[]), None);
        assert_eq!(others(Path::new("/no/such/directory"), &[1], &[]), None);
        process("1", b"Name:\tinit\nVmSize:\t 1 kB\nCpus_allowed_list:\t0\n");
        process("7", b"Name:\t\xff\x1b[2J\nVmSize:\t 1 kB\nCpus_allowed_list:\t0-3\n");
        process("8", b"Name:\tkworker\nCpus_allowed_list:\t1\n");
        process("9", b"Name:\tself\nVmSize:\t 1 kB\nCpus_allowed_list:\t0-3\n");
        process("10", b"Name:\todd\nVmSize:\t 1 kB\nCpus_allowed_list:\t3-0\n");
        process("11", b"");
        process("self", b"VmSize:\t 1 kB\nCpus_allowed_list:\t0-3\n");
        assert_eq!(others(proc.path(), &[0, 1], &[9]), Some(BTreeMap::from([(0, 2), (1, 1)])));
    }
}
