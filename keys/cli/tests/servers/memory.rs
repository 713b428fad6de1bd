//! Searches other processes' memory for the secret numbers of keys.
//!
//! The search covers three byte orders: big-endian as in files and messages, little-endian as in OpenSSL's big numbers,
//! and big-endian words of four little-endian bytes as in Java's. One aligned piece is enough for a match, so a partly overwritten number is found too.

use crate::material::Material;
use aho_corasick::AhoCorasick;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a piece: long enough to exclude matches by chance.
const PIECE: usize = 16;
/// Bytes of a word in Java's big numbers.
const WORD: usize = 4;
const STEP: usize = 1 << 20;
/// Mappings of every process that have no readable memory.
const UNREADABLE: [&str; 4] = ["[vvar]", "[vvar_vclock]", "[vsyscall]", "[uprobes]"];

pub(crate) struct Needles {
    pieces: AhoCorasick,
    names: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) numbers: BTreeSet<String>,
    pub(crate) mappings: BTreeSet<String>,
    pub(crate) bytes: u64,
}

impl Needles {
    pub(crate) fn of<'m>(keys: impl IntoIterator<Item = &'m Material>) -> Self {
        let (mut pieces, mut names) = (Vec::new(), Vec::new());
        for key in keys {
            for (name, number) in &key.secrets {
                let little: Vec<u8> = number.iter().rev().copied().collect();
                let words: Vec<u8> = little.chunks(WORD).rev().flatten().copied().collect();
                let pieces_of_it = number.rchunks_exact(PIECE).chain(little.chunks_exact(PIECE));
                for piece in pieces_of_it.chain(words.rchunks_exact(PIECE)) {
                    pieces.push(piece.to_vec());
                    names.push(format!("{}: {name}", key.kind.name()));
                }
            }
        }
        Self { pieces: AhoCorasick::new(pieces).unwrap(), names }
    }

    pub(crate) fn in_bytes(&self, bytes: &[u8]) -> BTreeSet<String> {
        self.pieces.find_iter(bytes).map(|found| self.names[found.pattern().as_usize()].clone()).collect()
    }

    /// Searches all memory of a process, which must not change meanwhile.
    pub(crate) fn in_process(&self, pid: u32) -> io::Result<Seen> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let memory = File::open(format!("/proc/{pid}/mem"))?;
        let mut seen = Seen::default();
        for mapping in maps.lines().filter_map(Mapping::parse) {
            if !UNREADABLE.contains(&mapping.label) {
                self.in_mapping(&memory, &mapping, &mut seen)?;
            }
        }
        Ok(seen)
    }

    fn in_mapping(&self, memory: &File, mapping: &Mapping<'_>, seen: &mut Seen) -> io::Result<()> {
        // Room for the end of the former step, so that a piece across two steps is found.
        let mut buffer = vec![0; STEP + PIECE];
        let mut at = mapping.from;
        while at < mapping.to {
            let len = STEP.min((mapping.to - at) as usize);
            match memory.read_exact_at(&mut buffer[PIECE..PIECE + len], at) {
                // The file is shorter than its mapping.
                Err(error) if mapping.label.starts_with('/') && error.raw_os_error() == Some(5) => break,
                // A mapping without read permission, such as a guard page.
                Err(_) if !mapping.readable => break,
                read => read?,
            }
            seen.numbers.extend(self.in_bytes(&buffer[..PIECE + len]));
            buffer.copy_within(len..len + PIECE, 0);
            (seen.bytes, at) = (seen.bytes + len as u64, at + len as u64);
        }
        seen.mappings.insert(mapping.label.to_owned());
        Ok(())
    }
}

impl Seen {
    pub(crate) fn add(&mut self, other: Self) {
        self.numbers.extend(other.numbers);
        self.mappings.extend(other.mappings);
        self.bytes += other.bytes;
    }
}

struct Mapping<'a> {
    from: u64,
    to: u64,
    readable: bool,
    label: &'a str,
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let label = rest.splitn(5, ' ').nth(4).unwrap_or("").trim();
        Some(Self { from: number(from)?, to: number(to)?, readable: rest.starts_with('r'), label })
    }
}
