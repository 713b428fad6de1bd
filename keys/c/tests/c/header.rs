//! The header and the library agree: functions, numbers and sizes.

use crate::site::{Site, VERSION, include, library, run};
use object::Endianness;
use object::elf::{FileHeader64, SHT_DYNSYM, STT_FUNC};
use object::read::elf::{FileHeader, Sym};
use sidecore_client::keyops::failure::Reason;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::process::Command;

fn header() -> String {
    fs::read_to_string(include().join("sidecore.h")).unwrap()
}

fn exported() -> BTreeSet<String> {
    let bytes = fs::read(library()).unwrap();
    let header = FileHeader64::<Endianness>::parse(&*bytes).unwrap();
    let endian = header.endian().unwrap();
    let symbols = header.sections(endian, &*bytes).unwrap().symbols(endian, &*bytes, SHT_DYNSYM).unwrap();
    let functions = symbols.iter().filter(|symbol| !symbol.is_undefined(endian) && symbol.st_type() == STT_FUNC);
    functions.map(|symbol| String::from_utf8_lossy(symbol.name(endian, symbols.strings()).unwrap()).into()).collect()
}

/// Names before a parenthesis, outside of comments.
fn declared() -> BTreeSet<String> {
    let text = header();
    let mut code = String::new();
    for (at, part) in text.split("/*").enumerate() {
        code += if at == 0 { part } else { part.split_once("*/").unwrap().1 };
    }
    let names = code.split('(').filter_map(|before| before.rsplit([' ', '*', '\n']).next());
    names.filter(|name| name.starts_with("sidecore_")).map(str::to_owned).collect()
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    assert!(declared().contains("sidecore_queue_submit_sign"));
    let ours: BTreeSet<String> = exported().into_iter().filter(|name| !name.starts_with("rust_")).collect();
    assert_eq!(ours, declared());
}

#[test]
fn numbers_and_sizes_are_those_of_the_library() {
    let site = Site::with(&[]);
    let words = header();
    let mut names: Vec<&str> = words
        .lines()
        .filter_map(|line| line.trim().strip_prefix("SIDECORE_")?.split_once(" = "))
        .map(|it| it.0)
        .collect();
    assert!(names.contains(&"OK") && names.contains(&"FORKED") && names.contains(&"OAEP_SHA512"), "{names:?}");
    names.push("MAX_SIGNATURE");
    let mut source = "#include <sidecore.h>\n#include <stdio.h>\nint main(void) {\n".to_owned();
    for name in &names {
        writeln!(source, "printf(\"{name} %d\\n\", (int)SIDECORE_{name});").unwrap();
    }
    source += "printf(\"options %d\\nresult %d\\n\", (int)sizeof(sidecore_options), (int)sizeof(sidecore_result)); }\n";
    fs::write(site.path("numbers.c"), source).unwrap();
    let program = site.build(site.path("numbers.c").to_str().unwrap(), &[]);
    let told = site.says(&program, &[]);
    let number = |name: &str| -> usize {
        let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in sidecore.h")).parse().unwrap()
    };
    // The library's own test has the same numbers.
    assert_eq!((number("options"), number("result")), (32, 24));
    // The longest one, of ML-DSA-65, up to a multiple of eight.
    assert_eq!(number("MAX_SIGNATURE"), 3309_usize.next_multiple_of(8));
    for reason in Reason::ALL {
        let words = format!("{reason:?}");
        let name = words.chars().enumerate().fold(String::new(), |name, (at, letter)| {
            let gap = if at > 0 && letter.is_uppercase() { "_" } else { "" };
            name + gap + &letter.to_uppercase().to_string()
        });
        assert_eq!(number(&name), reason as usize, "{name}");
    }
    for (name, expected) in [("ARGUMENT", 32), ("TOO_SMALL", 33), ("FULL", 34), ("FORKED", 35)] {
        assert_eq!(number(name), expected);
    }
}

#[test]
fn each_symbol_has_the_version_that_is_the_librarys_name_and_a_program_asks_for_it() {
    let bytes = fs::read(library()).unwrap();
    let header = FileHeader64::<Endianness>::parse(&*bytes).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, &*bytes).unwrap();
    let symbols = sections.symbols(endian, &*bytes, SHT_DYNSYM).unwrap();
    let versions = sections.versions(endian, &*bytes).unwrap().expect("a table of versions");
    let mut seen = 0;
    for (index, symbol) in symbols.enumerate() {
        let name = String::from_utf8_lossy(symbol.name(endian, symbols.strings()).unwrap()).into_owned();
        if symbol.is_undefined(endian) || !name.starts_with("sidecore_") {
            continue;
        }
        let version = versions.version(versions.version_index(endian, index)).unwrap();
        assert_eq!(version.map(object::read::elf::Version::name), Some(VERSION.as_bytes()), "{name}");
        seen += 1;
    }
    assert_eq!(seen, declared().len());
    let site = Site::with(&[]);
    let program = site.build("examples/queue.c", &[]);
    let needed = String::from_utf8(run(Command::new("objdump").arg("-T").arg(program)).stdout).unwrap();
    let asks = needed.lines().find(|line| line.ends_with(" sidecore_open")).unwrap_or_else(|| panic!("{needed}"));
    assert!(asks.contains(VERSION), "{asks}");
}

#[test]
fn the_header_is_c_of_1999_and_cpp() {
    for (compiler, language) in [("cc", ["-x", "c", "-std=c99"]), ("c++", ["-x", "c++", "-std=c++11"])] {
        let mut command = Command::new(compiler);
        command.args(language).args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
        run(command.arg(include().join("sidecore.h")));
    }
}
