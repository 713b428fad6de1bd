//! `cargo xtask tidy`: the project's rules that no compiler checks.
//!
//! Each rule is a function from the tree, or from one source of it, to findings. A finding names the place, the error
//! and the remedy.

mod arrows;
mod docs;
mod links;
mod safety;
mod size;
mod threats;
mod words;

use std::fmt;
use std::path::Path;

use crate::Result;
use crate::source::Source;
use crate::tree::{Tree, is_kind};
pub(crate) use size::median;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    wrong: String,
    remedy: String,
}

/// Checks the tree and prints the findings. `false`: there are findings.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let tree = Tree::load(root)?;
    let (sources, mut findings) = parse(&tree);
    findings.extend(arrows::check(root, &tree)?);
    findings.extend(check(&tree, &sources));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    println!("{}", summary(&sources, findings.len()));
    Ok(findings.is_empty())
}

impl Finding {
    fn new(path: &str, line: usize, wrong: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, wrong: wrong.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.wrong, self.remedy)
    }
}

/// The line, from 1, of a byte of the text.
fn line_at(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

fn parse(tree: &Tree) -> (Vec<Source<'_>>, Vec<Finding>) {
    let (mut sources, mut findings) = (Vec::new(), Vec::new());
    for (path, text) in tree.texts().filter(|(path, _)| is_kind(path, "rs")) {
        match Source::parse(path, text) {
            Ok(source) => sources.push(source),
            Err((line, message)) => findings.push(Finding::new(path, line, message, "correct the syntax")),
        }
    }
    (sources, findings)
}

fn check(tree: &Tree, sources: &[Source<'_>]) -> Vec<Finding> {
    let each = sources.iter().flat_map(|source| {
        let checks =
            [size::check, safety::check, safety::deciding_crates, words::check, docs::module_doc, arrows::paths];
        checks.into_iter().flat_map(move |check| check(source))
    });
    let whole = [docs::architecture, docs::modules, links::check, words::machine_paths];
    let whole = whole.into_iter().flat_map(|check| check(tree));
    each.chain(whole).chain(threats::check(tree, sources)).collect()
}

fn summary(sources: &[Source<'_>], findings: usize) -> String {
    let mut lengths: Vec<usize> = sources.iter().flat_map(Source::functions).map(|function| function.lines).collect();
    let blocks: usize = sources.iter().map(safety::blocks).sum();
    let (files, functions, median) = (sources.len(), lengths.len(), median(&mut lengths));
    let found = if findings == 0 { String::new() } else { format!("; {findings} findings") };
    format!("tidy: {files} files, {functions} functions, median {median} lines, {blocks} unsafe blocks{found}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_as_one_line() {
        let finding = Finding::new("a.rs", 3, "too long", "split it");
        assert_eq!(finding.to_string(), "a.rs:3: too long: split it");
    }

    #[test]
    fn what_does_not_parse_is_a_finding() {
        let tree = Tree::of(&[("a.rs", "fn f() {}"), ("b.rs", "fn\nfn"), ("c.md", "fn")]);
        let (sources, findings) = parse(&tree);
        assert_eq!(sources.len(), 1);
        assert_eq!((findings.len(), findings[0].path.as_str(), findings[0].line), (1, "b.rs", 2));
    }

    #[test]
    fn the_summary_counts() {
        let sources = [Source::of("a.rs", "fn f() {\n}\nfn g() {\n\n}\nfn h() {}")];
        assert_eq!(summary(&sources, 0), "tidy: 1 files, 3 functions, median 2 lines, 0 unsafe blocks");
        assert!(summary(&sources, 2).ends_with("; 2 findings"));
    }
}
