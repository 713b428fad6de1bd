//! Uses of the `openssl` command with a stored key, each compared with the same key in a file. The result is the same,
//! or names the key in place of its private part, or is refused with a reason of ours.
//!
//! `docs/openssl-cases.md` holds the results. The test writes it if `SIDECORE_WRITE_PAGES` is set, as in `cargo xtask
//! golden --write`.

use crate::common::Site;
use crate::newer;
use sidecore::keys::uri::Uri;
use sidecore::keys::{Acl, KeyCommand, read_private_key};
use sidecore_testing::skipped;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openssl-cases.md");
const WRITE: &str = "SIDECORE_WRITE_PAGES";
const CASES: &str = include_str!("cases.txt");
const FEWEST: usize = 249;
/// Makes OpenSSL write an object of the old kind, whose private numbers are zero.
const TRADITIONAL: &str = "pkey -in $key -traditional";
const NO_NUMBERS: &str = "a file with zeros in place of the private numbers, which signs nothing";
const KINDS: [(&str, &str); 8] = [
    ("rsa2048", "-algorithm rsa -pkeyopt rsa_keygen_bits:2048"),
    ("rsa4096", "-algorithm rsa -pkeyopt rsa_keygen_bits:4096"),
    ("p256", "-algorithm ec -pkeyopt ec_paramgen_curve:P-256"),
    ("p384", "-algorithm ec -pkeyopt ec_paramgen_curve:P-384"),
    ("p521", "-algorithm ec -pkeyopt ec_paramgen_curve:P-521"),
    ("ed25519", "-algorithm ed25519"),
    ("x25519", "-algorithm x25519"),
    ("mldsa", "-algorithm ml-dsa-65"),
];
const GROUPS: [(&str, &[&str]); 5] = [
    ("all", &["rsa2048", "rsa4096", "p256", "p384", "p521", "ed25519", "x25519", "mldsa"]),
    ("signs", &["rsa2048", "p256", "p384", "p521", "ed25519", "mldsa"]),
    ("whole", &["ed25519", "mldsa"]),
    ("rsa", &["rsa2048"]),
    ("ec", &["p256", "p384", "p521"]),
];
const PRELUDE: &str = r#"
set -o pipefail
o() { OPENSSL_CONF=$conf $openssl "$@"; }
p() { OPENSSL_CONF=../file.cnf $openssl "$@"; }
serve() {
    key_of_server=$1 certificate=$2
    shift 2
    OPENSSL_CONF=$conf $openssl s_server -accept 127.0.0.1:0 -www -key $key_of_server -cert $certificate "$@" >server 2>&1 </dev/null &
    trap 'kill %1; cat server >&2' EXIT
    until at=$(sed -n 's/^ACCEPT //p' server) && [[ $at ]]; do
        kill -0 %1 || return 1
        sleep 0.02
    done
}
pub=../$kind.pub cert=../$kind.crt tscert=../$kind.ts.crt file=../$kind.key peer=../$kind.peer.pub
cp ../m ../ca.key ../ca.crt ../other.csr ../ca.cnf .
: >index.txt
echo 01 | tee serial tsserial >crlnumber
"#;
const REQUESTS: &str = "[req]\ndistinguished_name = names\n[names]\n";
const AUTHORITY: &str = "[ca]\ndefault_ca = a\n[a]\ndatabase = index.txt\nserial = serial\ncrlnumber = crlnumber\nnew_certs_dir = .\n\
     default_md = default\ndefault_days = 9\ndefault_crl_days = 9\npolicy = any\n[any]\ncommonName = supplied\n\
     [ts]\nserial = tsserial\ndefault_policy = 1.2.3.4\ndigests = sha256\nsigner_digest = sha256\ness_cert_id_alg = sha256\n";

#[derive(Clone)]
struct Case {
    kind: &'static str,
    command: &'static str,
    script: String,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Same,
    Named,
    Refused(String),
    Other(String),
}

struct Said {
    ok: bool,
    out: String,
    err: String,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for line in CASES.lines().filter(|line| !line.starts_with('#')) {
        let mut parts = line.splitn(3, " | ");
        let (kinds, command, script) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        let kinds = kinds.split(',').flat_map(|kind| {
            let group = GROUPS.iter().find(|(name, _)| *name == kind).map(|(_, kinds)| kinds.to_vec());
            group.unwrap_or_else(|| vec![kind])
        });
        for kind in kinds {
            let scripts = expand(script, &mut Vec::new());
            cases.extend(scripts.into_iter().map(|script| Case { kind, command, script }));
        }
    }
    cases
}

fn expand(script: &str, chosen: &mut Vec<String>) -> Vec<String> {
    let Some((before, rest)) = script.split_once('{') else { return vec![script.to_owned()] };
    let (choices, behind) = rest.split_once('}').unwrap();
    if let Ok(number) = choices.parse::<usize>() {
        return expand(&format!("{before}{}{behind}", chosen[number - 1]), chosen);
    }
    let mut all = Vec::new();
    for choice in choices.split(',') {
        chosen.push(choice.to_owned());
        all.extend(expand(&format!("{before}{choice}{behind}"), chosen));
        chosen.pop();
    }
    all
}

struct House {
    site: Site,
    openssl: String,
    kinds: Vec<&'static str>,
}

impl House {
    fn new(openssl: String) -> Self {
        let site = Site::with(&[]);
        fs::write(site.path("m"), "a message to sign, which is as long").unwrap();
        fs::write(site.path("file.cnf"), REQUESTS).unwrap();
        fs::write(site.path("ca.cnf"), AUTHORITY).unwrap();
        let stored = fs::read_to_string(site.path("openssl.cnf")).unwrap();
        fs::write(site.path("stored.cnf"), format!("{stored}\n{REQUESTS}")).unwrap();
        let mut house = Self { site, openssl, kinds: Vec::new() };
        house.prepare(
            "p genpkey -algorithm rsa -out ca.key && p req -x509 -new -key ca.key -subj /CN=localhost -out ca.crt && \
             p req -new -newkey rsa:2048 -nodes -keyout other.key -subj /CN=other -out other.csr",
        );
        house.kinds = KINDS.iter().filter(|(kind, how)| house.key(kind, how)).map(|(kind, _)| *kind).collect();
        house
    }

    fn prepare(&self, script: &str) -> bool {
        let prelude = "set -e -o pipefail; p() { OPENSSL_CONF=file.cnf $openssl \"$@\"; }";
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("{prelude}\n{script}")])
            .env("openssl", &self.openssl)
            .current_dir(self.site.path(""));
        bash.output().unwrap().status.success()
    }

    /// Makes a key of this kind in a file and in the service. `false`: this OpenSSL does not support the kind.
    fn key(&self, kind: &str, how: &str) -> bool {
        if !self.prepare(&format!("p genpkey {how} -out {kind}.key && p pkey -in {kind}.key -pubout -out {kind}.pub")) {
            return false;
        }
        self.prepare(&format!(
            "p genpkey {how} -out {kind}.peer && p pkey -in {kind}.peer -pubout -out {kind}.peer.pub"
        ));
        self.prepare(&format!(
            "p req -x509 -new -key {kind}.key -subj /CN=localhost -out {kind}.crt; \
             p req -new -key {kind}.key -subj /CN=ts -out ts.csr; \
             p x509 -req -in ts.csr -CA ca.crt -CAkey ca.key -set_serial 5 -out {kind}.ts.crt \
             -extfile <(echo extendedKeyUsage=critical,timeStamping)"
        ));
        let pkcs8 = read_private_key(&fs::read(self.site.path(&format!("{kind}.key"))).unwrap(), None).unwrap();
        let mut admin = self.site.admin();
        admin.keys(KeyCommand::Import { name: kind.to_owned(), pkcs8, acl: Acl::default() }).unwrap();
        let uri = Uri::new(kind).unwrap().with_public(admin.key_info(kind).unwrap().public).unwrap();
        fs::write(self.site.path(&format!("{kind}.pem")), uri.to_pem()).unwrap();
        true
    }

    fn shell(&self, case: &Case, key: &str, conf: &str) -> Said {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let directory = self.site.path(&format!("case-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&directory).unwrap();
        let mut bash = Command::new("timeout");
        bash.args(["120", "bash", "-c", &format!("{PRELUDE}\n{}", case.script)]).current_dir(&directory);
        bash.envs([("openssl", self.openssl.as_str()), ("key", key), ("conf", conf), ("kind", case.kind)]);
        let output = bash.stdin(Stdio::null()).output().unwrap();
        fs::remove_dir_all(directory).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { ok: output.status.success(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    fn outcome(&self, case: &Case) -> Outcome {
        let file = self.shell(case, &format!("../{}.key", case.kind), "../file.cnf");
        let stored = self.shell(case, &format!("../{}.pem", case.kind), "../stored.cnf");
        let named =
            ["BEGIN SIDECORE KEY URI", "private key in sidecore as"].iter().any(|sign| stored.out.contains(sign));
        match (file.ok, stored.ok) {
            (true, true) if named => Outcome::Named,
            (file_ok, stored_ok) if file_ok == stored_ok && (file.out == stored.out || !file_ok) => Outcome::Same,
            (true, true) if case.script.contains(TRADITIONAL) && !self.signs(&stored.out) => {
                Outcome::Refused(NO_NUMBERS.to_owned())
            }
            (true, false) => reason(&stored.err).map_or_else(|| other(&file, &stored), Outcome::Refused),
            _ => other(&file, &stored),
        }
    }

    /// Whether OpenSSL signs with this file alone.
    fn signs(&self, pem: &str) -> bool {
        let copy = tempfile::NamedTempFile::new_in(self.site.path("")).unwrap();
        fs::write(&copy, pem).unwrap();
        self.prepare(&format!("p dgst -sha256 -sign {} -out /dev/null m", copy.path().display()))
    }

    fn run(&self) -> Vec<(Case, Outcome)> {
        let cases: Vec<Case> = cases().into_iter().filter(|case| self.kinds.contains(&case.kind)).collect();
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let outcome = self.outcome(case);
                        found.lock().unwrap().push((case.clone(), outcome));
                    }
                });
            }
        });
        let found = found.into_inner().unwrap();
        let bad: Vec<String> = found.iter().filter_map(bad).collect();
        assert!(bad.is_empty(), "{} of {}:\n{}", bad.len(), found.len(), bad.join("\n"));
        found
    }
}

fn other(file: &Said, stored: &Said) -> Outcome {
    Outcome::Other(format!(
        "file: {} {:?} {}; stored: {} {:?} {}",
        file.ok, file.out, file.err, stored.ok, stored.out, stored.err
    ))
}

fn bad((case, outcome): &(Case, Outcome)) -> Option<String> {
    let Outcome::Other(what) = outcome else { return None };
    Some(format!("{} {}: {what}", case.kind, case.script))
}

fn reason(errors: &str) -> Option<String> {
    let line = errors.lines().find(|line| line.contains(":sidecore:"))?;
    let (_, reason) = line.split_once(":sidecore:")?;
    let (reason, details) = reason.split_once(":sidecore:0:")?;
    // The name of the operation comes first.
    let reason = reason.split_once(':').map_or(reason, |(_, reason)| reason);
    Some(if details.is_empty() { reason } else { details }.trim_end_matches(':').to_owned())
}

fn page(found: &[(Case, Outcome)]) -> String {
    let mut commands: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let mut others: BTreeMap<(&str, String, String), Vec<&str>> = BTreeMap::new();
    for (case, outcome) in found {
        let (column, said) = match outcome {
            Outcome::Same => (1, None),
            Outcome::Named => (2, Some("the key's name".to_owned())),
            Outcome::Refused(reason) | Outcome::Other(reason) => (3, Some(reason.clone())),
        };
        for command in [case.command, "in all"] {
            let counts = commands.entry(command).or_default();
            counts[0] += 1;
            counts[column] += 1;
        }
        if let Some(said) = said {
            let kinds = others.entry((case.command, case.script.clone(), said)).or_default();
            kinds.push(case.kind);
            kinds.sort_unstable();
        }
    }
    let mut page = HEAD.to_owned();
    for (command, [all, same, named, refused]) in &commands {
        let _ = writeln!(page, "| `{command}` | {all} | {same} | {named} | {refused} |");
    }
    page += BETWEEN;
    for ((_, script, said), kinds) in &others {
        let typed = script.replace('|', "\\|");
        let _ = writeln!(page, "| `{typed}` | {} | {} |", kinds.join(", "), said.replace('|', "\\|"));
    }
    page
}

const HEAD: &str = "# The `openssl` command with a stored key\n\n\
    Each case is done with a key in a file and with the same key in the service. Made by `cargo xtask golden --write` from\n\
    `keys/openssl/tests/openssl/cases.txt`, and compared by `cargo test -p sidecore-openssl --test openssl -- cases`.\n\n\
    | Sub-command | Cases | Same result | Names the key | Refused |\n|---|---|---|---|---|\n";
const BETWEEN: &str = "\nWhat is not the same. `o` is `openssl` with the key `$key`, `p` without the service.\n\n\
    | Typed | Keys | Instead |\n|---|---|---|\n";

#[test]
fn each_case_has_the_result_of_a_key_in_a_file_or_a_reason_of_ours() {
    let found = House::new("openssl".to_owned()).run();
    assert!(found.len() >= FEWEST, "{}", found.len());
    let page = page(&found);
    if std::env::var_os(WRITE).is_some() {
        return fs::write(PAGE, page).unwrap();
    }
    let committed = fs::read_to_string(PAGE).unwrap_or_default();
    assert!(committed == page, "docs/openssl-cases.md differs; run: cargo xtask golden --write\n{page}");
}

#[test]
fn each_case_has_them_by_openssl_3_5() {
    let openssl = match newer::command("openssl") {
        Ok(openssl) => openssl,
        Err(why) => return skipped(&format!("no OpenSSL 3.5: {why}")),
    };
    let words = std::iter::once(openssl.get_program()).chain(openssl.get_args()).map(|word| word.to_string_lossy());
    let found = House::new(words.collect::<Vec<_>>().join(" ")).run();
    let lattices = found.iter().filter(|(case, _)| case.kind == "mldsa").count();
    assert!(found.len() >= FEWEST && lattices > 0, "{} {lattices}", found.len());
}
