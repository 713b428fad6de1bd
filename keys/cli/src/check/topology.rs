//! The kernel's view of cores: hardware threads of one core, and cores with a common cache.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Larger core numbers are taken for errors.
const MAX_CPU: usize = 8192;
/// Longest list of cores, bytes.
const MAX_LIST: u64 = 4096;

/// Topology by core. A core is missing if the kernel has no list for it or the list is malformed.
#[derive(Debug, Default)]
pub(super) struct Topology {
    /// The other online hardware threads of the same core.
    siblings: BTreeMap<usize, Vec<usize>>,
    /// All hardware threads with the same third-level cache.
    cache: BTreeMap<usize, Vec<usize>>,
}

pub(super) fn read(root: &Path, cpus: &[usize]) -> Topology {
    let online = file(&root.join("online"));
    let is_online = |cpu: &usize| online.as_ref().is_none_or(|online| online.contains(cpu));
    // A list without its own core belongs to another one.
    let about = |cpu: usize, name: &str| {
        let cpus = file(&root.join(format!("cpu{cpu}/{name}")))?;
        let cpus: Vec<usize> = cpus.into_iter().filter(is_online).collect();
        cpus.contains(&cpu).then_some(cpus)
    };
    let mut topology = Topology::default();
    for cpu in cpus.iter().copied() {
        if let Some(mut threads) = about(cpu, "topology/thread_siblings_list") {
            threads.retain(|thread| *thread != cpu);
            topology.siblings.insert(cpu, threads);
        }
        if let Some(sharing) = about(cpu, "cache/index3/shared_cpu_list") {
            topology.cache.insert(cpu, sharing);
        }
    }
    topology
}

/// Parses a list of cores in the kernel's form, e.g. `0-3,8`: in ascending order.
pub(super) fn list(text: &str) -> Option<Vec<usize>> {
    let mut cpus: Vec<usize> = Vec::new();
    for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        let follows = cpus.last().is_none_or(|before| *before < first);
        if !follows || first > last || last >= MAX_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

fn file(path: &Path) -> Option<Vec<usize>> {
    list(&beginning(path, MAX_LIST)?)
}

/// First `most` bytes of a file. Invalid UTF-8 is replaced, because a process chooses its own name.
pub(super) fn beginning(path: &Path, most: u64) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

impl Topology {
    /// Hardware threads of each of these cores that has several, each core once. `None`: the kernel has no data.
    pub(super) fn shared(&self, cpus: &[usize]) -> Option<Vec<Vec<usize>>> {
        let known = |cpu: &usize| Some((*cpu, self.siblings.get(cpu)?));
        let known: Vec<(usize, &Vec<usize>)> = cpus.iter().filter_map(known).collect();
        let threads = known.iter().filter(|(_, others)| !others.is_empty()).map(|(cpu, others)| {
            let mut threads = [&[*cpu], others.as_slice()].concat();
            threads.sort_unstable();
            threads
        });
        let mut threads: Vec<Vec<usize>> = threads.collect();
        threads.sort();
        threads.dedup();
        (!known.is_empty()).then_some(threads)
    }

    /// Whether two cores share a third-level cache. `None`: the kernel has no data.
    pub(super) fn one_cache(&self, one: usize, other: usize) -> Option<bool> {
        self.cache.get(&one).map(|cpus| cpus.contains(&other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    fn machine(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn threads_of_one_core_are_named_once() {
        let root = machine(&[
            ("cpu0/topology/thread_siblings_list", "0,2\n"),
            ("cpu1/topology/thread_siblings_list", "1,3\n"),
            ("cpu2/topology/thread_siblings_list", "0,2\n"),
            ("cpu4/topology/thread_siblings_list", "4\n"),
            ("cpu0/cache/index3/shared_cpu_list", "0-1\n"),
        ]);
        let topology = read(root.path(), &[0, 1, 2, 4]);
        assert_eq!(topology.shared(&[0, 1, 2, 4]), Some(vec![vec![0, 2], vec![1, 3]]));
        assert_eq!((topology.shared(&[4]), topology.shared(&[9])), (Some(vec![]), None));
        assert_eq!((topology.one_cache(0, 1), topology.one_cache(0, 2)), (Some(true), Some(false)));
        assert_eq!(topology.one_cache(1, 0), None);
    }

    #[test]
    fn a_thread_that_is_switched_off_shares_nothing() {
        let files = [("online", "0-1\n"), ("cpu0/topology/thread_siblings_list", "0,2\n")];
        assert_eq!(read(machine(&files).path(), &[0]).shared(&[0]), Some(vec![]));
        let files = [("online", "1\n"), ("cpu0/topology/thread_siblings_list", "0,2\n")];
        assert_eq!(read(machine(&files).path(), &[0]).shared(&[0]), None, "it is off itself");
    }

    #[test]
    fn missing_and_hostile_files_tell_nothing() {
        assert_eq!(read(Path::new("/no/such/machine"), &[0, 1]).shared(&[0, 1]), None);
        let long = "0,".repeat(100_000);
        for content in
            ["", "\x1b[2J0-1", "1-0", "0-4294967296", "0,0", "0-3,2", "1", "0-", &long, "0-99999999999999999999"]
        {
            let root = machine(&[("cpu0/topology/thread_siblings_list", content)]);
            assert_eq!(read(root.path(), &[0]).shared(&[0]), None, "{content:?}");
        }
        let root = machine(&[("cpu0/topology/thread_siblings_list/deeper", "0,1")]);
        assert_eq!(read(root.path(), &[0]).shared(&[0]), None, "a directory in the file's place");
        fs::write(root.path().join("online"), [0xff, 0xfe]).unwrap();
        assert_eq!(read(root.path(), &[0]).shared(&[0]), None);
    }

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(list("\n"), Some(vec![]));
        assert_eq!((list("8191"), list("8192"), list("a")), (Some(vec![8191]), None, None));
    }
}
