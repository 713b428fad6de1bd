//! A private key's number, and a search for it in another process's memory.

use crate::error::TryError;
use memchr::memmem::Finder;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Bytes of a piece: long enough to exclude a match by chance.
const PIECE: usize = 16;
/// Bytes of one read.
const STEP: usize = 1 << 20;
const MAX_BYTES: u64 = 1 << 32;

/// Pieces of a key's private number, each in both byte orders: as in files, and as big numbers are stored in memory.
pub(super) struct Numbers(Vec<[Finder<'static>; 2]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) found: usize,
    pub(super) of: usize,
    pub(super) bytes: u64,
}

impl Numbers {
    pub(super) fn of(key: &Path) -> Result<Self, TryError> {
        let said = Command::new("openssl").args(["pkey", "-noout", "-text", "-in"]).arg(key).output()?;
        let number = private(&String::from_utf8_lossy(&said.stdout));
        let number = number.ok_or(TryError::State("openssl pkey shows no private number"))?;
        Ok(Self::in_pieces(&number))
    }

    fn in_pieces(number: &[u8]) -> Self {
        let finder = |piece: Vec<u8>| Finder::new(&piece).into_owned();
        let both = |piece: &[u8]| [finder(piece.to_vec()), finder(piece.iter().rev().copied().collect())];
        Self(number.rchunks_exact(PIECE).map(both).collect())
    }

    pub(super) fn in_process(&self, pid: u32) -> Result<Seen, TryError> {
        let path = format!("/proc/{pid}/mem");
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let memory = File::open(&path).map_err(|error| TryError::Memory { path, error })?;
        let mut found = vec![false; self.0.len()];
        let mut bytes = 0;
        for (from, to) in maps.lines().filter_map(readable) {
            bytes += self.in_mapping(&memory, from, to, &mut found)?;
            if bytes > MAX_BYTES {
                return Err(TryError::TooLarge { pid, bytes: MAX_BYTES });
            }
        }
        Ok(Seen { found: found.iter().filter(|found| **found).count(), of: found.len(), bytes })
    }

    /// Returns the number of bytes searched.
    fn in_mapping(&self, memory: &File, from: u64, to: u64, found: &mut [bool]) -> Result<u64, TryError> {
        // Room for the end of the previous step, so that a piece across two steps is found.
        let mut buffer = vec![0; STEP + PIECE];
        let mut at = from;
        while at < to {
            let len = STEP.min((to - at) as usize);
            match memory.read_exact_at(&mut buffer[PIECE..PIECE + len], at) {
                Ok(()) => {}
                // A mapping of a device, or a file shorter than its mapping.
                Err(error)
                    if matches!(error.raw_os_error(), Some(5 | 14)) || error.kind() == ErrorKind::UnexpectedEof =>
                {
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            for (found, orders) in found.iter_mut().zip(&self.0) {
                *found |= orders.iter().any(|piece| piece.find(&buffer[..PIECE + len]).is_some());
            }
            buffer.copy_within(len..len + PIECE, 0);
            at += len as u64;
        }
        Ok(at - from)
    }
}

fn private(text: &str) -> Option<Vec<u8>> {
    let lines = text.lines().skip_while(|line| *line != "priv:").skip(1).take_while(|line| line.starts_with(' '));
    let digits = lines.flat_map(|line| line.trim().split(':')).filter(|byte| !byte.is_empty());
    let number: Vec<u8> = digits.map(|byte| u8::from_str_radix(byte, 16).ok()).collect::<Option<_>>()?;
    Some(number).filter(|number| number.len() >= 2 * PIECE)
}

fn readable(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let may = words.next()?.starts_with('r')
        && !line.ends_with("[vvar]")
        && !line.ends_with("[vvar_vclock]")
        && !line.ends_with("[vsyscall]");
    let number = |text| u64::from_str_radix(text, 16).ok();
    may.then_some((number(from)?, number(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_where_it_is_and_not_where_it_is_not() {
        let number: Vec<u8> = (0..32).map(|byte| byte * 7 + 1).collect();
        let numbers = Numbers::in_pieces(&number);
        let own = std::process::id();
        let seen = numbers.in_process(own).unwrap();
        assert!(seen.found == 2 && seen.of == 2 && seen.bytes > 1 << 16, "it is in this process: {seen:?}");
        let mut child = Command::new("sleep").arg("10").spawn().unwrap();
        let seen = numbers.in_process(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen.is_ok_and(|seen| seen.found == 0 && seen.of == 2 && seen.bytes > 1 << 16));
    }

    #[test]
    fn the_private_number_is_read_from_what_openssl_prints() {
        let hex = |from: u8| (from..from + 15).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
        let text =
            format!("Private-Key: (256 bit)\npriv:\n    {}:\n    {}:\n    01:02\npub:\n    04:05\n", hex(1), hex(16));
        assert_eq!(private(&text).unwrap().len(), 32);
        assert_eq!(private("pub:\n    04:05\n"), None);
    }

    #[test]
    fn mappings_that_cannot_be_read_are_passed_over() {
        assert_eq!(
            readable("00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/dbus"),
            Some((0x40_0000, 0x45_2000))
        );
        assert_eq!(readable("7fff0-7fff1 r--p 00000000 00:00 0 [vvar]"), None);
        assert_eq!(readable("1000-2000 ---p 00000000 00:00 0"), None);
    }
}
