//! Determines from a program's file whether it can load a library of this process's kind.
//!
//! Signal handlers use it, and children in their parent's memory. So it allocates nothing, and reads files in small
//! pieces. A file may change during the read; then the kernel may run another program.

pub use crate::sys::loader::own as own_loader;

use object::elf::{
    DT_NEEDED, DT_NULL, DT_STRTAB, Dyn64, ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB, ELFMAG, EM_AARCH64, EM_NONE, EM_X86_64,
    FileHeader64, PT_DYNAMIC, PT_INTERP, PT_LOAD, ProgramHeader64,
};
use object::{NativeEndian, Pod, pod};
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, accessat, fstat, openat, stat};
use rustix::io::{Errno, pread};
use std::ffi::{CStr, OsStr};
use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Limit of nested script interpreters, as in the kernel.
const SCRIPTS: usize = 5;
/// Bytes of a script's first line that the kernel reads.
const FIRST_LINE: usize = 256;
/// Longest path of a loader, and longest name of a file to search for, bytes.
const MAX_LOADER_BYTES: usize = 256;
const MAX_PATH_BYTES: usize = 1024;
/// Limit of a program's segments, and of its entries for the loader.
const SEGMENTS: u16 = 128;
const ENTRIES: u64 = 1024;
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";
/// The C library runs files of unknown kind with it.
const SHELL: &CStr = c"/bin/sh";
/// Prefixes of sanitizer libraries that conflict with a preloaded one. `AddressSanitizer`'s ends a program in which
/// another library comes first. `LeakSanitizer`'s ends a forked child that lost memory of its parent's threads.
const SANITIZERS: [&[u8]; 3] = [b"libasan.so", b"libclang_rt.asan", b"liblsan.so"];

const DATA: u8 = if cfg!(target_endian = "little") { ELFDATA2LSB } else { ELFDATA2MSB };
/// On other machines no program is known to load a library.
const MACHINE: u16 = if cfg!(target_arch = "x86_64") {
    EM_X86_64
} else if cfg!(target_arch = "aarch64") {
    EM_AARCH64
} else {
    EM_NONE
};

#[repr(align(8))]
struct Aligned<const LEN: usize>([u8; LEN]);

type Header = FileHeader64<NativeEndian>;
type Segment = ProgramHeader64<NativeEndian>;
type Entry = Dyn64<NativeEndian>;

/// Reason why a program cannot load the library.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it may have no memory of its own, and there is one at a time")]
pub enum Obstacle {
    /// It is statically linked.
    Static,
    /// It is for another machine or word size.
    Machine,
    /// It has another loader than this process, and so another C library.
    Loader(Loader),
    /// It has a sanitizer that conflicts with preloaded libraries.
    Sanitizer,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => f.write_str("is linked statically and loads no library"),
            Self::Machine => f.write_str("is made for another machine or word size"),
            Self::Loader(loader) => write!(f, "is loaded by {}, for another C library", loader.path().display()),
            Self::Sanitizer => f.write_str("is built with a sanitizer that bears no other library"),
        }
    }
}

/// A loader's path, as a program names it.
#[derive(Clone, PartialEq, Eq)]
pub struct Loader {
    path: [u8; MAX_LOADER_BYTES],
}

impl Loader {
    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.path).unwrap_or_default()
    }

    /// The path.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.as_c_str().to_bytes()))
    }

    /// Compares the files, because links may lead to the loader.
    fn is(&self, own: &CStr) -> bool {
        let place = |path| stat(path).map(|found| (found.st_dev, found.st_ino));
        self.as_c_str() == own || matches!((place(self.as_c_str()), place(own)), (Ok(one), Ok(other)) if one == other)
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().fmt(f)
    }
}

/// The result of examining a program.
#[derive(Debug)]
pub struct Looked {
    /// Its file; for a script, that of its interpreter.
    pub file: OwnedFd,
    /// The obstacle to the library, if any.
    pub obstacle: Option<Obstacle>,
}

/// Opens a program's file.
///
/// # Errors
/// It cannot be read, or is no file that could be run.
pub fn open(directory: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    // Without waiting for the writer of a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = openat(directory, path, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile { Ok(file) } else { Err(Errno::ACCESS) }
}

/// Opens the program with this name as the C library finds it. `path`: the value of the variable `PATH`.
///
/// # Errors
/// No file has this name, or it cannot be read.
pub fn search(name: &CStr, path: Option<&[u8]>) -> Result<OwnedFd, Errno> {
    let bytes = name.to_bytes_with_nul();
    if bytes.contains(&b'/') {
        return open(CWD, name);
    }
    for directory in path.unwrap_or(DEFAULT_PATH).split(|byte| *byte == b':') {
        let mut buffer = [0; MAX_PATH_BYTES];
        let found = match directory {
            [] => openable(name),
            _ => joined(directory, bytes, &mut buffer).and_then(openable),
        };
        match found {
            Err(Errno::ACCESS | Errno::NOENT | Errno::STALE | Errno::NOTDIR | Errno::NODEV | Errno::TIMEDOUT) => {}
            found => return found,
        }
    }
    Err(Errno::NOENT)
}

fn joined<'a>(directory: &[u8], name: &[u8], buffer: &'a mut [u8; MAX_PATH_BYTES]) -> Result<&'a CStr, Errno> {
    let parts = [directory, b"/", name];
    let mut at = 0;
    for part in parts {
        buffer.get_mut(at..at + part.len()).ok_or(Errno::NAMETOOLONG)?.copy_from_slice(part);
        at += part.len();
    }
    CStr::from_bytes_until_nul(buffer).map_err(|_| Errno::NAMETOOLONG)
}

/// Opens a file if it can be run. A file that can be run but not read ends the search.
fn openable(path: &CStr) -> Result<OwnedFd, Errno> {
    accessat(CWD, path, Access::EXEC_OK, AtFlags::empty())?;
    if FileType::from_raw_mode(stat(path)?.st_mode) != FileType::RegularFile {
        return Err(Errno::ACCESS);
    }
    open(CWD, path).map_err(|error| if error == Errno::ACCESS { Errno::PERM } else { error })
}

/// Examines the program in this file. `own`: this process's loader. `shell`: treat a file of unknown kind as a shell
/// script.
///
/// # Errors
/// The file is of unknown kind, or cannot be read.
pub fn look(mut file: OwnedFd, shell: bool, own: &CStr) -> Result<Looked, Errno> {
    let mut shell = Some(SHELL).filter(|_| shell);
    for _ in 0..=SCRIPTS {
        // One byte more, for the terminating zero.
        let Aligned(start) = &mut Aligned([0; FIRST_LINE + 1]);
        let len = read(&file, 0, &mut start[..FIRST_LINE])?;
        let next = if start.starts_with(b"#!") {
            interpreter(&mut start[..=len])?
        } else if start.starts_with(&ELFMAG) {
            let obstacle = obstacle(&file, &start[..len], own)?;
            return Ok(Looked { file, obstacle });
        } else {
            shell.take().ok_or(Errno::NOEXEC)?
        };
        file = open(CWD, next)?;
    }
    Err(Errno::LOOP)
}

/// The interpreter of a script with this beginning. A relative path is not followed: the program may start in another
/// directory.
fn interpreter(start: &mut [u8]) -> Result<&CStr, Errno> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let first = 2 + start[2..].iter().position(|byte| !is_blank(byte)).ok_or(Errno::NOEXEC)?;
    let path = &mut start[first..];
    let end = path.iter().position(|byte| is_blank(byte) || matches!(byte, b'\n' | 0)).ok_or(Errno::NOEXEC)?;
    // A path that reaches the kernel's limit may be cut.
    if first + end == FIRST_LINE || path[0] != b'/' {
        return Err(Errno::NOEXEC);
    }
    path[end] = 0;
    CStr::from_bytes_until_nul(path).map_err(|_| Errno::NOEXEC)
}

fn obstacle(file: &OwnedFd, start: &[u8], own: &CStr) -> Result<Option<Obstacle>, Errno> {
    let (header, _) = pod::from_bytes::<Header>(start).map_err(|()| Errno::NOEXEC)?;
    let machine = header.e_machine.get(NativeEndian);
    if (header.e_ident.class, header.e_ident.data, machine) != (ELFCLASS64, DATA, MACHINE) {
        return Ok(Some(Obstacle::Machine));
    }
    let Some(named) = segment(file, header, |segment| segment.p_type.get(NativeEndian) == PT_INTERP)? else {
        return Ok(Some(Obstacle::Static));
    };
    let mut loader = Loader { path: [0; MAX_LOADER_BYTES] };
    let len = usize::try_from(named.p_filesz.get(NativeEndian)).unwrap_or(usize::MAX);
    let path = loader.path.get_mut(..len).ok_or(Errno::NOEXEC)?;
    if read(file, named.p_offset.get(NativeEndian), path)? < len || path.last() != Some(&0) {
        return Err(Errno::NOEXEC);
    }
    if !loader.is(own) {
        return Ok(Some(Obstacle::Loader(loader)));
    }
    Ok(needs_sanitizer(file, header)?.then_some(Obstacle::Sanitizer))
}

fn needs_sanitizer(file: &OwnedFd, header: &Header) -> Result<bool, Errno> {
    let Some(dynamic) = segment(file, header, |segment| segment.p_type.get(NativeEndian) == PT_DYNAMIC)? else {
        return Ok(false);
    };
    let Some(address) = entry(file, &dynamic, |entry| is_of(entry, DT_STRTAB))? else { return Ok(false) };
    let address = address.d_val.get(NativeEndian);
    let holds = |segment: &Segment| {
        let offset = address.checked_sub(segment.p_vaddr.get(NativeEndian));
        segment.p_type.get(NativeEndian) == PT_LOAD
            && offset.is_some_and(|offset| offset < segment.p_filesz.get(NativeEndian))
    };
    let held = segment(file, header, holds)?.ok_or(Errno::NOEXEC)?;
    let names = held.p_offset.get(NativeEndian).wrapping_add(address - held.p_vaddr.get(NativeEndian));
    let mut failed = None;
    let is_sanitizer = |needed: &Entry| {
        let mut name = [0; 16];
        let at = names.wrapping_add(needed.d_val.get(NativeEndian));
        is_of(needed, DT_NEEDED)
            && match read(file, at, &mut name) {
                Ok(_) => SANITIZERS.iter().any(|sanitizer| name.starts_with(sanitizer)),
                Err(error) => failed.replace(error).is_none(),
            }
    };
    let found = entry(file, &dynamic, is_sanitizer)?;
    failed.map_or(Ok(found.is_some()), Err)
}

fn is_of(entry: &Entry, tag: i64) -> bool {
    entry.d_tag.get(NativeEndian) == tag
}

fn segment(file: &OwnedFd, header: &Header, is_it: impl Fn(&Segment) -> bool) -> Result<Option<Segment>, Errno> {
    let count = header.e_phnum.get(NativeEndian);
    if count > SEGMENTS || usize::from(header.e_phentsize.get(NativeEndian)) != size_of::<Segment>() {
        return Err(Errno::NOEXEC);
    }
    for number in 0..u64::from(count) {
        let segment = at::<Segment, { size_of::<Segment>() }>(file, header.e_phoff.get(NativeEndian), number)?;
        if is_it(&segment) {
            return Ok(Some(segment));
        }
    }
    Ok(None)
}

fn entry(file: &OwnedFd, dynamic: &Segment, mut is_it: impl FnMut(&Entry) -> bool) -> Result<Option<Entry>, Errno> {
    let count = dynamic.p_filesz.get(NativeEndian) / size_of::<Entry>() as u64;
    for number in 0..count.min(ENTRIES) {
        let entry = at::<Entry, { size_of::<Entry>() }>(file, dynamic.p_offset.get(NativeEndian), number)?;
        if is_of(&entry, DT_NULL) {
            return Ok(None);
        }
        if is_it(&entry) {
            return Ok(Some(entry));
        }
    }
    if count > ENTRIES { Err(Errno::NOEXEC) } else { Ok(None) }
}

fn at<T: Pod, const SIZE: usize>(file: &OwnedFd, first: u64, number: u64) -> Result<T, Errno> {
    let Aligned(bytes) = &mut Aligned([0; SIZE]);
    if read(file, first.wrapping_add(number * SIZE as u64), bytes)? < SIZE {
        return Err(Errno::NOEXEC);
    }
    pod::from_bytes::<T>(bytes).map(|(value, _)| *value).map_err(|()| Errno::NOEXEC)
}

fn read(file: &OwnedFd, from: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut len = 0;
    while len < buffer.len() {
        match pread(file, &mut buffer[len..], from.wrapping_add(len as u64)) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests;
