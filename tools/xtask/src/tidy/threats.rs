//! Rules of the threat model and of the security policy: each test that they name must exist.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::{Finding, line_at};
use crate::source::Source;
use crate::tree::{Tree, is_kind};

const MODEL: &str = "docs/security.md";
const COLUMN: &str = "Test";
/// It names one test for each promise, in a line that begins so.
const POLICY: &str = "SECURITY.md";
const LINE: &str = "Test: ";

pub(super) fn check(tree: &Tree, sources: &[Source<'_>]) -> Vec<Finding> {
    let Some(text) = tree.text(MODEL) else {
        return vec![Finding::new(
            MODEL,
            1,
            "there is no such file",
            "write down who may attack what, and the test for it",
        )];
    };
    let Some(named) = named(text) else {
        return vec![Finding::new(
            MODEL,
            1,
            format!("no table with a column {COLUMN}"),
            "name the test of each threat there",
        )];
    };
    let named = named.into_iter().map(|(line, name)| (MODEL, line, name));
    let promised = promised(tree.text(POLICY).unwrap_or_default()).map(|(line, name)| (POLICY, line, name));
    let missing = named.chain(promised).filter(|(.., name)| !exists(tree, sources, name));
    let remedy = "write the test, or correct its name";
    missing.map(|(page, line, name)| Finding::new(page, line, format!("no test `{name}`"), remedy)).collect()
}

fn promised(text: &str) -> impl Iterator<Item = (usize, String)> {
    let lines = (1..).zip(text.lines());
    lines.filter_map(|(line, text)| Some((line, text.strip_prefix(LINE)?.trim().trim_matches('`').to_owned())))
}

/// The code spans in the column of tests, with their lines. `None` without such a column.
fn named(text: &str) -> Option<Vec<(usize, String)>> {
    let mut table = Table::default();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        table.read(text, event, range);
    }
    table.found.then_some(table.named)
}

#[derive(Default)]
struct Table {
    in_head: bool,
    cell: usize,
    column: Option<usize>,
    found: bool,
    named: Vec<(usize, String)>,
}

impl Table {
    fn read(&mut self, text: &str, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(Tag::TableHead) => (self.in_head, self.cell) = (true, 0),
            Event::End(TagEnd::TableHead) => self.in_head = false,
            Event::Start(Tag::TableRow) => self.cell = 0,
            Event::End(TagEnd::TableCell) => self.cell += 1,
            Event::End(TagEnd::Table) => self.column = None,
            Event::Text(head) if self.in_head && head.trim() == COLUMN => {
                (self.column, self.found) = (Some(self.cell), true);
            }
            Event::Code(code) if !self.in_head && self.column == Some(self.cell) => {
                self.named.push((line_at(text, range.start), code.to_string()));
            }
            _ => {}
        }
    }
}

/// `crate::path::test` and `tests/file.rs::test` name tests, `cargo ...` is a command, all else must be a path.
fn exists(tree: &Tree, sources: &[Source<'_>], name: &str) -> bool {
    let Some((place, test)) = name.rsplit_once("::") else {
        return name.starts_with("cargo ") || tree.contains(name);
    };
    let is_test =
        |source: &Source<'_>| source.functions().iter().any(|function| function.test && function.name == test);
    let package = place.split("::").next().unwrap_or(place).replace('_', "-");
    let directory = tree.packages().find(|(_, name)| *name == package).map(|(directory, _)| format!("{directory}/"));
    let is_place = |path: &str| match &directory {
        Some(directory) => path.starts_with(directory),
        None => is_kind(place, "rs") && (path == place || path.ends_with(&format!("/{place}"))),
    };
    sources.iter().any(|source| is_place(source.path) && is_test(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: (&str, &str) = ("base/core/Cargo.toml", "[package]\nname = \"sidecore-core\"\n");

    fn findings(model: &str) -> Vec<usize> {
        let tree = Tree::of(&[(MODEL, model), CORE, ("keys/fuzz/src/lib.rs", "")]);
        let sources = [
            Source::of("base/core/src/ring.rs", "#[test]\nfn hostile_words() {}\nfn helper() {}"),
            Source::of("keys/service/tests/hostile.rs", "proptest! { fn drawn(x in 0..1) {} }"),
        ];
        check(&tree, &sources).into_iter().map(|finding| finding.line).collect()
    }

    fn table(cell: &str) -> String {
        format!("# Threats\n\n| Threat | Test |\n|---|---|\n| `not::a_test` | {cell} |\n")
    }

    #[test]
    fn tests_that_exist_pass() {
        let good = [
            "`sidecore_core::ring::hostile_words`",
            "`tests/hostile.rs::drawn`, `keys/service/tests/hostile.rs::drawn`",
            "`sidecore-core::ring::tests::hostile_words` and `keys/fuzz/src`",
            "`cargo xtask tidy`",
        ];
        for cell in good {
            assert_eq!(findings(&table(cell)), [0; 0], "{cell}");
        }
    }

    #[test]
    fn tests_that_do_not_exist_are_found() {
        let bad = [
            "`sidecore_core::ring::gone`",
            "`sidecore_core::ring::helper`",
            "`sidecore::ring::hostile_words`",
            "`tests/other.rs::drawn`",
            "`keys/fuzz/none`",
        ];
        for cell in bad {
            assert_eq!(findings(&table(cell)), [5], "{cell}");
        }
    }

    #[test]
    fn tests_that_the_policy_names_must_exist_too() {
        let model = table("`sidecore_core::ring::hostile_words`");
        let tree = |policy: &str| Tree::of(&[(MODEL, &model), (POLICY, policy), CORE]);
        let sources = [Source::of("base/core/src/ring.rs", "#[test]\nfn hostile_words() {}")];
        assert_eq!(check(&tree("Promise.\n\nTest: `sidecore_core::ring::hostile_words`\n"), &sources).len(), 0);
        assert_eq!(check(&tree("Promise.\n\nTest: `sidecore_core::ring::gone`\n"), &sources).len(), 1);
    }

    #[test]
    fn the_model_and_its_table_must_be_there() {
        assert_eq!(check(&Tree::of(&[]), &[]).len(), 1);
        assert_eq!(findings("| Threat |\n|---|\n| `a::b` |\n").len(), 1);
    }
}
