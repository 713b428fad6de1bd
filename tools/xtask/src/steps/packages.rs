//! The Debian packages that the tests need: one list, and the check for missing ones.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines: a program or the path of a file, and the packages that provide it.
const LIST: &str = include_str!("../../packages.txt");

pub(super) fn missing(search: &OsStr) -> Vec<&'static str> {
    missing_of(LIST, |need| is_there(need, search))
}

fn missing_of(list: &str, is_there: impl Fn(&str) -> bool) -> Vec<&str> {
    let lacking = entries(list).filter(|(need, _)| !is_there(need));
    lacking.flat_map(|(_, packages)| packages.split(' ')).collect::<BTreeSet<_>>().into_iter().collect()
}

fn entries(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '))
}

fn is_there(need: &str, search: &OsStr) -> bool {
    match need.strip_prefix('/') {
        Some(path) => matches(Path::new("/").to_owned(), &path.split('/').collect::<Vec<_>>()),
        None => env::split_paths(search).any(|directory| directory.join(need).is_file()),
    }
}

/// Whether these names below the directory lead to a file, where `*` is any name.
fn matches(directory: PathBuf, names: &[&str]) -> bool {
    match names {
        [] => directory.exists(),
        ["*", rest @ ..] => {
            fs::read_dir(directory).into_iter().flatten().flatten().any(|entry| matches(entry.path(), rest))
        }
        [name, rest @ ..] => matches(directory.join(name), rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_what_is_missing_are_named_once_in_order() {
        let list = "# a b\nsh dash\ncc gcc libc-dev\n/usr/include/a.h libc-dev\nar binutils\n";
        assert_eq!(missing_of(list, |need| need == "sh"), ["binutils", "gcc", "libc-dev"]);
        assert_eq!(missing_of(list, |_| true), [""; 0]);
    }

    #[test]
    fn programs_are_searched_for_and_files_matched() {
        let search = OsStr::new("/nowhere:/usr/bin:/bin");
        for need in ["sh", "/bin/sh", "/*/sh", "/proc/*/status"] {
            assert!(is_there(need, search), "{need}");
        }
        for need in ["no-such-program", "/no/such/file", "/proc/*/no-such-file", "/*/*/no-such-file"] {
            assert!(!is_there(need, search), "{need}");
        }
        assert!(!is_there("sh", OsStr::new("/nowhere")));
    }

    #[test]
    fn each_line_names_one_need_and_its_packages_in_order() {
        let lines: Vec<&str> = LIST.lines().filter(|line| !line.starts_with('#')).collect();
        let mut sorted = lines.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(lines, sorted);
        let fits = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || b"0123456789+-.".contains(&byte));
        for line in &lines {
            let (_, packages) = line.split_once(' ').expect(line);
            assert!(packages.split(' ').all(|name| name.len() > 1 && fits(name)), "{line}");
        }
    }

    #[test]
    fn no_page_repeats_the_list() -> crate::Result<()> {
        let tree = crate::tree::Tree::load(&crate::root()?)?;
        for page in ["README.md", "CONTRIBUTING.md", ".ci/run"] {
            let text = tree.text(page).ok_or(page)?;
            assert!(!text.contains("nats-server redis") && !text.contains("stunnel4"), "{page}");
        }
        Ok(())
    }
}
