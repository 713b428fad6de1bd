//! How much there is to read: pages and words, which may become fewer.

use super::Finding;
use crate::tree::{Tree, is_kind};

const README: (&str, usize) = ("README.md", 900);
const MAX_README_LINES: usize = 80;
const MAX_PAGES: usize = 40;
const MAX_WORDS: usize = 48_600;
const GENERATED: &str = "docs/results/simulated/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree
        .texts()
        .filter(|(path, _)| path.starts_with("docs/") && !path.starts_with(GENERATED) && is_kind(path, "md"));
    let (pages, total) = pages.fold((0, 0), |(pages, sum), (_, text)| (pages + 1, sum + words(text)));
    let readme = tree.text(README.0).unwrap_or_default();
    let limits = [
        (README.0, "words", words(readme), README.1),
        (README.0, "lines", readme.lines().count(), MAX_README_LINES),
        ("docs", "pages", pages, MAX_PAGES),
        ("docs", "words", total, MAX_WORDS),
    ];
    let exceeded = limits.into_iter().filter(|(_, _, found, limit)| found > limit);
    let finding = |(path, what, found, limit): (&str, &str, usize, usize)| {
        Finding::new(path, 1, format!("{found} {what}, the limit is {limit}"), "say less, or say it once")
    };
    exceeded.map(finding).collect()
}

/// As `wc -w` counts them, without bars of tables and signs.
fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_found() {
        let long = "word ".repeat(MAX_WORDS);
        let found = |files: &[(&str, &str)]| check(&Tree::of(files)).len();
        assert_eq!(found(&[("README.md", "short"), ("docs/a.md", &long)]), 0);
        assert_eq!(found(&[("README.md", &long), ("docs/a.md", &long)]), 1);
        assert_eq!(found(&[("docs/a.md", &long), ("docs/guide/b.md", "more")]), 1);
        assert_eq!(found(&[("docs/a.md", &long), ("docs/results/simulated/b.md", "more"), ("docs/c.svg", "x")]), 0);
        assert_eq!(found(&[("README.md", &"\n".repeat(MAX_README_LINES + 1))]), 1);
    }

    #[test]
    fn pages_are_counted() {
        let names: Vec<String> = (0..=MAX_PAGES).map(|number| format!("docs/{number}.md")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(check(&Tree::of(&files)).len(), 1);
        assert_eq!(check(&Tree::of(&files[1..])), []);
    }
}
