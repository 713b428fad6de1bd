//! The profile for `AppArmor`: a service's files are those of its rules.

use crate::root_or_skipped;
use crate::service::{Running, ServiceFolder, USER, USER_ID, sidecore};
use rustix::process::{Pid, Signal, kill_process};
use sidecore::keys::transfer::Address;
use sidecore::keys::{Acl, KeyCommand, Kind};
use sidecore_testing::skipped;
use std::collections::BTreeSet;
use std::fs::{self, create_dir, create_dir_all};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Output};

const PROFILE: &str = include_str!("../../../../packaging/apparmor/sidecore");
const UNIT: &str = include_str!("../../../../packaging/sidecore.service");
/// Only systemd's service and journal need these.
const OF_SYSTEMD: [&str; 4] =
    ["/run/systemd/notify", "/run/systemd/journal/stdout", "/dev/null", "/run/sidecore/credentials/passphrase"];

/// One kind of access (`r`, `w`, `m`, `k`) to a path.
type Access = (char, String);

#[derive(Clone, Debug)]
struct Rule {
    patterns: Vec<String>,
    access: String,
}

impl Rule {
    fn permits(&self, (kind, path): &Access) -> bool {
        self.access.contains(*kind) && self.patterns.iter().any(|pattern| matches(pattern, path))
    }
}

fn rules(profile: &str) -> Vec<Rule> {
    let lines = profile.lines().map(|line| line.trim().trim_start_matches("owner "));
    let files = lines.filter(|line| line.starts_with('/') || line.starts_with("@{"));
    let rule = |line: &str| {
        let (path, access) = line.trim_end_matches(',').rsplit_once(' ').unwrap();
        let variables = [("@{PROC}", "/proc"), ("@{run}", "/run"), ("@{pid}", "*"), ("@{multiarch}", "*-linux-gnu*")];
        let path = variables.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
        Rule { patterns: alternatives(&path), access: access.to_owned() }
    };
    files.map(rule).collect()
}

/// `a{b,c}` as `ab` and `ac`.
fn alternatives(pattern: &str) -> Vec<String> {
    let Some(begin) = pattern.rfind('{') else { return vec![pattern.to_owned()] };
    let end = begin + pattern[begin..].find('}').unwrap();
    let (before, after) = (&pattern[..begin], &pattern[end + 1..]);
    let choices = pattern[begin + 1..end].split(',');
    choices.flat_map(|choice| alternatives(&format!("{before}{choice}{after}"))).collect()
}

/// `*` stands for any text without `/`, which is not empty after a `/`.
fn matches(pattern: &str, path: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == path };
    let Some(rest) = path.strip_prefix(before) else { return false };
    let end = rest.find('/').unwrap_or(rest.len());
    (usize::from(before.ends_with('/'))..=end)
        .filter(|at| rest.is_char_boundary(*at))
        .any(|at| matches(after, &rest[at..]))
}

struct Place(ServiceFolder);

impl Place {
    fn new() -> Self {
        let folder = ServiceFolder::new("", "");
        let (run, state, passphrase) = (folder.file("run/sidecore"), folder.file("state"), folder.file("passphrase"));
        let changes = folder.file("changes");
        create_dir_all(&run).unwrap();
        create_dir(&state).unwrap();
        create_dir(&changes).unwrap();
        fs::write(&passphrase, "correct horse").unwrap();
        fs::set_permissions(&passphrase, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
        for path in [&run, &state, &changes, &passphrase] {
            chown(path, Some(USER_ID), Some(USER_ID)).unwrap();
        }
        let recipient = folder.file("other.pem");
        fs::write(&recipient, Address([9; 32]).to_pem()).unwrap();
        let tables = format!(
            "[keys]\ndirectory = '{}/keys'\npassphrase_file = '{}'\nsend_to = ['{}']\nchanges_file = '{}/number'\n\
             [[device]]\nname = 'here'\nkind = 'inline'\n\
             [[device]]\nname = 'far'\nkind = 'remote'\nfarm = 'keys'\nuser = 'root'\n",
            state.display(),
            passphrase.display(),
            recipient.display(),
            changes.display()
        );
        let record = format!("record = '{}'\n", run.join("sidecore.record").display());
        fs::write(folder.config(), record + &fs::read_to_string(folder.config()).unwrap() + &tables).unwrap();
        Self(folder)
    }

    /// Paths here, and those of the package that they stand for.
    fn paths(&self) -> [(String, &'static str); 8] {
        let shown = |path: &Path| path.to_str().unwrap().to_owned();
        [
            (shown(Path::new(sidecore().get_program())), "/usr/bin/sidecore"),
            (shown(&self.0.socket()), "/run/sidecore/sidecore.sock"),
            (shown(&self.0.file("run/sidecore/sidecore.record")), "/run/sidecore/sidecore.record"),
            (shown(&self.0.file("changes")), "/var/lib/sidecore-changes"),
            (shown(&self.0.file("state")), "/var/lib/sidecore"),
            (shown(&self.0.config()), "/etc/sidecore/sidecore.toml"),
            (shown(&self.0.file("other.pem")), "/etc/sidecore/other.pem"),
            (shown(&self.0.file("passphrase")), "/run/credentials/sidecore.service/passphrase"),
        ]
    }

    /// Work in which each of the service's files is used.
    fn work(&self, reload: Command) {
        let mut admin = self.0.administer();
        let generate = |name: &str| KeyCommand::Generate {
            name: name.to_owned(),
            kind: Kind::Ed25519,
            acl: Acl { uids: vec![1], gids: Vec::new() },
        };
        admin.keys(generate("a")).unwrap();
        admin.keys(generate("b")).unwrap();
        admin.keys(KeyCommand::Delete { name: "a".to_owned() }).unwrap();
        admin.set("device={name=\"w\",kind=\"worker\"}").unwrap();
        let mut reload = reload;
        let done = reload.args(["reload", "--config"]).arg(self.0.config()).output().unwrap();
        assert!(done.status.success() && said(&done).contains("device.w=remove"), "{}", said(&done));
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn pid_of(service: &Running) -> Pid {
    let said = service.said();
    let number = said.split(" pid=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    Pid::from_raw(number.parse().unwrap()).unwrap()
}

fn traced(folder: &ServiceFolder) -> Command {
    let mut command = Command::new("strace");
    command.args(["-ff", "-y", "-s", "4096", "-u", USER, "-e", "trace=%file,bind,connect,flock,fcntl,mmap", "-o"]);
    command.arg(folder.file("trace")).arg(sidecore().get_program());
    command
}

/// Effects on files of traced calls that succeeded, with the package's paths.
fn accesses(place: &Place) -> BTreeSet<Access> {
    let folder = place.0.config().parent().unwrap().to_owned();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let traces = files.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with("trace."));
    let text: String = traces.map(|file| fs::read_to_string(file).unwrap()).collect();
    let packaged = |path: String| place.paths().iter().fold(path, |path, (here, there)| path.replace(here, there));
    let calls = text.lines().filter(|line| !line.contains(" = -1 ") && !line.contains(" = ?"));
    let all = calls.filter(|line| line.contains('(') && !line.starts_with(['-', '+']));
    all.flat_map(access_of).map(|(kind, path)| (kind, packaged(path))).collect()
}

fn access_of(call: &str) -> Vec<Access> {
    let (name, rest) = call.split_once('(').unwrap();
    let (arguments, result) = rest.rsplit_once(" = ").unwrap();
    let needs = |kinds: &str, path: String| kinds.chars().map(|kind| (kind, path.clone())).collect();
    match name {
        "open" | "openat" if arguments.contains("O_PATH") => Vec::new(),
        "open" | "openat" => {
            let slash = if arguments.contains("O_DIRECTORY") { "/" } else { "" };
            let writes = arguments.contains("O_WRONLY") || arguments.contains("O_CREAT");
            let kinds = match (arguments.contains("O_RDWR"), writes) {
                (true, _) => "rw",
                (false, true) if arguments.contains("O_RDONLY") => "rw",
                (false, true) => "w",
                (false, false) => "r",
            };
            needs(kinds, format!("{}{slash}", in_brackets(result)))
        }
        "execve" => needs("mr", quoted(arguments, 0)),
        "mmap" if arguments.contains("PROT_EXEC") && arguments.contains("</") => needs("m", in_brackets(arguments)),
        "flock" | "fcntl" if name == "flock" || arguments.contains("SETLK") => {
            let path = in_brackets(arguments);
            let slash = if Path::new(&path).is_dir() { "/" } else { "" };
            needs("k", format!("{path}{slash}"))
        }
        "bind" | "unlink" | "chmod" => needs("w", quoted(arguments, 0)),
        "mkdir" => needs("w", format!("{}/", quoted(arguments, 0))),
        "connect" => needs("rw", quoted(arguments, 0)),
        "unlinkat" => needs("w", beneath(arguments, 0)),
        "rename" => [needs("rw", quoted(arguments, 0)), needs("w", quoted(arguments, 1))].concat(),
        "renameat" | "renameat2" => [needs("rw", beneath(arguments, 0)), needs("w", beneath(arguments, 1))].concat(),
        // AppArmor permits these to all.
        "mmap" | "fcntl" | "stat" | "statx" | "newfstatat" | "lstat" | "access" | "faccessat2" | "getcwd" => Vec::new(),
        _ => panic!("what does AppArmor ask for in {call}"),
    }
}

fn in_brackets(text: &str) -> String {
    let (_, rest) = text.split_once("</").unwrap_or_else(|| panic!("no path in {text}"));
    format!("/{}", rest.split_once('>').unwrap().0)
}

fn quoted(arguments: &str, number: usize) -> String {
    arguments.split('"').nth(2 * number + 1).unwrap_or_else(|| panic!("no text in {arguments}")).to_owned()
}

/// The path of a descriptor's directory and a name.
fn beneath(arguments: &str, number: usize) -> String {
    let name = quoted(arguments, number);
    if name.starts_with('/') {
        return name;
    }
    let before: Vec<&str> = arguments.split('"').collect();
    format!("{}/{name}", in_brackets(before[2 * number]))
}

fn missing<'a>(rules: &[Rule], accesses: &'a BTreeSet<Access>) -> Vec<&'a Access> {
    accesses.iter().filter(|access| !rules.iter().any(|rule| rule.permits(access))).collect()
}

#[test]
fn the_parser_accepts_the_profile_and_the_unit_names_it() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/apparmor/sidecore");
    let done = Command::new("apparmor_parser").args(["-Q", "-K", "-T", path]).output();
    let done = done.unwrap_or_else(|error| panic!("apparmor_parser: {error}; run: sudo apt-get install apparmor"));
    assert!(done.status.success(), "{}", said(&done));
    assert!(PROFILE.contains("\nprofile sidecore flags="), "no path of a program attaches it");
    assert!(UNIT.lines().any(|line| line == "AppArmorProfile=-sidecore"));
}

#[test]
fn a_service_uses_the_files_of_the_profile_and_the_profile_has_no_rule_beyond_them() {
    if !root_or_skipped("trace a process that denies inspection") {
        return;
    }
    let place = Place::new();
    let service = place.0.start_by(traced(&place.0));
    place.work(traced(&place.0));
    kill_process(pid_of(&service), Signal::TERM).unwrap();
    // The tracer ends with the service.
    assert!(service.end(Signal::CONT).success());
    let (rules, accesses) = (rules(PROFILE), accesses(&place));
    assert_eq!(missing(&rules, &accesses), [] as [&Access; 0]);
    for (number, rule) in rules.iter().enumerate().filter(|(_, rule)| !OF_SYSTEMD.contains(&&*rule.patterns[0])) {
        // `ix` is of the command that starts the next service, from outside of this one's sandbox: it is not traced here.
        for kind in rule.access.chars().filter(|kind| !"ix".contains(*kind)) {
            let mut fewer = rules.clone();
            fewer[number].access.retain(|other| other != kind);
            assert!(!missing(&fewer, &accesses).is_empty(), "no file needs {kind} of {rule:?}");
        }
    }
}

/// The profile with the paths of this place, in the kernel until dropped.
struct Loaded {
    name: String,
    file: String,
}

impl Loaded {
    fn of(place: &Place) -> Self {
        let name = format!("sidecore-test-{}", std::process::id());
        let file = place.0.file("profile").to_str().unwrap().to_owned();
        let log = format!("  {} w,\n  include if", place.0.file("log").display());
        let text = PROFILE.replace("@{run}", "/run").replace("  include if", &log).replace("/*.pem", "/other.pem");
        let text = text
            .replace("profile sidecore ", &format!("profile {name} "))
            .replace("peer=sidecore", "peer=@{profile_name}");
        let text = place.paths().iter().fold(text, |text, (here, there)| text.replace(there, here));
        fs::write(&file, text).unwrap();
        let loaded = Self { name, file };
        let done = loaded.parser("-r");
        assert!(done.status.success(), "{}", said(&done));
        loaded
    }

    fn parser(&self, what: &str) -> Output {
        Command::new("apparmor_parser").args([what, "-K", "-T", &self.file]).output().unwrap()
    }

    fn confined(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        let (user, program) = (USER_ID.to_string(), Path::new(program));
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--no-new-privs"]);
        command.args(["aa-exec", "-p", &self.name, "--"]).arg(program);
        command
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.parser("-R");
    }
}

#[test]
fn a_service_works_inside_its_profile_and_reads_nothing_else() {
    let enabled = fs::read_to_string("/sys/module/apparmor/parameters/enabled").unwrap_or_default();
    if enabled.trim() != "Y" {
        return skipped("this kernel has no AppArmor");
    }
    if !root_or_skipped("load a profile") {
        return;
    }
    let place = Place::new();
    let (profile, program) = (Loaded::of(&place), place.paths()[0].0.clone());
    let service = place.0.start_by(profile.confined(&program));
    let current = fs::read_to_string(format!("/proc/{}/attr/current", pid_of(&service).as_raw_nonzero())).unwrap();
    assert_eq!(current.trim(), format!("{} (enforce)", profile.name));
    place.work(profile.confined(&program));
    let mut foreign = profile.confined(&program);
    let refused = foreign.args(["check", "--config", "/etc/hostname"]).output().unwrap();
    assert!(said(&refused).contains("/etc/hostname: Permission denied"), "{}", said(&refused));
    assert!(service.end(Signal::TERM).success());
}

#[test]
fn patterns_are_matched_as_apparmor_does() {
    for (pattern, path, is_match) in [
        ("/a/*", "/a/b", true),
        ("/a/*", "/a/b/c", false),
        ("/a/*.x", "/a/b.x", true),
        ("/a/*", "/a/", false),
        ("/a/b*", "/a/b", true),
        ("/{,usr/}lib{,64}/{lib{c,m}}.so.*", "/usr/lib64/libm.so.6", true),
        ("/{,usr/}lib/lib{c,m}.so.*", "/lib/libz.so.6", false),
    ] {
        let found = alternatives(pattern).iter().any(|pattern| matches(pattern, path));
        assert_eq!(found, is_match, "{pattern} {path}");
    }
}
