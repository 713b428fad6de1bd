//! Links of the documents to files of the project.

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::{Finding, line_at};
use crate::tree::{Tree, is_kind};

const TOP: [&str; 3] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let absent = TOP.iter().filter(|path| **path != "ARCHITECTURE.md" && tree.text(path).is_none());
    let absent = absent.map(|path| Finding::new(path, 1, "there is no such file", "write it"));
    absent.chain(documents(tree).flat_map(|(path, text)| broken(tree, path, text))).collect()
}

fn documents(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let is_document = |path: &str| TOP.contains(&path) || (path.starts_with("docs/") && is_kind(path, "md"));
    tree.texts().filter(move |(path, _)| is_document(path))
}

fn broken(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url: target, .. } | Tag::Image { dest_url: target, .. }) = event else {
            continue;
        };
        if !leads_somewhere(tree, path, &target) {
            let line = line_at(text, range.start);
            findings.push(Finding::new(
                path,
                line,
                format!("link to `{target}`, which is not there"),
                "correct or remove it",
            ));
        }
    }
    findings
}

fn leads_somewhere(tree: &Tree, document: &str, target: &str) -> bool {
    let file = target.split('#').next().unwrap_or(target);
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    is_elsewhere || file.is_empty() || resolve(document, file).is_some_and(|path| tree.contains(&path))
}

/// The path of `target` from the root, seen from a document. `None` for a target outside the project.
fn resolve(document: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            "" => return None,
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(document: &str, text: &str) -> Vec<usize> {
        let files = [("README.md", ""), ("CONTRIBUTING.md", ""), ("docs/adr/0001-ring.md", ""), (document, text)];
        check(&Tree::of(&files)).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let top = "[a](docs/adr/0001-ring.md#state) [b](docs/) [c](#here) [d](https://x.org/y.md) ![e](README.md)";
        assert_eq!(lines("README.md", top), [0; 0]);
        assert_eq!(lines("docs/a.md", "[up](../README.md) [down](./adr) `[code](nowhere)`"), [0; 0]);
        assert_eq!(lines("keys/a/x.md", "[not checked](nowhere.md)"), [0; 0]);
    }

    #[test]
    fn links_to_nowhere_are_found() {
        assert_eq!(lines("README.md", "one\n\n[a](docs/adr/0002.md)\n[b][r]\n\n[r]: nowhere.md\n"), [3, 4]);
        assert_eq!(lines("docs/a.md", "| t |\n|---|\n| [up](../../README.md) |\n| [root](/README.md) |\n"), [3, 4]);
    }

    #[test]
    fn the_top_documents_must_be_there() {
        assert_eq!(check(&Tree::of(&[("README.md", "")])).len(), 1);
    }
}
