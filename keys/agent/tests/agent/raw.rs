//! Messages of ssh-agent's protocol, byte by byte.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub(crate) const FAILURE: [u8; 1] = [5];
const MAX_WAIT: Duration = Duration::from_secs(60);

pub(crate) fn string(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

pub(crate) fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    [&[kind][..], &parts.concat()].concat()
}

pub(crate) fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(MAX_WAIT)).unwrap();
    stream
}

pub(crate) fn receive(mut stream: &UnixStream) -> Vec<u8> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).unwrap();
    let mut reply = vec![0; u32::from_be_bytes(len) as usize];
    stream.read_exact(&mut reply).unwrap();
    reply
}

pub(crate) fn ask_on(mut stream: &UnixStream, request: &[u8]) -> Vec<u8> {
    stream.write_all(&string(request)).unwrap();
    receive(stream)
}

pub(crate) fn ask(socket: &Path, request: &[u8]) -> Vec<u8> {
    ask_on(&connect(socket), request)
}

/// Takes a string off the front.
pub(crate) fn next(rest: &mut &[u8]) -> Vec<u8> {
    let (len, after) = rest.split_first_chunk().unwrap();
    let (taken, after) = after.split_at(u32::from_be_bytes(*len) as usize);
    *rest = after;
    taken.to_vec()
}

/// Blobs and comments.
pub(crate) fn list(socket: &Path) -> Vec<(Vec<u8>, String)> {
    let reply = ask(socket, &[11]);
    assert_eq!(reply[0], 12, "{reply:?}");
    let (count, mut rest) = reply[1..].split_first_chunk().unwrap();
    let identity = |_| (next(&mut rest), String::from_utf8(next(&mut rest)).unwrap());
    let identities: Vec<_> = (0..u32::from_be_bytes(*count)).map(identity).collect();
    assert!(rest.is_empty());
    identities
}

pub(crate) fn blob(socket: &Path, name: &str) -> Vec<u8> {
    let found = list(socket).into_iter().find(|(_, comment)| comment == name);
    found.unwrap_or_else(|| panic!("no key {name}")).0
}

pub(crate) fn sign(socket: &Path, blob: &[u8], flags: u32) -> Vec<u8> {
    ask(socket, &message(13, &[&string(blob), &string("a message"), &flags.to_be_bytes()]))
}

/// Algorithm and signature of a successful reply.
pub(crate) fn signature(reply: &[u8]) -> (String, Vec<u8>) {
    assert_eq!(reply[0], 14, "{reply:?}");
    let mut rest = &reply[1..];
    let whole = next(&mut rest);
    assert!(rest.is_empty());
    let mut parts = &whole[..];
    let algorithm = String::from_utf8(next(&mut parts)).unwrap();
    let signature = next(&mut parts);
    assert!(parts.is_empty());
    (algorithm, signature)
}
