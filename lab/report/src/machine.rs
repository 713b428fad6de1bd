//! The machine of a measurement, without its name, and the commit of the program.

use std::collections::BTreeSet;
use std::fs;

const UNKNOWN: &str = "unknown";

/// Description of the machine, e.g. `Intel Xeon Processor, 2 cores, Linux 6.18`.
pub fn describe() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    in_words(&read("/proc/cpuinfo"), std::env::consts::ARCH, &read("/proc/sys/kernel/osrelease"))
}

/// The commit of this program's build, with `-dirty` if its sources were changed, or `unknown`.
pub fn commit() -> String {
    env!("SIDECORE_COMMIT").to_owned()
}

fn in_words(cpuinfo: &str, architecture: &str, release: &str) -> String {
    let model = values(cpuinfo, "model name").next().unwrap_or(architecture);
    format!("{model}, {}, Linux {}", cores_in_words(cpuinfo), short_release(release))
}

/// Cores, and hardware threads if a core has more than one.
fn cores_in_words(cpuinfo: &str) -> String {
    let threads = values(cpuinfo, "processor").count();
    let packages = values(cpuinfo, "physical id");
    let cores: BTreeSet<_> = packages.zip(values(cpuinfo, "core id")).collect();
    match (threads, cores.len()) {
        (0, _) => format!("{UNKNOWN} number of cores"),
        (1, _) => "1 core".to_owned(),
        (threads, cores) if cores == 0 || cores == threads => format!("{threads} cores"),
        (threads, 1) => format!("1 core with {threads} threads"),
        (threads, cores) => format!("{cores} cores with {threads} threads"),
    }
}

fn values<'a>(cpuinfo: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    cpuinfo.lines().filter_map(move |line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// The first two numbers of a release: the rest identifies builds without different behaviour.
fn short_release(release: &str) -> String {
    let numbers: Vec<_> = release.split(|c: char| !c.is_ascii_digit()).take(2).collect();
    if numbers.iter().all(|number| number.is_empty()) { UNKNOWN.to_owned() } else { numbers.join(".") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(number: u32, core: u32) -> String {
        format!("processor\t: {number}\nmodel name\t: Some CPU @ 2 GHz\nphysical id\t: 0\ncore id\t\t: {core}\n\n")
    }

    #[test]
    fn cores_and_threads_are_told_apart() {
        let plain = thread(0, 0) + &thread(1, 1);
        assert_eq!(in_words(&plain, "x86_64", "6.18.44-x\n"), "Some CPU @ 2 GHz, 2 cores, Linux 6.18");
        let pairs = plain.clone() + &thread(2, 0) + &thread(3, 1);
        assert!(in_words(&pairs, "x86_64", "6.18.44").contains("2 cores with 4 threads"));
        assert_eq!(cores_in_words(&(thread(0, 0) + &thread(1, 0))), "1 core with 2 threads");
        assert_eq!(cores_in_words(&thread(0, 0)), "1 core");
    }

    #[test]
    fn what_is_missing_is_unknown_and_the_architecture_stands_for_the_model() {
        assert_eq!(in_words("", "aarch64", ""), "aarch64, unknown number of cores, Linux unknown");
        assert_eq!(cores_in_words("processor : 0\nprocessor : 1\n"), "2 cores");
    }

    #[test]
    fn the_host_is_not_named() {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let words: Vec<String> = describe().split([' ', ',']).map(str::to_owned).collect();
        assert!(!words.contains(&name.trim().to_owned()), "{words:?}");
    }

    #[test]
    fn the_commit_is_a_hash_or_unknown() {
        let commit = commit();
        let hash = commit.trim_end_matches("-dirty");
        assert!(commit == UNKNOWN || hash.chars().all(|c| c.is_ascii_hexdigit()), "{commit}");
    }
}
