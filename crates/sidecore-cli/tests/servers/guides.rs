//! The guides, word for word: their blocks are taken from the page and done on a machine made for it.
//!
//! A block marked `sh` is done by bash, one marked `LANGUAGE file=PATH` is written to that file, one marked `text` is
//! only shown. Nothing is replaced in them: `machine.sh` makes the paths, ports and users that they name.

use crate::module;
use crate::programs::{is_root, program, run};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What a page says to do.
#[derive(Debug, PartialEq)]
enum Step {
    /// These commands.
    Do(String),
    /// A file with that text.
    Write { path: String, text: String },
}

/// The steps of a page, in order.
fn steps(page: &str) -> Vec<Step> {
    let (mut steps, mut block) = (Vec::new(), None);
    for event in Parser::new(page) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                block = Some((info.to_string(), String::new()));
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => panic!("a block without a mark:\n{page}"),
            Event::Text(text) => block.iter_mut().for_each(|(_, block)| block.push_str(&text)),
            Event::End(TagEnd::CodeBlock) => {
                let (info, text) = block.take().unwrap();
                steps.extend(step(&info, text));
            }
            _ => {}
        }
    }
    steps
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

/// The steps as a script that ends at the first that fails.
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

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn page(name: &str) -> String {
    std::fs::read_to_string(project().join("docs").join(name)).unwrap()
}

/// Does what the pages say, one after the other, and returns what was said meanwhile.
fn follow(pages: &[&str]) -> String {
    assert!(is_root(), "the guides are for root: run these tests as root, where namespaces can be made");
    for name in ["unshare", "ip", "systemctl"] {
        program(name);
    }
    let scratch = tempfile::tempdir().unwrap();
    let shared = scratch.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    let steps: Vec<Step> = pages.iter().flat_map(|name| steps(&page(name))).collect();
    std::fs::write(shared.join("steps"), script(&steps)).unwrap();
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/machine.sh");
    let mut command = program("unshare");
    command.args(["--mount", "--propagation", "private"]).arg(machine).arg(scratch.path()).arg(project());
    let done = run(command.arg(module::path().parent().unwrap()));
    let said = |name| std::fs::read_to_string(shared.join(name)).unwrap_or_default();
    let transcript = said("transcript");
    assert!(done.ok(), "{pages:?}\n{transcript}\n--- journal:\n{}\n{done:?}", said("journal"));
    transcript
}

#[test]
fn blocks_become_steps() {
    let page = "# A\n\n```sh\nls\n```\n\n```nginx file=/etc/nginx/a\nx {\n}\n```\n\n```text\nshown\n```\n";
    let expected =
        [Step::Do("ls\n".to_owned()), Step::Write { path: "/etc/nginx/a".to_owned(), text: "x {\n}\n".to_owned() }];
    assert_eq!(steps(page), expected);
}

#[test]
fn a_step_that_fails_ends_the_script() {
    let script = script(&[Step::Do("false\n".to_owned()), Step::Do("echo no\n".to_owned())]);
    let done = run(program("bash").args(["-c", &script]));
    assert!(!done.ok() && !done.stdout.contains("no"), "{done:?}");
}

#[test]
fn the_guide_for_nginx_works_word_for_word() {
    let said = follow(&["install.md", "guide/nginx.md"]);
    assert!(said.contains("nginx") && said.contains("www"), "{said}");
}

#[test]
fn the_guide_for_haproxy_works_word_for_word() {
    let said = follow(&["install.md", "guide/haproxy.md"]);
    assert!(said.contains("it works") && said.contains("haproxy"), "{said}");
}

#[test]
fn the_guide_for_curl_works_word_for_word() {
    let said = follow(&["install.md", "guide/curl.md"]);
    assert!(said.contains("client"), "{said}");
}

#[test]
fn the_guide_for_the_openssl_command_works_word_for_word() {
    let said = follow(&["install.md", "guide/openssl.md"]);
    assert!(said.contains("Verified OK") && said.contains("rsa 4096 bits"), "{said}");
}
