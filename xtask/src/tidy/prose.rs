//! Plain English in documentation: patterns of sentences that a reader must solve first.

use std::collections::BTreeMap;

use regex::Regex;

use super::Finding;
use crate::Result;
use crate::tree::{Tree, is_kind};

/// Highest share of lines with a pattern, in percent, of each crate and of the pages.
const MAX_PERCENT: usize = 3;

const PATTERNS: [(&str, &str); 13] = [
    (r"(^|[.;:!?] )(Who|Whoever|Whom|Whose|Whichever|Whatever|What)\b[^?]*$", "begin with the subject"),
    (r"\b(of|in|by|to|from|for|at|on|with|under|behind) (which|whom|whose)\b", "make two sentences"),
    (r"\b(whoever|whom|whatever|whichever)\b", "name the subject"),
    (r"\bthat\b[^.;:]*\bthat\b", "one `that` a sentence"),
    (r"\b(so|as) (many|much)\b", "name the number"),
    (r"\b(come|comes|came) to\b", "write: is, results in"),
    (r"\b(is|are|was|were|be) (told|said|heard|asked)\b", "say who sends and who receives"),
    (r"\b(somebody|nobody|someone|no one|people)\b", "name the role: client, operator"),
    (r"\b(is|are|was|were) (not |no longer |still )?(there|here)\b", "write: exists"),
    (r"\b(elsewhere|aside|without end|for good|now and then|beside|besides)\b", "name the place or the time"),
    (r"\b(the one that|those that|that which|the ones)\b", "name the noun"),
    (r"\b(kept back|buried|deafen\w*|keep house|given up|lets? go)\b", "use the glossary of ARCHITECTURE.md"),
    (r"\w what (is|it|was|has|they|a|the|each|this|one|can|may|must|does|an)\b", "name the noun"),
];

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let patterns = PATTERNS.map(|(pattern, remedy)| Ok((Regex::new(pattern)?, remedy)));
    let patterns = patterns.into_iter().collect::<Result<Vec<_>>>()?;
    let mut places = BTreeMap::<&str, (usize, Vec<Finding>)>::new();
    for (path, text) in tree.texts() {
        let Some(place) = place(path) else { continue };
        let (lines, hits) = places.entry(place).or_default();
        for (number, line) in documentation(path, text) {
            *lines += 1;
            let found = patterns.iter().find(|(pattern, _)| pattern.is_match(line));
            hits.extend(found.map(|(_, remedy)| Finding::new(path, number, format!("a riddle: {line}"), *remedy)));
        }
    }
    let too_many = places.into_values().filter(|(lines, hits)| hits.len() * 100 > lines * MAX_PERCENT);
    Ok(too_many.flat_map(|(_, hits)| hits).collect())
}

/// The crate of a source, or the directory of a page. Data of tests and pages that programs write have none.
fn place(path: &str) -> Option<&str> {
    let inside =
        |directory: &str| path.strip_prefix(directory).map(|rest| directory.len() + rest.find('/').unwrap_or(0));
    match path {
        _ if path.starts_with("docs/results/simulated/") => None,
        _ if path.starts_with("docs/") || (is_kind(path, "md") && !path.contains('/')) => {
            is_kind(path, "md").then_some("docs")
        }
        _ if is_kind(path, "rs") => {
            let end = inside("crates/").or_else(|| path.find('/')).unwrap_or(path.len());
            Some(&path[..end])
        }
        _ => None,
    }
}

/// Lines of documentation with their numbers: doc comments of a source, a page outside of its code blocks.
fn documentation<'a>(path: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    if is_kind(path, "rs") {
        let comment = |line: &'a str| line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim);
        let comments = lines.filter_map(|(number, line)| Some((number, comment(line)?)));
        return comments.filter(|(_, line)| !line.is_empty()).collect();
    }
    let mut in_block = false;
    lines
        .filter(|(_, line)| {
            let is_fence = line.starts_with("```");
            in_block ^= is_fence;
            !in_block && !is_fence && !line.is_empty()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let findings = check(&Tree::of(files)).expect("the patterns are regular expressions");
        findings.into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    #[test]
    fn riddles_beyond_the_limit_are_found_and_code_is_not_read() {
        let page = "A lane has two rings.\n\n```sh\nWhat is it\n```\nWhat the thread is started with.\n";
        assert_eq!(lines(&[("docs/a.md", page)]), [("docs/a.md".to_owned(), 6)]);
        let source = "//! A ring.\n\n/// It is told to whoever asks.\nfn f() {\n    // What is it\n}\n";
        assert_eq!(lines(&[("crates/a/src/lib.rs", source)]), [("crates/a/src/lib.rs".to_owned(), 3)]);
        assert_eq!(lines(&[("docs/results/simulated/a.md", page), ("crates/a/tests/cases.md", page)]), []);
    }

    #[test]
    fn a_few_are_allowed_by_place() {
        let plain = "A lane has two rings.\n".repeat(40);
        let page = plain.clone() + "It comes to nobody.\n";
        assert_eq!(lines(&[("docs/a.md", &page)]), []);
        assert_eq!(lines(&[("docs/a.md", &plain), ("xtask/src/main.rs", "//! It comes to nobody.\n")]).len(), 1);
    }
}
