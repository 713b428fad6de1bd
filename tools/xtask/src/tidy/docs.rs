//! Documents that keep up with the code: module docs, a map of all crates, and crate docs with all modules.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::Finding;
use crate::source::Source;
use crate::tree::{Tree, is_kind};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const MAPPED: [&str; 5] =
    ["base/core/src/", "keys/client/src/", "keys/service/src/", "sockets/streams/src/", "sockets/service/src/"];

pub(super) fn module_doc(source: &Source<'_>) -> Vec<Finding> {
    let is_module = source.path.contains("src/");
    let begins = source.lines.first().is_some_and(|line| line.starts_with("//! "));
    let finding =
        || Finding::new(source.path, 1, "no module doc", "begin with `//! ` and what the module is, in a sentence");
    (is_module && !begins).then(finding).into_iter().collect()
}

pub(super) fn architecture(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(ARCHITECTURE) else {
        return vec![Finding::new(ARCHITECTURE, 1, "there is no such file", "write the map of crates")];
    };
    let named = named(text);
    let missing = tree.packages().filter(|(_, name)| !named.contains(*name));
    let remedy = "say in ARCHITECTURE.md, in backticks, what it is for";
    missing
        .map(|(directory, name)| {
            Finding::new(&format!("{directory}/Cargo.toml"), 1, format!("`{name}` is not on the map"), remedy)
        })
        .collect()
}

pub(super) fn modules(tree: &Tree) -> Vec<Finding> {
    MAPPED.iter().flat_map(|source| unnamed(tree, source)).collect()
}

fn unnamed(tree: &Tree, source: &str) -> Vec<Finding> {
    let root = format!("{source}lib.rs");
    let named = named(&crate_doc(tree.text(&root).unwrap_or_default()));
    let modules: BTreeSet<&str> = tree.paths().filter_map(|path| module(path.strip_prefix(source)?)).collect();
    let missing = modules.into_iter().filter(|name| !named.contains(*name));
    let remedy = "say there, in backticks, what it is for";
    missing.map(|name| Finding::new(&root, 1, format!("module `{name}` is not in the crate's doc"), remedy)).collect()
}

fn crate_doc(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("//!")).collect();
    lines.join("\n")
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

fn module(inside: &str) -> Option<&str> {
    let name = inside.split('/').next()?.trim_end_matches(".rs");
    let is_module = is_kind(inside, "rs") && !["lib", "main"].contains(&name);
    is_module.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: (&str, &str) = ("base/core/Cargo.toml", "[package]\nname = \"sidecore-core\"\n");

    fn missing(map: &str) -> Vec<String> {
        let files = [MANIFEST, ("tools/xtask/Cargo.toml", "name = \"xtask\"\n"), (ARCHITECTURE, map)];
        architecture(&Tree::of(&files)).into_iter().map(|finding| finding.wrong).collect()
    }

    fn undocumented(doc: &str) -> Vec<String> {
        let files = [
            ("base/core/src/lib.rs", doc),
            ("base/core/src/ring.rs", ""),
            ("base/core/src/policy.rs", ""),
            ("base/core/src/policy/notify.rs", ""),
            ("base/core/tests/loom.rs", ""),
            ("keys/cli/src/table.rs", ""),
        ];
        modules(&Tree::of(&files)).into_iter().map(|finding| finding.wrong).collect()
    }

    #[test]
    fn crates_stand_on_the_map() {
        assert_eq!(missing("`sidecore-core` and `xtask`."), [""; 0]);
        assert_eq!(missing("```text\nsidecore-core: decides\nxtask\n```"), [""; 0]);
        assert_eq!(missing("`sidecore-core-x`, xtask").len(), 2);
    }

    #[test]
    fn modules_stand_in_the_doc_of_their_crate() {
        assert_eq!(undocumented("//! Decisions: [`ring`].\n//!\n//! |`policy`|policies|\npub mod ring;"), [""; 0]);
        assert_eq!(undocumented("//! `ring`, `notify`").len(), 1);
        assert_eq!(undocumented("/// `ring`, `policy`\npub mod ring;").len(), 2);
    }

    #[test]
    fn the_map_must_be_there() {
        assert_eq!(architecture(&Tree::of(&[MANIFEST])).len(), 1);
    }

    #[test]
    fn a_module_begins_with_its_doc() {
        let check = |path, text| module_doc(&Source::of(path, text)).len();
        assert_eq!(check("keys/a/src/b.rs", "//! What it is.\nfn f() {}"), 0);
        assert_eq!(check("keys/a/src/b.rs", "fn f() {}"), 1);
        assert_eq!(check("keys/a/src/b.rs", "//!\n//! Late."), 1);
        assert_eq!(check("keys/a/tests/b.rs", "fn f() {}"), 0);
    }
}
