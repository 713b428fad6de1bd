//! `sidecore bench` and `sidecore sim` run another program, which the user does not notice.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const STAND_IN: &str = "#!/bin/sh\necho $$ \"$@\"\nread line\necho \"$line\"\nexit 7\n";

fn installed(laboratory: Option<&str>) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    install(env!("CARGO_BIN_EXE_sidecore").as_ref(), &root.path().join("bin/sidecore"));
    if let Some(place) = laboratory {
        let script = root.path().join("stand-in");
        fs::write(&script, STAND_IN).unwrap();
        install(&script, &root.path().join(place));
    }
    root
}

/// Copies in another process: a program that this process has open for writing could not be executed while another test
/// forks.
fn install(from: &Path, to: &Path) {
    assert!(Command::new("install").args(["-D", "-m", "755"]).args([from, to]).status().unwrap().success());
}

fn sidecore(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(root.join("bin/sidecore"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ran(root: &Path, arguments: &[&str]) -> Output {
    let mut child = sidecore(root, arguments).spawn().unwrap();
    // Without a laboratory no process reads this.
    let _ = child.stdin.take().unwrap().write_all(b"from outside\n");
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn it_gets_arguments_input_and_signals_and_its_exit_code_is_the_commands() {
    for place in ["bin/sidecore-lab", "lib/sidecore/sidecore-lab"] {
        let root = installed(Some(place));
        let root = root.path();
        for arguments in [&["bench"][..], &["bench", "--help"], &["sim", "-x", "--", "--set", "a b"], &["help", "sim"]]
        {
            let output = ran(root, arguments);
            let said = text(&output.stdout);
            assert!(said.ends_with(&format!(" {}\nfrom outside\n", arguments.join(" "))), "{said}");
            assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(7), ""), "{arguments:?}");
        }
        let mut child = sidecore(root, &["bench"]).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, format!("{} bench\n", child.id()), "it is the same process");
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    }
}

#[test]
fn without_it_the_command_says_what_to_do_and_does_the_rest() {
    let root = installed(None);
    let missing = [
        (&["bench", "lane"][..], "sidecore bench", "sidecore-lab"),
        (&["sim", "--help"], "sidecore sim", "sidecore-lab"),
        (&["help", "bench"], "sidecore bench", "sidecore-lab"),
        (&["farm", "try"], "sidecore farm", "sidecore-farm"),
        (&["key-server"], "sidecore key-server", "sidecore"),
    ];
    for (arguments, words, package) in missing {
        let output = ran(root.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = text(&output.stderr);
        let wanted = format!("{words} is not installed here: apt-get install {package}, ");
        assert!(said.contains(&wanted) && said.contains("cargo build --release"), "{said}");
    }
    let help = ran(root.path(), &["--help"]);
    assert!(help.status.success());
    for line in ["  bench       Measure here", "  sim         Predict hardware", "  serve       Run the service"] {
        assert!(text(&help.stdout).contains(line), "{line} in {}", text(&help.stdout));
    }
    assert!(text(&ran(root.path(), &["help", "serve"]).stdout).contains("--config"));
}

#[test]
fn the_agent_is_another_program_too() {
    let root = installed(Some("lib/sidecore/sidecore-agent"));
    for arguments in [&["agent", "--socket", "a b"][..], &["agent", "--help"], &["help", "agent"]] {
        let said = text(&ran(root.path(), arguments).stdout);
        assert!(said.ends_with(&format!(" {}\nfrom outside\n", arguments.join(" "))), "{said}");
    }
}

#[test]
fn gateways_and_key_servers_are_another_program_too() {
    let root = installed(Some("lib/sidecore/sidecore-remote"));
    for arguments in [&["gateway", "--device", "a b"][..], &["key-server", "--help"], &["help", "gateway"]] {
        let said = text(&ran(root.path(), arguments).stdout);
        assert!(said.ends_with(&format!(" {}\nfrom outside\n", arguments.join(" "))), "{said}");
    }
}

#[test]
fn a_program_with_sockets_is_started_by_the_program_of_sockets() {
    let root = installed(None);
    let run = |arguments: &[&str]| {
        ran(root.path(), &[&["run", "--sockets", "--module", "/dev/null"][..], arguments].concat())
    };
    let without = run(&["--", "true"]);
    assert_eq!(without.status.code(), Some(2));
    assert!(text(&without.stderr).contains("apt-get install sidecore-sockets"), "{}", text(&without.stderr));
    let script = root.path().join("stand-in");
    fs::write(&script, "#!/bin/sh\necho \"$@\"\ntest -f \"$OPENSSL_CONF\" && exit 7\n").unwrap();
    install(&script, &root.path().join("bin/sidecore-sockets"));
    let output = run(&["--preload", "ours.so", "--socket-of-sockets", "s", "--", "publisher", "-x"]);
    assert_eq!(text(&output.stdout), "sockets run --preload ours.so --socket s -- publisher -x\n");
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let typed = ["run", "--preload", "ours.so", "--", "true"];
    assert_eq!(ran(root.path(), &typed).status.code(), Some(2), "options of sockets without --sockets");
}

#[test]
fn a_configuration_of_sockets_names_the_command_that_serves_it() {
    let root = installed(None);
    let config = root.path().join("sockets.toml");
    fs::write(&config, "[sockets]\n").unwrap();
    let refused = ran(root.path(), &["serve", "--config", config.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("`sidecore sockets serve --config FILE`"), "{}", text(&refused.stderr));
}
