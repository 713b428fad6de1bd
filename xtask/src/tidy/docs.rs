//! Documents that keep up with the code: module docs, and a map on which every crate and module stands.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::Finding;
use crate::source::Source;
use crate::tree::{Tree, is_kind};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const ARCHITECTURE_LINES: usize = 250;
/// Crates whose modules stand on the map one by one.
const MAPPED: [&str; 3] = ["crates/sidecore-core/src/", "crates/sidecore-client/src/", "crates/sidecore/src/"];

/// Finds a module whose file does not begin with what it is.
pub(super) fn module_doc(source: &Source<'_>) -> Vec<Finding> {
    let is_module = source.path.contains("src/");
    let begins = source.lines.first().is_some_and(|line| line.starts_with("//! "));
    let finding =
        || Finding::new(source.path, 1, "no module doc", "begin with `//! ` and what the module is, in a sentence");
    (is_module && !begins).then(finding).into_iter().collect()
}

/// Finds crates and modules that are not on the map, and a map too long to be one.
pub(super) fn architecture(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(ARCHITECTURE) else {
        return vec![Finding::new(ARCHITECTURE, 1, "there is no such file", "write the map of crates and modules")];
    };
    let named = named(text);
    let missing = places(tree).into_iter().filter(|(_, name)| !named.contains(*name));
    let remedy = "say in ARCHITECTURE.md, in backticks, what it is for";
    let mut findings: Vec<Finding> =
        missing.map(|(path, name)| Finding::new(path, 1, format!("`{name}` is not on the map"), remedy)).collect();
    let lines = text.lines().count();
    if lines > ARCHITECTURE_LINES {
        let wrong = format!("{lines} lines, the limit is {ARCHITECTURE_LINES}");
        findings.push(Finding::new(ARCHITECTURE, ARCHITECTURE_LINES + 1, wrong, "move detail to docs/"));
    }
    findings
}

/// Every word that stands in a code span or code block.
fn named(text: &str) -> BTreeSet<String> {
    let (mut words, mut in_block) = (BTreeSet::new(), false);
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_block = true,
            Event::End(TagEnd::CodeBlock) => in_block = false,
            Event::Code(code) => words.extend(split(&code)),
            Event::Text(code) if in_block => words.extend(split(&code)),
            _ => {}
        }
    }
    words
}

fn split(code: &str) -> impl Iterator<Item = String> + '_ {
    let is_break = |letter: char| !(letter.is_alphanumeric() || "_-".contains(letter));
    code.split(is_break).map(str::to_owned)
}

/// What the map must name, and a file that shows it is there: crates, and modules of the mapped ones.
fn places(tree: &Tree) -> BTreeSet<(&str, &str)> {
    let crates = tree.paths().filter_map(|path| Some((path, path.strip_suffix("/Cargo.toml")?.rsplit('/').next()?)));
    let modules = tree.paths().filter_map(|path| Some((path, module(path)?)));
    let mut seen = BTreeSet::new();
    crates
        .chain(modules)
        .filter(|(path, name)| seen.insert((path.split("/src/").next().unwrap_or(path), *name)))
        .collect()
}

/// The top-level module that a file of a mapped crate belongs to.
fn module(path: &str) -> Option<&str> {
    let inside = MAPPED.iter().find_map(|source| path.strip_prefix(source))?;
    let name = inside.split('/').next()?.trim_end_matches(".rs");
    let is_module = is_kind(path, "rs") && !["lib", "main"].contains(&name);
    is_module.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: [(&str, &str); 5] = [
        ("crates/sidecore-core/Cargo.toml", ""),
        ("crates/sidecore-core/src/lib.rs", ""),
        ("crates/sidecore-core/src/ring.rs", ""),
        ("crates/sidecore/src/policy/notify.rs", ""),
        ("crates/sidecore-cli/src/table.rs", ""),
    ];

    fn missing(map: &str) -> Vec<String> {
        let files: Vec<_> = TREE.into_iter().chain([(ARCHITECTURE, map)]).collect();
        architecture(&Tree::of(&files)).into_iter().map(|finding| finding.wrong).collect()
    }

    #[test]
    fn crates_and_modules_stand_on_the_map() {
        assert_eq!(missing("`sidecore-core` has `ring.rs` and `policy/{notify}`."), [""; 0]);
        assert_eq!(missing("```text\nsidecore-core: ring, policy\n```"), [""; 0]);
        assert_eq!(missing("`sidecore-core`, ring, `policy_x`").len(), 2);
    }

    #[test]
    fn the_map_must_be_there_and_short() {
        assert_eq!(architecture(&Tree::of(&TREE)).len(), 1);
        let head = "`sidecore-core ring policy`\n";
        assert_eq!(missing(&(head.to_owned() + &"\n".repeat(249))), [""; 0]);
        assert_eq!(missing(&(head.to_owned() + &"\n".repeat(250))).len(), 1);
    }

    #[test]
    fn a_module_begins_with_its_doc() {
        let check = |path, text| module_doc(&Source::of(path, text)).len();
        assert_eq!(check("crates/a/src/b.rs", "//! What it is.\nfn f() {}"), 0);
        assert_eq!(check("crates/a/src/b.rs", "fn f() {}"), 1);
        assert_eq!(check("crates/a/src/b.rs", "//!\n//! Late."), 1);
        assert_eq!(check("crates/a/tests/b.rs", "fn f() {}"), 0);
    }
}
