//! Packets of a program's network namespaces while it runs.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Packets {
    spaces: BTreeMap<PathBuf, Space>,
}

/// A namespace. The open file keeps it alive.
#[derive(Debug)]
struct Space {
    file: File,
    began: Interfaces,
    /// Latest counts, including those of removed interfaces.
    last: Interfaces,
}

/// Packets received and sent since the interface was made, by its name.
type Interfaces = BTreeMap<String, (u64, u64)>;

const MAX_PROCESSES: usize = 256;
const MAX_SPACES: usize = 64;
const MAX_BYTES: u64 = 1 << 20;
const LOOP: &str = "lo";
/// Fields of a line with packets, after its name: received, sent.
const FIELDS: (usize, usize) = (1, 9);

impl Packets {
    pub(super) fn here() -> Self {
        let mut packets = Self { spaces: BTreeMap::new() };
        packets.watch(std::process::id());
        packets
    }

    pub(super) fn look(&mut self, root: Option<u32>) {
        let mut seen: HashSet<u32> = root.into_iter().collect();
        let mut next: Vec<u32> = root.into_iter().collect();
        while let Some(process) = next.pop() {
            self.watch(process);
            for child in children(process) {
                if seen.len() < MAX_PROCESSES && seen.insert(child) {
                    next.push(child);
                }
            }
        }
        for space in self.spaces.values_mut() {
            space.last.extend(read(&mut space.file).unwrap_or_default());
        }
    }

    /// Packets since the beginning in the busiest namespace, because two ends on one machine count the same ones. With
    /// a name only interfaces of that name count. `None`: no packet passed.
    pub(super) fn passed(&self, only: Option<&str>) -> Option<u64> {
        let counted = self.spaces.values().map(|space| passed(&space.began, &space.last, only));
        counted.max().filter(|packets| *packets > 0)
    }

    fn watch(&mut self, process: u32) {
        let folder = Path::new("/proc").join(process.to_string());
        // The process may end meanwhile.
        let Ok(space) = fs::read_link(folder.join("ns/net")) else { return };
        if self.spaces.len() < MAX_SPACES && !self.spaces.contains_key(&space) {
            let Ok(mut file) = File::open(folder.join("net/dev")) else { return };
            if let Some(began) = read(&mut file) {
                self.spaces.insert(space, Space { file, last: began.clone(), began });
            }
        }
    }
}

fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<_>>()).collect()
}

fn read(file: &mut File) -> Option<Interfaces> {
    file.rewind().ok()?;
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    Some(parse(&String::from_utf8_lossy(&text)))
}

fn parse(text: &str) -> Interfaces {
    let interface = |line: &str| {
        let (name, counts) = line.rsplit_once(':')?;
        let counts: Vec<_> = counts.split_whitespace().collect();
        let count = |field: usize| counts.get(field)?.parse().ok();
        Some((name.trim().to_owned(), (count(FIELDS.0)?, count(FIELDS.1)?)))
    };
    text.lines().filter_map(interface).collect()
}

fn passed(began: &Interfaces, now: &Interfaces, only: Option<&str>) -> u64 {
    let of_one = |(name, (received, sent)): (&String, &(u64, u64))| {
        let (received_before, sent_before) = began.get(name).copied().unwrap_or_default();
        let sent = if name == LOOP { 0 } else { sent.saturating_sub(sent_before) };
        received.saturating_sub(received_before).saturating_add(sent)
    };
    let counted = now.iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
    counted.map(of_one).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Inter-|   Receive                                                |  Transmit\n \
                        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n    \
                        lo:     500       5    0    0    0     0          0         0      500       5    0\n  \
                        near: 9000      90    0    0    0     0          0         0     7000      70    0\n";

    #[test]
    fn a_packet_of_the_loop_counts_once() {
        let now = parse(TEXT);
        assert_eq!(passed(&Interfaces::new(), &now, None), 165);
        assert_eq!(passed(&Interfaces::new(), &now, Some("near")), 160);
        assert_eq!(passed(&Interfaces::new(), &now, Some("far")), 0);
        assert_eq!(passed(&parse(&TEXT.replace(" 90 ", " 60 ")), &now, None), 30);
    }

    #[test]
    fn lines_that_are_no_interface_are_passed_over() {
        let text = "a:b: 1 2 3 4 5 6 7 8 9 10\nbad: 1 x\nshort: 1 2\n: \u{fffd}\n";
        assert_eq!(parse(text), Interfaces::from([("a:b".to_owned(), (2, 10))]));
        let most = "x: 0 18446744073709551615 0 0 0 0 0 0 0 18446744073709551615\n";
        assert_eq!(passed(&Interfaces::new(), &parse(most), None), u64::MAX);
    }

    #[test]
    fn a_count_that_went_back_is_of_a_new_interface_and_counts_nothing() {
        let now = parse(TEXT);
        assert_eq!(passed(&parse(&TEXT.replace(" 90 ", " 900 ")), &now, Some("near")), 0);
    }
}
