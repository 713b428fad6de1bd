//! `sidecore sockets` lists sockets in rings, never in one, recently closed, and of a program that has ended.

use super::{COMMAND, TestFolder, out, preload};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

/// Most rows of small sends before a socket enters a ring. The library's thread and a cautious rule need some of them.
const TRIES: u32 = 1000;

/// Reads everything, and answers each question mark.
fn peer(mut connection: TcpStream) {
    let mut bytes = [0; 8192];
    while let Ok(len @ 1..) = connection.read(&mut bytes) {
        if bytes[..len].contains(&b'?') && connection.write_all(b"!").is_err() {
            return;
        }
    }
}

struct Kinds {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Kinds {
    fn start(folder: &TestFolder) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        thread::spawn(move || {
            listener.incoming().map(Result::unwrap).for_each(|one| drop(thread::spawn(|| peer(one))));
        });
        let mut run = Command::new(COMMAND);
        run.args(["sockets", "run", "--preload"]).arg(preload());
        run.arg("--socket").arg(folder.file("socket")).arg("--");
        run.arg(folder.program("kinds", include_str!("kinds.c"), &["-w"])).arg(port);
        let mut child = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, orders, answers: BufReader::new(answers).lines() }
    }

    fn does(&mut self, what: &str) -> u64 {
        writeln!(self.orders, "{what}").unwrap();
        self.answers.next().unwrap().unwrap().parse().unwrap()
    }

    fn enters(&mut self, folder: &TestFolder, what: &str) -> u64 {
        for _ in 0..TRIES {
            let descriptor = self.does(what);
            if of(&folder.rows(), descriptor).is_some_and(|row| row["ring"] == true) {
                return descriptor;
            }
        }
        panic!("{what} enters no ring")
    }
}

fn of(rows: &[Value], descriptor: u64) -> Option<&Value> {
    let mut rows = rows.iter().filter(|row| row["descriptor"] == descriptor);
    let row = rows.next();
    assert!(rows.next().is_none(), "twice: {descriptor}");
    row
}

#[test]
fn each_socket_is_listed_with_its_reason_wherever_it_is() {
    let folder = TestFolder::new();
    let _serving = folder.serve();
    let mut program = Kinds::start(&folder);
    let ring = program.enters(&folder, "s0");
    for order in ["s1", "s5", "s6"] {
        program.enters(&folder, order);
    }
    let [option, large, answers] = ["o2", "l3", "a4"].map(|order| program.does(order));
    let demoted = program.does("l5");
    let [_, left] = ["l6", "c6"].map(|order| program.does(order));
    let (closed, copied, quiet) = (program.does("c1"), program.does("d7"), program.does("x8"));
    let (inherited, datagrams) = (program.does("x9"), program.does("x:"));
    let special = "on the kernel: SO_LINGER";
    // As reported by the program, and by the service.
    let expected = [
        (ring, "ring: small sends in a row", false, false),
        (option, special, true, true),
        (large, "on the kernel: large sends", true, true),
        (answers, "on the kernel: one answer for each message", true, true),
        (demoted, "on the kernel: large sends", false, true),
        (left, "closed", false, false),
        (closed, "closed", false, false),
        (copied, "on the kernel: several descriptors", true, true),
        (quiet, "on the kernel: few small sends in a row", true, true),
        (inherited, special, true, true),
        (datagrams, "on the kernel: few small sends in a row", true, true),
    ];
    let rows = folder.rows();
    for (descriptor, why, reported, counted) in expected {
        let row = of(&rows, descriptor).unwrap_or_else(|| panic!("{why} in {rows:?}"));
        assert_eq!((&row["why"], &row["reported"]), (&json!(why), &json!(reported)), "{row}");
        assert_eq!((row["ring"] == true, row["kernel_bytes"].is_u64()), (descriptor == ring, counted), "{row}");
        assert!(row["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{row}");
        assert_eq!((&row["gone_s"], row["messages"] == 0), (&Value::Null, reported), "{row}");
    }
    assert_eq!(of(&rows, large).unwrap()["kernel_bytes"], 8 * 32_768);
    assert_eq!(of(&rows, answers).unwrap()["kernel_bytes"], 40);
    assert_eq!(of(&rows, datagrams).unwrap()["kernel_bytes"], 0);
    assert_eq!(rows.len(), expected.len() + 1, "and the other end of the last: {rows:?}");
    let top = Command::new(COMMAND).args(["sockets", "top", "--once", "--socket"]).arg(folder.file("socket")).output();
    let top = out(&top.unwrap());
    assert!(top.contains("programs: 1; connections in rings: 1, on the kernel: 9"), "{top}");
    drop(program.orders);
    assert!(program.child.wait().unwrap().success());
    let are_gone = |rows: &Vec<Value>| rows.iter().all(|row| row["gone_s"].is_number());
    let rows = (0..TRIES).map(|_| folder.rows()).find(are_gone).expect("it is gone");
    for (descriptor, why, reported, _) in expected {
        let row = of(&rows, descriptor).unwrap();
        let expected =
            if ["closed", "ring: small sends in a row"].contains(&why) { String::new() } else { format!("; {why}") };
        assert_eq!((&row["why"], &row["ring"]), (&json!(format!("program gone{expected}")), &json!(false)), "{row}");
        assert_eq!(row["reported"], reported, "{row}");
    }
}
