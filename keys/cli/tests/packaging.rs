//! `packaging/install` and `packaging/uninstall` below a directory, as a package is made.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

struct BuildFolder(TempDir);

impl BuildFolder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::create_dir(folder.built()).unwrap();
        // Installation runs it to write the manual pages.
        symlink(env!("CARGO_BIN_EXE_sidecore"), folder.built().join("sidecore")).unwrap();
        // Its content does not matter here.
        fs::write(folder.built().join("libsidecore_openssl.so"), "provider").unwrap();
        fs::write(folder.built().join("libsidecore_pkcs11.so"), "module").unwrap();
        fs::write(folder.built().join("libsidecore.so"), "library").unwrap();
        folder
    }

    fn built(&self) -> PathBuf {
        self.0.path().join("built")
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    fn script(&self, name: &str, arguments: &[&Path]) -> Output {
        let mut command = Command::new(Path::new(PROJECT).join("packaging").join(name));
        command.args(arguments).env("DESTDIR", self.root()).output().unwrap()
    }

    fn done(&self, name: &str, arguments: &[&Path]) {
        let done = self.script(name, arguments);
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let mut left = vec![self.root()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    left.push(entry.path());
                } else {
                    files.push(entry.path().strip_prefix(self.root()).unwrap().display().to_string());
                }
            }
        }
        files.sort();
        files
    }
}

#[test]
fn what_is_installed_below_a_directory_is_taken_away_again_but_for_what_is_the_operators() {
    let folder = BuildFolder::new();
    folder.done("install", &[&folder.built()]);
    let files = folder.files();
    let wanted = [
        "usr/bin/sidecore",
        "usr/include/sidecore.h",
        "usr/lib/sidecore/sidecore.so",
        "usr/lib/systemd/system/sidecore.service",
        "usr/lib/systemd/system/sidecore-agent-host.socket",
        "usr/lib/systemd/user/sidecore-agent.socket",
        "usr/lib/sysusers.d/sidecore.conf",
        "usr/lib/sysusers.d/sidecore-sockets.conf",
        "usr/share/man/man1/sidecore.1",
        "usr/share/man/man1/sidecore-keys-import.1",
        "usr/share/bash-completion/completions/sidecore",
        "usr/share/zsh/vendor-completions/_sidecore",
        "usr/share/fish/vendor_completions.d/sidecore.fish",
        "usr/share/doc/sidecore/security.md",
        "usr/share/sidecore/grafana/sidecore.json",
        "usr/share/sidecore/p11-kit/sidecore.module",
        "usr/share/sidecore/prometheus/sidecore.rules.yml",
        "usr/share/sidecore/go/sidecore/go.mod",
        "usr/share/sidecore/go/sidecore/client.go",
        "usr/share/sidecore/go/caddy/go.sum",
        "usr/share/sidecore/go/caddy/cmd/caddy/main.go",
        "etc/ssl/openssl-sidecore.cnf",
        "etc/apparmor.d/sidecore",
        "etc/sidecore/sidecore.toml",
    ];
    assert!(wanted.iter().all(|file| files.iter().any(|found| found == file)), "{files:?}");
    let module = files.iter().find(|file| file.ends_with("ossl-modules/sidecore.so")).unwrap();
    assert!(files.iter().any(|file| file.ends_with("pkcs11/sidecore-pkcs11.so")), "{files:?}");
    let version = env!("CARGO_PKG_VERSION");
    let [full, name, linked] = [&format!(".{version}"), ".0", ""].map(|end| {
        let ends = |file: &&String| file.ends_with(&format!("/libsidecore.so{end}"));
        folder.root().join(files.iter().find(ends).unwrap_or_else(|| panic!("no libsidecore.so{end} in {files:?}")))
    });
    assert!(fs::symlink_metadata(&full).unwrap().is_file());
    assert_eq!(fs::read_link(&name).unwrap().to_str(), full.file_name().unwrap().to_str());
    assert_eq!(fs::read_link(&linked).unwrap().to_str(), name.file_name().unwrap().to_str());
    let module_file = files.iter().find(|file| file.ends_with("/pkgconfig/sidecore.pc")).unwrap();
    let pkg_config = fs::read_to_string(folder.root().join(module_file)).unwrap();
    let directory = Path::new("/").join(full.parent().unwrap().strip_prefix(folder.root()).unwrap());
    for line in [format!("Version: {version}"), format!("libdir={}", directory.display())] {
        assert!(pkg_config.lines().any(|found| found == line), "{pkg_config}");
    }
    let openssl = fs::read_to_string(folder.root().join("etc/ssl/openssl-sidecore.cnf")).unwrap();
    assert!(openssl.contains(&format!("\nmodule = /{module}\n")), "{openssl}");
    // An upgrade keeps the operator's changes.
    let configuration = folder.root().join("etc/sidecore/sidecore.toml");
    fs::write(&configuration, "balance = 'sed'\n").unwrap();
    folder.done("install", &[&folder.built()]);
    assert_eq!(folder.files(), files);
    assert_eq!(fs::read_to_string(&configuration).unwrap(), "balance = 'sed'\n");
    folder.done("uninstall", &[]);
    assert_eq!(folder.files(), ["etc/sidecore/sidecore.toml", "etc/sidecore/sockets.toml"]);
    folder.done("install", &[&folder.built()]);
    folder.done("uninstall", &[Path::new("--purge")]);
    assert_eq!(folder.files(), [""; 0]);
}

/// Pages of other programs are there where cargo has built these.
#[test]
fn each_file_is_of_one_part_and_all_parts_are_the_whole() {
    let folder = BuildFolder::new();
    for name in ["sidecore-sockets", "libsidecore_preload.so", "sidecore-farm", "sidecore-lab"] {
        fs::write(folder.built().join(name), name).unwrap();
    }
    let installed = |parts: &[&str]| {
        let mut arguments = vec![folder.built()];
        arguments.extend(parts.iter().map(PathBuf::from));
        folder.done("install", &arguments.iter().map(PathBuf::as_path).collect::<Vec<_>>());
        let files = folder.files();
        fs::remove_dir_all(folder.root()).unwrap();
        files
    };
    let parts = ["keys", "sockets", "farm", "lab"].map(|part| installed(&[part]));
    let mut together = parts.concat();
    together.sort();
    assert_eq!(together, installed(&[]));
    assert_eq!(installed(&["farm", "sockets"]).len(), parts[1].len() + parts[2].len());
    let of_each = [
        ["usr/bin/sidecore", "etc/sidecore/sidecore.toml", "etc/apparmor.d/sidecore", "usr/share/doc/sidecore/keys.md"],
        [
            "usr/lib/sidecore/sidecore-sockets",
            "usr/lib/sidecore/sidecore-preload.so",
            "etc/sidecore/sockets.toml",
            "usr/lib/systemd/system/sidecore-sockets.service",
        ],
        [
            "usr/lib/sidecore/sidecore-farm",
            "usr/share/doc/sidecore/farm.md",
            "usr/share/sidecore/farm/accounts.conf",
            "usr/share/sidecore/farm/server.conf",
        ],
        [
            "usr/lib/sidecore/sidecore-lab",
            "usr/share/doc/sidecore/measuring.md",
            "usr/share/sidecore/plans/zvm.toml",
            "usr/share/sidecore/plans/parameters/zvm.toml",
        ],
    ];
    for (files, wanted) in parts.iter().zip(of_each) {
        assert!(wanted.iter().all(|file| files.iter().any(|found| found == file)), "{files:?}");
    }
}

#[test]
fn what_cannot_be_installed_is_said_before_anything_is_changed() {
    let folder = BuildFolder::new();
    fs::remove_file(folder.built().join("libsidecore_openssl.so")).unwrap();
    let refused = folder.script("install", &[&folder.built()]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("cargo build --release"), "{said}");
    assert!(!folder.root().exists());
    for part in ["sockets", "farm", "lab", "socket"] {
        let refused = folder.script("install", &[&folder.built(), Path::new(part)]);
        assert_eq!(refused.status.code(), Some(2), "{part}: it has not been built, or is none");
    }
    assert!(!folder.root().exists());
    let refused = folder.script("uninstall", &[Path::new("--all")]);
    assert_eq!(refused.status.code(), Some(2));
}

/// `Documentation=` of a unit names an installed file.
#[test]
fn what_units_name_as_their_documentation_is_installed() {
    let folder = BuildFolder::new();
    folder.done("install", &[&folder.built()]);
    let files = folder.files();
    for unit in files.iter().filter(|file| file.ends_with(".service") || file.ends_with(".socket")) {
        let text = fs::read_to_string(folder.root().join(unit)).unwrap();
        let page = text.lines().find_map(|line| line.strip_prefix("Documentation=file:/")).unwrap();
        assert!(files.iter().any(|file| file == page), "{unit}: {page}");
    }
}

fn offered(folder: &BuildFolder, words: &[&str]) -> Vec<String> {
    let script = "source \"$0\"; compopt() { :; }; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1))
        _clap_complete_sidecore sidecore \"${COMP_WORDS[COMP_CWORD]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let path = format!("{}:/usr/bin:/bin", folder.root().join("usr/bin").display());
    let file = folder.root().join("usr/share/bash-completion/completions/sidecore");
    let done = Command::new("bash").args(["-c", script]).arg(file).args(words).env("PATH", path).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stderr), "");
    String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn the_completions_that_are_installed_offer_what_may_follow() {
    let folder = BuildFolder::new();
    folder.done("install", &[&folder.built()]);
    assert_eq!(offered(&folder, &["sidecore", "ke"]), ["keys", "key-server"]);
    assert_eq!(offered(&folder, &["sidecore", "keys", "im"]), ["import"]);
    let kinds = offered(&folder, &["sidecore", "keys", "generate", "www", "--kind", "rsa-"]);
    assert_eq!(kinds, ["rsa-2048", "rsa-3072", "rsa-4096", "rsa-6144", "rsa-8192"]);
    let all = offered(&folder, &["sidecore", ""]);
    assert!(all.iter().any(|offer| offer == "bench") && !all.iter().any(|offer| offer == "manuals"), "{all:?}");
    let asks = [("zsh/vendor-completions/_sidecore", "=\"zsh\""), ("fish/vendor_completions.d/sidecore.fish", "=fish")];
    for (file, shell) in asks {
        let script = fs::read_to_string(folder.root().join("usr/share").join(file)).unwrap();
        assert!(script.contains(&format!("SIDECORE_COMPLETE{shell}")), "{script}");
    }
}

const STAND_IN: &str = "#!/bin/sh\necho \"$SIDECORE_COMPLETE $*\"\n";

#[test]
fn completions_of_another_programs_commands_are_asked_of_it() {
    let folder = BuildFolder::new();
    folder.done("install", &[&folder.built()]);
    let program = folder.root().join("usr/lib/sidecore/sidecore-lab");
    let script = folder.built().join("stand-in");
    fs::write(&script, STAND_IN).unwrap();
    assert!(Command::new("install").args(["-m", "755"]).args([&script, &program]).status().unwrap().success());
    let asked = |words: &[&str]| {
        let mut command = Command::new(folder.root().join("usr/bin/sidecore"));
        let done = command.args(["--", "sidecore"]).args(words).env("SIDECORE_COMPLETE", "fish").output().unwrap();
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    assert_eq!(asked(&["bench", "ne"]), "fish -- sidecore bench ne\n");
    // Without the program there are no completions.
    assert!(!asked(&["farm", "fe"]).contains("--"));
    assert!(asked(&["che"]).starts_with("check\t"));
}

#[test]
fn the_pages_of_the_manual_say_what_the_options_are_for() {
    let folder = BuildFolder::new();
    folder.done("install", &[&folder.built()]);
    let page = |name: &str| fs::read_to_string(folder.root().join("usr/share/man/man1").join(name)).unwrap();
    let (first, export) = (page("sidecore.1"), page("sidecore-export.1"));
    for words in ["sidecore\\-keys(1)", "EXIT STATUS", "SIDECORE_SOCKETS", "/var/lib/sidecore/keys"] {
        assert!(first.contains(words), "{words}: {first}");
    }
    assert!(export.contains("listen") && export.contains("127.0.0.1:9787"), "{export}");
    let (keys, pem) = (page("sidecore-keys.1"), page("sidecore-keys-pem.1"));
    assert!(keys.contains("EXAMPLES") && keys.contains("sidecore\\-keys\\-pem(1)"), "{keys}");
    assert!(pem.contains("sidecore\\-keys(1)") && pem.contains("sidecore keys pem www"), "{pem}");
    assert!(!first.contains("manuals") && !folder.files().iter().any(|file| file.contains("manuals")));
}

#[test]
fn the_alerts_say_nothing_while_all_is_well_and_each_speaks_where_it_is_not() {
    let rules = Path::new(PROJECT).join("packaging/prometheus");
    for (what, file) in [("check", "sidecore.rules.yml"), ("test", "sidecore.rules.test.yml")] {
        let done = Command::new("promtool").args([what, "rules"]).arg(rules.join(file)).output();
        let done = done.unwrap_or_else(|error| panic!("promtool: {error}; run: sudo apt-get install prometheus"));
        let said = [done.stdout, done.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        assert!(done.status.success() && said.contains("SUCCESS"), "{said}");
    }
}

/// A private key in PKCS#8 begins with version 0, an algorithm and its OID.
#[test]
fn no_private_key_is_compiled_into_the_program_that_keeps_keys() {
    let begins = |bytes: &&[u8]| bytes[..4] == [2, 1, 0, 0x30] && bytes[5] == 6;
    let ed25519 = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    assert_eq!(ed25519.windows(6).filter(begins).count(), 1, "the search finds a key");
    let program = fs::read(env!("CARGO_BIN_EXE_sidecore")).unwrap();
    let found: Vec<usize> = (0..program.len() - 5).filter(|at| begins(&&program[*at..at + 6])).collect();
    assert_eq!(found, [], "offsets of private keys");
}
