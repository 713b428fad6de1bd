//! `sidecore sockets run`: a program with messages through a service, the environment of a command, and warnings
//! about programs that stay on the kernel.

#[path = "run/erlang.rs"]
mod erlang;
#[path = "run/listed.rs"]
mod listed;
#[path = "run/nginx.rs"]
mod nginx;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use sidecore_testing::skipped;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const COMMAND: &str = env!("CARGO_BIN_EXE_sidecore-sockets");

/// Limit for what must come, as a server's start. No result depends on it.
const BOUND: Duration = Duration::from_secs(120);

/// A directory with a fake library: the loader reports that it is none, and starts programs without it.
struct TestFolder(TempDir);

impl TestFolder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::write(folder.library(), "").unwrap();
        folder
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn library(&self) -> PathBuf {
        self.file("ours.so")
    }

    fn run(&self, command: &[&str]) -> Output {
        self.run_with(command, &[])
    }

    fn run_with(&self, command: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut run = Command::new(COMMAND);
        run.args(["sockets", "run", "--preload"]).arg(self.library());
        run.arg("--socket").arg(self.file("socket")).arg("--").args(command);
        run.env_remove("LD_PRELOAD").envs(variables.iter().copied()).output().unwrap()
    }

    fn serve(&self) -> Ending {
        let config = self.file("sockets.toml");
        fs::write(&config, format!("socket = '{}'\n[sockets]\n", self.file("socket").display())).unwrap();
        let mut command = Command::new(COMMAND);
        let mut child =
            command.args(["sockets", "serve", "--config"]).arg(config).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("serving at")), "it does not serve");
        Ending(child)
    }

    fn feed(&self, listener: &TcpListener, connections: usize, messages: usize) -> Child {
        let program = self.program("feed", FEED, &[]);
        let port = listener.local_addr().unwrap().port();
        let mut run = Command::new(COMMAND);
        run.args(["sockets", "run", "--preload"]).arg(preload());
        run.arg("--socket").arg(self.file("socket")).arg("--").arg(program);
        run.args([port.to_string(), connections.to_string(), messages.to_string()]);
        run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    fn rows(&self) -> Vec<Value> {
        let mut command = Command::new(COMMAND);
        let output = command.args(["sockets", "--json", "--socket"]).arg(self.file("socket")).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn program(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let (file, text) = (self.file(name), self.file(&format!("{name}.c")));
        fs::write(&text, source).unwrap();
        let status = Command::new("cc").arg("-o").arg(&file).arg(text).args(options).status().unwrap();
        assert!(status.success(), "{name}");
        file
    }
}

struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a server listens, and shows its log where it never does.
fn wait_until_listening(port: u16, log: &Path) {
    let until = Instant::now() + BOUND;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < until, "nobody listens: {}", fs::read_to_string(log).unwrap_or_default());
        thread::sleep(Duration::from_millis(20));
    }
}

fn preload() -> PathBuf {
    sidecore_testing::built_library(COMMAND, "sidecore-preload")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_command_has_the_library_and_the_socket() {
    let folder = TestFolder::new();
    let script = "echo $LD_PRELOAD; echo $SIDECORE_SOCKETS; echo $SIDECORE_SOCKETS_USERS";
    let output = folder.run_with(&["sh", "-c", script], &[("SIDECORE_SERVICE_USER", "no-such-user, root,7")]);
    let lines = format!("{}\n{}\n0,7\n", folder.library().display(), folder.file("socket").display());
    assert_eq!(out(&output), lines);
    let told = told(&output);
    assert!(told.contains("no service of sockets at") && told.contains("sidecore sockets serve"), "{told}");
    assert!(!told.contains("stay on the kernel: it"), "a shell has nothing in the way: {told}");
}

#[test]
fn without_a_library_nothing_is_run() {
    // A command alone in its directory finds none.
    let target = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let alone = target.path().join("sidecore-sockets");
    fs::hard_link(COMMAND, &alone).unwrap();
    let output = Command::new(&alone).args(["sockets", "run", "--", "echo", "hello"]).output().unwrap();
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""));
    assert!(
        told(&output).contains("no library for sockets") && told(&output).contains("--preload"),
        "{}",
        told(&output)
    );
}

#[test]
fn a_command_that_is_not_there_ends_as_a_shell_says() {
    let folder = TestFolder::new();
    let output = folder.run(&["/no/such/command"]);
    assert_eq!(output.status.code(), Some(127), "{}", told(&output));
    assert_eq!(folder.run(&["/dev/null"]).status.code(), Some(126));
    assert_eq!(folder.run(&["sh", "-c", "exit 7"]).status.code(), Some(7));
}

/// The warning about a program. The program must run nevertheless: it ends with 7.
fn said_of(folder: &TestFolder, program: &Path) -> String {
    let output = folder.run(&[program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(7), "{}", told(&output));
    let told = told(&output);
    let line = told.lines().find_map(|line| line.split_once("stay on the kernel: it "));
    line.map_or_else(String::new, |(_, why)| why.to_owned())
}

const SEVEN: &str = "int main(void) { return 7; }";

const WITHOUT: &str = "#include <stdlib.h>\nint main(void) { return getenv(\"LD_PRELOAD\") ? 1 : 7; }";

#[test]
fn programs_that_load_no_library_are_told_and_run() {
    let folder = TestFolder::new();
    assert_eq!(said_of(&folder, &folder.program("plain", SEVEN, &[])), "");
    let fixed = folder.program("fixed", WITHOUT, &["-static"]);
    assert!(said_of(&folder, &fixed).contains("statically"));
    // The sanitizer's library would end the program if another library came first.
    let checked = folder.program("checked", WITHOUT, &["-fsanitize=address"]);
    assert!(said_of(&folder, &checked).contains("a sanitizer"));
    // With the section that the Go linker writes.
    let source = format!("__attribute__((section(\".go.buildinfo\"), used)) int mark = 1; {SEVEN}");
    assert!(said_of(&folder, &folder.program("go", &source, &[])).contains("a Go program"));
    // The interpreter counts, not its script.
    let script = folder.file("script");
    fs::write(&script, format!("#! {} argument\n", fixed.display())).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    assert!(said_of(&folder, &script).contains("statically"));
}

#[test]
fn a_program_of_another_loader_gets_no_library() {
    let folder = TestFolder::new();
    let own =
        Command::new("sh").args(["-c", "sed -n 's|.* \\(/.*/ld-[^/]*\\)$|\\1|p' /proc/self/maps | head -1"]).output();
    let (own, other) = (out(&own.unwrap()), folder.file("ld-other.so"));
    fs::copy(own.trim(), &other).unwrap();
    let option = format!("-Wl,--dynamic-linker={}", other.display());
    let said = said_of(&folder, &folder.program("foreign", WITHOUT, &[&option]));
    assert!(said.contains("ld-other.so") && said.contains("another C library"), "{said}");
}

#[test]
fn a_script_of_another_c_library_runs_and_gets_no_library() {
    let folder = TestFolder::new();
    let (text, program, script) = (folder.file("musl.c"), folder.file("musl"), folder.file("script"));
    fs::write(&text, WITHOUT).unwrap();
    let Ok(status) = Command::new("musl-gcc").arg("-o").arg(&program).arg(text).status() else {
        skipped("no `musl-gcc` here: apt-get install musl-tools");
        return;
    };
    assert!(status.success());
    fs::write(&script, format!("#!{}\n", program.display())).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let said = said_of(&folder, &script);
    assert!(said.contains("ld-musl") && said.contains("another C library"), "{said}");
}

#[test]
fn a_program_with_more_rights_is_told_and_run() {
    let folder = TestFolder::new();
    let program = folder.program("privileged", SEVEN, &[]);
    if !geteuid().is_root() {
        skipped("only root can: a program of another user");
        return;
    }
    chown(&program, Some(65534), None).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    assert!(said_of(&folder, &program).contains("more rights"));
}

/// Sends numbered messages of 64 bytes to each connection in turn, and then waits for a line of input.
const FEED: &str = r#"
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **arguments) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1]))};
    int connections = atoi(arguments[2]), messages = atoi(arguments[3]), sockets[64];
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < connections; i++) {
        sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(sockets[i], (struct sockaddr *)&address, sizeof address)) return 1;
    }
    for (int number = 0; number < messages; number++) {
        char message[65];
        snprintf(message, sizeof message, "%063d\n", number);
        for (int i = 0; i < connections; i++)
            if (send(sockets[i], message, 64, 0) != 64) return 2;
    }
    puts("sent");
    fflush(stdout);
    return getchar() == EOF ? 0 : 3;
}
"#;
const CONNECTIONS: usize = 8;
const MESSAGES: usize = 5000;

#[test]
fn small_messages_of_an_unmodified_program_go_through_a_service_that_is_shut_in() {
    let folder = TestFolder::new();
    let serving = folder.serve();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut program = folder.feed(&listener, CONNECTIONS, MESSAGES);
    let readers: Vec<_> = (0..CONNECTIONS)
        .map(|_| listener.accept().unwrap().0)
        .map(|mut connection| {
            thread::spawn(move || {
                let mut text = String::new();
                connection.read_to_string(&mut text).unwrap();
                text
            })
        })
        .collect();
    let mut said = BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("sent"));
    let rows = folder.rows();
    assert_eq!(rows.len(), CONNECTIONS, "{rows:?}");
    for row in &rows {
        assert_eq!((&row["program"], &row["ring"]), (&"feed".into(), &true.into()), "{row}");
        assert!(row["messages"].as_u64().unwrap() > MESSAGES as u64 / 2, "{row}");
        assert_eq!(row["peer"], listener.local_addr().unwrap().to_string(), "{row}");
    }
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
    for reader in readers {
        let text = reader.join().unwrap();
        let numbers = text.lines().map(|line| line.parse::<usize>().unwrap());
        assert!(numbers.eq(0..MESSAGES), "messages are lost, doubled or in another order");
        assert_eq!(text.len(), 64 * MESSAGES);
    }
    drop(serving);
}

#[test]
fn what_goes_through_rings_is_told_live_and_to_prometheus() {
    let folder = TestFolder::new();
    let _serving = folder.serve();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut program = folder.feed(&listener, CONNECTIONS, MESSAGES);
    let readers: Vec<_> = (0..CONNECTIONS)
        .map(|_| listener.accept().unwrap().0)
        .map(|mut connection| thread::spawn(move || connection.read_to_end(&mut Vec::new()).unwrap()))
        .collect();
    let mut said = BufReader::new(program.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("sent"));
    let socket = folder.file("socket");
    let output = Command::new(COMMAND).args(["sockets", "top", "--once", "--socket"]).arg(&socket).output();
    let text = out(&output.unwrap());
    assert!(text.starts_with("service of sockets; programs: 1; connections in rings: 8, on the kernel: 0\n"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("feed ")), "{text}");
    let mut export = Command::new(COMMAND);
    export.args(["sockets", "export", "--listen", "127.0.0.1:0", "--socket"]).arg(&socket);
    let mut export = Ending(export.stderr(Stdio::piped()).spawn().unwrap());
    let line = BufReader::new(export.0.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    let address = line.split_once("http://").and_then(|(_, rest)| rest.split_once('/')).unwrap().0.to_owned();
    let mut scrape = TcpStream::connect(address).unwrap();
    scrape.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut page = String::new();
    scrape.read_to_string(&mut page).unwrap();
    let number = |name: &str| {
        let line = page.lines().find(|line| line.starts_with(&format!("sidecore_sockets_{name}{{program=\"feed\",")));
        line.unwrap_or_else(|| panic!("{name} in\n{page}")).rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
    };
    let (messages, all) = (number("messages_total"), (CONNECTIONS * MESSAGES) as u64);
    assert!(number("in_rings") == CONNECTIONS as u64 && (all / 2..=all).contains(&messages), "{page}");
    assert_eq!(number("sent_bytes_total") + number("waiting_bytes"), 64 * messages, "{page}");
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
    assert_eq!(readers.into_iter().map(|reader| reader.join().unwrap()).sum::<usize>(), 64 * CONNECTIONS * MESSAGES);
}

#[test]
fn a_program_whose_service_ends_goes_on_and_is_served_by_the_next() {
    let folder = TestFolder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The program starts without a service, and does not end by itself.
    let _program = Ending(folder.feed(&listener, 1, i32::MAX as usize));
    let mut lines = BufReader::new(listener.accept().unwrap().0).lines().map(Result::unwrap).enumerate();
    for signal in [Signal::TERM, Signal::KILL, Signal::TERM, Signal::KILL] {
        let service = folder.serve();
        let mut is_served = false;
        while !is_served {
            for (number, line) in lines.by_ref().take(10_000) {
                assert_eq!(line.parse(), Ok(number));
            }
            is_served = folder.rows().iter().any(|row| row["messages"].as_u64() > Some(0));
        }
        kill_process(Pid::from_child(&service.0), signal).unwrap();
    }
    for (number, line) in lines.take(100_000) {
        assert_eq!(line.parse(), Ok(number));
    }
}

/// Duration, s, and seed of the program's random choices.
const TORTURE: [&str; 2] = ["60", "1"];

#[test]
fn under_kills_of_the_service_a_peer_gets_all_or_no_clean_end() {
    let folder = TestFolder::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preload/tests/calls");
    let text = fs::read_to_string(source.join("torture.c")).unwrap();
    let program = folder.program("torture", &text, &["-I", source.to_str().unwrap(), "-w", "-lpthread"]);
    let mut run = Command::new(program);
    run.args(TORTURE).env("LD_PRELOAD", preload()).env("SIDECORE_SOCKETS", folder.file("socket"));
    let mut torture = Ending(run.stdout(Stdio::piped()).spawn().unwrap());
    let (mut kills, mut most) = (0_u32, 0);
    while torture.0.try_wait().unwrap().is_none() {
        let mut service = folder.serve();
        // The number of queries varies the lifetime of each service.
        for _ in 0..=kills * 7 % 13 {
            thread::sleep(Duration::from_millis(20));
            most = folder.rows().iter().filter_map(|row| row["messages"].as_u64()).max().unwrap_or(0).max(most);
        }
        if kills % 2 == 0 {
            kill_process(Pid::from_child(&service.0), Signal::TERM).unwrap();
            service.0.wait().unwrap();
        }
        kills += 1;
    }
    let mut said = String::new();
    torture.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(torture.0.wait().unwrap().success() && said.contains("clean ends"), "{said}");
    assert!(kills > 10 && most > 1_000, "{kills} services, at most {most} messages through a ring: {said}");
}
