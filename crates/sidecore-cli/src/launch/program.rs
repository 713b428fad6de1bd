//! The program that a command starts, and what keeps a preloaded library out of it.

use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};
use rustix::fs::getxattr;
use rustix::process::{getegid, geteuid, getuid};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Scripts that are run by scripts: the kernel follows no more.
const SCRIPTS: usize = 5;
/// Longest first line of a script that the kernel reads.
const FIRST_LINE: u64 = 256;
/// What the Go linker leaves in its programs, those that load the C library too.
const GO: [&[u8]; 2] = [b".go.buildinfo", b".note.go.buildid"];

/// Why nothing that is preloaded sees what a program sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It loads no library.
    Static,
    /// It makes its system calls itself.
    Go,
    /// It has more rights than whoever starts it, so that it loads what it was built with.
    Privileged,
    /// Another loader than that of this command, and with it another C library.
    Loader(PathBuf),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => f.write_str("is linked statically and loads no library"),
            Self::Go => f.write_str("is a Go program and makes its system calls itself"),
            Self::Privileged => f.write_str("has more rights than who starts it and takes no library from there"),
            Self::Loader(loader) => write!(f, "is loaded by {}, for another C library", loader.display()),
        }
    }
}

/// What is in the way in the program of that name, found as the shell finds it. `None`: nothing, or it cannot be told.
pub(super) fn obstacle(name: &OsStr) -> Option<Obstacle> {
    let own = env::current_exe().ok().and_then(|own| loader(&own));
    let mut path = find(name)?;
    for _ in 0..SCRIPTS {
        match interpreter(&path).ok()? {
            Some(interpreter) => path = interpreter,
            None => return of_program(&path, own.as_deref()),
        }
    }
    None
}

fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let is_program = |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0);
    env::split_paths(&env::var_os("PATH")?).map(|directory| directory.join(name)).find(is_program)
}

/// The program that runs a script. `None`: it is none.
fn interpreter(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut line = Vec::new();
    BufReader::new(regular(path)?.take(FIRST_LINE)).read_until(b'\n', &mut line)?;
    let words = line.strip_prefix(b"#!").map(<[u8]>::trim_ascii);
    let first = words.and_then(|words| words.split(u8::is_ascii_whitespace).next());
    Ok(first.map(|first| OsString::from_vec(first.to_vec()).into()))
}

/// Opening anything else could wait without end.
fn regular(path: &Path) -> io::Result<File> {
    if path.metadata()?.is_file() { File::open(path) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn of_program(path: &Path, own_loader: Option<&Path>) -> Option<Obstacle> {
    let image = Image::read(path)?;
    let metadata = path.metadata().ok()?;
    let Some(loader) = image.loader else { return Some(if image.is_go { Obstacle::Go } else { Obstacle::Static }) };
    if image.is_go {
        Some(Obstacle::Go)
    } else if is_privileged(path, &metadata) {
        Some(Obstacle::Privileged)
    } else {
        own_loader.is_some_and(|own| own != loader).then_some(Obstacle::Loader(loader))
    }
}

/// Whether the kernel gives it another user or group, or capabilities.
fn is_privileged(path: &Path, found: &Metadata) -> bool {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let has_capabilities = || getxattr(path, "security.capability", &mut [0_u8; 64]).is_ok_and(|bytes| bytes > 0);
    found.mode() & 0o4000 != 0 && found.uid() != user
        || found.mode() & 0o2000 != 0 && found.gid() != group
        || !getuid().is_root() && has_capabilities()
}

fn loader(path: &Path) -> Option<PathBuf> {
    Image::read(path)?.loader
}

/// What a program's file says about how it is loaded.
struct Image {
    /// Where that is, without links in its path.
    loader: Option<PathBuf>,
    is_go: bool,
}

impl Image {
    /// `None`: it is no program in this system's format, or broken.
    fn read(path: &Path) -> Option<Self> {
        // Pieces of it are read, however large it is.
        let file = ReadCache::new(regular(path).ok()?);
        match FileKind::parse(&file).ok()? {
            FileKind::Elf32 => Self::of::<FileHeader32<Endianness>, _>(&file),
            FileKind::Elf64 => Self::of::<FileHeader64<Endianness>, _>(&file),
            _ => None,
        }
    }

    fn of<'data, H: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(file: R) -> Option<Self> {
        let header = H::parse(file).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, file).ok()?;
        let loader = segments.iter().find_map(|segment| segment.interpreter(endian, file).ok().flatten());
        let loader = loader.map(|path| Path::new(OsStr::from_bytes(path)));
        // A program without sections may still be loaded.
        let is_go = header
            .sections(endian, file)
            .is_ok_and(|sections| GO.iter().any(|name| sections.section_by_name(endian, name).is_some()));
        Some(Self { loader: loader.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned())), is_go })
    }
}
