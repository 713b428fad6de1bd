//! `sidecore net measure` beside iperf3 and sockperf, in turn, over links of `sidecore net link`. The table is printed:
//! `cargo test -p sidecore-lab --test net_cross -- --nocapture`.

use nix::unistd::Uid;
use serde_json::Value;
use sidecore_testing::skipped;
use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const LAB: &str = env!("CARGO_BIN_EXE_sidecore-lab");
/// Rounds of one link.
const ROUNDS: usize = 3;
/// Links that a busy machine is given until its figures agree.
const MOST_LINKS: usize = 5;
/// Mbit/s that the line carries of TCP's payload: 1448 of the 1538 bytes that a packet of 1500 takes there.
const PAYLOAD: f64 = 500.0 * 1448.0 / 1538.0;
/// Largest accepted difference.
const REACH: f64 = 0.03;
/// One way, of the line.
const DELAY_US: f64 = 500.0;
/// Bounds of what any machine carries through a link without a rate, Mbit/s, and of a round trip, us.
const CARRIED: [f64; 2] = [1.0, 1e6];
const TRIP: [f64; 2] = [1.0, 1e6];

/// A round: streams and round trips by each program, and who begins alternates. The congestion control is reno because
/// every kernel allows it in every namespace.
const SCRIPT: &str = r#"
set -eu
started_all=
trap 'kill $started_all' EXIT
far() { nsenter -t $SIDECORE_FAR_PID -n "$@"; }
serve() {
    nsenter -t $SIDECORE_FAR_PID -n "$@" >/dev/null 2>&1 & started_all="$started_all $!"
}
listens() {
    tries=0
    until far grep -q ":$1 0*:0000 0A" /proc/net/tcp /proc/net/tcp6; do
        tries=$((tries + 1)); [ $tries -lt 500 ]; sleep 0.02
    done
}
for end in env far; do $end sh -c 'echo reno > /proc/sys/net/ipv4/tcp_congestion_control'; done
serve "$LAB" net peer --listen 198.18.0.2:5217
serve iperf3 -s -p 5201
serve sockperf server --tcp -i 198.18.0.2 -p 11111
listens 1461; listens 1451; listens 2B67
own() {
    timeout 60 "$LAB" net measure --peer 198.18.0.2:5217 --connections 1 --ms 1000 --repeats 1 "$@" >/dev/null
}
iperf() {
    tries=0
    # A server is busy for a moment after each test, and the exit code does not always say that there was none.
    until timeout 60 iperf3 -c 198.18.0.2 -p 5201 -J -N -i 0 -O 1 -t 1 -l 65536 $2 > "$OUT/iperf3 $1 $round" &&
        ! grep -q '"error"' "$OUT/iperf3 $1 $round"; do
        tries=$((tries + 1)); [ $tries -lt 20 ]; sleep 0.2
    done
}
theirs() {
    iperf send ""
    iperf receive -R
    timeout 60 sockperf ping-pong --tcp -i 198.18.0.2 -p 11111 -t 1 -m 64 --full-rtt > "$OUT/sockperf $round"
}
ours() {
    own --traffic tcp --size 65536 --json "$OUT/streams $round"
    own --traffic round-trip --size 64 --json "$OUT/trips $round"
}
for round in $(seq $ROUNDS); do
    if [ $((round % 2)) = 1 ]; then ours; theirs; else theirs; ours; fi
done
"#;

struct Load {
    name: &'static str,
    tool: &'static str,
    unit: &'static str,
    /// A figure of each round.
    own: Vec<f64>,
    other: Vec<f64>,
}

impl Load {
    fn ratio(&self) -> f64 {
        median(&self.own) / median(&self.other)
    }

    fn print(&self, path: &str) {
        let Self { name, tool, unit, own, other } = self;
        let [own, other] = [own, other].map(|all| {
            let [least, most] = [f64::min, f64::max].map(|of| all.iter().copied().reduce(of).unwrap());
            format!("{:.1} {unit} ({least:.1}–{most:.1})", median(all))
        });
        println!("| {path} | {name} | {tool} {other} | {own} | {:.3} |", self.ratio());
    }

    fn is_within(&self, [least, most]: [f64; 2]) -> bool {
        self.own.iter().chain(&self.other).all(|figure| (least..=most).contains(figure))
    }

    fn agrees_with_line(&self) -> bool {
        let is_near = |figure: f64| (figure - 1.0).abs() <= REACH;
        is_near(self.ratio()) && is_near(median(&self.own) / PAYLOAD) && is_near(median(&self.other) / PAYLOAD)
    }
}

fn median(all: &[f64]) -> f64 {
    let mut sorted = all.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Streams each way, and round trips, over a link with these properties.
/// `None`: a program failed, as where other work took the processors.
fn measured(path: &str, link: &[&str]) -> Option<[Load; 3]> {
    let out = tempfile::tempdir().unwrap();
    // Other work of the machine is to disturb a link as little as possible. Where that is not allowed it runs as is.
    let mut command = Command::new("nice");
    command.args(["-n", "-15", LAB, "net", "link"]).args(link).args(["--", "sh", "-c", SCRIPT]);
    command.env("LAB", LAB).env("OUT", out.path()).env("ROUNDS", ROUNDS.to_string());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    let text = |name: String| fs::read_to_string(out.path().join(&name)).unwrap_or_default();
    if !status.success() {
        println!("{said}\n{}", text("iperf3 send 1".to_owned()));
        return None;
    }
    let each = |of: &dyn Fn(usize) -> f64| (1..=ROUNDS).map(of).collect::<Vec<_>>();
    let stream = |name: &'static str| Load {
        name,
        tool: "iperf3",
        unit: "Mbit/s",
        own: each(&|round| number(&row(&text(format!("streams {round}")), name), "/mbit_per_s")),
        other: each(&|round| {
            let report = serde_json::from_str(&text(format!("iperf3 {name} {round}"))).unwrap();
            number(&report, "/end/sum_received/bits_per_second") / 1e6
        }),
    };
    let trips = Load {
        name: "round trip",
        tool: "sockperf",
        unit: "us",
        own: each(&|round| number(&row(&text(format!("trips {round}")), "round trip"), "/total_us/p50")),
        other: each(&|round| sockperf_median(&text(format!("sockperf {round}")))),
    };
    let loads = [stream("send"), stream("receive"), trips];
    println!("{HEAD}");
    for load in &loads {
        load.print(path);
    }
    Some(loads)
}

/// Of TCP.
fn row(rows: &str, variant: &str) -> Value {
    let mut rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.find(|row| row["variant"] == variant && row["op"] == "tcp").unwrap_or_else(|| panic!("no {variant}"))
}

fn number(row: &Value, path: &str) -> f64 {
    row.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {row}"))
}

fn sockperf_median(said: &str) -> f64 {
    let after = said.split_once("percentile 50.000 =").map(|(_, rest)| rest.trim_start());
    let word = after.and_then(|rest| rest.split_ascii_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no median in {said}"))
}

fn cannot() -> bool {
    let has = |name: &&str| env::split_paths(&env::var_os("PATH").unwrap()).any(|folder| folder.join(name).is_file());
    if !Uid::effective().is_root() || !Path::new("/dev/net/tun").exists() {
        skipped("only root enters the namespaces of a link, and links are made with /dev/net/tun");
    } else if !["iperf3", "sockperf"].iter().all(has) {
        skipped("iperf3 or sockperf is missing; run: sudo apt-get install iperf3 sockperf");
    } else {
        return false;
    }
    true
}

const HEAD: &str = "| Path | Load | Other tool | sidecore | Ratio |\n|---|---|---:|---:|---:|";

#[test]
fn goodput_on_a_line_is_that_of_iperf3_and_what_the_line_has_room_for() {
    if cannot() {
        return;
    }
    let mut agree = false;
    for _ in 0..MOST_LINKS {
        let link = ["--rate-mbit", "500", "--delay-us", "500"];
        let Some([send, receive, trips]) = measured("500 Mbit/s, 500 us", &link) else { continue };
        // Nothing is faster than the link's delay.
        assert!(trips.is_within([2.0 * DELAY_US, TRIP[1]]));
        agree = send.agrees_with_line() && receive.agrees_with_line();
        if agree {
            break;
        }
    }
    assert!(agree, "no link of {MOST_LINKS} has goodput within {REACH} of {PAYLOAD:.1} Mbit/s by both");
}

#[test]
fn both_tools_have_figures_of_a_link_without_a_rate() {
    if cannot() {
        return;
    }
    let [send, receive, trips] = (0..MOST_LINKS).find_map(|_| measured("no rate", &[])).expect("programs failed");
    assert!(send.is_within(CARRIED) && receive.is_within(CARRIED) && trips.is_within(TRIP));
}
