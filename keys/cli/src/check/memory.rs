//! Memory: places where keys may end up, and limits on locked memory and descriptors.

use super::finding::{Finding, Text, topics};

#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Bytes that this process may lock. `u64::MAX`: no limit.
    pub(super) lockable: u64,
    /// Root has no limit on locked memory.
    pub(super) root: bool,
    /// Limit on open descriptors. `u64::MAX`: no limit.
    pub(super) descriptors: u64,
}

/// Descriptors of a lane in the service: socket, doorbell, wake-up pipe, process.
const OF_A_LANE: u64 = 4;
const FEW_LANES: u64 = 1000;

topics! {
    SWAP: "swap",
        breaks "keys never reach a disk",
        do "let the service lock its memory (LimitMEMLOCK=infinity, as in packaging/sidecore.service), or swapoff -a";
    LOCKABLE: "locked memory",
        for "the service's memory is kept out of swap",
        do "LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited; a service that root starts lifts it itself";
    DESCRIPTORS: "file descriptors",
        for "as many lanes as limits.lanes allows",
        do "LimitNOFILE=1048576 in the unit, or ulimit -n";
    OVERCOMMIT: "overcommit",
        breaks "a client that punches holes into its arena cannot make the service fault",
        do "sysctl vm.overcommit_memory=0";
    HUGE_PAGES: "transparent huge pages",
        for "no pauses while the kernel puts large pages together",
        do "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
}

pub(super) fn judge(memory: &Memory, text: Text) -> Vec<Finding> {
    let huge_pages = text("/sys/kernel/mm/transparent_hugepage/enabled");
    let locks = memory.root || memory.lockable == u64::MAX;
    vec![
        SWAP.of(text("/proc/swaps").as_deref().map(on_disk), |swaps| match swaps.as_slice() {
            [] => (true, "none on a disk".to_owned()),
            swaps if locks => (true, format!("{}; memory can be locked", swaps.join(", "))),
            swaps => (false, format!("{}, and this user cannot lock a service's memory", swaps.join(", "))),
        }),
        LOCKABLE.ok_if(locks, limit(memory.lockable, "bytes")),
        DESCRIPTORS.ok_if(memory.descriptors >= OF_A_LANE * FEW_LANES, limit(memory.descriptors, "a process")),
        OVERCOMMIT.of(text("/proc/sys/vm/overcommit_memory").as_deref(), |mode| {
            (mode.trim() != "2", format!("mode {}", mode.trim()))
        }),
        HUGE_PAGES.of(huge_pages.as_deref(), |modes| (!modes.contains("[always]"), modes.trim().to_owned())),
    ]
}

fn limit(limit: u64, of: &str) -> String {
    if limit == u64::MAX { "no limit".to_owned() } else { format!("{limit} {of}") }
}

/// Swap areas except zram, which is compressed memory.
fn on_disk(swaps: &str) -> Vec<String> {
    let places = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    places.filter(|place| !place.starts_with("/dev/zram")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingState::{Lacks, Ok, Unknown};
    use super::super::finding::system;
    use super::*;

    const HEAD: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    fn swap(places: &str, lockable: u64) -> Finding {
        let text = system(&[("/proc/swaps", &format!("{HEAD}{places}"))]);
        judge(&Memory { lockable, ..Memory::default() }, &text).swap_remove(0)
    }

    #[test]
    fn swap_matters_where_memory_cannot_be_locked() {
        let partition = "/dev/sda2  partition\t8388604\t0\t-2\n";
        assert!(swap(partition, 8 << 20).breaks_a_promise());
        assert_eq!(swap(partition, u64::MAX).state, Ok);
        assert_eq!(swap("", 0).state, Ok);
        assert_eq!(swap("/dev/zram0  partition\t8388604\t0\t-2\n", 0).state, Ok);
        assert_eq!(judge(&Memory::default(), &system(&[]))[0].state, Unknown);
    }

    #[test]
    fn strict_overcommit_breaks_a_promise() {
        let judged = |mode| judge(&Memory::default(), &system(&[("/proc/sys/vm/overcommit_memory", mode)]));
        assert!(judged("2\n")[3].breaks_a_promise());
        assert_eq!(judged("0\n")[3].state, Ok);
    }

    #[test]
    fn limits_and_pages_cost_only() {
        let text = system(&[("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")]);
        let small = Memory { lockable: 65536, descriptors: 1024, root: false };
        let findings = judge(&small, &text);
        for index in [1, 2, 4] {
            assert_eq!((findings[index].state, findings[index].breaks_a_promise()), (Lacks, false));
        }
        assert_eq!(judge(&Memory { root: true, ..small }, &text)[1].state, Ok);
    }
}
