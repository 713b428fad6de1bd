//! The README's commands, and an operator's daily ones. Most run on the guides' machine with cargo's build installed.
//! Separate tests cover long measurements with smaller inputs; a text of its source identifies such a test here.

use crate::guides::{Step, blocks, follow_steps, page, project, steps};
use crate::library;
use crate::programs::program;
use std::fs;
use std::path::Path;

#[derive(Debug)]
enum How {
    /// On the machine, word for word.
    AsIs,
    /// On the machine, word for word, after this command.
    After(&'static str),
    /// On the machine, replaced by this command, for this reason.
    Instead(&'static str, &'static str),
    /// In the project's directory, replaced by this command, for this reason.
    Here(&'static str, &'static str),
    /// By the test in that file, which has this text.
    By(&'static str, &'static str),
}

use How::{After, AsIs, By, Here, Instead};

const BENCH: &str = "lab/program/tests/bench.rs";

const COMMANDS: [(&str, How); 16] = [
    ("cargo try", By("lab/try/tests/trial.rs", r#".arg("try")"#)),
    ("sidecore keys import www /etc/ssl/private/www.pem --gid www-data", AsIs),
    ("sidecore keys pem www --output /etc/nginx/www.sidecore.pem", AsIs),
    (r"sed -i 's#/etc/ssl/private/www.pem#/etc/nginx/www.sidecore.pem#' /etc/nginx/conf.d/www.conf", AsIs),
    ("mkdir -p /etc/systemd/system/nginx.service.d", AsIs),
    (
        r"printf '[Service]\nEnvironment=OPENSSL_CONF=/etc/ssl/openssl-sidecore.cnf\n' >/etc/systemd/system/nginx.service.d/sidecore.conf",
        AsIs,
    ),
    ("systemctl daemon-reload && systemctl restart nginx", AsIs),
    ("sidecore keys test /etc/nginx/www.sidecore.pem --as www-data --server localhost:443", AsIs),
    (r"sed -i 's#/etc/nginx/www.sidecore.pem#/etc/ssl/private/www.pem#' /etc/nginx/conf.d/www.conf", AsIs),
    ("rm /etc/systemd/system/nginx.service.d/sidecore.conf", AsIs),
    ("systemctl daemon-reload && systemctl restart nginx", AsIs),
    ("sidecore keys delete www && rm /etc/nginx/www.sidecore.pem", AsIs),
    ("sidecore bench keys faces nginx haproxy", By(BENCH, r#"rows(&["nginx", "#)),
    ("sidecore net measure --pair --quick", By("lab/program/tests/net_measure.rs", r#"["net", "measure", "--pair"]"#)),
    ("sidecore net why 192.0.2.7", By("lab/program/tests/net_why.rs", r#""$LAB" net why $to "#)),
    (
        "sidecore sim plans/zvm.toml --set threads=4",
        Here(
            "sidecore sim plans/zvm.toml --set threads=4 --seeds 1",
            "a debug build is slow, and each case is run once",
        ),
    ),
];

/// Daily commands of an operator. They run after the README's.
const DAILY: [(&str, How); 12] = [
    ("sidecore serve", Instead("until_it_answers sidecore serve", "it serves until it is ended")),
    (
        "sidecore serve --config examples/sidecore.toml",
        Instead("until_it_answers sidecore serve --config examples/sidecore.toml", "it serves until it is ended"),
    ),
    ("sidecore keys import www www.pem --gid www-data", After(BEFORE_IMPORT)),
    ("sidecore keys pem www --output www.key", AsIs),
    ("sidecore set notify=park balance=sed", AsIs),
    (
        r#"sidecore set 'device={name="w1",kind="worker",cpu=1}' device.w0=drain"#,
        After(r#"sidecore set 'device={name="w0",kind="worker"}'"#),
    ),
    ("sidecore get balance limits", AsIs),
    ("sidecore check", Instead("sidecore check || [ $? = 1 ]", "1 says that the machine lacks something")),
    ("sidecore top", AsIs),
    ("sidecore export", Instead(EXPORT, "it answers until it is ended")),
    ("sidecore run --sockets -- mosquitto -v", Instead(MOSQUITTO, "it serves until it is ended")),
    ("sidecore sockets", AsIs),
];

const BEFORE_IMPORT: &str = "systemctl start sidecore
curl --silent --show-error --fail --output /dev/null --cacert /etc/ssl/certs/www.pem https://localhost/
cp /etc/ssl/private/www.pem .";
const EXPORT: &str = "sidecore export & export=$!
curl --silent --show-error --fail --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:9787/metrics | grep '^sidecore_up 1'
kill $export";
const MOSQUITTO: &str = "systemctl start sidecore-sockets
sidecore run --sockets -- mosquitto -v & mosquitto=$!";
/// Ends a service once it answers. The unit's user owns the unit's socket directory, so root's sandboxed service has no
/// right to it.
const PREAMBLE: &str = "until_it_answers() {
    systemctl stop sidecore
    rm -rf /run/sidecore
    \"$@\" & service=$!
    until sidecore keys list; do sleep 0.1; done
    kill $service
    wait $service
}
";

/// `sidecore sim` needs the laboratory in its own directory. `cargo xtask test` has built it before.
fn laboratory() {
    const NAME: &str = "sidecore-lab";
    if !Path::new(env!("CARGO_BIN_EXE_sidecore")).with_file_name(NAME).is_file() {
        library::file(NAME, NAME);
    }
}

fn commands() -> Vec<String> {
    let readme = fs::read_to_string(project().join("README.md")).unwrap();
    let lines = blocks(&readme).into_iter().flat_map(|(mark, text)| {
        assert!(matches!(mark.as_str(), "sh" | "text"), "{mark}: what is done with such a block?");
        let text = if mark == "sh" { text } else { String::new() };
        text.lines().map(|line| line.split(" #").next().unwrap().trim().to_owned()).collect::<Vec<_>>()
    });
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn each_command_of_the_readme_is_done_by_a_test_or_has_a_reason() {
    let expected: Vec<&str> = COMMANDS.iter().map(|(command, _)| *command).collect();
    assert_eq!(commands(), expected, "what does a test make of the new one?");
    for (command, how) in COMMANDS.iter().chain(&DAILY) {
        match how {
            By(file, text) => {
                let file = fs::read_to_string(project().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
                assert!(file.contains(text), "{command}: no {text} there");
            }
            Instead(_, why) | Here(_, why) => assert!(!why.is_empty(), "{command}"),
            AsIs | After(_) => {}
        }
    }
}

#[test]
fn the_commands_of_the_readme_work_on_a_machine() {
    for name in ["nginx", "curl", "mosquitto"] {
        program(name);
    }
    laboratory();
    // Key, certificate and server configuration, made as in the guide for nginx.
    let mut all = steps(&page("install.md"));
    all.extend(steps(&page("guide/nginx.md")).into_iter().take(2));
    all.push(Step::Do(PREAMBLE.to_owned()));
    for (command, how) in COMMANDS.iter().chain(&DAILY) {
        match how {
            AsIs => all.push(Step::Do(format!("{command}\n"))),
            After(before) => all.push(Step::Do(format!("{before}\n{command}\n"))),
            Instead(instead, _) => all.push(Step::Do(format!("{instead}\n"))),
            Here(..) | By(..) => {}
        }
    }
    all.push(Step::Do("kill $mosquitto\n".to_owned()));
    let said = follow_steps(&all).said;
    assert!(said.contains("ok     server") && said.contains("sidecore_up 1"), "{said}");
}

#[test]
fn what_the_readme_simulates_is_simulated() {
    laboratory();
    for (_, how) in &COMMANDS {
        let Here(instead, _) = how else { continue };
        let mut words = instead.split(' ').skip(1);
        let mut sidecore = std::process::Command::new(env!("CARGO_BIN_EXE_sidecore"));
        let done = sidecore.args(words.by_ref()).current_dir(project()).output().unwrap();
        assert!(done.status.success(), "{instead}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(String::from_utf8_lossy(&done.stdout).contains("ETR"), "{instead}");
    }
}
