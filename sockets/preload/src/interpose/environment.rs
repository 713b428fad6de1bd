//! The environment of another program: without this library if the program cannot load it.
//!
//! Programs of unknown kind do not get it either: every program works without it.

use super::catalogue::Strings;
use super::pages::Pages;
use crate::calls::preloaded::{self, VARIABLE};
use libc::{c_char, c_int, c_void};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, openat};
use rustix::io::Errno;
use rustix::path::DecInt;
use sidecore_sockets::loadable::{self, look, search};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

// SAFETY: the C library has a variable with this name and type.
unsafe extern "C" {
    static mut environ: Strings;
}

struct Library {
    path: &'static CStr,
    file_name: &'static [u8],
    loader: &'static CStr,
}

static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
/// The process restricts its system calls, and could be killed for reading a program's file.
static DENIED: AtomicBool = AtomicBool::new(false);

/// Runs at load: the loader takes locks that a handler must not wait for.
pub(super) fn prepare() {
    LIBRARY.get_or_init(|| {
        let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: `found` has room for the answer on an address in this library, whose name stays valid while it is
        // loaded.
        let path = unsafe {
            let is_found = libc::dladdr(prepare as *const c_void, found.as_mut_ptr()) != 0;
            let name = found.assume_init().dli_fname;
            (is_found && !name.is_null()).then(|| CStr::from_ptr(name))?
        };
        let file_name = path.to_bytes().rsplit(|byte| *byte == b'/').next()?;
        Some(Library { path, file_name, loader: loadable::own_loader()? })
    });
}

pub(super) fn leave_alone() {
    DENIED.store(true, Ordering::Relaxed);
}

pub(super) fn own() -> Strings {
    // SAFETY: read as the C library reads it.
    unsafe { (&raw const environ).read() }
}

#[derive(Clone, Copy)]
pub(super) enum Program {
    /// By path. `is_here`: a relative one begins in this process's directory.
    Path { name: *const c_char, is_here: bool },
    /// By a name to search for. A file of unknown kind may be run by the shell.
    Name { name: *const c_char, is_here: bool },
    /// By a path from this directory on.
    At { directory: c_int, name: *const c_char, flags: c_int },
}

pub(super) enum Environment {
    Same(Strings),
    Copy(Pages),
}

impl Environment {
    /// # Safety
    /// As for the function that starts the program with this environment.
    pub(super) unsafe fn of(program: Program, environment: Strings) -> Self {
        let Some(Some(library)) = LIBRARY.get() else { return Self::Same(environment) };
        // SAFETY: as the caller promised.
        let is_loaded = || unsafe { program.loads(library) };
        // SAFETY: as the caller promised.
        unsafe {
            if DENIED.load(Ordering::Relaxed) || !has(environment, library) || is_loaded() {
                return Self::Same(environment);
            }
            without(environment, library).map_or(Self::Same(environment), Self::Copy)
        }
    }

    pub(super) fn as_ptr(&self) -> Strings {
        match self {
            Self::Same(strings) => *strings,
            Self::Copy(pages) => pages.start().cast_const(),
        }
    }

    /// The changed environment; `None`: it is the caller's.
    pub(super) fn copy(&self) -> Option<Strings> {
        matches!(self, Self::Copy(_)).then(|| self.as_ptr())
    }
}

impl Program {
    pub(super) fn path(name: *const c_char) -> Self {
        Self::Path { name, is_here: true }
    }

    pub(super) fn name(name: *const c_char) -> Self {
        Self::Name { name, is_here: true }
    }

    /// Whether the program surely loads the library.
    ///
    /// # Safety
    /// Its name is a terminated string, or null.
    unsafe fn loads(self, library: &Library) -> bool {
        // The loader reports a library that does not exist.
        if accessat(CWD, library.path, Access::READ_OK, AtFlags::empty()).is_err() {
            return false;
        }
        // SAFETY: as the caller promised.
        let file = unsafe { self.open() };
        let by_shell = matches!(self, Self::Name { .. });
        file.and_then(|file| look(file, by_shell, library.loader)).is_ok_and(|looked| looked.obstacle.is_none())
    }

    /// # Safety
    /// As for [`Program::loads`].
    unsafe fn open(self) -> Result<OwnedFd, Errno> {
        let (Self::Path { name, .. } | Self::Name { name, .. } | Self::At { name, .. }) = self;
        if name.is_null() {
            return Err(Errno::FAULT);
        }
        // SAFETY: as the caller promised.
        let (name, path) = unsafe { (CStr::from_ptr(name), variable(own(), b"PATH=")) };
        match self {
            Self::Path { is_here, .. } if is_here || is_absolute(name.to_bytes()) => loadable::open(CWD, name),
            Self::Name { is_here, .. } if is_here || is_found_everywhere(name, path) => search(name, path),
            Self::At { directory, flags, .. } => open_at(directory, name, flags),
            // The process may begin in another directory.
            Self::Path { .. } | Self::Name { .. } => Err(Errno::NOENT),
        }
    }
}

fn is_absolute(path: &[u8]) -> bool {
    path.starts_with(b"/")
}

/// Whether the search for a name is independent of the starting directory.
fn is_found_everywhere(name: &CStr, path: Option<&[u8]>) -> bool {
    let name = name.to_bytes();
    let is_searched = !name.contains(&b'/');
    is_absolute(name) || is_searched && path.is_none_or(|path| path.split(|byte| *byte == b':').all(is_absolute))
}

fn open_at(directory: c_int, name: &CStr, flags: c_int) -> Result<OwnedFd, Errno> {
    if name.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        return again(directory);
    }
    if name.to_bytes().starts_with(b"/") || directory == libc::AT_FDCWD {
        return loadable::open(CWD, name);
    }
    if directory < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: borrowed for one call, which fails if it is not open.
    loadable::open(unsafe { BorrowedFd::borrow_raw(directory) }, name)
}

/// Opens the same file again: the descriptor may not be readable.
fn again(fd: c_int) -> Result<OwnedFd, Errno> {
    let descriptors = openat(CWD, c"/proc/self/fd", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    loadable::open(descriptors.as_fd(), DecInt::new(fd).as_c_str())
}

/// The strings of an environment.
///
/// # Safety
/// It is null, or a list of terminated strings that ends with null.
unsafe fn all<'a>(environment: Strings) -> impl Iterator<Item = &'a CStr> {
    let is_there = !environment.is_null();
    (0..).take_while(move |_| is_there).map_while(move |at| {
        // SAFETY: as the caller promised; no string after null is read.
        unsafe {
            let string = environment.add(at).read();
            (!string.is_null()).then(|| CStr::from_ptr(string))
        }
    })
}

/// Value of the first variable with this name, which includes the `=`.
///
/// # Safety
/// As for [`all`].
unsafe fn variable<'a>(environment: Strings, name: &[u8]) -> Option<&'a [u8]> {
    // SAFETY: as the caller promised.
    unsafe { all(environment) }.find_map(|string| string.to_bytes().strip_prefix(name))
}

fn list<'a>(string: &'a CStr, library: &Library) -> Option<&'a [u8]> {
    let list = string.to_bytes().strip_prefix(VARIABLE)?;
    preloaded::has(list, library.file_name).then_some(list)
}

/// # Safety
/// As for [`all`].
unsafe fn has(environment: Strings, library: &Library) -> bool {
    // SAFETY: as the caller promised.
    unsafe { all(environment) }.any(|string| list(string, library).is_some())
}

struct Room {
    strings: *mut *const c_char,
    texts: *mut u8,
    left: usize,
}

/// The environment without the library. `None`: no memory is left.
///
/// # Safety
/// As for [`all`].
unsafe fn without(environment: Strings, library: &Library) -> Option<Pages> {
    // SAFETY: as the caller promised.
    let (count, bytes) = unsafe { all(environment) }.fold((0, 0), |(count, bytes), string| {
        (count + 1, bytes + list(string, library).map_or(0, |_| string.to_bytes_with_nul().len()))
    });
    let array = (count + 1) * size_of::<Strings>();
    let pages = Pages::take(array + bytes)?;
    // SAFETY: the pages were taken with room for all of it.
    let texts = unsafe { pages.start().cast::<u8>().add(array) };
    let mut room = Room { strings: pages.start(), texts, left: bytes };
    // SAFETY: another thread may change it meanwhile; no more strings are added than were counted, and no longer ones.
    unsafe {
        for string in all(environment).take(count) {
            match list(string, library).filter(|list| VARIABLE.len() + list.len() < room.left) {
                None => room.add(string.as_ptr()),
                Some(list) => room.add_without(list, library),
            }
        }
        room.strings.write(ptr::null());
    }
    Some(pages)
}

impl Room {
    /// # Safety
    /// There is room for one more string.
    unsafe fn add(&mut self, string: *const c_char) {
        // SAFETY: as the caller promised.
        unsafe {
            self.strings.write(string);
            self.strings = self.strings.add(1);
        }
    }

    /// Adds the list without the library, unless it is then empty.
    ///
    /// # Safety
    /// There is room for the whole list.
    unsafe fn add_without(&mut self, list: &[u8], library: &Library) {
        let start = self.texts;
        let mut put = |piece: &[u8]| {
            // SAFETY: as the caller promised: the pieces are no longer than the list.
            unsafe {
                ptr::copy_nonoverlapping(piece.as_ptr(), self.texts, piece.len());
                self.texts = self.texts.add(piece.len());
            }
        };
        put(VARIABLE);
        preloaded::without(list, library.file_name, &mut put);
        put(b"\0");
        self.left -= VARIABLE.len() + list.len() + 1;
        // SAFETY: both are in the same room.
        if unsafe { self.texts.offset_from_unsigned(start) } > VARIABLE.len() + 1 {
            // SAFETY: as the caller promised.
            unsafe { self.add(start.cast_const().cast()) };
        }
    }
}
