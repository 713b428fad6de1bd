//! Runs the guides word for word, on a machine made for them.
//!
//! Bash runs blocks marked `sh`. Blocks marked `LANGUAGE file=PATH` are written to that file. Blocks marked `text` are
//! only read. Nothing is replaced in them: `machine.sh` makes the paths, ports and users that they name.

use crate::programs::{is_root, program, run};
use crate::service::signatures;
use crate::{caddy, library, module};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};
use sidecore::core::session::Class;
use sidecore_counters::{ClassCounter, Snapshot};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Do(String),
    Write { path: String, text: String },
}

pub(crate) struct Followed {
    pub(crate) said: String,
    counted: Snapshot,
}

impl Followed {
    pub(crate) fn counted(&self) -> &Snapshot {
        &self.counted
    }

    fn requests(&self, name: &str) -> u64 {
        let class = Class::from_name(name).unwrap();
        self.counted
            .classes
            .iter()
            .find(|stats| stats.class == class)
            .map_or(0, |stats| stats.get(ClassCounter::Requests))
    }

    fn speeds(&self) -> Vec<u64> {
        let signed =
            |line: &&str| line.starts_with("Doing ") && line.contains("private rsa") && !line.contains("decrypt");
        let number = |line: &str| line.split(": ").nth(1)?.split(' ').next()?.parse().ok();
        self.said.lines().filter(signed).map(|line| number(line).unwrap_or_else(|| panic!("{line}"))).collect()
    }
}

pub(crate) fn steps(page: &str) -> Vec<Step> {
    blocks(page).into_iter().filter_map(|(info, text)| step(&info, text)).collect()
}

pub(crate) fn blocks(page: &str) -> Vec<(String, String)> {
    let (mut blocks, mut block) = (Vec::new(), None);
    for event in Parser::new(page) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                block = Some((info.to_string(), String::new()));
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => panic!("a block without a mark:\n{page}"),
            Event::Text(text) => block.iter_mut().for_each(|(_, block)| block.push_str(&text)),
            Event::End(TagEnd::CodeBlock) => blocks.extend(block.take()),
            _ => {}
        }
    }
    blocks
}

fn step(info: &str, text: String) -> Option<Step> {
    match info.split_once(" file=") {
        Some((_, path)) => Some(Step::Write { path: path.to_owned(), text }),
        None if info == "sh" => Some(Step::Do(text)),
        None => {
            assert_eq!(info, "text", "mark the block `sh`, `LANGUAGE file=PATH` or `text`");
            None
        }
    }
}

fn script(steps: &[Step]) -> String {
    let mut script = "set -e\n".to_owned();
    for step in steps {
        match step {
            Step::Do(commands) => writeln!(script, "set -v\n{commands}set +v").unwrap(),
            Step::Write { path, text } => {
                writeln!(script, "mkdir -p $(dirname {path})\ncat >{path} <<'END OF FILE'\n{text}END OF FILE").unwrap();
            }
        }
    }
    script
}

pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A page of `docs`, or a section of it: `guide/web.md#haproxy`.
pub(crate) fn page(name: &str) -> String {
    let (file, anchor) = name.split_once('#').unwrap_or((name, ""));
    let text = std::fs::read_to_string(project().join("docs").join(file)).unwrap();
    if anchor.is_empty() {
        return text;
    }
    section(&text, anchor).unwrap_or_else(|| panic!("docs/{file} has no heading #{anchor}")).to_owned()
}

fn section<'a>(page: &'a str, anchor: &str) -> Option<&'a str> {
    let mut begin: Option<(usize, HeadingLevel)> = None;
    for (event, range) in Parser::new(page).into_offset_iter() {
        let Event::Start(Tag::Heading { level, .. }) = event else { continue };
        match begin {
            Some((start, outer)) if level <= outer => return Some(&page[start..range.start]),
            None if anchor_of(&page[range.clone()]) == anchor => begin = Some((range.start, level)),
            _ => {}
        }
    }
    begin.map(|(start, _)| &page[start..])
}

fn anchor_of(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let is_kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    words.chars().filter(is_kept).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn follow(pages: &[&str]) -> Followed {
    follow_steps(&pages.iter().flat_map(|name| steps(&page(name))).collect::<Vec<_>>())
}

pub(crate) fn follow_steps(steps: &[Step]) -> Followed {
    follow_steps_with(&[], steps)
}

/// The same with packages of Debian that the steps install; their machine has no network.
fn follow_steps_with(packages: &[&str], steps: &[Step]) -> Followed {
    assert!(is_root(), "the guides are for root: run these tests as root, where namespaces can be made");
    for name in ["unshare", "ip", "systemctl"] {
        program(name);
    }
    let scratch = tempfile::tempdir().unwrap();
    let shared = scratch.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("steps"), script(steps)).unwrap();
    if !packages.is_empty() {
        fetch(packages, &shared.join("archives"));
    }
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/machine.sh");
    let mut command = program("unshare");
    command.args(["--mount", "--propagation", "private"]).arg(machine).arg(scratch.path()).arg(project());
    // A tree with the keys alone installs no sockets.
    if project().join("sockets").is_dir() {
        library::built("sidecore-preload");
        library::file("sidecore-sockets-command", "sidecore-sockets");
    }
    let done = run(command.arg(module::path().parent().unwrap()));
    let said = |name| std::fs::read_to_string(shared.join(name)).unwrap_or_default();
    let transcript = said("transcript");
    assert!(done.ok(), "{transcript}\n--- journal:\n{}\n{done:?}", said("journal"));
    let counted = Snapshot::read(&shared.join("counters"));
    Followed { counted: counted.unwrap_or_else(|error| panic!("{error}\n{transcript}")), said: transcript }
}

/// Keys of all kinds, some with certificates, in front of the guide's own: programs that stop at the first key that they
/// do not know would find none.
fn full_token() -> Step {
    Step::Do(
        r#"(
cd "$(mktemp -d)"
users=$(for user in root tomcat Debian-exim knot; do if id $user >/dev/null 2>&1; then echo --uid $user; fi; done)
for kind in ed25519 x25519 ml-dsa-65 ml-kem-768 p-384 p-521 rsa-2048; do
    sidecore keys generate a-$kind --kind $kind $users
done
for name in a-ed25519 a-p-384 a-p-521 a-rsa-2048; do
    sidecore run -- openssl req -x509 -new -key sidecore:$name -subj /CN=$name -days 30 -out $name.crt
    sidecore keys cert $name $name.crt
done
)
"#
        .to_owned(),
    )
}

/// A page about PKCS#11, followed on a full token, with packages that it installs.
fn follow_on_a_full_token(packages: &[&str], guide: &str) -> Followed {
    library::built("sidecore-pkcs11");
    let mut all = Vec::new();
    if !packages.is_empty() {
        all.push(Step::Do("cp /mnt/archives/*.deb /var/cache/apt/archives/\n".to_owned()));
    }
    all.extend(steps(&page("install.md")));
    all.push(full_token());
    all.extend(steps(&page(guide)));
    follow_steps_with(packages, &all)
}

fn fetch(packages: &[&str], archives: &Path) {
    std::fs::create_dir_all(archives.join("partial")).unwrap();
    let mut command = program("apt-get");
    command.args(["-q", "-y", "--no-install-recommends", "--download-only", "-o"]);
    command.arg(format!("Dir::Cache::archives={}", archives.display())).arg("install").args(packages);
    run(&mut command).expect("apt-get");
}

#[test]
fn blocks_become_steps() {
    let page = "# A\n\n```sh\nls\n```\n\n```nginx file=/etc/nginx/a\nx {\n}\n```\n\n```text\nshown\n```\n";
    let expected =
        [Step::Do("ls\n".to_owned()), Step::Write { path: "/etc/nginx/a".to_owned(), text: "x {\n}\n".to_owned() }];
    assert_eq!(steps(page), expected);
}

#[test]
fn an_anchor_names_a_section_up_to_the_next_heading_of_its_level() {
    let page = "# A\n\na\n\n## Of `redis`, 1.2\n\n```sh\n## no heading\n```\n\n### Within\n\nb\n\n## Next\n\nc\n";
    let redis = "## Of `redis`, 1.2\n\n```sh\n## no heading\n```\n\n### Within\n\nb\n\n";
    assert_eq!(section(page, "of-redis-12"), Some(redis));
    assert_eq!(section(page, "within"), Some("### Within\n\nb\n\n"));
    assert_eq!(section(page, "next"), Some("## Next\n\nc\n"));
    assert_eq!(section(page, "a"), Some(page));
    assert_eq!(section(page, "no-heading"), None);
}

#[test]
fn a_step_that_fails_ends_the_script() {
    let script = script(&[Step::Do("false\n".to_owned()), Step::Do("echo no\n".to_owned())]);
    let done = run(program("bash").args(["-c", &script]));
    assert!(!done.ok() && !done.stdout.contains("no"), "{done:?}");
}

#[test]
fn the_guide_for_nginx_works_word_for_word() {
    let followed = follow(&["install.md", "guide/nginx.md"]);
    assert!(signatures(&followed.counted, "www") >= 2, "a handshake before and after the restart\n{}", followed.said);
}

#[test]
fn the_guide_for_haproxy_works_word_for_word() {
    let followed = follow(&["install.md", "guide/web.md#haproxy"]);
    assert_eq!(followed.said.matches("it works").count(), 1 + 2, "once in the page itself\n{}", followed.said);
    assert!(signatures(&followed.counted, "lb") >= 2, "a handshake before and after the restart\n{}", followed.said);
}

fn serves(guide: &str, key: &str, handshakes: u64, needs: &[&str]) {
    for name in needs {
        program(name);
    }
    let followed = follow(&["install.md", guide]);
    let made = signatures(&followed.counted, key);
    assert!(made >= handshakes, "{made} signatures\n{}", followed.said);
}

#[test]
fn the_guide_for_apache_works_word_for_word() {
    serves("guide/web.md#apache", "web", 2, &["apache2"]);
}

#[test]
fn the_guide_for_postgresql_works_word_for_word() {
    serves("guide/mail-databases.md#postgresql", "db", 2, &["postgres"]);
}

#[test]
fn the_guide_for_postfix_works_word_for_word() {
    serves("guide/mail-databases.md#postfix", "mail", 2, &["postfix"]);
}

#[test]
fn the_guide_for_dovecot_works_word_for_word() {
    serves("guide/mail-databases.md#dovecot", "imap", 2, &["dovecot"]);
}

#[test]
fn the_guide_for_stunnel_works_word_for_word() {
    serves("guide/web.md#stunnel", "tunnel", 2, &["stunnel4", "/usr/bin/python3"]);
}

#[test]
fn the_guide_for_redis_with_tls_works_word_for_word() {
    serves("guide/mail-databases.md#redis", "cache", 2, &["redis-server", "redis-cli"]);
}

#[test]
fn the_guide_for_node_works_word_for_word() {
    serves("guide/clients.md#node", "app", 1, &["node"]);
}

#[test]
fn the_guide_for_python_works_word_for_word() {
    serves("guide/clients.md#python", "app", 1, &["/usr/bin/python3"]);
}

#[test]
fn the_guide_for_curl_works_word_for_word() {
    let followed = follow(&["install.md", "guide/clients.md#curl"]);
    assert!(signatures(&followed.counted, "client") >= 2, "a handshake by each of the two ways\n{}", followed.said);
}

#[test]
fn the_guide_for_the_openssl_command_works_word_for_word() {
    let followed = follow(&["install.md", "guide/clients.md#openssl"]);
    let said = &followed.said;
    assert!(said.lines().any(|line| line == "Verified OK"), "{said}");
    assert!(signatures(&followed.counted, "signer") >= 3, "req, dgst and cms\n{said}");
    let speeds = followed.speeds();
    let [_, eight, one] = speeds[..] else { panic!("{speeds:?}\n{said}") };
    assert!(eight > 0 && one > 0, "{said}");
    let signed = followed.requests("rsa-4096-sign-digest");
    assert!(signed >= eight + one, "the service made {signed} of {speeds:?}\n{said}");
}

#[test]
fn the_guide_for_openssh_works_word_for_word() {
    for name in ["/usr/sbin/sshd", "ssh", "git"] {
        program(name);
    }
    library::file("sidecore-agent", "sidecore-agent");
    let followed = follow(&["install.md", "guide/ssh.md"]);
    let said = &followed.said;
    assert_eq!(said.lines().filter(|line| *line == "it works").count(), 2, "{said}");
    assert!(said.contains("Good \"git\" signature for deploy@example.org"), "{said}");
    assert!(signatures(&followed.counted, "deploy-ssh") >= 3, "two logins and a commit\n{said}");
    for host in ["host-ed25519", "host-rsa"] {
        assert!(signatures(&followed.counted, host) >= 1, "{host}\n{said}");
    }
}

#[test]
fn the_guide_for_pkcs11_programs_works_word_for_word() {
    for name in ["pkcs11-tool", "p11tool", "ssh-keygen", "certutil", "keytool", "jarsigner"] {
        program(name);
    }
    let followed = follow_on_a_full_token(&[], "guide/pkcs11.md");
    let signed = followed.requests("rsa-2048-sign-digest");
    assert!(signed >= 3 && followed.said.contains("jar verified"), "{signed} signatures\n{}", followed.said);
}

fn works(sections: &[&str], served: usize, signed: u64) {
    let pages = ["install.md", "guide/libraries.md#a-key"].into_iter().chain(sections.iter().copied());
    let followed = follow(&pages.collect::<Vec<_>>());
    let said = &followed.said;
    assert_eq!(said.lines().filter(|line| *line == "it works").count(), served, "{said}");
    let made = signatures(&followed.counted, "www");
    assert!(made >= signed, "{made} signatures\n{said}");
}

#[test]
fn the_guide_for_c_and_rust_works_word_for_word() {
    program("cc");
    library::built("sidecore-c");
    library::file("sidecore-rustls", "examples/https");
    // One for the certificate.
    works(&["guide/libraries.md#c", "guide/libraries.md#rust-with-rustls"], 1, 1 + 2);
}

#[test]
fn the_guide_for_caddy_works_word_for_word() {
    if caddy::built().is_some() {
        library::file("sidecore-agent", "sidecore-agent");
        warm_up_go();
        works(&["guide/libraries.md#go", "guide/libraries.md#caddy"], 2, 1 + 2);
    }
}

#[test]
fn the_guide_for_go_works_word_for_word() {
    library::file("sidecore-agent", "sidecore-agent");
    warm_up_go();
    works(&["guide/libraries.md#go"], 1, 1 + 1);
}

fn warm_up_go() {
    // Go's own packages take longer to compile than a guide may.
    let mut go = program("go");
    go.args(["build", "net/http"]).env("GOCACHE", project().join("target/go-cache"));
    assert!(go.output().unwrap().status.success());
}

/// A section of the guide for programs with PKCS#11: the least number of signatures of each key.
fn signs(section: &str, keys: &[(&str, u64)], needs: &[&str]) -> Followed {
    for name in needs {
        program(name);
    }
    let followed = follow_on_a_full_token(&[], &format!("guide/pkcs11-programs.md#{section}"));
    counts(&followed, keys);
    followed
}

fn counts(followed: &Followed, keys: &[(&str, u64)]) {
    for (key, least) in keys {
        let made = signatures(&followed.counted, key);
        assert!(made >= *least, "{key}: {made} signatures\n{}", followed.said);
    }
}

#[test]
fn the_guide_for_tomcat_works_word_for_word() {
    let needs = ["/usr/share/tomcat10/bin/bootstrap.jar"];
    let followed = signs("tomcat", &[("tomcat-ec", 1), ("tomcat-rsa", 1)], &needs);
    assert!(followed.said.contains("It works !"), "{}", followed.said);
}

#[test]
fn the_guide_for_gnutls_works_word_for_word() {
    signs("gnutls-serv", &[("gnutls", 1)], &["gnutls-serv"]);
}

#[test]
fn the_guide_for_exim_works_word_for_word() {
    // Not in the list of packages: Debian has one mail server at a time.
    let followed = follow_on_a_full_token(&["exim4-daemon-light"], "guide/pkcs11-programs.md#exim");
    counts(&followed, &[("exim", 1)]);
}

#[test]
fn the_guide_for_nss_works_word_for_word() {
    signs("nss", &[("signer", 2)], &["certutil", "modutil", "cmsutil", "selfserv"]);
}

#[test]
fn the_guide_for_openvpn_works_word_for_word() {
    signs("openvpn", &[("vpn", 1)], &["openvpn"]);
}

#[test]
fn the_guide_for_strongswan_works_word_for_word() {
    let needs = ["swanctl", "/usr/sbin/charon-systemd", "/usr/lib/ipsec/plugins/libstrongswan-pkcs11.so"];
    signs("strongswan", &[("ike", 1)], &needs);
}

#[test]
fn the_guide_for_knot_works_word_for_word() {
    let followed = signs("knot", &[("zone", 3)], &["keymgr", "p11tool"]);
    assert!(followed.said.contains("RRSIG"), "{}", followed.said);
}

#[test]
fn the_guide_for_gnupg_works_word_for_word() {
    let needs = ["gpg", "gpg-agent", "gpg-connect-agent", "gnupg-pkcs11-scd"];
    let followed = signs("gnupg", &[("gpg", 2)], &needs);
    assert!(followed.said.contains("Good signature"), "{}", followed.said);
}

#[test]
fn the_guide_for_osslsigncode_works_word_for_word() {
    let needs = [
        "osslsigncode",
        "/usr/lib/x86_64-linux-gnu/engines-3/pkcs11.so",
        "/usr/lib/systemd/boot/efi/systemd-bootx64.efi",
    ];
    let followed = signs("osslsigncode", &[("code", 1)], &needs);
    assert!(followed.said.contains("Signature verification: ok"), "{}", followed.said);
}

fn rings(guide: &str, name: &str, needs: &[&str]) {
    for name in needs {
        program(name);
    }
    let said = follow(&["install.md", guide]).said;
    let is_row = |line: &&str| line.starts_with(name) && line.contains("ring: small sends in a row");
    assert!(said.lines().any(|line| is_row(&line)), "{said}");
}

#[test]
fn the_farms_first_job_works_word_for_word() {
    let mut all = steps(&page("install.md"));
    all.push(Step::Do("cd $(mktemp -d)\n".to_owned()));
    all.extend(steps(&page("farm.md#a-first-job-2000-files-compressed-by-three-nodes")));
    let said = follow_steps(&all).said;
    for part in ["fed 2000, stored 2000, already there 0", "\n2000\n", "no dead letters", "\nsame\n", "nodes: 2, "] {
        assert!(said.contains(part), "{part:?}: {said}");
    }
    assert!(!said.contains("redone: 0,"), "the node died when all was done: {said}");
}

#[test]
fn the_guide_for_redis_works_word_for_word() {
    rings("guide/sockets.md#redis", "redis-server", &["redis-server", "redis-cli"]);
}

#[test]
fn the_guide_for_mosquitto_works_word_for_word() {
    rings("guide/sockets.md#mosquitto", "mosquitto", &["mosquitto", "mosquitto_sub"]);
}

#[test]
fn the_guide_for_pythons_sockets_works_word_for_word() {
    rings("guide/sockets.md#python", "python3", &["python3"]);
}

#[test]
fn the_guide_for_nodes_sockets_works_word_for_word() {
    rings("guide/sockets.md#node", "node", &["node"]);
}

#[test]
fn the_guide_for_a_log_shipper_works_word_for_word() {
    rings("guide/sockets.md#log-shipper", "logger", &["python3"]);
}
