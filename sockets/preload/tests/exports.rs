//! Each function of the C library is intercepted, or listed in `exports.txt` with the reason for not intercepting it.

use object::elf::{DT_NEEDED, FileHeader64, SHT_DYNSYM, STT_FUNC, STT_GNU_IFUNC};
use object::read::elf::{Dyn, FileHeader, Sym};
use object::{Endianness, SymbolIndex};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Functions with this version are only for other parts of the C library.
const PRIVATE: &[u8] = b"GLIBC_PRIVATE";

fn c_library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).map(PathBuf::from);
    let is_it =
        |path: &PathBuf| path.file_name().is_some_and(|name| name == "libc.so.6" || is_versioned(name.to_str()));
    paths.find(is_it).expect("no libc.so.6 in this process")
}

/// Whether its name contains its version, as before glibc 2.34: `libc-2.31.so`.
fn is_versioned(name: Option<&str>) -> bool {
    name.is_some_and(|name| name.starts_with("libc-2.") && Path::new(name).extension().is_some_and(|end| end == "so"))
}

fn library() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libsidecore_preload.so");
    assert!(library.exists(), "no library at {}: cargo build -p sidecore-preload", library.display());
    library
}

fn functions(library: &Path) -> BTreeSet<String> {
    let bytes = fs::read(library).unwrap();
    read_functions(&bytes).unwrap_or_else(|error| panic!("{}: {error}", library.display()))
}

fn read_functions(bytes: &[u8]) -> object::read::Result<BTreeSet<String>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let symbols = sections.symbols(endian, bytes, SHT_DYNSYM)?;
    let versions = sections.versions(endian, bytes)?;
    let mut found = BTreeSet::new();
    for (at, symbol) in symbols.iter().enumerate() {
        if symbol.is_undefined(endian) || !matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC) {
            continue;
        }
        let version = match &versions {
            Some(versions) => versions.version(versions.version_index(endian, SymbolIndex(at)))?,
            None => None,
        };
        if version.is_none_or(|version| version.name() != PRIVATE) {
            let name = symbol.name(endian, symbols.strings())?;
            found.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(found)
}

/// The names in all lines: one function each, or with a star at the end a prefix of names.
fn named() -> Vec<&'static str> {
    let lines = include_str!("exports.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let names = |line: &'static str| {
        let (reason, names) = line.split_once(": ").unwrap_or_else(|| panic!("no `reason: names` in: {line}"));
        assert!(!reason.is_empty() && !names.contains(':'), "no `reason: names` in: {line}");
        names.split_whitespace()
    };
    lines.flat_map(names).collect()
}

fn is_named(function: &str, name: &str) -> bool {
    name.strip_suffix('*').map_or(function == name, |start| function.starts_with(start))
}

#[test]
fn each_function_of_the_c_library_is_intercepted_or_has_a_reason_not_to_be() {
    let (theirs, ours, named) = (functions(&c_library()), functions(&library()), named());
    assert!(theirs.contains("write") && theirs.contains("memcpy") && !theirs.contains("__libc_fork"), "{theirs:?}");
    assert!(ours.contains("write") && ours.contains("vfork"), "{ours:?}");
    let is_without = |function: &&String| !named.iter().any(|name| is_named(function, name));
    let without: Vec<&String> = theirs.difference(&ours).filter(is_without).collect();
    assert!(without.is_empty(), "neither intercepted nor in tests/exports.txt with a reason: {without:?}");
}

#[test]
fn no_line_names_a_function_that_is_intercepted() {
    let (ours, named) = (functions(&library()), named());
    let stale: Vec<&&str> = named.iter().filter(|name| ours.iter().any(|function| is_named(function, name))).collect();
    assert!(stale.is_empty(), "intercepted, so tests/exports.txt need not name it: {stale:?}");
}

#[test]
fn nothing_but_the_c_library_is_loaded_with_each_program() {
    let bytes = fs::read(library()).unwrap();
    let needed = read_needed(&bytes).unwrap();
    let is_of_it = |name: &str| name.starts_with("libc.so.") || name.starts_with("ld-linux");
    assert!(!needed.is_empty() && needed.iter().all(|name| is_of_it(name)), "{needed:?}");
    assert!(!functions(&library()).iter().any(|name| name.starts_with("_Unwind")), "another library would find them");
}

fn read_needed(bytes: &[u8]) -> object::read::Result<Vec<String>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let symbols = sections.symbols(endian, bytes, SHT_DYNSYM)?;
    let entries = sections.dynamic(endian, bytes)?.map_or(&[][..], |(entries, _)| entries);
    let needed = entries.iter().filter(|entry| entry.d_tag(endian) == DT_NEEDED);
    needed.map(|entry| Ok(String::from_utf8_lossy(entry.string(endian, symbols.strings())?).into_owned())).collect()
}
