//! A client of another user, and its children, for tests of rights on stored keys.
//!
//! This process has one thread, so the user of that thread is its user.

use crate::options;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use sidecore::client::{Admin, Client, Error, Session};
use sidecore::core::session::Op;
use sidecore::engine::crypto::{Hash, KeyMaterial, Scheme, Secret, SessionSpec, SignaturePadding};
use sidecore::keys::{Acl, KeyCommand, Kind, Usage};
use sidecore::spec::KeyToken;
use std::io::stdin;

/// Its children can become root again: the saved user stays.
pub(crate) fn run(socket: &str, uid: &str, gids: &str) {
    become_user(uid, gids);
    let mut client = Client::connect(&options(socket)).expect("a lane");
    let mut admin = Admin::connect(&options(socket)).expect("a connection");
    let (mut session, mut known, mut made) = (None, None, None);
    println!("connected");
    for line in stdin().lines() {
        let line = line.expect("a pipe");
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["open", name] => println!("{}", said(open(&mut client, name).map(|opened| session = Some(opened)))),
            ["open-made", token] => {
                println!("{}", said(open_made(&mut client, token).map(|opened| session = Some(opened))));
            }
            ["sign"] => println!("{}", said(sign(&mut client, session))),
            ["info", name] => println!("{}", said(client.key_info(name).map(|_| ()))),
            ["list"] => println!("{}", said(change(&mut admin, KeyCommand::List { after: String::new() }))),
            ["delete", name] => println!("{}", said(change(&mut admin, KeyCommand::Delete { name: name.to_owned() }))),
            ["acl", name] => {
                let acl = Acl { uids: vec![number(uid)], gids: vec![] };
                println!("{}", said(change(&mut admin, KeyCommand::SetAcl { name: name.to_owned(), acl })));
            }
            ["import", name] => {
                let (name, pkcs8) = (name.to_owned(), Secret::new(vec![1]));
                println!("{}", said(change(&mut admin, KeyCommand::Import { name, pkcs8, acl: Acl::default() })));
            }
            ["generate", name] => println!("{}", said(generate(&mut admin, name, Kind::Ed25519, vec![]))),
            ["generate-slow", name] => println!("{}", said(generate(&mut admin, name, Kind::Rsa8192, vec![]))),
            ["generate-for", uid, name] => {
                println!("{}", said(generate(&mut admin, name, Kind::Ed25519, vec![number(uid)])));
            }
            ["make"] => {
                let other = Admin::connect(&options(socket)).expect("another connection");
                let key = other.make_key(Kind::Ed25519).expect("a key of this program");
                println!("{}", key.token().0.map(|byte| format!("{byte:02x}")).concat());
                made = Some(key);
            }
            ["drop"] => println!("{}", made.take().map_or("none", |_| "done")),
            ["keep", token, name] => {
                let command = KeyCommand::KeepMade { token: read_token(token), name: name.to_owned() };
                println!("{}", said(change(&mut admin, command)));
            }
            ["mine"] => println!("{}", mine(&mut admin, &mut known)),
            ["certificate", name] => println!("{}", said(admin.certificate(name, 0).map(|_| ()))),
            ["usage", name] => {
                let command = KeyCommand::SetUsage { name: name.to_owned(), usage: Usage::SIGN };
                println!("{}", said(change(&mut admin, command)));
            }
            ["certify", name] => {
                let (name, certificate) = (name.to_owned(), vec![1]);
                let command = KeyCommand::AddCertificate { name, certificate, more: true };
                println!("{}", said(change(&mut admin, command)));
            }
            ["certify-last", name] => {
                let (name, certificate) = (name.to_owned(), vec![1]);
                let command = KeyCommand::AddCertificate { name, certificate, more: false };
                println!("{}", said(change(&mut admin, command)));
            }
            ["decertify", name] => {
                println!("{}", said(change(&mut admin, KeyCommand::RemoveCertificates { name: name.to_owned() })));
            }
            ["child", uid, gids] => {
                let child = crate::forks::fork(|| {
                    become_user(uid, gids);
                    println!("{}", said(sign(&mut client, session)));
                });
                crate::forks::expect_success(child);
            }
            _ => panic!("no such thing to do: {line}"),
        }
    }
}

fn number(text: &str) -> u32 {
    text.parse().expect("a number")
}

fn read_token(text: &str) -> KeyToken {
    let byte = |place: usize| u8::from_str_radix(&text[2 * place..2 * place + 2], 16).expect("hexadecimal digits");
    KeyToken(std::array::from_fn(byte))
}

fn become_user(uid: &str, gids: &str) {
    let gids: Vec<Gid> = gids.split(',').map(|gid| Gid::from_raw(number(gid))).collect();
    let uid = Uid::from_raw(number(uid));
    set_thread_res_uid(None, Uid::ROOT, None).expect("root at first, and as the saved user");
    set_thread_groups(&gids[1..]).expect("root may");
    set_thread_res_gid(gids[0], gids[0], gids[0]).expect("root may");
    set_thread_res_uid(uid, uid, None).expect("root may");
}

fn said(result: Result<(), Error>) -> String {
    result.map_or_else(|error| error.to_string(), |()| "done".to_owned())
}

fn open(client: &mut Client, name: &str) -> Result<Session, Error> {
    let scheme = Scheme::RsaSignature { padding: SignaturePadding::Pkcs1, hash: Hash::Sha256 };
    client.open_session(&SessionSpec { scheme, key: KeyMaterial::Stored(name.to_owned()) })
}

/// The key is of kind Ed25519.
fn open_made(client: &mut Client, token: &str) -> Result<Session, Error> {
    client.open_session(&SessionSpec { scheme: Scheme::Ed25519, key: KeyMaterial::Made(read_token(token)) })
}

fn sign(client: &mut Client, session: Option<Session>) -> Result<(), Error> {
    client.call(session.expect("opened before"), Op::Sign, 0, b"message", 256).map(|_| ())
}

fn generate(admin: &mut Admin, name: &str, kind: Kind, uids: Vec<u32>) -> Result<(), Error> {
    change(admin, KeyCommand::Generate { name: name.to_owned(), kind, acl: Acl { uids, gids: vec![] } })
}

/// The names of this user's keys, if they changed since the last question.
fn mine(admin: &mut Admin, known: &mut Option<u64>) -> String {
    let Some(listed) = admin.my_keys(*known).expect("an answer") else { return "unchanged".to_owned() };
    *known = listed.revision;
    listed.keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>().join(" ")
}

fn change(admin: &mut Admin, command: KeyCommand) -> Result<(), Error> {
    admin.keys(command).map(|_| ())
}
