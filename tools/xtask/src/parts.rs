//! The parts of the project, and which may know which. A part is a folder of crates: base, which all share, three
//! products, the laboratory that measures them, and tools.

use std::path::Path;

use cargo_metadata::MetadataCommand;

use crate::Result;

pub(crate) const TOOLS: &str = "tools";
pub(crate) const LABORATORY: &str = "lab";

/// Each part, and the others that its crates may use. A product knows no other product.
const PARTS: [(&str, &[&str]); 6] = [
    ("base", &[]),
    ("keys", &["base"]),
    ("sockets", &["base"]),
    ("farm", &["base"]),
    (LABORATORY, &["base", "keys", "sockets", "farm"]),
    (TOOLS, &[]),
];

/// The part of a file: the first folder of its path.
pub(crate) fn of(path: &str) -> &str {
    path.split('/').next().unwrap_or_default()
}

/// The parts with tests of their own, which are all but the tools.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PARTS.iter().map(|(part, _)| *part).filter(|part| *part != TOOLS)
}

/// Whether crates of one part may depend on any crate of the other.
pub(crate) fn may_use(part: &str, other: &str) -> bool {
    part == other || PARTS.iter().any(|(name, used)| *name == part && used.contains(&other))
}

/// The packages of a part.
pub(crate) fn packages(root: &Path, part: &str) -> Result<Vec<String>> {
    if names().all(|name| name != part) {
        return Err(format!("no part is called {part}; there are {}", names().collect::<Vec<_>>().join(", ")).into());
    }
    let metadata = MetadataCommand::new().current_dir(root).no_deps().exec()?;
    let own = metadata.packages.iter().filter(|package| package.manifest_path.starts_with(root.join(part)));
    Ok(own.map(|package| package.name.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_share_base_and_only_the_laboratory_knows_them() {
        for product in ["keys", "sockets", "farm"] {
            let known: Vec<_> = names().filter(|part| may_use(product, part)).collect();
            assert_eq!(known, ["base", product]);
            assert!(may_use("lab", product) && !may_use("base", product) && !may_use(product, "tools"));
        }
    }

    #[test]
    fn the_packages_of_a_part_are_those_in_its_folder() -> Result<()> {
        let root = crate::root()?;
        let sockets = packages(&root, "sockets")?;
        assert!(sockets.contains(&"sidecore-preload".to_owned()) && !sockets.contains(&"sidecore-ipc".to_owned()));
        let refused = packages(&root, "tools").unwrap_err().to_string();
        assert_eq!(refused, "no part is called tools; there are base, keys, sockets, farm, lab");
        Ok(())
    }
}
