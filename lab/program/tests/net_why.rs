//! `sidecore net why` as users run it: known problems, a connection of another program, and wrong input.

use nix::sched::{CloneFlags, unshare};
use nix::unistd::Uid;
use serde_json::Value;
use sidecore_testing::skipped;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const LAB: &str = env!("CARGO_BIN_EXE_sidecore-lab");
/// A link and its loads take all processors: one at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Exit code, all that was printed, and the rows.
fn why(arguments: &[&str]) -> (Option<i32>, String, Vec<Value>) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("rows");
    let mut command = Command::new(LAB);
    let Output { status, stdout, stderr } =
        command.args(["net", "why"]).args(arguments).arg("--json").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&stderr).into_owned() + &String::from_utf8_lossy(&stdout);
    let rows = fs::read_to_string(&file).unwrap_or_default();
    (status.code(), said, rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// A known problem with the script that puts it into a path, its cause, and a part of the cure.
struct Plant {
    name: &'static str,
    /// Properties of `net link`; without them a pair of virtual interfaces.
    link: Option<&'static str>,
    script: &'static str,
    arguments: &'static str,
    cause: &'static str,
    cure: &'static str,
}

/// Beginning of each script: `near` and `far` are the interfaces, at 198.18.0.1 and .2, and `far` runs a command there.
const BEGINNING: &str = r#"
set -eu
started_all=
trap 'kill $started_all' EXIT
if [ -z "${SIDECORE_FAR_PID:-}" ]; then
    unshare -n sleep 1000 >/dev/null 2>&1 & SIDECORE_FAR_PID=$! started_all=$!
    while [ "$(readlink /proc/self/ns/net)" = "$(readlink /proc/$SIDECORE_FAR_PID/ns/net)" ]; do sleep 0.02; done
    ip link add near type veth peer name far netns $SIDECORE_FAR_PID
    ip addr add 198.18.0.1/24 dev near
    ip link set near up
    ip link set lo up
    nsenter -t $SIDECORE_FAR_PID -n sh -c "ip addr add 198.18.0.2/24 dev far; ip link set far up; ip link set lo up"
fi
far() { nsenter -t $SIDECORE_FAR_PID -n "$@"; }
both() { sh -c "$(echo "$1" | sed "s/END/near/g")"; far unshare -m sh -c "mount -t sysfs none /sys; $(echo "$1" | sed "s/END/far/g")"; }
first="taskset -c 0" last="taskset -c $(($(nproc --all) - 1))"
to=198.18.0.2 listen=198.18.0.2:5217
peer() { nsenter -t $SIDECORE_FAR_PID -n "$@" "$LAB" net peer --listen "$listen" >/dev/null 2>&1 & started_all="$started_all $!"; }
mount -t sysfs none /sys
both "echo cubic > /proc/sys/net/ipv4/tcp_congestion_control"
"#;
const JUDGE: &str = r#"
[ -n "${started:-}" ] || peer env
status=0
${started:-env} "$LAB" net why $to --seconds $SECONDS_EACH --json $ROWS $ARGUMENTS || status=$?
both "echo 0 > /sys/class/net/END/queues/rx-0/rps_cpus" 2>/dev/null || true
exit $status
"#;
/// What the tuner makes of the near interface. Nothing of it stays.
const TUNE: &str = r#"
[ -n "${started:-}" ] || peer env
state=$(mktemp -d) status=0
"$LAB" net tune --interface near --peer $to --try --state $state --json $ROWS $TUNE || status=$?
rm -r $state
both "echo 0 > /sys/class/net/END/queues/rx-0/rps_cpus" 2>/dev/null || true
exit $status
"#;
/// Problems that a setting of the near end cures: the name, the tuner's arguments, and a cure.
const TUNABLE: [(&str, &str, &str); 5] = [
    ("bad congestion control for a lossy path", "", "congestion-control bbr"),
    ("checksum offload off", "--goal cpu", "tx-checksum on"),
    ("a tiny window at the sender", "--setting mtu,rmem,wmem,congestion-control --runs 80", "wmem 4096 16384"),
    ("one queue on a busy core", "--goal latency", "rps"),
    ("moderation of 1 ms under a latency goal", "--goal latency", "gro-flush-timeout"),
];

const PLANTS: [Plant; 13] = [
    Plant {
        name: "bad congestion control for a lossy path",
        link: Some("--delay-us 5000 --loss-percent 0.5 --no-offload"),
        script: "both 'echo reno > /proc/sys/net/ipv4/tcp_congestion_control'",
        arguments: "",
        cause: "loss",
        cure: "congestion-control bbr",
    },
    Plant {
        name: "checksum offload off",
        link: None,
        script: "ethtool -K near tx off >&2",
        arguments: "",
        cause: "offload that is off",
        cure: "tx-checksum on",
    },
    Plant {
        name: "a shaper (tbf)",
        link: None,
        script: "tc qdisc add dev near root tbf rate 50mbit burst 32kb latency 20ms",
        arguments: "",
        cause: "a shaper",
        cure: "its rate",
    },
    Plant {
        name: "a tiny window at the sender",
        link: Some("--delay-us 1000"),
        script: "echo '4096 8192 8192' > /proc/sys/net/ipv4/tcp_wmem",
        arguments: "",
        cause: "the sender's window",
        cure: "now 4096 8192 8192",
    },
    Plant {
        name: "a tiny window at the receiver",
        link: Some("--delay-us 1000"),
        script: "far sh -c 'echo 4096 8192 8192 > /proc/sys/net/ipv4/tcp_rmem'",
        arguments: "",
        cause: "the receiver's window",
        cure: "now 4096 8192 8192",
    },
    Plant {
        name: "an MTU black hole",
        link: None,
        script: "ip link set near mtu 9000; ethtool -K near tso off gso off >&2; far ip link set far mtu 1400
            far ip route change 198.18.0.0/24 dev far src 198.18.0.2 advmss 8960",
        arguments: "",
        cause: "the MTU",
        cure: "mtu 1400",
    },
    Plant {
        name: "one queue on a busy core",
        link: None,
        script: r#"
            for name in loop pool; do ip link add $name type bridge; done
            for at in 1 2; do
                ip link add loop$at type veth peer name pool$at
                ip link set loop$at master loop; ip link set pool$at master pool
            done
            for name in loop pool loop1 pool1 loop2 pool2; do
                echo 1 > /proc/sys/net/ipv6/conf/$name/disable_ipv6; ip link set $name up
            done
            ip addr add 198.19.0.1/24 broadcast 198.19.0.255 dev loop
            both "echo 1 > /sys/class/net/END/queues/rx-0/rps_cpus"
            $first python3 -c '
import socket
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
for _ in range(150): out.sendto(b"x", ("198.19.0.255", 9))'
        "#,
        arguments: "",
        cause: "one core of several",
        cure: "rps",
    },
    Plant {
        name: "GRO off",
        link: None,
        script: "ethtool -K near tso off gso on >&2; far ethtool -K far gro off >&2",
        arguments: "",
        cause: "GRO that is off",
        cure: "gro on",
    },
    Plant {
        name: "moderation of 1 ms under a latency goal",
        link: None,
        script: r#"
            both "ethtool -K END tso off gro on >&2; cd /sys/class/net/END
                echo 1000000 > gro_flush_timeout; echo 1000 > napi_defer_hard_irqs"
        "#,
        arguments: "",
        cause: "moderation of interrupts",
        cure: "gro-flush-timeout 0",
    },
    Plant {
        name: "2,000 firewall rules",
        link: None,
        script: r#"
            rules() {
                echo "add table ip t"; echo "add chain ip t c { type filter hook $1 priority 0; }"
                for port in $(seq 2000); do echo "add rule ip t c ip daddr 192.0.2.1 udp dport $port drop"; done
            }
            rules output | nft -f -; rules input | far nft -f -
        "#,
        arguments: "",
        cause: "the firewall",
        cure: "accept established",
    },
    Plant {
        name: "half the line's rate",
        link: Some("--rate-mbit 50 --no-offload --queue 65536"),
        script: "",
        arguments: "--line-mbit 100",
        cause: "the line",
        cure: "look for a slower link",
    },
    Plant {
        name: "a qdisc of 10 packets",
        link: None,
        script: "ethtool -K near tso off gso off >&2
            tc qdisc add dev near root handle 1: tbf rate 300mbit burst 32kb limit 1mb
            tc qdisc add dev near parent 1:1 pfifo limit 10",
        arguments: "",
        cause: "a queue that is full",
        cure: "a longer queue",
    },
    Plant {
        name: "a far end that is out of CPU",
        link: None,
        script: r#"
            for each in 1 2 3; do $last sh -c "while :; do :; done" >/dev/null 2>&1 & started_all="$started_all $!"; done
            started=$first; peer $last
        "#,
        arguments: "",
        cause: "the receiver's CPU",
        cure: "move other work away",
    },
];
const OVER_IPV6: Plant = Plant {
    name: "a tiny window at the receiver, over IPv6",
    link: Some("--delay-us 1000"),
    script: r"
        for end in env far; do
            $end sh -c 'cd /proc/sys/net/ipv6/conf; for name in all default near far; do
                [ ! -d $name ] || echo 0 > $name/disable_ipv6; done'
        done
        ip addr add fd00::1/64 dev near nodad
        far ip addr add fd00::2/64 dev far nodad
        far sh -c 'echo 4096 8192 8192 > /proc/sys/net/ipv4/tcp_rmem'
        to=fd00::2 listen='[fd00::2]:5217'
    ",
    arguments: "",
    cause: "the receiver's window",
    cure: "now 4096 8192 8192",
};
/// These cannot hurt less on a busy machine, and take little time.
const CORE: [&str; 4] =
    ["a shaper (tbf)", "a tiny window at the sender", "a tiny window at the receiver", "an MTU black hole"];

impl Plant {
    /// All that was said, and the rows.
    fn run(&self, ending: &str, (name, value): (&str, &str)) -> (String, Vec<Value>) {
        let scratch = tempfile::tempdir().unwrap();
        let rows = scratch.path().join("rows");
        let script = [BEGINNING, self.script, ending].concat();
        let mut command = Command::new("unshare");
        match self.link {
            Some(link) => {
                command.args(["-m", LAB, "net", "link"]).args(link.split(' ')).args(["--", "sh", "-c", &script])
            }
            None => command.args(["-nm", "sh", "-c", &script]),
        };
        command.env("LAB", LAB).env("ROWS", &rows).env("ARGUMENTS", self.arguments).env(name, value);
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let Output { stdout, stderr, .. } = command.output().unwrap();
        let said = String::from_utf8_lossy(&stderr).into_owned() + &String::from_utf8_lossy(&stdout);
        let rows = fs::read_to_string(&rows).unwrap_or_default();
        (said, rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    /// Place among the findings, from 1, what `why` said of it, and the first finding.
    fn found(&self, seconds: &str) -> (Option<usize>, String, String) {
        let (said, mut rows) = self.run(JUDGE, ("SECONDS_EACH", seconds));
        rows.retain(|row| row["scenario"] == "net-why");
        let is_own = |row: &Value| {
            let cure = row["cure"].as_str().unwrap_or_default();
            row["variant"] == self.cause && cure.contains(self.cure)
        };
        let place = rows.iter().position(is_own);
        let first = rows.first().map_or_else(String::new, |row| row["variant"].as_str().unwrap_or_default().to_owned());
        let seen = place.map_or(said, |at| rows[at]["evidence"].as_str().unwrap_or_default().to_owned());
        (place.map(|at| at + 1), seen, first)
    }
}

/// With `SIDECORE_PLANTS=all` these are all, as a table; with a part of a name those.
fn is_wanted(name: &str, wanted: Option<&str>, core: &[&str]) -> bool {
    match wanted {
        None => core.contains(&name),
        Some("all") => true,
        Some(part) => name.contains(part),
    }
}

#[test]
fn known_problems_are_named_with_their_cure() {
    if !Uid::effective().is_root() || !Path::new("/dev/net/tun").exists() {
        return skipped("only root puts problems into namespaces, and links are made with /dev/net/tun");
    }
    let wanted = std::env::var("SIDECORE_PLANTS").ok();
    let is_wanted = |plant: &&Plant| is_wanted(plant.name, wanted.as_deref(), &CORE);
    let seconds = if wanted.is_some() { "6" } else { "3" };
    let mut missed = Vec::new();
    for plant in PLANTS.iter().filter(is_wanted) {
        let (place, seen, first) = plant.found(seconds);
        let place_in_words = place.map_or_else(|| "no".to_owned(), |place| place.to_string());
        println!("| {} | {} | {place_in_words} | {first} | {seen} |", plant.name, plant.cause);
        // A busy machine may be short of CPU as well.
        if place.is_none_or(|place| place > 3) {
            missed.push(plant.name);
        }
    }
    let most = usize::from(wanted.as_deref() == Some("all"));
    assert!(missed.len() <= most, "{missed:?}");
}

#[test]
fn the_tuner_begins_with_what_limits_the_path_and_cures_it() {
    if !Uid::effective().is_root() || !Path::new("/dev/net/tun").exists() {
        return skipped("only root puts problems into namespaces, and links are made with /dev/net/tun");
    }
    let wanted = std::env::var("SIDECORE_PLANTS").ok();
    let core = ["a tiny window at the sender"];
    for (name, arguments, cure) in TUNABLE.iter().filter(|(name, ..)| is_wanted(name, wanted.as_deref(), &core)) {
        let plant = PLANTS.iter().find(|plant| plant.name == *name).unwrap();
        let (said, rows) = plant.run(TUNE, ("TUNE", arguments));
        let best = rows.iter().find(|row| row["op"] == "recommended");
        let best = best.unwrap_or_else(|| panic!("{name}: nothing is recommended: {said}"));
        let ratio = |pointer: &str| best.pointer(pointer).and_then(Value::as_f64).unwrap_or_default();
        println!(
            "| {name} | {} | {:.2} | {:.2}–{:.2} |",
            best["variant"].as_str().unwrap_or_default(),
            ratio("/ratio"),
            ratio("/interval/low"),
            ratio("/interval/high")
        );
        assert!(said.contains("Before: ") && best["variant"].as_str().is_some_and(|is| is.contains(cure)), "{said}");
        assert!(ratio("/interval/low") > 1.0, "{said}");
    }
}

#[test]
fn a_path_over_ipv6_is_judged_as_another_one() {
    if !Uid::effective().is_root() || !Path::new("/dev/net/tun").exists() {
        return skipped("only root puts problems into namespaces, and links are made with /dev/net/tun");
    }
    let (place, seen, first) = OVER_IPV6.found("3");
    assert!(place.is_some_and(|place| place <= 3), "{place:?}, {first}: {seen}");
}

/// A connection over the loop, its reader paused, and its writer that writes what `pause` lets it.
struct Busy {
    stop: Arc<AtomicBool>,
    here: TcpStream,
    _there: TcpStream,
}

impl Busy {
    fn writes(len: usize, pause: Duration, reads: bool) -> Self {
        Self::at("127.0.0.1:0", len, pause, reads)
    }

    fn at(address: &str, len: usize, pause: Duration, reads: bool) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let there = listener.accept().unwrap().0;
        let stop = Arc::new(AtomicBool::new(false));
        let (ended, mut writer) = (stop.clone(), here.try_clone().unwrap());
        writer.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let _ = writer.write(&vec![0; len]);
                thread::sleep(pause);
            }
        });
        if reads {
            let mut reader = there.try_clone().unwrap();
            thread::spawn(move || while reader.read(&mut [0; 4_096]).is_ok_and(|read| read > 0) {});
        }
        Self { stop, here, _there: there }
    }

    fn ends(&self) -> [String; 2] {
        [self.here.local_addr().unwrap().to_string(), self.here.peer_addr().unwrap().to_string()]
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.here.shutdown(std::net::Shutdown::Both);
    }
}

/// The row of that cause.
fn named(busy: &Busy, cause: &str) -> (Value, String) {
    let [local, remote] = busy.ends();
    let (code, said, rows) = why(&["--connection", &local, &remote, "--seconds", "1"]);
    assert_eq!(code, Some(0), "{said}");
    let row = rows.into_iter().find(|row| row["variant"] == cause);
    (row.unwrap_or_else(|| panic!("{cause}: {said}")), said)
}

#[test]
fn a_connection_that_is_not_read_is_limited_by_the_receivers_window() {
    let busy = Busy::writes(65_536, Duration::ZERO, false);
    thread::sleep(Duration::from_millis(500));
    let (row, said) = named(&busy, "the receiver's window");
    assert!(row["limits"].as_f64().unwrap() > 0.9, "{said}");
    assert!(said.contains("Recv-Q") && said.contains("run it there too"), "{said}");
    // The receiving end of the same, of its process.
    let ([here, there], process) = (busy.ends(), std::process::id().to_string());
    let (code, said, rows) = why(&["--pid", &process, "--connection", &there, &here, "--seconds", "1"]);
    assert!(code == Some(0) && rows.iter().any(|row| row["variant"] == "the program"), "{said}");
}

#[test]
fn a_program_that_has_little_to_send_is_named() {
    let busy = Busy::writes(100, Duration::from_millis(20), true);
    let (row, said) = named(&busy, "the program");
    assert!(row["evidence"].as_str().unwrap().contains("had nothing to send") && row["cure"].is_string(), "{said}");
}

#[test]
fn a_connection_over_ipv6_is_found_by_its_ends() {
    if !Uid::effective().is_root() {
        return skipped("only root makes a network namespace, whose loop has IPv6 on every machine");
    }
    let inside = || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let script = "echo 0 > /proc/sys/net/ipv6/conf/lo/disable_ipv6; ip link set lo up";
        // `/proc/self` is the whole process, whose first thread is still outside: a child is not.
        assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
        let busy = Busy::at("[::1]:0", 65_536, Duration::ZERO, false);
        thread::sleep(Duration::from_millis(500));
        assert!(busy.ends().iter().all(|end| end.starts_with("[::1]:")), "{:?}", busy.ends());
        let (row, said) = named(&busy, "the receiver's window");
        assert!(row["limits"].as_f64().unwrap() > 0.9, "{said}");
    };
    thread::spawn(inside).join().unwrap();
}

/// A process that sends through a link with a delay and tiny buffers, in the namespaces of that link. It prints its
/// number, and ends with the standard input of the link.
const BUSY_INSIDE: &str = r#"
echo '4096 8192 8192' > /proc/sys/net/ipv4/tcp_wmem
nsenter -t $SIDECORE_FAR_PID -n python3 -c '
import socket
there = socket.create_server(("198.18.0.2", 7000)).accept()[0]
while there.recv(65536): pass' >/dev/null 2>&1 & started_all="$started_all $!"
python3 -c '
import os, socket, time
while True:
    try: here = socket.create_connection(("198.18.0.2", 7000)); break
    except OSError: time.sleep(0.02)
here.send(bytes(65536))
print(os.getpid(), flush=True)
while True: here.send(bytes(65536))' 2>/dev/null & started_all="$started_all $!"
read line || true
"#;

#[test]
fn a_process_is_looked_into_in_its_own_network_namespace() {
    if !Uid::effective().is_root() || !Path::new("/dev/net/tun").exists() {
        return skipped("only root enters namespaces, and links are made with /dev/net/tun");
    }
    let script = [BEGINNING, BUSY_INSIDE].concat();
    let mut command = Command::new("unshare");
    command.args(["-m", LAB, "net", "link", "--delay-us", "1000", "--", "sh", "-c", &script]).env("LAB", LAB);
    let mut link = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (say, hear) = channel();
    let mut said = BufReader::new(link.stdout.take().unwrap());
    thread::spawn(move || {
        let mut process = String::new();
        let _ = said.read_line(&mut process);
        let _ = say.send(process);
    });
    let process = hear.recv_timeout(Duration::from_secs(60)).unwrap_or_default();
    let [outside, inside] = [
        why(&["--connection", "198.18.0.2:7000", "--seconds", "1"]),
        why(&["--pid", process.trim(), "--seconds", "2"]),
    ];
    drop(link.stdin.take());
    link.wait().unwrap();
    assert!(outside.0 == Some(2) && outside.1.contains("no such connection"), "{}", outside.1);
    let (code, said, rows) = inside;
    assert_eq!(code, Some(0), "{said}");
    let row = rows.iter().find(|row| row["variant"] == "the sender's window");
    let row = row.unwrap_or_else(|| panic!("{said}"));
    // Settings and interface of that namespace.
    assert!(row["cure"].as_str().unwrap().contains("now 4096 8192 8192"), "{row}");
    assert!(said.contains("near: congestion-control"), "{said}");
}

#[test]
fn wrong_input_is_told_with_what_to_do() {
    for (arguments, part) in [
        (&["--connection", "nowhere"][..], "is no end of a connection, as 192.0.2.1:443"),
        (&["--connection", "127.0.0.1:1", "127.0.0.1:2"], "`ss -tnp` lists those of this network"),
        (&["--pid", "4194305"], "`ss -tnp` names processes"),
        (&["--seconds", "0", "127.0.0.1"], "write a whole number from 1 to 25"),
        (&["127.0.0.1:99999"], "write HOST or HOST:PORT"),
        (&["127.0.0.1", "--pid", "1"], "cannot be used with"),
    ] {
        let (code, said, _) = why(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
}
