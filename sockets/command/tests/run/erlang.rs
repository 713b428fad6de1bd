//! Erlang's connections, alone and in ejabberd, both from Debian packages.

use super::{BOUND, Ending, MESSAGES, TestFolder, preload, wait_until_listening};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PEERS: usize = 8;
/// Least number of messages for each call: fewer save no CPU time.
const TOGETHER: f64 = 1.5;

/// Sends numbered messages of 64 bytes to each connection in turn, until a peer sends something.
const GEN_TCP: &str = r#"
    [Port, Peers] = [list_to_integer(Number) || Number <- init:get_plain_arguments()],
    Sockets = [element(2, {ok, _} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}])) || _ <- lists:seq(1, Peers)],
    Send = fun Send(Number) ->
        [ok = gen_tcp:send(Socket, io_lib:format("~63..0b~n", [Number])) || Socket <- Sockets],
        case Number rem 1000 =:= 999 andalso gen_tcp:recv(hd(Sockets), 1, 0) of
            {ok, _} -> ok;
            _ -> Send(Number + 1)
        end
    end,
    Send(0),
    [gen_tcp:close(Socket) || Socket <- Sockets],
    halt().
"#;

fn erlang(folder: &TestFolder) -> Command {
    let mut run = Command::new("erl");
    run.arg("-noinput").env("LD_PRELOAD", preload());
    run.env("SIDECORE_SOCKETS", folder.file("socket")).current_dir(folder.0.path());
    run.env("HOME", folder.0.path()).env("ERL_CRASH_DUMP_BYTES", "0").stdin(Stdio::null());
    run
}

/// Waits until that number of messages, and most of all, went through rings, several with each call. On a busy machine
/// the first ones go to the kernel, because the service gets no time to answer.
fn wait_until_together(folder: &TestFolder, fewest: usize) {
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or(0.0);
    let until = Instant::now() + BOUND;
    loop {
        let rows = folder.rows();
        let sum = |name: &str| rows.iter().map(|row| number(row, name)).sum::<f64>();
        let (messages, kernel) = (sum("messages"), sum("kernel_messages"));
        let sends = rows.iter().filter(|row| number(row, "messages") > 0.0);
        let sends: f64 = sends.map(|row| number(row, "messages") / number(row, "messages_a_send")).sum();
        if messages > kernel.max(fewest as f64) && messages / sends > TOGETHER {
            return;
        }
        assert!(Instant::now() < until, "{messages} by {sends} calls: {rows:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn messages_of_erlangs_gen_tcp_go_together_and_arrive_in_order() {
    let folder = TestFolder::new();
    let _serving = folder.serve();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut command = erlang(&folder);
    command.args(["-eval", GEN_TCP, "-extra", &port.to_string(), &PEERS.to_string()]);
    let mut program = Ending(command.spawn().unwrap());
    let mut peers: Vec<TcpStream> = (0..PEERS).map(|_| listener.accept().unwrap().0).collect();
    let hear = |peer: &TcpStream| {
        let mut lines = BufReader::new(peer.try_clone().unwrap()).lines().map(Result::unwrap).enumerate();
        thread::spawn(move || {
            lines.try_fold(0, |_, (number, line)| {
                if line.parse() == Ok(number) && line.len() == 63 { Ok(number + 1) } else { Err((number, line)) }
            })
        })
    };
    let hearing: Vec<_> = peers.iter().map(hear).collect();
    wait_until_together(&folder, PEERS * MESSAGES / 2);
    peers[0].write_all(b"x").unwrap();
    let heard: Vec<_> = hearing.into_iter().map(|hearing| hearing.join().unwrap().unwrap()).collect();
    let is_whole = |all: &usize| *all == heard[0] && all.is_multiple_of(1000) && *all > MESSAGES / 2;
    assert!(heard.iter().all(is_whole), "lost at the end: {heard:?}");
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
    wait_until_listening(port, &folder.file("ejabberd.log"));
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

/// The message that each subscriber first receives, and the last one.
const RETAINED: &str = "welcome\n";
const LAST: &str = "end";

/// Waits for a subscriber's first message: the broker knows the subscriber from then on.
fn subscribed(port: u16, who: &str) -> (Ending, BufReader<ChildStdout>) {
    let mut command = client("mosquitto_sub", port, who);
    let mut subscriber = Ending(command.spawn().unwrap());
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
    let (together, heard) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    thread::scope(|scope| {
        let says = scope.spawn(move || {
            let mut said = 0;
            while !together.load(Ordering::Relaxed) {
                // The broker would queue any number of messages.
                if said > heard.load(Ordering::Relaxed) + MESSAGES {
                    thread::sleep(Duration::from_millis(1));
                    continue;
                }
                writeln!(input, "{said}").unwrap();
                said += 1;
            }
            writeln!(input, "{LAST}").unwrap();
            said
        });
        let hearing = subscribers.into_iter().map(|(subscriber, lines)| {
            scope.spawn(move || {
                let lines = lines.lines().map(Result::unwrap).take_while(|line| line != LAST);
                let checked = lines.enumerate().map(|(number, line)| {
                    assert_eq!(line.parse(), Ok(number), "lost, doubled or in another order");
                    heard.fetch_max(number, Ordering::Relaxed);
                });
                let all = checked.count();
                drop(subscriber);
                all
            })
        });
        let hearing: Vec<_> = hearing.collect();
        {
            let _ends = scopeguard::guard((), |()| together.store(true, Ordering::Relaxed));
            wait_until_together(&folder, MESSAGES / 2);
        }
        let said = says.join().unwrap();
        assert!(hearing.into_iter().all(|hearing| hearing.join().unwrap() == said), "messages are lost");
    });
}
