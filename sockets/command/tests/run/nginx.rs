//! nginx whose clients read too slowly: it resets them, and goes on with others.

use super::{BOUND, Ending, TestFolder, preload, wait_until_listening};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::socket_error;
use rustix::time::Timespec;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SLOW: usize = 12;

/// Answers each request with small pieces, for as long as they are taken.
fn drip(mut connection: TcpStream, ends: &AtomicBool) {
    let _ = connection.read(&mut [0; 4096]);
    let _ = connection.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
    while !ends.load(Ordering::Relaxed) && connection.write_all(&[b'x'; 100]).is_ok() {
        thread::sleep(Duration::from_micros(500));
    }
}

fn nginx(folder: &TestFolder, upstream: u16) -> (Ending, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let directory = folder.0.path().display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: String = temporary.map(|name| format!("{name}_temp_path {directory}/{name};\n")).concat();
    let config = format!(
        "daemon off; master_process off; pid {directory}/pid; error_log {directory}/errors; events {{}}\n\
         http {{\n{temporary}access_log off; reset_timedout_connection on; send_timeout 1s;\n\
         server {{ listen 127.0.0.1:{port} sndbuf=16k;\n\
         location /slow {{ proxy_pass http://127.0.0.1:{upstream}; proxy_buffering off; }}\n\
         location /fast {{ return 200 fast; }} }} }}\n"
    );
    fs::write(folder.file("nginx.conf"), config).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(folder.0.path()).arg("-c").arg(folder.file("nginx.conf")).stderr(Stdio::null());
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LD_PRELOAD", preload());
    command.env("SIDECORE_SOCKETS", folder.file("socket"));
    let server = Ending(command.spawn().expect("no nginx here: apt-get install nginx"));
    wait_until_listening(port, &folder.file("errors"));
    (server, port)
}

fn ask(port: u16, what: &str) -> TcpStream {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(connection, "GET /{what} HTTP/1.0\r\n\r\n").unwrap();
    connection
}

/// Reads nothing until the server ends the connection. Returns whether it was reset; `None`: the test is over, and the end
/// may stand behind what nobody reads.
fn is_reset(connection: &TcpStream, ends: &AtomicBool) -> Option<bool> {
    let until = Instant::now() + BOUND;
    let moment = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    while poll(&mut [PollFd::new(connection, PollFlags::RDHUP)], Some(&moment)) != Ok(1) {
        if ends.load(Ordering::Relaxed) {
            return None;
        }
        assert!(Instant::now() < until, "the server does not end the connection of a client that reads nothing");
    }
    Some(socket_error(connection).unwrap().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset))
}

#[test]
fn nginx_resets_clients_that_read_nothing_and_serves_another_meanwhile() {
    let folder = TestFolder::new();
    let _serving = folder.serve();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_nginx, port) = nginx(&folder, upstream.local_addr().unwrap().port());
    let (ends, resets) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    thread::scope(|scope| {
        let upstream = &upstream;
        scope.spawn(move || {
            for connection in upstream.incoming() {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                scope.spawn(move || drip(connection.unwrap(), ends));
            }
        });
        let _ends = scopeguard::guard((), |()| {
            ends.store(true, Ordering::Relaxed);
            drop(TcpStream::connect(upstream.local_addr().unwrap()));
        });
        let slow: Vec<_> = (0..SLOW)
            .map(|_| {
                scope.spawn(move || {
                    while let Some(is_reset) = is_reset(&ask(port, "slow"), ends) {
                        // Once the source of the pieces ends, so may the connection.
                        assert!(is_reset || ends.load(Ordering::Relaxed), "an abort looks like an end");
                        resets.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let until = Instant::now() + BOUND;
        let (mut longest, mut served) = (Duration::ZERO, 0);
        // On a busy machine the first ones stay on the kernel's path.
        let in_rings = || folder.rows().iter().filter(|row| row["messages"].as_u64() > Some(100)).count();
        while resets.load(Ordering::Relaxed) < 2 * SLOW || in_rings() < SLOW {
            assert!(slow.iter().all(|slow| !slow.is_finished()), "a client has failed");
            assert!(Instant::now() < until, "{resets:?} resets, in rings: {}", in_rings());
            let begun = Instant::now();
            let mut answer = String::new();
            ask(port, "fast").read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("fast"), "{answer}");
            longest = longest.max(begun.elapsed());
            served += 1;
            thread::sleep(Duration::from_millis(5));
        }
        println!("{resets:?} resets; {served} other requests, the longest {longest:?}");
        ends.store(true, Ordering::Relaxed);
    });
}
