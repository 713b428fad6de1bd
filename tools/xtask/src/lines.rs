//! `cargo xtask lines`: how many lines of Rust each crate has, and how long its functions are.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::path::Path;

use syn::visit::{self, Visit};

use crate::Result;
use crate::source::{Source, line};
use crate::tidy::median;
use crate::tree::{Tree, is_kind};

/// Directories and files with tests and their helpers only.
const TEST_PLACES: [&str; 3] = ["tests", "benches", "tests.rs"];

pub(crate) fn run(root: &Path) -> Result<bool> {
    println!("{}", Table::of(&Tree::load(root)?)?);
    Ok(true)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lines {
    code: usize,
    tests: usize,
    functions: Vec<usize>,
}

impl AddAssign<&Self> for Lines {
    fn add_assign(&mut self, other: &Self) {
        self.code += other.code;
        self.tests += other.tests;
        self.functions.extend(&other.functions);
    }
}

struct Table(BTreeMap<String, Lines>);

impl Table {
    fn of(tree: &Tree) -> Result<Self> {
        let mut crates = BTreeMap::<_, Lines>::new();
        for (path, text) in tree.texts().filter(|(path, _)| is_kind(path, "rs")) {
            let lines = count(path, text).map_err(|(line, why)| format!("{path}:{line}: {why}"))?;
            *crates.entry(crate_of(tree, path)).or_default() += &lines;
        }
        Ok(Self(crates))
    }
}

fn crate_of(tree: &Tree, path: &str) -> String {
    let mut above = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
    above.find(|directory| tree.text(&format!("{directory}/Cargo.toml")).is_some()).unwrap_or("").to_owned()
}

fn count(path: &str, text: &str) -> std::result::Result<Lines, (usize, String)> {
    let source = Source::parse(path, text)?;
    let all = source.lines.len();
    if path.split('/').any(|part| TEST_PLACES.contains(&part)) {
        return Ok(Lines { tests: all, ..Lines::default() });
    }
    let mut marked = Marked(Vec::new());
    marked.visit_file(&source.syntax);
    let in_tests = |line: usize| marked.0.iter().any(|(first, last)| (*first..=*last).contains(&line));
    let tests = (1..=all).filter(|line| in_tests(*line)).count();
    let functions = source.functions().into_iter().filter(|function| !in_tests(function.line));
    Ok(Lines { code: all - tests, tests, functions: functions.map(|function| function.lines).collect() })
}

/// First and last lines of the code that is compiled for tests only, with its attributes.
struct Marked(Vec<(usize, usize)>);

impl<'ast> Visit<'ast> for Marked {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (attributes, end) = match item {
            syn::Item::Mod(syn::ItemMod { attrs, content: Some((brace, _)), .. }) => (attrs, brace.span.close()),
            syn::Item::Mod(syn::ItemMod { attrs, semi: Some(semi), .. }) => (attrs, semi.span),
            syn::Item::Fn(item) => (&item.attrs, item.block.brace_token.span.close()),
            syn::Item::Impl(item) => (&item.attrs, item.brace_token.span.close()),
            syn::Item::Use(item) => (&item.attrs, item.semi_token.span),
            syn::Item::Const(item) => (&item.attrs, item.semi_token.span),
            _ => return,
        };
        if !self.mark(attributes, end) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.mark(&item.attrs, item.block.brace_token.span.close());
    }
}

impl Marked {
    /// Marks the code if it is for tests. Returns whether it is.
    fn mark(&mut self, attributes: &[syn::Attribute], end: proc_macro2::Span) -> bool {
        let marked = attributes.iter().any(is_for_tests);
        if marked {
            self.0.push((line(attributes[0].pound_token.span), end.end().line));
        }
        marked
    }
}

/// `#[cfg(test)]`, alone or with other conditions that must all hold.
fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    let condition = list.tokens.to_string();
    list.path.is_ident("cfg")
        && (condition == "test" || condition.starts_with("all (test") || condition.starts_with("all(test"))
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| Crate | Lines without tests | Tests | Functions | Median |\n|---|---|---|---|---|")?;
        let mut total = Lines::default();
        for (name, lines) in &self.0 {
            total += lines;
            row(f, name, lines)?;
        }
        row(f, "all", &total)
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, lines: &Lines) -> fmt::Result {
    let (functions, median) = (lines.functions.len(), median(&mut lines.functions.clone()));
    writeln!(f, "| {name} | {} | {} | {functions} | {median} |", lines.code, lines.tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compiled_for_tests_only_counts_as_tests() {
        let text = "fn a() {}\n\nfn b() {\n}\n#[cfg(test)]\nfn c() {}\n\n#[cfg(all(test, not(loom)))]\nmod tests {\n    fn d() {}\n}\n";
        let expected = Lines { code: 5, tests: 6, functions: vec![1, 2] };
        assert_eq!(count("keys/a/src/lib.rs", text), Ok(expected));
        let expected = Lines { code: 0, tests: 11, functions: vec![] };
        for path in ["keys/a/tests/b.rs", "keys/a/src/b/tests.rs", "keys/a/src/b/tests/c.rs", "keys/a/benches/b.rs"] {
            assert_eq!(count(path, text), Ok(expected.clone()), "{path}");
        }
    }

    #[test]
    fn a_file_counts_for_its_own_crate() -> Result<()> {
        let files =
            [("a/Cargo.toml", ""), ("a/src/lib.rs", "fn f() {}\n"), ("a/b/Cargo.toml", ""), ("a/b/src/x.rs", "\n\n")];
        let table = Table::of(&Tree::of(&files))?.to_string();
        assert!(
            table.ends_with("| a | 1 | 0 | 1 | 1 |\n| a/b | 2 | 0 | 0 | 0 |\n| all | 3 | 0 | 1 | 1 |\n"),
            "{table}"
        );
        Ok(())
    }
}
