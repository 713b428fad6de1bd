//! Erlang's connections, alone and in ejabberd, both from Debian packages.

use super::{Ending, MESSAGES, TestFolder, library};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PEERS: usize = 8;
/// Least number of messages for each call: fewer save no CPU time.
const TOGETHER: f64 = 1.5;
/// Limit for the broker's start. No result depends on it.
const BOUND: Duration = Duration::from_secs(60);

/// Sends numbered messages of 64 bytes to each connection in turn, and waits until a peer sends something.
const GEN_TCP: &str = r#"
    [Port, Peers, Messages] = [list_to_integer(Number) || Number <- init:get_plain_arguments()],
    Sockets = [element(2, {ok, _} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}])) || _ <- lists:seq(1, Peers)],
    [ok = gen_tcp:send(Socket, io_lib:format("~63..0b~n", [Number])) || Number <- lists:seq(0, Messages - 1), Socket <- Sockets],
    {ok, _} = gen_tcp:recv(hd(Sockets), 1),
    [gen_tcp:close(Socket) || Socket <- Sockets],
    halt().
"#;

fn erlang(folder: &TestFolder) -> Command {
    let mut run = Command::new("erl");
    run.arg("-noinput").env("LD_PRELOAD", library::built("sidecore-preload"));
    run.env("SIDECORE_SOCKETS", folder.file("socket")).current_dir(folder.0.path());
    run.env("HOME", folder.0.path()).env("ERL_CRASH_DUMP_BYTES", "0").stdin(Stdio::null());
    run
}

/// Most messages of all connections went through rings, several with each call.
fn are_together(rows: &[Value], all: usize) {
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or(0.0);
    let messages: f64 = rows.iter().map(|row| number(row, "messages")).sum();
    let sends = rows.iter().filter(|row| number(row, "messages") > 0.0);
    let sends: f64 = sends.map(|row| number(row, "messages") / number(row, "messages_a_send")).sum();
    assert!(messages > all as f64 / 2.0 && messages / sends > TOGETHER, "{messages} by {sends} calls: {rows:?}");
}

#[test]
fn messages_of_erlangs_gen_tcp_go_together_and_arrive_in_order() {
    let folder = TestFolder::new();
    let _serving = folder.serve();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut command = erlang(&folder);
    command.args(["-eval", GEN_TCP, "-extra", &port.to_string(), &PEERS.to_string(), &MESSAGES.to_string()]);
    let mut program = Ending(command.spawn().unwrap());
    let mut peers: Vec<TcpStream> = (0..PEERS).map(|_| listener.accept().unwrap().0).collect();
    let hear = |peer: &TcpStream| {
        let mut peer = peer.try_clone().unwrap();
        thread::spawn(move || {
            let mut text = vec![0; 64 * MESSAGES];
            peer.read_exact(&mut text).unwrap();
            (String::from_utf8(text).unwrap(), peer)
        })
    };
    let hearing: Vec<_> = peers.iter().map(hear).collect();
    let texts: Vec<_> = hearing.into_iter().map(|hearing| hearing.join().unwrap()).collect();
    are_together(&folder.rows(), PEERS * MESSAGES);
    peers[0].write_all(b"x").unwrap();
    for (text, mut peer) in texts {
        assert!(text.lines().map(|line| line.parse::<usize>().unwrap()).eq(0..MESSAGES), "another order");
        assert_eq!(peer.read_to_end(&mut Vec::new()).unwrap(), 0, "more than all");
    }
    assert!(program.0.wait().unwrap().success());
}

fn client(name: &str, port: u16, who: &str) -> Command {
    let mut command = Command::new(name);
    command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-i", who, "-t", "topic", "-P", "any"]);
    command.args(["-u", &format!("{who}@localhost")]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn ejabberd(folder: &TestFolder) -> (Ending, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = format!(
        "hosts: [localhost]\nauth_method: anonymous\nanonymous_protocol: login_anon\nallow_multiple_connections: true\n\
         listen:\n  - port: {port}\n    ip: 127.0.0.1\n    module: mod_mqtt\nmodules:\n  mod_mqtt:\n    max_queue: unlimited\n"
    );
    fs::write(folder.file("ejabberd.yml"), config).unwrap();
    let modules = glob("/usr/lib", "/ejabberd-", "ebin");
    let mut command = erlang(folder);
    command.args(["-boot", "start_sasl", "-pa", &modules, "-mnesia", "dir"]);
    command.arg(format!("{:?}", folder.file("mnesia").display().to_string())).args(["-s", "ejabberd"]);
    command
        .env("EJABBERD_CONFIG_PATH", folder.file("ejabberd.yml"))
        .env("EJABBERD_LOG_PATH", folder.file("ejabberd.log"));
    let broker = Ending(command.stdout(Stdio::null()).spawn().unwrap());
    let until = Instant::now() + BOUND;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let log = fs::read_to_string(folder.file("ejabberd.log")).unwrap_or_default();
        assert!(Instant::now() < until, "ejabberd does not listen: {log}");
        thread::sleep(Duration::from_millis(20));
    }
    (broker, port)
}

/// A directory of that name, below a directory whose path contains `part`.
fn glob(root: &str, part: &str, name: &str) -> String {
    let below = |path: &str| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let found = below(root).flat_map(|path| below(&path.to_string_lossy()).collect::<Vec<_>>());
    let mut found =
        found.map(|path| path.join(name)).filter(|path| path.is_dir() && path.to_string_lossy().contains(part));
    found.next().expect("no ejabberd here: apt-get install ejabberd").display().to_string()
}

/// The message that each subscriber first receives.
const RETAINED: &str = "welcome\n";

/// Waits for a subscriber's first message: the broker knows the subscriber from then on.
fn subscribed(port: u16, who: &str) -> (Ending, BufReader<ChildStdout>) {
    let mut command = client("mosquitto_sub", port, who);
    let mut subscriber = Ending(command.args(["-C", &(MESSAGES + 1).to_string()]).spawn().unwrap());
    let mut lines = BufReader::new(subscriber.0.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, RETAINED, "{who} is not subscribed");
    (subscriber, lines)
}

#[test]
fn messages_of_ejabberd_to_its_subscribers_go_together_and_arrive_in_order() {
    let folder = TestFolder::new();
    let _serving = folder.serve();
    let (_broker, port) = ejabberd(&folder);
    let mut retained = client("mosquitto_pub", port, "first");
    assert!(retained.args(["-r", "-m", RETAINED.trim_end()]).status().unwrap().success());
    let subscribers: Vec<_> = (0..PEERS).map(|number| subscribed(port, &format!("subscriber{number}"))).collect();
    let mut publisher = Ending(client("mosquitto_pub", port, "publisher").arg("-l").spawn().unwrap());
    let mut input = publisher.0.stdin.take().unwrap();
    let says = thread::spawn(move || (0..MESSAGES).try_for_each(|number| writeln!(input, "{number}")).unwrap());
    let rows = thread::scope(|scope| {
        let hearing = subscribers.into_iter().map(|(mut subscriber, lines)| {
            scope.spawn(move || {
                let numbers = lines.lines().map(|line| line.unwrap().parse::<usize>().unwrap());
                assert!(numbers.eq(0..MESSAGES), "messages are lost, doubled or in another order");
                assert!(subscriber.0.wait().unwrap().success());
            })
        });
        let mut hearing: Vec<_> = hearing.collect();
        let mut most = Vec::new();
        while !hearing.iter().all(thread::ScopedJoinHandle::is_finished) {
            // A subscriber's counts end with its connection.
            let rows = folder.rows();
            let count = |rows: &[Value]| rows.iter().filter_map(|row| row["messages"].as_u64()).sum::<u64>();
            if count(&rows) > count(&most) {
                most = rows;
            }
        }
        hearing.drain(..).for_each(|hearing| hearing.join().unwrap());
        most
    });
    says.join().unwrap();
    are_together(&rows, MESSAGES);
}
