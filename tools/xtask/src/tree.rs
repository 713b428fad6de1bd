//! The project's files, tracked by git and read once.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::Result;

/// Path, relative to the root and with `/`, to text; `None` for other content.
pub(crate) struct Tree(BTreeMap<String, Option<String>>);

impl Tree {
    /// Reads all files that git tracks. Without git, or outside a checkout, all that `.gitignore` does not name.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let paths = tracked(root).map_or_else(|| walked(root), Ok)?;
        Ok(Self(paths.into_iter().filter_map(|path| read(root, path)).collect()))
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned()))).collect())
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path)?.as_deref()
    }

    /// Directories of the packages, and their names.
    pub(crate) fn packages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter_map(|(path, text)| {
            let directory = path.strip_suffix("/Cargo.toml")?;
            Some((directory, text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))?))
        })
    }

    /// Whether that is a file, or a directory with a file in it. The root is the empty path.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        path.is_empty() || self.0.contains_key(path) || self.paths().any(|file| file.starts_with(&inside))
    }
}

pub(crate) fn is_kind(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

fn tracked(root: &Path) -> Option<Vec<String>> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().ok()?;
    let paths = String::from_utf8(listed.stdout).ok()?;
    let paths: Vec<String> = paths.split_terminator('\0').map(str::to_owned).collect();
    (listed.status.success() && !paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let not_git = |entry: &ignore::DirEntry| entry.file_name() != ".git";
    for entry in ignore::WalkBuilder::new(root).hidden(false).require_git(false).filter_entry(not_git).build() {
        let entry = entry?;
        if entry.file_type().is_some_and(|kind| kind.is_file()) {
            paths.push(entry.path().strip_prefix(root)?.to_string_lossy().into_owned());
        }
    }
    Ok(paths)
}

/// `None` for a tracked file that was deleted.
fn read(root: &Path, path: String) -> Option<(String, Option<String>)> {
    let bytes = std::fs::read(root.join(&path)).ok()?;
    Some((path, String::from_utf8(bytes).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_in_the_tree_if_a_file_in_it_is() {
        let tree = Tree::of(&[("docs/adr/0000.md", ""), ("README.md", "")]);
        for path in ["", "docs", "docs/", "docs/adr", "docs/adr/0000.md", "README.md"] {
            assert!(tree.contains(path), "{path}");
        }
        for path in ["doc", "docs/ad", "README", "adr"] {
            assert!(!tree.contains(path), "{path}");
        }
    }

    #[test]
    fn git_and_the_walk_see_this_file() -> Result<()> {
        let root = crate::root()?;
        assert!(walked(&root)?.contains(&"tools/xtask/src/tree.rs".to_owned()));
        assert!(!walked(&root)?.iter().any(|path| path.starts_with("target/")));
        assert!(Tree::load(&root)?.contains("tools/xtask/src/main.rs"));
        Ok(())
    }
}
