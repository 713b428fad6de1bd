//! The page of programs: each cell of its tables is checked with the real program, which runs with the page's lines.
//! The page has other versions and lines for Debian 13; `debian13.rs` runs these tests there.

mod house;
mod programs;

use crate::programs::{package_of, run};
pub(crate) use house::House;
use house::{NO_KEY, NO_SERVICE, NOTHING, Seen};
use programs::DEBIAN_13_FILES;
pub(crate) use programs::{PROGRAMS, Program};
use std::path::Path;

pub(crate) struct Row {
    lines: Vec<String>,
    together: Vec<String>,
    expected: Seen,
    version: String,
}

fn table(heading: &str) -> Vec<Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/programs.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with(heading)).skip(2);
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    rows.take_while(|line| line.starts_with('|')).map(cells).collect()
}

fn first_table() -> Vec<Vec<String>> {
    table("| Program | On Debian 13 |")
}

fn second_table() -> Vec<Vec<String>> {
    table("| Program | Certificate first |")
}

fn debian_13_table() -> Vec<Vec<String>> {
    table("| Program | Its lines on Debian 13 |")
}

fn of_all_programs() -> Vec<String> {
    table("| When | Each program |").into_iter().map(|mut row| row.remove(1)).collect()
}

fn row_of(name: &str, rows: Vec<Vec<String>>) -> Vec<String> {
    rows.into_iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("the page has no {name}"))
}

pub(crate) fn row(name: &str) -> Row {
    let (first, second, all) = (row_of(name, first_table()), row_of(name, second_table()), of_all_programs());
    let [_, version, says_why, lines] = &first[..] else { panic!("{first:?}") };
    let [_, certificate_first, key_first, together] = &second[..] else { panic!("{second:?}") };
    let [works, restart, deleted, away] = &all[..] else { panic!("{all:?}") };
    let [said_deleted, said_away] = &match says_why.as_str() {
        "yes" => [NO_KEY, NO_SERVICE].map(|words| format!("`{words}`")),
        "no" => [NOTHING, NOTHING].map(str::to_owned),
        _ => panic!("{first:?}"),
    };
    let expected = Seen { works, restart, deleted, said_deleted, away, said_away, certificate_first, key_first }
        .map(String::clone);
    Row { lines: code(lines), together: code(together), expected, version: version.clone() }
}

impl Row {
    fn on_debian_13(mut self, name: &str) -> Self {
        if let Some(other) = debian_13_table().into_iter().find(|row| row[0] == name) {
            let names_files = |line: &&String| line.contains("CERTIFICATE") || line.contains("KEY");
            self.lines = code(&other[1]);
            let together = self.lines.iter().filter(names_files);
            self.together = together.map(|line| line.replace("CERTIFICATE", "FILE").replace("KEY", "FILE")).collect();
        }
        self
    }
}

fn is_debian_13() -> bool {
    let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    ["ID=debian", "VERSION_ID=\"13\""].iter().all(|words| system.lines().any(|line| line == *words))
}

/// The program with its files for Debian 13. Its version must be the page's.
fn on_debian_13(mut program: Program, expected: &str) -> Program {
    let package = package_of(program.command[0]).split(' ').next().unwrap();
    let installed =
        run(crate::programs::program("dpkg-query").args(["-W", "-f", "${Version}", package])).expect(package);
    let version = installed.split_once(':').map_or(&*installed, |(_epoch, version)| version);
    assert!(version.starts_with(expected), "{package} is {installed}; the page says {expected}");
    if let Some((_, files)) = DEBIAN_13_FILES.iter().find(|(name, _)| *name == program.name) {
        program.files = files;
    }
    program
}

fn code(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn prove(name: &str) {
    let mut row = row(name);
    let mut program = *PROGRAMS.iter().find(|program| program.name == name).unwrap();
    if is_debian_13() {
        program = on_debian_13(program, &row.version);
        row = row.on_debian_13(name);
    }
    let (seen, log) = House::new(&program, &row).see();
    assert_eq!(seen, row.expected, "left what was seen of {name}, right what the page says\n{log}");
}

#[test]
fn each_program_of_the_page_has_its_test() {
    let names = PROGRAMS.map(|program| program.name);
    for rows in [first_table(), second_table()] {
        let first: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(first, names);
    }
    assert!(debian_13_table().iter().all(|row| names.contains(&row[0].as_str())));
}

#[test]
fn nginx_does_as_the_page_says() {
    prove("nginx");
}

#[test]
fn haproxy_does_as_the_page_says() {
    prove("HAProxy");
}

#[test]
fn apache_does_as_the_page_says() {
    prove("Apache");
}

#[test]
fn lighttpd_does_as_the_page_says() {
    prove("lighttpd");
}

#[test]
fn stunnel_does_as_the_page_says() {
    prove("stunnel");
}

#[test]
fn postgresql_does_as_the_page_says() {
    prove("PostgreSQL");
}

#[test]
fn redis_does_as_the_page_says() {
    prove("redis");
}

#[test]
fn postfix_does_as_the_page_says() {
    prove("Postfix");
}

#[test]
fn dovecot_does_as_the_page_says() {
    prove("Dovecot");
}

#[test]
fn node_does_as_the_page_says() {
    prove("Node");
}

#[test]
fn python_does_as_the_page_says() {
    prove("Python");
}

#[test]
fn bind_does_as_the_page_says() {
    prove("BIND");
}

#[test]
fn mosquitto_does_as_the_page_says() {
    prove("mosquitto");
}

#[test]
fn memcached_does_as_the_page_says() {
    prove("memcached");
}

#[test]
fn mariadb_does_as_the_page_says() {
    prove("MariaDB");
}

#[test]
fn uwsgi_does_as_the_page_says() {
    prove("uWSGI");
}

#[test]
fn freeradius_does_as_the_page_says() {
    prove("FreeRADIUS");
}

#[test]
fn vsftpd_does_as_the_page_says() {
    prove("vsftpd");
}

#[test]
fn perl_does_as_the_page_says() {
    prove("Perl");
}

#[test]
fn php_does_as_the_page_says() {
    prove("PHP");
}

#[test]
fn puma_does_as_the_page_says() {
    prove("Puma");
}

#[test]
fn webrick_does_as_the_page_says() {
    prove("WEBrick");
}

#[test]
fn kamailio_does_as_the_page_says() {
    prove("Kamailio");
}
