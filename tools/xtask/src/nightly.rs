//! `cargo xtask nightly`: checks that take long, or need another compiler. Each check has a plant, a small crate with a
//! fault, and must find it first.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use cargo_metadata::MetadataCommand;

use crate::tools::{self, Tool};
use crate::upgrade::newest_release;
use crate::{Result, alone};

const TARGET: &str = "x86_64-unknown-linux-gnu";
const ARM: &str = "aarch64-unknown-linux-gnu";
/// Runs programs for arm64, with libraries of Debian's packages for it.
const EMULATOR: &str = "qemu-aarch64";
const ARM_COMPILER: &str = "aarch64-linux-gnu-gcc";
const ARM_LOADER: &str = "/lib/ld-linux-aarch64.so.1";
const ARM_REMEDY: &str = "dpkg --add-architecture arm64; apt-get update; \
                          apt-get install qemu-user gcc-aarch64-linux-gnu libc6:arm64";
/// Tests of the provider that the emulator cannot run: it does not wipe memory in children, and the kernel does not
/// start its programs.
const NOT_EMULATED: [&str; 8] = [
    "--skip",
    "authority::a_child_keeps_no_connection_of_its_parent",
    "--skip",
    "children_of_a_busy_process",
    "--skip",
    "grandchildren_work_as_well",
    "--skip",
    "patience::a_stopped_service",
];
const FUZZED_SECONDS: &str = "10";
/// Plants and builds of the checks, below the workspace. Flags of these builds differ from those of others.
const DIRECTORY: &str = "target/nightly";

/// Reports of sanitizers to leave out, with reasons.
const SUPPRESSIONS: &str = "tools/xtask/suppressions";
/// Tests that look at the stack itself, which a sanitizer changes.
const OF_STACKS: [&str; 4] =
    ["--skip", "a_handler_is_found_on_any_stack_and_nothing_else", "--skip", "keyops::large_stack"];

const DENY: Tool = Tool { name: "cargo-deny", has_defaults: true };
const FUZZ: Tool = Tool { name: "cargo-fuzz", has_defaults: true };
const SEMVER: Tool = Tool { name: "cargo-semver-checks", has_defaults: true };

/// Libraries that programs load, which run in processes of others.
const LOADED: [&str; 5] =
    ["sidecore-ipc", "sidecore-client", "sidecore-openssl", "sidecore-pkcs11", "sidecore-preload"];

struct Check {
    name: &'static str,
    about: &'static str,
    tool: Option<Tool>,
    /// Components of a nightly compiler; `None`: it needs none.
    nightly: Option<&'static [&'static str]>,
    /// In the workspace. One command after the other.
    commands: fn(&Site) -> Result<Vec<Command>>,
    plant: Plant,
}

/// A package with one fault.
struct Plant {
    source: &'static str,
    manifest: &'static str,
    /// In the package's directory.
    command: fn(&Site) -> Result<Command>,
    /// Part of the message about the fault.
    found: &'static str,
}

const CHECKS: [Check; 10] = [
    Check {
        name: "deny",
        about: "advisories, licences, duplicates and sources of all dependencies",
        tool: Some(DENY),
        nightly: None,
        // The second asks for the database of advisories, by network.
        commands: |site| {
            let parts = [&["bans", "licenses", "sources"][..], &["advisories"]];
            Ok(parts.map(|parts| site.stable(&[&["deny", "--workspace", "check"], parts].concat())).into())
        },
        plant: Plant {
            source: "fn main() {}",
            manifest: "license = \"AGPL-3.0-only\"",
            command: |site| {
                let mut deny = site.stable(&["deny", "--config"]);
                deny.arg(site.root.join("deny.toml")).args(["check", "licenses"]);
                Ok(deny)
            },
            found: "license is not explicitly allowed",
        },
    },
    Check {
        name: "oldest",
        about: "the oldest Rust that Cargo.toml names builds all programs and libraries",
        tool: None,
        nightly: None,
        commands: |site| Ok(vec![site.rust(&site.oldest()?, "oldest", &["check", "--workspace"])]),
        plant: Plant {
            source: "fn main() { assert_eq!(1_i32.strict_add(1), 2); }",
            manifest: "",
            command: |site| Ok(site.rust(&site.oldest()?, "plants", &["check"])),
            found: "strict_add",
        },
    },
    Check {
        name: "semver",
        about: "changes of the client's public interface that its version does not announce, since the newest release",
        tool: Some(SEMVER),
        nightly: None,
        commands: |site| {
            let Some(tag) = newest_release(&site.root)? else {
                println!("there is no release to compare with: no tag v*");
                return Ok(Vec::new());
            };
            Ok(vec![site.compared(&["--package", "sidecore-client", "--baseline-rev", &tag])])
        },
        plant: Plant {
            source: "pub fn kept() {}",
            manifest: "[lib]\npath = \"src/main.rs\"",
            command: |site| {
                let earlier = site.root.join(DIRECTORY).join("plant/semver-earlier");
                fs::create_dir_all(&earlier)?;
                let manifest = "[package]\nname = \"plant\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
                                [lib]\npath = \"lib.rs\"\n[workspace]\n";
                fs::write(earlier.join("Cargo.toml"), manifest)?;
                fs::write(earlier.join("lib.rs"), "pub fn kept() {}\npub fn gone() {}\n")?;
                let mut compared = site.compared(&["--release-type", "patch", "--baseline-root"]);
                compared.arg(earlier);
                Ok(compared)
            },
            found: "function plant::gone",
        },
    },
    Check {
        name: "miri",
        about: "undefined behaviour where core, streams and the client decode words and messages",
        tool: None,
        nightly: Some(&["miri", "rust-src"]),
        commands: |site| {
            let core =
                ["miri", "test", "-p", "sidecore-core", "--lib", "--", "wire::tests", "session::tests", "text::tests"];
            let streams = ["miri", "test", "-p", "sidecore-streams", "--lib", "--", "slot::tests"];
            let client = [
                "miri",
                "test",
                "-p",
                "sidecore-client",
                "--lib",
                "--",
                "key::der",
                "key::flat",
                "key::raw",
                "control",
                "text",
            ];
            Ok(vec![site.interpreted(&core), site.interpreted(&streams), site.interpreted(&client)])
        },
        plant: Plant {
            source: "fn main() { let bytes = [7_u8; 4]; println!(\"{}\", unsafe { *bytes.as_ptr().add(5) }); }",
            manifest: "",
            command: |site| Ok(site.interpreted(&["miri", "run"])),
            found: "Undefined Behavior",
        },
    },
    Check {
        name: "address",
        about: "AddressSanitizer and LeakSanitizer over the client and the libraries that programs load",
        tool: None,
        nightly: Some(&[]),
        commands: |site| Ok(vec![site.tested("address")]),
        plant: Plant {
            source: "fn main() { let byte = Box::into_raw(Box::new(7)); unsafe { drop(Box::from_raw(byte)); \
                     std::process::exit(*byte) } }",
            manifest: "",
            command: |site| Ok(site.sanitized("address", &["run"])),
            found: "AddressSanitizer",
        },
    },
    Check {
        name: "thread",
        about: "ThreadSanitizer over the same",
        tool: None,
        nightly: Some(&["rust-src"]),
        commands: |site| Ok(vec![site.tested("thread")]),
        plant: Plant {
            source: "static mut N: u64 = 0;\nfn main() { let add = || (0..100_000).for_each(|_| unsafe { N += 1 }); \
                     std::thread::scope(|scope| { scope.spawn(add); scope.spawn(add); }); }",
            manifest: "",
            command: |site| Ok(site.sanitized("thread", &["run"])),
            found: "data race",
        },
    },
    Check {
        name: "arm",
        about: "tests of core, client, keys, provider, streams and the library for sockets as programs for arm64, emulated",
        tool: None,
        nightly: None,
        commands: |site| {
            let plain = [
                "test",
                "-p",
                "sidecore-core",
                "-p",
                "sidecore-nodes",
                "-p",
                "sidecore-ipc",
                "-p",
                "sidecore-client",
                "-p",
                "sidecore-streams",
                "-p",
                "sidecore-preload",
                "--lib",
            ];
            let names = ["test", "-p", "sidecore-preload", "--test", "exports"];
            let keys = ["test", "-p", "sidecore", "--lib", "keys::"];
            let provider = [&["test", "-p", "sidecore-openssl", "--lib", "--"][..], &NOT_EMULATED].concat();
            [&plain[..], &names, &keys, &provider].map(|arguments| site.emulated(arguments)).into_iter().collect()
        },
        plant: Plant {
            source: "fn main() { assert!((-1_i8 as std::ffi::c_char) < 0, \"a character has a sign\"); }",
            manifest: "",
            command: |site| site.emulated(&["run"]),
            found: "a character has a sign\n",
        },
    },
    Check {
        name: "sockets",
        about: "an hour of calls in random order through rings whose service is stopped and killed",
        tool: None,
        nightly: None,
        commands: |site| {
            let test = ["test", "-p", "sidecore-preload", "--test", "calls", "--", "whatever_a_program_calls"];
            let mut random = site.stable(&test);
            // Of each of its three runs.
            random.env("SIDECORE_RANDOM_SECONDS", "1200");
            Ok(vec![random])
        },
        plant: Plant {
            source: "fn main() {}",
            manifest: "",
            command: |site| {
                let mut shell = Command::new("sh");
                let line = "cc -O1 -w -shared -fPIC -o planted.so \"$0/planted.c\" && \
                            cc -O1 -w -o random \"$0/random.c\" -lpthread && \
                            LD_PRELOAD=$PWD/planted.so PLANTED=edges ./random 1 40";
                shell.args(["-c", line]).arg(site.root.join("sockets/preload/tests/calls")).env("PATH", &site.path);
                Ok(shell)
            },
            found: "never writable again",
        },
    },
    Check {
        name: "alone",
        about: "parts that build and pass their tests in a copy of the tree without those that they may not know",
        tool: None,
        nightly: None,
        commands: |site| alone::NIGHTLY.iter().map(|part| site.own(&["alone", part])).collect(),
        plant: Plant {
            source: "fn main() {}",
            manifest: "",
            command: |site| site.own(&["alone", "--plant"]),
            found: alone::FOUND,
        },
    },
    Check {
        name: "fuzz",
        about: "ten seconds of search for each harness of hostile input, from the inputs of earlier runs",
        tool: Some(FUZZ),
        nightly: Some(&[]),
        commands: |site| {
            let harnesses = harnesses(&site.root)?;
            Ok(harnesses.iter().map(|harness| site.fuzzed(&site.root.join("keys/fuzz"), harness)).collect())
        },
        plant: Plant {
            source: "#![no_main]\nlibfuzzer_sys::fuzz_target!(|bytes: &[u8]| assert!(!bytes.starts_with(b\"no\")));",
            manifest: "[package.metadata]\ncargo-fuzz = true\n[dependencies]\nlibfuzzer-sys = \"0.4\"",
            command: |site| Ok(site.fuzzed(Path::new("."), "plant")),
            found: "panicked",
        },
    },
];

fn names() -> String {
    CHECKS.map(|check| check.name).join(", ")
}

/// Runs the checks of these names, or all without names. `false`: one found a fault, or did not find its plant.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<bool> {
    if let Some(unknown) = names.iter().find(|name| CHECKS.iter().all(|check| check.name != **name)) {
        return Err(format!("no check is called {unknown}; there are {}", self::names()).into());
    }
    let site = Site { root: root.to_owned(), path: tools::path(root)? };
    let mut failed = Vec::new();
    for check in CHECKS.iter().filter(|check| names.is_empty() || names.contains(&check.name)) {
        println!("\n==> {}: {}", check.name, check.about);
        let start = Instant::now();
        let verdict = match check.run(&site) {
            Ok(()) => "passed".to_owned(),
            Err(why) => {
                failed.push(check.name);
                format!("FAILED: {why}")
            }
        };
        println!("<== {}: {verdict} ({:.0} s)", check.name, start.elapsed().as_secs_f64());
    }
    if !failed.is_empty() {
        println!("\nFAILED {}", failed.join(", "));
    }
    Ok(failed.is_empty())
}

impl Check {
    fn run(&self, site: &Site) -> Result<()> {
        if let Some(tool) = &self.tool {
            tool.ensure(&site.root, &site.path)?;
        }
        if let Some(components) = self.nightly {
            ensure_toolchain("nightly", components)?;
        }
        self.plant.find(site, self.name)?;
        for mut command in (self.commands)(site)? {
            println!("$ {}", in_words(&command));
            if !command.status()?.success() {
                return Err(format!("it found something; again: {}", in_words(&command)).into());
            }
        }
        Ok(())
    }
}

impl Plant {
    fn find(&self, site: &Site, name: &str) -> Result<()> {
        let package = site.root.join(DIRECTORY).join("plant").join(name);
        let source = if self.source.starts_with("#![no_main]") { "fuzz_targets/plant.rs" } else { "src/main.rs" };
        let source = package.join(source);
        fs::create_dir_all(source.parent().ok_or("no directory")?)?;
        fs::write(&source, self.source)?;
        let bin = format!("[[bin]]\nname = \"plant\"\npath = \"{}\"", source.strip_prefix(&package)?.display());
        // A workspace of its own: it stands below another one.
        let manifest = format!(
            "[package]\nname = \"plant\"\nversion = \"0.0.0\"\nedition = \"2024\"\n{}\n{bin}\n[workspace]\n",
            self.manifest
        );
        fs::write(package.join("Cargo.toml"), manifest)?;
        let mut command = (self.command)(site)?;
        let done = command.current_dir(&package).stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned() + &String::from_utf8_lossy(&done.stdout);
        if done.status.success() || !said.contains(self.found) {
            return Err(format!("what was planted was not found; {} said:\n{said}", in_words(&command)).into());
        }
        println!("what was planted is found: {}", self.found);
        Ok(())
    }
}

struct Site {
    root: PathBuf,
    /// With the tools.
    path: OsString,
}

impl Site {
    fn stable(&self, arguments: &[&str]) -> Command {
        let mut cargo = crate::built::cargo(&self.root);
        cargo.args(arguments).env("PATH", &self.path);
        cargo
    }

    /// This program, in the workspace also where the command is started in a plant.
    fn own(&self, arguments: &[&str]) -> Result<Command> {
        let mut own = Command::new("env");
        own.arg("-C").arg(&self.root).arg(std::env::current_exe()?).args(arguments);
        Ok(own)
    }

    fn rust(&self, toolchain: &str, target: &str, arguments: &[&str]) -> Command {
        let mut rustup = Command::new("rustup");
        rustup.args(["run", toolchain, "cargo"]).args(arguments).current_dir(&self.root).env("PATH", &self.path);
        // Of the compiler that runs this program.
        for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"] {
            rustup.env_remove(name);
        }
        rustup.env("CARGO_TARGET_DIR", self.root.join(DIRECTORY).join(target)).env("CARGO_INCREMENTAL", "0");
        rustup
    }

    fn compared(&self, arguments: &[&str]) -> Command {
        let mut compared = self.stable(&["semver-checks"]);
        compared.args(arguments).env("CARGO_TARGET_DIR", self.root.join(DIRECTORY).join("semver"));
        compared
    }

    fn interpreted(&self, arguments: &[&str]) -> Command {
        let mut miri = self.rust("nightly", "miri", arguments);
        miri.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "4");
        miri
    }

    fn sanitized(&self, sanitizer: &str, arguments: &[&str]) -> Command {
        let mut cargo = self.rust("nightly", sanitizer, arguments);
        // Without a target, programs that only build others would be changed as well.
        cargo.args(["--target", TARGET]).env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}"));
        let without = |file| format!("suppressions={}", self.root.join(SUPPRESSIONS).join(file).display());
        // The client checks how much is left of the caller's stack.
        cargo.env("ASAN_OPTIONS", "detect_stack_use_after_return=0").env("LSAN_OPTIONS", without("leaks.txt"));
        if sanitizer == "thread" {
            // Otherwise accesses of the standard library are not seen, nor its locks.
            cargo.arg("-Zbuild-std").env("TSAN_OPTIONS", without("races.txt") + ":halt_on_error=1");
        }
        cargo
    }

    /// The tests of the libraries that programs load.
    fn tested(&self, sanitizer: &str) -> Command {
        let packages = LOADED.iter().flat_map(|name| ["-p", name]);
        let arguments: Vec<_> = ["test", "--no-fail-fast", "--lib"].into_iter().chain(packages).collect();
        let mut tests = self.sanitized(sanitizer, &arguments);
        tests.arg("--").args(OF_STACKS);
        tests
    }

    /// The machine's own Rust, for arm64.
    fn emulated(&self, arguments: &[&str]) -> Result<Command> {
        for program in [EMULATOR, ARM_COMPILER] {
            if Command::new(program).arg("--version").stdin(Stdio::null()).output().is_err() {
                return Err(format!("{program} is missing; run: {ARM_REMEDY}").into());
            }
        }
        if !Path::new(ARM_LOADER).exists() {
            return Err(format!("{ARM_LOADER} is missing; run: {ARM_REMEDY}").into());
        }
        let mut add = Command::new("rustup");
        let done = add.args(["target", "add", ARM]).stdin(Stdio::null()).output()?;
        if !done.status.success() {
            return Err(format!("{}: {}", in_words(&add), String::from_utf8_lossy(&done.stderr)).into());
        }
        let mut cargo = self.stable(arguments.get(..1).unwrap_or_default());
        cargo.args(["--target", ARM]).args(arguments.get(1..).unwrap_or_default());
        cargo.env("CARGO_TARGET_DIR", self.root.join(DIRECTORY).join("arm")).env("CARGO_INCREMENTAL", "0");
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", ARM_COMPILER);
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", EMULATOR);
        Ok(cargo)
    }

    fn fuzzed(&self, directory: &Path, harness: &str) -> Command {
        let mut fuzz = self.rust("nightly", "fuzz", &["fuzz", "run", "--dev"]);
        fuzz.arg("--fuzz-dir").arg(directory).args(["--target", TARGET, harness, "--"]);
        fuzz.arg(format!("-max_total_time={FUZZED_SECONDS}"));
        fuzz
    }

    /// The version that the packages name.
    fn oldest(&self) -> Result<String> {
        let metadata = MetadataCommand::new().current_dir(&self.root).no_deps().exec()?;
        let version = metadata.packages.iter().find_map(|package| package.rust_version.clone());
        let version = version.ok_or("no package names its oldest Rust")?;
        let oldest = format!("{}.{}", version.major, version.minor);
        ensure_toolchain(&oldest, &[])?;
        Ok(oldest)
    }
}

fn ensure_toolchain(toolchain: &str, components: &[&str]) -> Result<()> {
    let mut install = Command::new("rustup");
    install.args(["toolchain", "install", toolchain, "--profile", "minimal", "--no-self-update"]);
    for component in components {
        install.args(["--component", component]);
    }
    let done = install.stdin(Stdio::null()).output()?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", in_words(&install), String::from_utf8_lossy(&done.stderr)).into())
}

fn harnesses(root: &Path) -> Result<Vec<String>> {
    let files = fs::read_dir(root.join("keys/fuzz/fuzz_targets"))?;
    let mut names = Vec::new();
    for file in files {
        names.extend(file?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// With the variables that it sets, as a shell takes it.
fn in_words(command: &Command) -> String {
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let set =
        set.filter(|(name, _)| *name != "PATH").map(|(name, value)| format!("{}={}", name.display(), value.display()));
    let words = [command.get_program()].into_iter().chain(command.get_args()).map(|word| word.display().to_string());
    set.chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_check_is_refused_with_the_known_ones() -> Result<()> {
        let refused = run(&crate::root()?, &["deny", "mri"]).unwrap_err().to_string();
        assert_eq!(refused, format!("no check is called mri; there are {}", names()));
        let usage = crate::USAGE.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(usage.contains(&names().replace(", fuzz", " or fuzz")));
        Ok(())
    }

    #[test]
    fn each_harness_is_searched() -> Result<()> {
        let root = crate::root()?;
        let manifest = fs::read_to_string(root.join("keys/fuzz/Cargo.toml"))?;
        let found = harnesses(&root)?;
        assert!(!found.is_empty() && found.iter().all(|name| manifest.contains(&format!("name = \"{name}\""))));
        assert_eq!(found.len(), manifest.matches("[[bin]]").count());
        Ok(())
    }
}
