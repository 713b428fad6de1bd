//! `sidecore net tune` on an existing interface, in namespaces of the test.

use nix::unistd::Uid;
use sidecore_testing::skipped;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

const LAB: &str = env!("CARGO_BIN_EXE_sidecore-lab");
/// A link and its loads take all processors: one at a time.
static ONE: Mutex<()> = Mutex::new(());
/// Beginning of each script: a peer in the far namespace, the tuner of the near one, and the directory of its state.
const BEGINNING: &str = r#"
set -u
nsenter -t $SIDECORE_FAR_PID -n "$LAB" net peer --listen 198.18.0.2:5217 2>/dev/null & peer=$!
trap 'kill $peer; rm -rf "$state"' EXIT
state=$(mktemp -d)/net
tune() { "$LAB" net tune --interface near --state "$state" "$@"; }
control=/proc/sys/net/ipv4/tcp_congestion_control
echo cubic > $control
"#;

fn near(script: &str) -> Option<String> {
    near_by(&[], script)
}

fn near_by(properties: &[&str], script: &str) -> Option<String> {
    if !Uid::effective().is_root() || !Path::new("/dev/net/tun").exists() {
        skipped("only root enters the namespaces of another process, and interfaces are made with /dev/net/tun");
        return None;
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(LAB);
    command
        .args(["net", "link"])
        .args(properties)
        .args(["--", "sh", "-c", &(BEGINNING.to_owned() + script)])
        .env("LAB", LAB);
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

#[test]
fn what_others_set_after_a_killed_run_stays_and_is_named() {
    let Some(said) = near(
        r#"
        tune --peer 198.18.0.2 --setting mtu,congestion-control --try >/dev/null 2>&1 & killed=$!
        while ! test -e "$state/near.json"; do sleep 0.01; done
        kill -9 $(pgrep -P $killed || echo $killed) $killed
        wait $killed
        ip link set near mtu 1400
        echo reno > $control
        tune --revert 2>&1
        echo "code $? $(ls "$state" | wc -l) $(cat $control) $(ip link show near | grep -o 'mtu [0-9]*')"
        "#,
    ) else {
        return;
    };
    assert!(said.contains("mtu was set to 1400 meanwhile, and stays so; it was 1500 before"), "{said}");
    assert!(said.contains("code 1 0 cubic mtu 1400\n"), "{said}");
}

#[test]
fn a_path_that_loses_all_full_packets_is_refused_after_the_first_run() {
    let Some(said) = near(
        r#"
        far() { nsenter -t $SIDECORE_FAR_PID -n "$@"; }
        ip link add wide mtu 9000 gso_max_segs 1 type veth peer name narrow netns $SIDECORE_FAR_PID
        ip addr add 198.18.1.1/24 dev wide
        ip link set wide up
        far ip addr add 198.18.1.2/24 dev narrow
        far ip link set narrow up
        far ip route change 198.18.1.0/24 dev narrow src 198.18.1.2 advmss 8960
        nsenter -t $SIDECORE_FAR_PID -n "$LAB" net peer --listen 198.18.1.2:5217 2>/dev/null & second=$!
        "$LAB" net tune --interface wide --state "$state" --peer 198.18.1.2 --setting congestion-control --try 2>&1
        echo "code $? $(ls "$state" | wc -l) $(cat $control)"
        kill $second
        "#,
    ) else {
        return;
    };
    assert!(said.contains("no payload arrives there") && said.contains("MTU") && said.contains("firewall"), "{said}");
    assert!(said.contains("code 2 0 cubic\n") && !said.contains("as it was"), "{said}");
}

#[test]
fn an_interface_that_is_not_on_the_way_is_refused() {
    let Some(said) = near(
        r#"
        "$LAB" net tune --interface lo --peer 198.18.0.2 2>&1
        echo "code $?"
        tune --peer 127.0.0.1 2>&1
        echo "code $?"
        "#,
    ) else {
        return;
    };
    assert!(said.contains("packets to 198.18.0.2 leave by near, not by lo: --interface near\ncode 2\n"), "{said}");
    assert!(said.contains("packets to 127.0.0.1 leave by lo, not by near"), "{said}");
}

#[test]
fn where_nobody_can_be_asked_nothing_is_changed() {
    let Some(said) = near(
        r#"
        tune --peer 198.18.0.2 --setting mtu --ms 50 --runs 12 --apply </dev/null 2>&1
        test -e "$state" || echo nothing is kept
        "#,
    ) else {
        return;
    };
    assert!(said.contains("add --yes") && said.contains("nothing is kept"), "{said}");
}

#[test]
fn while_a_run_changes_settings_no_other_does_and_it_puts_them_back_without_its_file() {
    let Some(said) = near(
        r#"
        tune --peer 198.18.0.2 --setting congestion-control,mtu --ms 50 --runs 40 --try >"$state.said" 2>&1 & run=$!
        while ! test -e "$state/near.json"; do sleep 0.01; done
        tune --revert 2>&1
        tune --peer 198.18.0.2 --setting gro --try 2>&1
        echo "$(ls "$state" | wc -l)"
        rm "$state/near.json"
        wait $run
        echo "$? $(ls "$state" | wc -l) $(cat $control)"
        tune --peer 198.18.0.2 --setting mtu | grep ^mtu
        "#,
    ) else {
        return;
    };
    assert_eq!(said.matches("another net tune changes settings").count(), 2, "{said}");
    assert!(said.contains("\n1\n") && said.contains("\n0 0 cubic\n") && said.contains("mtu 9000 "), "{said}");
}

#[test]
fn where_the_peer_or_the_interface_goes_in_the_middle_that_is_said_and_all_is_as_before() {
    let Some(said) = near(
        r#"
        tune --peer 198.18.0.2 --setting congestion-control,mtu --ms 50 --try >"$state.said" 2>&1 & run=$!
        while ! test -e "$state/near.json"; do sleep 0.01; done
        sleep 1
        kill -9 $peer
        wait $run
        echo "code $?: $(grep -m 1 sidecore "$state.said")"
        echo "$(ls "$state" | wc -l) $(cat $control)"
        "#,
    ) else {
        return;
    };
    // Before the title and all rows.
    let first = ["the peer is lost", "no connection to the peer"].map(|why| format!("code 2: sidecore: {why}"));
    assert!(first.iter().any(|first| said.contains(first)), "{said}");
    assert!(said.contains("\n0 cubic\n"), "{said}");
}

#[test]
fn a_path_that_loses_packets_is_tuned_as_any_other() {
    let script = r#"
        tune --peer 198.18.0.2 --setting congestion-control --ms 50 --runs 12 --try 2>&1
        echo "$? $(ls "$state" | wc -l) $(cat $control)"
    "#;
    let Some(said) = near_by(&["--loss-percent", "1", "--napi"], script) else { return };
    assert!(said.contains("as it was") && said.contains("\n0 0 cubic\n"), "{said}");
}

fn pair(arguments: &[&str]) -> Option<(String, String)> {
    if !Uid::effective().is_root() {
        skipped("only root sets all that a pair of virtual interfaces has");
        return None;
    }
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let rows = directory.path().join("rows");
    let mut command = Command::new(LAB);
    let Output { status, stdout, stderr } = command
        .args(["net", "tune", "--pair", "--ms", "50"])
        .args(arguments)
        .arg("--json")
        .arg(&rows)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{said}");
    Some((said, fs::read_to_string(rows).unwrap()))
}

#[test]
fn each_goal_is_measured_by_its_own_figure() {
    for (goal, figures) in [
        ("cpu", &["cpu_ns_per_byte"][..]),
        ("mix:throughput=2,cpu=1,latency<100000", &["mbit_per_s", "cpu_ns_per_byte", "total_us"]),
    ] {
        let Some((said, rows)) = pair(&["--goal", goal, "--setting", "congestion-control", "--runs", "8"]) else {
            return;
        };
        let start = rows.lines().find(|row| row.contains(r#""op":"start""#)).expect(&said);
        assert!(figures.iter().all(|figure| start.contains(figure)), "{goal}: {start}");
        assert!(rows.contains("UDP instead of TCP"), "{goal}: {rows}");
    }
}

#[test]
fn what_is_the_whole_machines_is_left_alone_in_a_pair() {
    let Some((said, rows)) = pair(&["--setting", "rfs,interrupts,busy-poll,gro", "--runs", "16"]) else { return };
    for setting in ["rfs", "interrupts", "busy-poll"] {
        assert!(said.contains(&format!("{setting}: it is the whole machine's")), "{said}");
    }
    // Each row has the command line.
    let varied = |setting: &str| rows.contains(&format!(r#""variant":"{setting}"#));
    assert!(varied("gro o") && !varied("rfs") && !varied("busy-poll"), "{rows}");
}

#[test]
fn a_link_of_its_own_is_tuned_as_well() {
    if !Path::new("/dev/net/tun").exists() {
        return skipped("interfaces are made with /dev/net/tun");
    }
    let Some((said, rows)) = pair(&["--by", "link", "--setting", "gro,gro-flush-timeout", "--runs", "40"]) else {
        return;
    };
    assert!(rows.contains("gro o") && rows.contains("gro-flush-timeout 20000"), "{said}");
}
