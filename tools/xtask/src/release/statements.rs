//! Statements of a release: its dependencies in the form of `CycloneDX` 1.5, and its origin in the forms of in-toto and
//! SLSA 1.0. Tools for these forms add times and random numbers, and two releases of one commit would differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use cargo_metadata::{DependencyKind, MetadataCommand, PackageId};
use serde_json::{Value, json};

use super::Release;
use super::targets::TARGETS;
use crate::Result;

/// All packages behind the release's programs and libraries, with licence and digest.
pub(super) fn dependencies(release: &Release) -> Result<String> {
    let platforms = TARGETS.iter().flat_map(|target| ["--filter-platform", target.triple]);
    let platforms: Vec<_> = platforms.map(str::to_owned).collect();
    let metadata = MetadataCommand::new().current_dir(&release.root).other_options(platforms).exec()?;
    let graph = metadata.resolve.as_ref().ok_or("cargo names no dependencies")?;
    let needs: BTreeMap<&PackageId, Vec<&PackageId>> = graph
        .nodes
        .iter()
        .map(|node| {
            (
                &node.id,
                node.deps
                    .iter()
                    .filter(|dependency| {
                        dependency.dep_kinds.iter().any(|kind| kind.kind != DependencyKind::Development)
                    })
                    .map(|dependency| &dependency.pkg)
                    .collect(),
            )
        })
        .collect();
    let mut waiting: Vec<_> = metadata.workspace_default_packages().into_iter().map(|package| &package.id).collect();
    let mut behind = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if behind.insert(id) {
            waiting.extend(needs.get(id).into_iter().flatten().copied());
        }
    }
    let digests = digests(&fs::read_to_string(release.root.join("Cargo.lock"))?);
    let mut components = BTreeMap::new();
    for package in metadata.packages.iter().filter(|package| behind.contains(&package.id)) {
        let (name, version) = (package.name.to_string(), package.version.to_string());
        let mut component = json!({
            "type": "library",
            "name": name,
            "version": version,
            "purl": format!("pkg:cargo/{name}@{version}"),
            "licenses": [{ "expression": package.license.clone().unwrap_or_default().replace('/', " OR ") }],
        });
        if let Some(digest) = digests.get(&(name.clone(), version.clone())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": digest }]);
        }
        components.insert((name, version), component);
    }
    printed(&json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "sidecore", "version": release.version } },
        "components": components.into_values().collect::<Vec<_>>(),
    }))
}

/// By name and version: digests of the packages' archives, as cargo's lock file has them.
fn digests(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    let entry = |block: &str| Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?));
    lock.split("[[package]]").filter_map(entry).collect()
}

/// `sums`: lines of a digest and a name.
pub(super) fn provenance(release: &Release, sums: &str) -> Result<String> {
    let subjects = sums.lines().filter_map(|line| line.split_once("  "));
    let subjects = subjects.map(|(digest, name)| json!({ "name": name, "digest": { "sha256": digest } }));
    printed(&json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects.collect::<Vec<_>>(),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "cargo xtask release",
                "externalParameters": { "version": release.version, "compilers": release.compilers },
                "resolvedDependencies": [{ "name": "source", "digest": { "gitCommit": release.commit } }],
            },
            // Anybody: the bytes are the same.
            "runDetails": { "builder": { "id": "cargo xtask release" } },
        },
    }))
}

fn printed(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"12ab\"\n\n[[package]]\n\
                    name = \"own\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n";
        let found = digests(lock);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(("a".to_owned(), "1.0.0".to_owned()), "12ab".to_owned())]);
    }

    #[test]
    fn each_file_is_a_subject_with_its_digest() -> Result<()> {
        let [root, commit, time, version] = ["/", "c0ffee", "0", "0.1.0"].map(str::to_owned);
        let compilers = ["rustc 1", "cc 2"].map(str::to_owned).to_vec();
        let release = Release { root: root.into(), commit, time, version, compilers };
        let said: Value = serde_json::from_str(&provenance(&release, "12ab  a.deb\n34cd  b.tar.gz\n")?)?;
        assert_eq!(said["subject"][1]["name"], "b.tar.gz");
        assert_eq!(said["subject"][0]["digest"]["sha256"], "12ab");
        assert_eq!(said["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"], "c0ffee");
        Ok(())
    }
}
