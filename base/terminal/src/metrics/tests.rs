//! A server on loopback.

use super::{Answer, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The server may answer and close before it has received the whole request.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn serve(patience: Duration) -> SocketAddr {
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap().patience(patience);
    let address = server.address();
    std::thread::spawn(move || server.run(&|wanted| Answer::text("200 OK", &wanted.path)));
    address
}

#[test]
fn requests_get_their_answers() {
    let address = serve(Duration::from_secs(30));
    let get = ask(address, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(get.starts_with("HTTP/1.1 200 OK\r\n") && get.ends_with("\r\n\r\n/metrics"), "{get}");
    assert!(get.contains("Content-Length: 8\r\n") && get.contains("Connection: close\r\n"));
    let head = ask(address, b"HEAD / HTTP/1.0\r\n\r\n");
    assert!(head.contains("Content-Length: 1\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(ask(address, b"POST / HTTP/1.1\r\n\r\n").contains("405 Method Not Allowed\r\n"));
    assert!(ask(address, b"\x16\x03\x01 hello\r\n\r\n").contains("400 Bad Request"));
    assert!(ask(address, &[b"GET / HTTP/1.1\r\n".as_slice(), &b"a: b\r\n".repeat(65)].concat()).contains("400"));
}

#[test]
fn a_request_is_limited_in_length_and_time_and_their_number_too() {
    let long = serve(Duration::from_secs(30));
    let request = [b"GET /".as_slice(), &[b'a'; 8187]].concat();
    assert!(ask(long, &request).contains("431 Request Header Fields Too Large"));
    let quick = serve(Duration::from_millis(50));
    assert_eq!(ask(quick, b"GET / HT"), "", "it waits no longer");
    // More connections than the server answers simultaneously: some are closed immediately, none waits forever.
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(quick).unwrap()).collect();
    for mut stream in silent {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
    let again = (0..1000).find_map(|_| {
        let answer = ask(quick, b"GET / HTTP/1.1\r\n\r\n");
        (!answer.is_empty()).then_some(answer)
    });
    assert!(again.unwrap().contains("200 OK"));
}
