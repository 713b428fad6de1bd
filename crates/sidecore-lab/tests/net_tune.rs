//! `sidecore net tune` on an interface that is there already, in namespaces that the test makes.

#[path = "../../sidecore/tests/service/skipped.rs"]
mod skipped;

use nix::unistd::Uid;
use skipped::skipped;
use std::path::Path;
use std::process::{Command, Output};

const LAB: &str = env!("CARGO_BIN_EXE_sidecore-lab");
/// What each script begins with: a peer in the far end, what tunes the near one, and where that keeps what was.
const BEGINNING: &str = r#"
set -u
nsenter -t $SIDECORE_FAR_PID -n "$LAB" net peer --listen 198.18.0.2:5217 2>/dev/null & peer=$!
trap 'kill $peer; rm -rf "$state"' EXIT
state=$(mktemp -d)/net
tune() { "$LAB" net tune --interface near --state "$state" "$@"; }
control=/proc/sys/net/ipv4/tcp_congestion_control
echo cubic > $control
"#;

/// What the script, which runs in the near end of a link, says. `None`: not on this machine, which was said.
fn near(script: &str) -> Option<String> {
    if !Uid::effective().is_root() || !Path::new("/dev/net/tun").exists() {
        skipped("only root enters the namespaces of another process, and interfaces are made with /dev/net/tun");
        return None;
    }
    let mut command = Command::new(LAB);
    command.args(["net", "link", "--", "sh", "-c", &(BEGINNING.to_owned() + script)]).env("LAB", LAB);
    let Output { stdout, stderr, .. } = command.output().unwrap();
    Some(String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

#[test]
fn an_interface_is_not_changed_unless_that_is_asked_for() {
    let Some(said) = near(
        r#"
        tune --peer 198.18.0.2 --setting congestion-control
        test -e "$state" || echo nothing is kept
        cat $control
        "#,
    ) else {
        return;
    };
    assert!(said.contains("congestion-control reno") && said.contains("Nothing was changed"), "{said}");
    assert!(said.contains("nothing is kept\ncubic\n"), "{said}");
}

#[test]
fn after_a_trial_all_is_as_before() {
    let Some(said) = near(
        r#"
        tune --peer 198.18.0.2 --setting congestion-control,mtu,gro --ms 50 --runs 12 --try 2>&1
        echo "$? $(ls "$state" | wc -l) $(cat $control)"
        tune --peer 198.18.0.2 --setting congestion-control,mtu,gro | grep -e ^mtu -e ^gro
        "#,
    ) else {
        return;
    };
    assert!(said.contains("\n0 0 cubic\n"), "{said}");
    assert!(said.contains("mtu 9000 ") && said.contains("gro off "), "what it is now is not tried: {said}");
}

#[test]
fn what_a_killed_run_left_is_taken_back_and_no_other_run_begins_before() {
    let Some(said) = near(
        r#"
        tune --peer 198.18.0.2 --try >/dev/null 2>&1 & killed=$!
        while ! test -e "$state/near.json"; do sleep 0.01; done
        kill -9 $(pgrep -P $killed || echo $killed) $killed
        wait $killed
        echo reno > $control
        tune --peer 198.18.0.2 --try 2>&1
        tune --revert
        echo "$(ls "$state" | wc -l) $(cat $control)"
        tune --revert
        "#,
    ) else {
        return;
    };
    assert!(said.contains("settings that were changed before are kept in"), "{said}");
    assert!(said.contains("\n0 cubic\n"), "{said}");
    assert!(said.contains("there is nothing to take back"), "{said}");
}
