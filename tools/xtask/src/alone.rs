//! `cargo xtask alone PART`: the proof that a part stands alone. The tree is copied without the parts that this one may
//! not know, built, and its tests run. An arrow to a part that is missing stops cargo before it compiles anything, as
//! does a file of another crate that a source includes. Each copy keeps its builds, so that only the first takes long.
//!
//! The laboratory may know all parts, so the proof for it is the other direction: all others build without it. Their
//! tests run in their own copies.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::built::cargo;
use crate::tree::Tree;
use crate::{Result, parts, steps};

const DIRECTORY: &str = "target/alone";
/// A crate of tests that need all packages.
const PRODUCT: &str = "tools/product/";
/// The settings of cargo. A copy has nothing to download: its packages are some of those that the tree has.
const SETTINGS: &str = ".cargo/config.toml";
const OFFLINE: &str = "\n[net]\noffline = true\n";
const MANIFEST: &str = "Cargo.toml";
const LOCK: &str = "Cargo.lock";

struct Copy {
    part: &'static str,
    without: &'static [&'static str],
    plant: Plant,
}

/// An arrow that must not be: a manifest of the part, and the package and path that it gets as a dependency.
struct Plant {
    manifest: &'static str,
    package: &'static str,
    path: &'static str,
}

const COPIES: [Copy; 4] = [
    Copy {
        part: "keys",
        without: &["sockets", "farm", parts::LABORATORY],
        plant: Plant { manifest: "keys/client/Cargo.toml", package: "sidecore-sockets", path: "../../sockets/program" },
    },
    Copy {
        part: "sockets",
        without: &["keys", "farm", parts::LABORATORY],
        plant: Plant { manifest: "sockets/program/Cargo.toml", package: "sidecore-client", path: "../../keys/client" },
    },
    Copy {
        part: "farm",
        without: &["keys", "sockets", parts::LABORATORY],
        plant: Plant { manifest: "farm/assign/Cargo.toml", package: "sidecore-client", path: "../../keys/client" },
    },
    Copy {
        part: parts::LABORATORY,
        without: &[parts::LABORATORY],
        plant: Plant { manifest: "keys/client/Cargo.toml", package: "sidecore-report", path: "../../lab/report" },
    },
];

/// Parts that the nightly check tries.
pub(crate) const NIGHTLY: [&str; 4] = ["keys", "sockets", "farm", parts::LABORATORY];
/// What `--plant` says when each of these parts refuses its planted arrow.
pub(crate) const FOUND: &str = "each planted arrow is found";

const USAGE: &str = "usage: cargo xtask alone keys|sockets|farm|lab";

pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<bool> {
    if arguments == ["--plant"] {
        return plant(root);
    }
    let [part] = arguments else { return Err(USAGE.into()) };
    let copy = COPIES.iter().find(|copy| copy.part == *part).ok_or(USAGE)?;
    let directory = copy.make(root)?;
    println!("a copy without {}: {}", copy.without.join(", "), directory.display());
    if let Err(why) = resolve(&directory) {
        println!("it does not build without {}:\n{why}", copy.without.join(", "));
        return Ok(false);
    }
    let manifest = directory.join(MANIFEST);
    let locked = packages(&fs::read_to_string(directory.join(LOCK))?);
    write(&manifest, with_settings_of(&fs::read_to_string(&manifest)?, &locked).as_bytes())?;
    let tested: &[_] = if copy.part == parts::LABORATORY { &[] } else { &[copy.part, "base"] };
    steps::run_copy(root, &directory, tested)
}

/// Plants an arrow in each copy that the nightly check tries. `false`, as for a fault: cargo refuses each.
fn plant(root: &Path) -> Result<bool> {
    for copy in COPIES.iter().filter(|copy| NIGHTLY.contains(&copy.part)) {
        let directory = copy.make(root)?;
        let manifest = directory.join(copy.plant.manifest);
        fs::write(&manifest, copy.plant.planted(&fs::read_to_string(&manifest)?))?;
        match resolve(&directory) {
            Err(why) if why.to_string().contains(&format!("`{}`", copy.plant.package)) => println!("{why}"),
            Err(why) => return Err(why),
            Ok(()) => return Err(format!("{} builds with a planted arrow to {}", copy.part, copy.plant.package).into()),
        }
    }
    println!("{FOUND}");
    Ok(false)
}

impl Plant {
    fn planted(&self, manifest: &str) -> String {
        let heading = "[dependencies]\n";
        let arrow = format!("{heading}{} = {{ path = \"{}\" }}\n", self.package, self.path);
        manifest.replacen(heading, &arrow, 1)
    }
}

impl Copy {
    fn leaves_out(&self, path: &str) -> bool {
        self.without.contains(&parts::of(path)) || format!("{path}/").starts_with(PRODUCT)
    }

    /// Brings the copy up to date. A file that is the same is not written again, or cargo would build it again.
    fn make(&self, root: &Path) -> Result<PathBuf> {
        let directory = root.join(DIRECTORY).join(self.part);
        let tree = Tree::load(root)?;
        let mut files = BTreeSet::new();
        for path in tree.paths().filter(|path| !self.leaves_out(path)) {
            let (from, to) = (root.join(path), directory.join(path));
            let content = match path {
                MANIFEST => self.with_members(&fs::read_to_string(&from)?).into_bytes(),
                SETTINGS => (fs::read_to_string(&from)? + OFFLINE).into_bytes(),
                _ => fs::read(&from)?,
            };
            write(&to, &content)?;
            fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
            files.insert(to);
        }
        remove_others(&directory, &files, &[directory.join("target")])?;
        Ok(directory)
    }

    /// The manifest of the workspace without the members that are left out. They stand in quotes, some to a line.
    fn with_members(&self, manifest: &str) -> String {
        let mut in_list = false;
        let mut text = String::new();
        for line in manifest.lines() {
            in_list |= line.starts_with("members = [") || line.starts_with("default-members = [");
            let words: Vec<&str> = line.split('"').collect();
            match words[..] {
                [before, .., after] if in_list && !before.trim_start().starts_with('#') => {
                    let members = words.iter().skip(1).step_by(2).filter(|member| !self.leaves_out(member));
                    let members: Vec<String> = members.map(|member| format!("\"{member}\"")).collect();
                    text.extend([
                        before,
                        &members.join(", "),
                        if members.is_empty() { after.trim_start_matches(',') } else { after },
                    ]);
                }
                _ => text.push_str(line),
            }
            text.push('\n');
            in_list &= !line.trim_end().ends_with(']');
        }
        text
    }
}

/// Drops settings of profiles for packages that are not there, of which cargo warns in each build.
fn with_settings_of(manifest: &str, packages: &BTreeSet<String>) -> String {
    let is_there = |name: &str| name == "*" || packages.contains(name);
    let (mut is_kept, mut names_packages) = (true, false);
    let lines = manifest.lines().filter(|line| {
        if let Some(heading) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            let setting = heading.strip_prefix("profile.").and_then(|rest| rest.split_once(".package"));
            names_packages = setting.is_some_and(|(_, name)| name.is_empty());
            is_kept = setting.and_then(|(_, name)| name.strip_prefix('.')).is_none_or(|name| is_there(unquoted(name)));
        }
        let name = line.split_once(" = ").map(|(name, _)| unquoted(name)).filter(|_| names_packages);
        is_kept && name.is_none_or(is_there)
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn unquoted(name: &str) -> &str {
    name.trim_matches('"')
}

/// The names of the packages that a lock file has.
fn packages(lock: &str) -> BTreeSet<String> {
    let names = lock.lines().filter_map(|line| line.strip_prefix("name = "));
    names.map(|name| unquoted(name).to_owned()).collect()
}

/// Has cargo read all manifests and drop from the copy's lock file what nothing needs there. The versions stay. The error
/// is what cargo says.
fn resolve(directory: &Path) -> Result<()> {
    let done = cargo(directory).args(["tree", "--workspace", "--depth", "0"]).output()?;
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).trim_end().into()) }
}

fn write(file: &Path, content: &[u8]) -> Result<()> {
    if fs::read(file).is_ok_and(|found| found == content) {
        return Ok(());
    }
    fs::create_dir_all(file.parent().ok_or("no directory")?)?;
    Ok(fs::write(file, content)?)
}

/// Removes what an earlier copy or its tests left: cargo would build a test that the tree has no more.
fn remove_others(directory: &Path, files: &BTreeSet<PathBuf>, kept: &[PathBuf]) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kept.contains(&path) {
            continue;
        }
        if !kind.is_dir() {
            if !files.contains(&path) {
                fs::remove_file(&path)?;
            }
            continue;
        }
        if files.range(path.clone()..).next().is_some_and(|file| file.starts_with(&path)) {
            remove_others(&path, files, kept)?;
        } else {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(part: &str) -> &'static Copy {
        COPIES.iter().find(|copy| copy.part == part).unwrap()
    }

    #[test]
    fn each_copy_lacks_what_the_part_may_not_know() {
        for copy in COPIES.iter().filter(|copy| copy.part != parts::LABORATORY) {
            let unknown: Vec<_> = parts::names().filter(|other| !parts::may_use(copy.part, other)).collect();
            assert_eq!(copy.without, unknown, "{}", copy.part);
        }
        let all = |path| COPIES.iter().all(|copy| copy.leaves_out(path));
        assert!(all("lab/sim/src/lib.rs") && all("tools/product/Cargo.toml") && all("tools/product"));
        assert!(COPIES.iter().all(|copy| !copy.leaves_out("base/core") && !copy.leaves_out("tools/testing")));
        assert!(NIGHTLY.iter().all(|part| copy(part).part == *part));
    }

    #[test]
    fn members_that_are_left_out_leave_the_manifest() {
        let manifest = "members = [\n    # Keys \"so\".\n    \"keys/a\", \"keys/b\",\n    \"farm/a\", \"base/b\",\n]\n\
                        default-members = [\"keys/a\", \"farm/a\"]\nx = \"keys/a\"\n";
        let farm = "members = [\n    # Keys \"so\".\n    \n    \"farm/a\", \"base/b\",\n]\n\
                    default-members = [\"farm/a\"]\nx = \"keys/a\"\n";
        assert_eq!(copy("farm").with_members(manifest), farm);
        assert_eq!(copy("lab").with_members(manifest), manifest);
    }

    #[test]
    fn settings_of_packages_that_are_missing_leave_the_manifest() {
        let manifest = "[profile.dev.package]\n\"*\" = { opt-level = 0 }\nkept = { opt-level = 1 }\ngone = { opt-level = 1 }\n\
                        \n[profile.dev.package.gone]\nopt-level = 3\n[profile.dev.package.\"*\"]\ndebug = false\n\
                        [profile.try]\nopt-level = 1\n";
        let fewer = "[profile.dev.package]\n\"*\" = { opt-level = 0 }\nkept = { opt-level = 1 }\n\
                     \n[profile.dev.package.\"*\"]\ndebug = false\n[profile.try]\nopt-level = 1\n";
        let packages = packages("[[package]]\nname = \"kept\"\nversion = \"1.0.0\"\n");
        assert_eq!(with_settings_of(manifest, &packages), fewer);
    }

    #[test]
    fn each_plant_is_an_arrow_to_a_crate_that_its_copy_lacks() -> Result<()> {
        let root = crate::root()?;
        for copy in &COPIES {
            let Plant { manifest, package, path } = copy.plant;
            let text = fs::read_to_string(root.join(manifest))?;
            let planted = copy.plant.planted(&text);
            assert!(planted.contains(&format!("{package} = {{ path = \"{path}\" }}")) && !text.contains(package));
            let crate_of_it = fs::canonicalize(root.join(manifest).with_file_name("").join(path))?;
            assert!(fs::read_to_string(crate_of_it.join(MANIFEST))?.contains(&format!("name = \"{package}\"")));
            assert!(copy.leaves_out(&crate_of_it.strip_prefix(fs::canonicalize(&root)?)?.to_string_lossy()));
        }
        Ok(())
    }

    #[test]
    fn what_an_earlier_copy_left_is_removed_and_builds_stay() -> Result<()> {
        let directory = std::env::temp_dir().join(format!("sidecore-alone-{}", std::process::id()));
        let file = |name: &str| directory.join(name);
        for name in ["a/kept", "a/left", "b/left", "target/built"] {
            write(&file(name), b"")?;
        }
        remove_others(&directory, &BTreeSet::from([file("a/kept")]), &[file("target")])?;
        assert!(file("a/kept").exists() && file("target/built").exists());
        assert!(!file("a/left").exists() && !file("b").exists());
        fs::remove_dir_all(&directory)?;
        Ok(())
    }
}
