//! Permitted dependencies between crates: faces on the client, the service on it too, the client on core, core on
//! nothing. Above that stands the rule between parts, also for what only tests use: a copy of the tree without the
//! other products must build, and cargo wants every path that a manifest names.

use std::path::Path;

use cargo_metadata::{Dependency, DependencyKind, MetadataCommand, Package};

use super::Finding;
use crate::Result;
use crate::parts;
use crate::source::Source;
use crate::tree::Tree;

/// Each crate of ours, and those of ours it may depend on.
const ALLOWED: [(&str, &[&str]); 34] = [
    // Base: what all parts share.
    ("sidecore-core", &[]),
    // Programs and services: no key, no request.
    ("sidecore-ipc", &["sidecore-core"]),
    // What each service does, whatever it serves.
    ("sidecore-daemon", &["sidecore-ipc", "sidecore-core"]),
    // Farm, remote keys and simulator take the same decisions.
    ("sidecore-nodes", &["sidecore-core"]),
    // It exports histograms, which are in core's buckets.
    ("sidecore-terminal", &["sidecore-core"]),
    // It speaks with a network, and holds no service.
    ("sidecore-nats", &["sidecore-terminal"]),
    // Keys.
    ("sidecore-client", &["sidecore-ipc", "sidecore-core"]),
    // The watch reads them, and has no key.
    ("sidecore-counters", &["sidecore-ipc", "sidecore-core"]),
    // It computes and knows no request.
    ("sidecore-batch", &[]),
    // No socket of a program.
    (
        "sidecore",
        &["sidecore-client", "sidecore-counters", "sidecore-batch", "sidecore-daemon", "sidecore-ipc", "sidecore-core"],
    ),
    // It speaks with a network, and holds no service.
    (
        "sidecore-remote",
        &["sidecore-client", "sidecore-nats", "sidecore-nodes", "sidecore-ipc", "sidecore-core", "sidecore-terminal"],
    ),
    ("sidecore-openssl", &["sidecore-client", "sidecore-ipc", "sidecore-core"]),
    ("sidecore-pkcs11", &["sidecore-client", "sidecore-ipc", "sidecore-core"]),
    ("sidecore-c", &["sidecore-client", "sidecore-ipc", "sidecore-core"]),
    ("sidecore-rustls", &["sidecore-client"]),
    // It sees messages to sign, and no private key.
    ("sidecore-agent", &["sidecore-client", "sidecore-ipc", "sidecore-core", "sidecore-terminal"]),
    // What root runs links nothing that simulates or measures.
    ("sidecore-cli", &["sidecore", "sidecore-counters", "sidecore-daemon", "sidecore-ipc", "sidecore-terminal"]),
    // It has no key, and reads what the service counts.
    ("sidecore-watch", &["sidecore-counters", "sidecore-ipc", "sidecore-core", "sidecore-terminal"]),
    ("sidecore-fuzz", &["sidecore", "sidecore-core"]),
    // Sockets: no AWS-LC behind them.
    // What a program and the service of its sockets decide about streams.
    ("sidecore-streams", &["sidecore-core"]),
    ("sidecore-sockets", &["sidecore-streams", "sidecore-ipc", "sidecore-core"]),
    ("sidecore-preload", &["sidecore-sockets", "sidecore-streams", "sidecore-ipc"]),
    (
        "sidecore-sockets-service",
        &["sidecore-sockets", "sidecore-streams", "sidecore-daemon", "sidecore-ipc", "sidecore-core"],
    ),
    (
        "sidecore-sockets-command",
        &[
            "sidecore-sockets-service",
            "sidecore-sockets",
            "sidecore-streams",
            "sidecore-daemon",
            "sidecore-core",
            "sidecore-terminal",
        ],
    ),
    // Farm.
    // What a dispatcher decides and says, without NATS.
    ("sidecore-assign", &["sidecore-nodes", "sidecore-core"]),
    ("sidecore-farm", &["sidecore-assign", "sidecore-nats", "sidecore-nodes", "sidecore-core", "sidecore-terminal"]),
    // Laboratory: it may use all.
    ("sidecore-report", &["sidecore-core"]),
    ("sidecore-sim", &["sidecore-nodes", "sidecore-core"]),
    (
        "sidecore-measure",
        &["sidecore", "sidecore-counters", "sidecore-report", "sidecore-daemon", "sidecore-ipc", "sidecore-terminal"],
    ),
    // A newcomer builds it first, so it has little behind it.
    (
        "sidecore-try",
        &[
            "sidecore",
            "sidecore-counters",
            "sidecore-openssl",
            "sidecore-measure",
            "sidecore-report",
            "sidecore-ipc",
            "sidecore-terminal",
        ],
    ),
    (
        "sidecore-lab",
        &[
            "sidecore",
            "sidecore-counters",
            "sidecore-farm",
            "sidecore-assign",
            "sidecore-sockets-service",
            "sidecore-sockets",
            "sidecore-preload",
            "sidecore-streams",
            "sidecore-sim",
            "sidecore-openssl",
            "sidecore-libcrypto",
            "sidecore-measure",
            "sidecore-report",
            "sidecore-nats",
            "sidecore-daemon",
            "sidecore-ipc",
            "sidecore-terminal",
        ],
    ),
    // Tools.
    ("sidecore-libcrypto", &[]),
    ("sidecore-testing", &[]),
    ("xtask", &[]),
];

/// Crates that only decide. Nothing of others stands behind them, so that they can read no clock and do no I/O.
const DECIDING: [&str; 3] = ["sidecore-core", "sidecore-nodes", "sidecore-streams"];

/// Crates that programs elsewhere name in their Cargo.toml: `cargo publish --dry-run` with all of them succeeds.
const PUBLISHED: [&str; 4] = ["sidecore-core", "sidecore-ipc", "sidecore-client", "sidecore-rustls"];

/// Tests of all crates may use it.
const TESTING: &str = "sidecore-testing";

/// Additional crates for tests only: interfaces are tested against a service, and as programs call them.
const FOR_TESTS: [(&str, &str); 11] = [
    ("sidecore-watch", "sidecore"),
    ("sidecore-rustls", "sidecore"),
    ("sidecore-c", "sidecore"),
    ("sidecore-openssl", "sidecore"),
    ("sidecore-openssl", "sidecore-counters"),
    ("sidecore-openssl", "sidecore-libcrypto"),
    ("sidecore-pkcs11", "sidecore"),
    ("sidecore-preload", "sidecore-core"),
    ("sidecore-preload", "sidecore-sockets-service"),
    ("sidecore-remote", "sidecore"),
    ("sidecore-agent", "sidecore"),
];

/// A baseline: the laboratory may link it, and all others load it in tests only.
const LIBCRYPTO: &str = "sidecore-libcrypto";

pub(super) fn check(root: &Path, tree: &Tree) -> Result<Vec<Finding>> {
    let metadata = MetadataCommand::new().current_dir(root).no_deps().exec()?;
    let arrows: Vec<Arrow> = metadata.packages.iter().flat_map(|package| arrows(package, root)).collect();
    let members = metadata.packages.iter().filter_map(|package| unknown(&package.name, &manifest(package, root)));
    let unpublished = metadata.packages.iter().flat_map(|package| {
        let wrong = if PUBLISHED.contains(&package.name.as_str()) { unpublishable(package) } else { Vec::new() };
        wrong.into_iter().map(|wrong| {
            Finding::new(&manifest(package, root), 1, wrong, "see PUBLISHED in tools/xtask/src/tidy/arrows.rs")
        })
    });
    let wrong = arrows.iter().filter_map(|arrow| between_parts(arrow, tree).or_else(|| judge(arrow, tree)));
    Ok(members.chain(wrong).chain(unpublished).collect())
}

/// What keeps a crate from a registry: its metadata, and crates of ours that are not there, or in no version that is named.
fn unpublishable(package: &Package) -> Vec<String> {
    let mut wrong = Vec::new();
    if package.description.is_none() || package.license.is_none() {
        wrong.push("a published crate without description or license".to_owned());
    }
    if package.publish.is_some() {
        wrong.push("a published crate with `publish`".to_owned());
    }
    for Dependency { name, req, kind, .. } in package.dependencies.iter().filter(|to| allowed(&to.name).is_some()) {
        let is_there = PUBLISHED.contains(&name.as_str());
        let has_version = !req.comparators.is_empty();
        // cargo leaves out dependencies of tests without a version.
        let is_fit =
            if *kind == DependencyKind::Development { is_there || !has_version } else { is_there && has_version };
        if !is_fit {
            wrong.push(format!("a published crate that needs `{name}`, by a path or unpublished"));
        }
    }
    wrong
}

/// Finds modules whose file is in another crate: cargo does not see such an arrow.
pub(super) fn paths(source: &Source<'_>) -> Vec<Finding> {
    let lines = (1..).zip(&source.lines);
    let foreign = lines.filter(|(_, line)| path_of(line).is_some_and(|path| leaves(source.path, path)));
    let remedy = "make it a module of a crate that both may use";
    foreign.map(|(line, _)| Finding::new(source.path, line, "a module in another crate", remedy)).collect()
}

fn path_of(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("#[path = \"")?.split('"').next()
}

/// Whether this path, seen from the source's directory, is outside of the source's crate.
fn leaves(source: &str, path: &str) -> bool {
    // Each crate is a folder of its part.
    const ROOT: usize = 2;
    let mut depth = source.split('/').count() - 1;
    path.split('/').any(|part| {
        depth = if part == ".." { depth.saturating_sub(1) } else { depth + 1 };
        depth < ROOT
    })
}

struct Arrow {
    manifest: String,
    from: String,
    to: String,
    /// The part of the dependency, if it is a crate of ours.
    to_part: Option<String>,
    development: bool,
    target: Option<String>,
}

fn arrows(package: &Package, root: &Path) -> Vec<Arrow> {
    let arrow = |dependency: &Dependency| Arrow {
        manifest: manifest(package, root),
        from: package.name.to_string(),
        to: dependency.name.clone(),
        to_part: dependency
            .path
            .as_ref()
            .and_then(|path| Some(parts::of(path.strip_prefix(root).ok()?.as_str()).to_owned())),
        development: dependency.kind == DependencyKind::Development,
        target: dependency.target.as_ref().map(ToString::to_string),
    };
    package.dependencies.iter().map(arrow).collect()
}

fn manifest(package: &Package, root: &Path) -> String {
    let path = package.manifest_path.as_std_path();
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

fn unknown(name: &str, manifest: &str) -> Option<Finding> {
    let remedy = "give it a row in tools/xtask/src/tidy/arrows.rs and in ARCHITECTURE.md";
    allowed(name).is_none().then(|| Finding::new(manifest, 1, format!("unknown crate `{name}`"), remedy))
}

/// The rule by part: what is no tool may use a tool for tests only.
fn between_parts(arrow: &Arrow, tree: &Tree) -> Option<Finding> {
    let Arrow { from, to, .. } = arrow;
    let (part, other) = (parts::of(&arrow.manifest), arrow.to_part.as_deref()?);
    let is_linked_baseline = part == parts::LABORATORY && to == LIBCRYPTO;
    let permitted = match other {
        parts::TOOLS => part == parts::TOOLS || arrow.development || is_linked_baseline,
        _ => parts::may_use(part, other),
    };
    if permitted {
        return None;
    }
    let wrong = format!("{part} may not know {other}: `{from}` depends on `{to}`");
    let remedy = "move what both need to base, and what needs both to lab";
    Some(Finding::new(&arrow.manifest, line_of(arrow, tree), wrong, remedy))
}

fn judge(arrow: &Arrow, tree: &Tree) -> Option<Finding> {
    let Arrow { from, to, .. } = arrow;
    let (permitted, remedy) = if allowed(to).is_some() {
        // An unknown crate is reported once, as such.
        let for_tests = arrow.development && (to == TESTING || FOR_TESTS.contains(&(from.as_str(), to.as_str())));
        let permitted = for_tests || allowed(from).is_none_or(|allowed| allowed.contains(&to.as_str()));
        (permitted, "turn the arrow round, or move what is shared down to where both may see it")
    } else {
        let permitted = !DECIDING.contains(&from.as_str()) || arrow.development || is_model_checker(arrow);
        (permitted, "hand it what it needs; it may have loom, under cfg(loom), and what its tests need")
    };
    let wrong = format!("`{from}` depends on `{to}`");
    (!permitted).then(|| Finding::new(&arrow.manifest, line_of(arrow, tree), wrong, remedy))
}

fn allowed(name: &str) -> Option<&'static [&'static str]> {
    ALLOWED.iter().find(|(member, _)| *member == name).map(|(_, allowed)| *allowed)
}

/// Loom replaces the atomics while models are checked, and only then.
fn is_model_checker(arrow: &Arrow) -> bool {
    arrow.to == "loom" && arrow.target.as_deref() == Some("cfg(loom)")
}

fn line_of(arrow: &Arrow, tree: &Tree) -> usize {
    let names =
        |line: &str| line.trim_start().strip_prefix(&arrow.to).is_some_and(|rest| rest.starts_with([' ', '=', '.']));
    tree.text(&arrow.manifest).and_then(|text| text.lines().position(names)).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrow(from: &str, to: &str) -> Arrow {
        let (manifest, target) = (format!("keys/{from}/Cargo.toml"), None);
        let (from, to) = (from.to_owned(), to.to_owned());
        Arrow { manifest, from, to, to_part: None, development: false, target }
    }

    fn is_wrong(arrow: &Arrow) -> bool {
        judge(arrow, &Tree::of(&[])).is_some()
    }

    #[test]
    fn arrows_point_down() {
        for (from, to) in
            [("sidecore", "sidecore-client"), ("sidecore-lab", "sidecore-sim"), ("sidecore-fuzz", "sidecore")]
        {
            assert!(!is_wrong(&arrow(from, to)), "{from} -> {to}");
        }
        for (from, to) in [
            ("sidecore-core", "sidecore"),
            ("sidecore-client", "sidecore"),
            ("sidecore", "sidecore-sockets"),
            ("sidecore-sockets", "sidecore-sockets-service"),
            ("sidecore-preload", "sidecore-sockets-service"),
            ("sidecore-sim", "sidecore"),
            ("xtask", "sidecore-core"),
            ("sidecore-cli", "sidecore-sim"),
            ("sidecore-cli", "sidecore-lab"),
            ("sidecore-watch", "sidecore"),
            ("sidecore-watch", "sidecore-sockets"),
            ("sidecore-counters", "sidecore-client"),
        ] {
            assert!(is_wrong(&arrow(from, to)), "{from} -> {to}");
        }
        assert!(is_wrong(&Arrow { development: true, ..arrow("sidecore-core", "sidecore") }));
        assert!(is_wrong(&arrow("sidecore-openssl", "sidecore")));
        assert!(is_wrong(&arrow("sidecore-cli", "sidecore-testing")));
        assert!(!is_wrong(&Arrow { development: true, ..arrow("sidecore-cli", "sidecore-testing") }));
        assert!(!is_wrong(&Arrow { development: true, ..arrow("sidecore-openssl", "sidecore") }));
    }

    #[test]
    fn products_do_not_know_each_other_and_tools_are_for_tests() {
        let said = |from: &str, to: &str, name: &str, development| {
            let (manifest, to_part) = (format!("{from}/x/Cargo.toml"), Some(to.to_owned()));
            let arrow = Arrow { manifest, to_part, development, ..arrow("x", name) };
            between_parts(&arrow, &Tree::of(&[])).map(|finding| finding.wrong)
        };
        for (from, to) in [
            ("keys", "sockets"),
            ("sockets", "keys"),
            ("farm", "keys"),
            ("farm", "lab"),
            ("base", "farm"),
            ("base", "lab"),
            ("tools", "base"),
        ] {
            let expected = Some(format!("{from} may not know {to}: `x` depends on `y`"));
            assert_eq!([said(from, to, "y", false), said(from, to, "y", true)], [expected.clone(), expected]);
        }
        for (from, to) in [("farm", "base"), ("farm", "farm"), ("lab", "keys"), ("tools", "tools")] {
            assert_eq!(said(from, to, "y", false), None, "{from} -> {to}");
        }
        for part in ["base", "keys", "sockets", "farm", "lab"] {
            assert_eq!(said(part, "tools", TESTING, true), None);
            assert!(said(part, "tools", TESTING, false).is_some());
            assert_eq!(said(part, "tools", LIBCRYPTO, false).is_none(), part == "lab");
        }
    }

    #[test]
    fn what_decides_depends_on_nothing_but_its_model_checker() {
        assert!(!is_wrong(&arrow("sidecore", "rustix")));
        assert!(DECIDING.iter().all(|from| is_wrong(&arrow(from, "rustix"))));
        assert!(!is_wrong(&Arrow { development: true, ..arrow("sidecore-core", "proptest") }));
        assert!(is_wrong(&arrow("sidecore-core", "loom")));
        assert!(!is_wrong(&Arrow { target: Some("cfg(loom)".to_owned()), ..arrow("sidecore-core", "loom") }));
    }

    #[test]
    fn the_crates_of_other_peoples_programs_can_be_published() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let packages = MetadataCommand::new().current_dir(root).no_deps().exec().unwrap().packages;
        let wrong = |name: &str| {
            unpublishable(packages.iter().find(|package| package.name.as_str() == name).unwrap()).join(", ")
        };
        assert_eq!(PUBLISHED.map(wrong), [""; 4]);
        // The service's own crate needs what is not published, and another forbids it.
        assert!(wrong("sidecore").contains("needs `sidecore-batch`"), "{}", wrong("sidecore"));
        assert!(wrong("sidecore-testing").contains("with `publish`"));
    }

    #[test]
    fn a_module_in_another_crate_is_found() {
        let found = |path: &str, text: &str| paths(&Source::of(path, text)).len();
        let shared = "#[path = \"../../b/src/x.rs\"]\nmod x;\n";
        assert_eq!(found("keys/a/src/main.rs", shared), 1);
        assert_eq!(found("keys/a/src/c/main.rs", "#[path = \"../../src/x.rs\"]\nmod x;\n"), 0);
        assert_eq!(found("keys/a/tests/x/main.rs", "#[path = \"../y.rs\"]\nmod y;\n"), 0);
        assert_eq!(found("keys/a/build.rs", "#[path = \"../b/build.rs\"]\nmod y;\n"), 1);
        assert_eq!(found("tools/xtask/src/main.rs", "#[path = \"../../../keys/fuzz/x.rs\"]\nmod y;\n"), 1);
    }

    #[test]
    fn an_unknown_crate_is_one_finding() {
        assert!(unknown("sidecore-extra", "Cargo.toml").is_some());
        assert!(unknown("sidecore", "Cargo.toml").is_none());
        assert!(!is_wrong(&arrow("sidecore-extra", "sidecore")));
    }

    #[test]
    fn the_finding_names_the_line() {
        let manifest = "[dependencies]\nsidecore-core = \"1\"\nsidecore = { path = \"..\" }\n";
        let tree = Tree::of(&[("keys/xtask/Cargo.toml", manifest)]);
        assert_eq!(judge(&arrow("xtask", "sidecore"), &tree).map(|finding| finding.line), Some(3));
    }
}
