//! Tests that distinguish programs, scripts and other files.

use super::*;
use crate::sys::loader;
use std::env;
use std::ffi::CString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use tempfile::TempDir;

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn found(path: &Path) -> Result<Option<Obstacle>, Errno> {
    look(open(CWD, &c_path(path))?, false, loader::own().unwrap()).map(|looked| looked.obstacle)
}

fn made(directory: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

fn shell() -> Vec<u8> {
    fs::read(SHELL.to_str().unwrap()).unwrap()
}

fn place(bytes: &[u8], sought: &[u8]) -> usize {
    bytes.windows(sought.len()).position(|window| window == sought).unwrap()
}

#[test]
fn this_program_and_scripts_of_it_load_the_library() {
    let directory = tempfile::tempdir().unwrap();
    let mut program = env::current_exe().unwrap();
    assert_eq!(found(&program), Ok(None));
    for number in 0..SCRIPTS {
        let line = format!("#! \t{} argument\n", program.display());
        program = made(&directory, &number.to_string(), line.as_bytes());
        assert_eq!(found(&program), Ok(None), "{number}");
    }
    let line = format!("#!{}", program.display());
    assert_eq!(found(&made(&directory, "one more", line.as_bytes())), Err(Errno::LOOP));
}

#[test]
fn a_loader_is_the_same_through_a_link_and_another_one_is_named() {
    let (directory, bytes) = (tempfile::tempdir().unwrap(), shell());
    let (named, at) = (loader::own().unwrap(), place(&bytes, loader::own().unwrap().to_bytes_with_nul()));
    let changed = |path: &Path| {
        let (mut bytes, path) = (bytes.clone(), c_path(path));
        let room = named.to_bytes_with_nul().len();
        assert!(path.as_bytes().len() < room, "{path:?} is too long");
        bytes[at..at + room].fill(0);
        bytes[at..at + path.as_bytes().len()].copy_from_slice(path.as_bytes());
        bytes
    };
    assert_eq!(found(&made(&directory, "own", &bytes)), Ok(None));
    // Not longer than the loader's path.
    let short = PathBuf::from(format!("/tmp/ld-{}", std::process::id()));
    symlink(named.to_str().unwrap(), &short).unwrap();
    let through = found(&made(&directory, "link", &changed(&short)));
    fs::remove_file(&short).unwrap();
    assert_eq!(through, Ok(None));
    let Ok(Some(Obstacle::Loader(other))) = found(&made(&directory, "other", &changed(Path::new("/lib/ld-musl.so.1"))))
    else {
        panic!("another loader is the same")
    };
    assert_eq!(other.path(), Path::new("/lib/ld-musl.so.1"));
}

#[test]
fn what_has_no_loader_or_is_of_another_machine_loads_nothing() {
    let (directory, bytes) = (tempfile::tempdir().unwrap(), shell());
    // The loader itself has no loader.
    assert_eq!(found(Path::new(loader::own().unwrap().to_str().unwrap())), Ok(Some(Obstacle::Static)));
    for (name, at, to) in [("class", 4, 1), ("order", 5, 3 - DATA), ("machine", 18, 3)] {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        assert_eq!(found(&made(&directory, name, &bytes)), Ok(Some(Obstacle::Machine)), "{name}");
    }
}

#[test]
fn a_sanitizer_is_found_by_its_name() {
    let (directory, mut bytes) = (tempfile::tempdir().unwrap(), shell());
    let at = place(&bytes, b"\0libc.so.6\0");
    bytes[at + 1..at + 11].copy_from_slice(b"libasan.so");
    assert_eq!(found(&made(&directory, "asan", &bytes)), Ok(Some(Obstacle::Sanitizer)));
}

#[test]
fn what_is_no_program_cannot_be_told() {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("text", b"echo text\n"),
        ("nothing", b"#!"),
        ("blank", b"#! \t \n/bin/sh\n"),
        ("relative", b"#!sh\n"),
        ("cut", format!("#!/{}\n", "x".repeat(400)).as_bytes()),
        ("short", b"\x7fELF\x02\x01\x01"),
    ] {
        assert_eq!(found(&made(&directory, name, bytes)), Err(Errno::NOEXEC), "{name}");
    }
    assert_eq!(found(directory.path()), Err(Errno::ACCESS));
    assert_eq!(found(&directory.path().join("none")), Err(Errno::NOENT));
    assert_eq!(found(&made(&directory, "gone", b"#!/no/where\n")), Err(Errno::NOENT));
    let text = open(CWD, &c_path(&directory.path().join("text"))).unwrap();
    assert!(look(text, true, loader::own().unwrap()).is_ok(), "the shell has it");
}

#[test]
fn changed_headers_are_told_or_not_and_end_nothing() {
    let (directory, bytes) = (tempfile::tempdir().unwrap(), shell());
    for at in 0..2048 {
        let mut bytes = bytes.clone();
        bytes[at] = !bytes[at];
        let _ = found(&made(&directory, "changed", &bytes));
        bytes.truncate(at);
        let _ = found(&made(&directory, "changed", &bytes));
    }
}

#[test]
fn a_name_is_searched_for_as_the_c_library_does() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["empty", "data", "directory/tool", "there", "later"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    // A directory with this name and a file that cannot be run must be skipped.
    fs::write(at("data/tool"), "").unwrap();
    let tools = [at("there/tool"), at("later/tool")];
    for (number, tool) in tools.iter().enumerate() {
        fs::write(tool, number.to_string()).unwrap();
        fs::set_permissions(tool, Permissions::from_mode(0o755)).unwrap();
    }
    let variable = |names: &[&str]| {
        names.iter().map(|name| at(name).display().to_string()).collect::<Vec<_>>().join(":").into_bytes()
    };
    let content = |name: &CStr, path: &[u8]| {
        let mut byte = [0];
        search(name, Some(path)).and_then(|file| read(&file, 0, &mut byte)).map(|_| byte[0])
    };
    assert_eq!(content(c"tool", &variable(&["none", "empty", "data", "directory", "there", "later"])), Ok(b'0'));
    assert_eq!(content(c"tool", &variable(&["later", "there"])), Ok(b'1'));
    assert_eq!(content(c"tool", &variable(&["empty"])), Err(Errno::NOENT));
    assert_eq!(content(&c_path(&tools[1]), b""), Ok(b'1'), "a path is not searched for");
    assert_eq!(content(c"tool", "x".repeat(MAX_PATH_BYTES).as_bytes()), Err(Errno::NAMETOOLONG));
    assert!(search(c"sh", None).is_ok());
}
