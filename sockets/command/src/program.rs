//! The program that a command starts, and obstacles to a preloaded library.

use object::elf::FileHeader64;
use object::read::elf::FileHeader;
use object::{Endianness, FileKind, ReadCache};
use rustix::fs::fgetxattr;
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getuid};
use sidecore_sockets::loadable;
use std::env;
use std::ffi::{CString, OsStr};
use std::fmt;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// Sections that the Go linker writes, also into programs with the C library.
const GO: [&[u8]; 2] = [b".go.buildinfo", b".note.go.buildid"];

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    Loading(Box<loadable::Obstacle>),
    Go,
    /// The program has more rights than its caller, so the loader ignores preloaded libraries.
    Privileged,
    Unknown,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loading(obstacle) => obstacle.fmt(f),
            Self::Go => f.write_str("is a Go program and makes its system calls itself"),
            Self::Privileged => f.write_str("has more rights than who starts it and takes no library from there"),
            Self::Unknown => f.write_str("cannot be read here to see whether it would load the library"),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) obstacle: Option<Obstacle>,
    /// The loader may load the library: child processes may use it.
    pub(super) loads: bool,
}

pub(super) fn look(name: &OsStr) -> Looked {
    let (path, name) = (env::var_os("PATH"), CString::new(name.as_bytes()).unwrap_or_default());
    let file = loadable::search(&name, path.as_deref().map(OsStr::as_bytes));
    if file.as_ref().is_err_and(|error| *error == Errno::NOENT) {
        // Starting the program reports this error.
        return Looked::default();
    }
    let own = loadable::own_loader();
    let Some(found) = file.ok().zip(own).and_then(|(file, own)| loadable::look(file, true, own).ok()) else {
        return Looked { obstacle: Some(Obstacle::Unknown), loads: false };
    };
    let (file, loads) = (File::from(found.file), found.obstacle.is_none());
    let obstacle = if is_go(&file) {
        Some(Obstacle::Go)
    } else if loads {
        file.metadata().is_ok_and(|metadata| is_privileged(&file, &metadata)).then_some(Obstacle::Privileged)
    } else {
        found.obstacle.map(|obstacle| Obstacle::Loading(Box::new(obstacle)))
    };
    Looked { obstacle, loads }
}

fn is_privileged(file: &File, found: &Metadata) -> bool {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let has_capabilities = || fgetxattr(file, "security.capability", &mut [0_u8; 64]).is_ok_and(|bytes| bytes > 0);
    found.mode() & 0o4000 != 0 && found.uid() != user
        || found.mode() & 0o2000 != 0 && found.gid() != group
        || !getuid().is_root() && has_capabilities()
}

fn is_go(file: &File) -> bool {
    // Reads only pieces of the file, so its size does not matter.
    let file = &ReadCache::new(file);
    let has_section = || {
        let header = FileHeader64::<Endianness>::parse(file).ok()?;
        let endian = header.endian().ok()?;
        // A program without sections may still be loaded.
        let sections = header.sections(endian, file).ok()?;
        Some(GO.iter().any(|name| sections.section_by_name(endian, name).is_some()))
    };
    FileKind::parse(file) == Ok(FileKind::Elf64) && has_section().unwrap_or(false)
}
