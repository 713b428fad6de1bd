//! A search of all answers, as packets, for bytes of a private key: one request of each kind.

mod transfers;

use crate::common::{administer, connect, start};
use crate::peer::{Peer, until};
use der::asn1::{OctetStringRef, UintRef};
use der::{AnyRef, Decode, Sequence};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect as connect_to, recv, send,
    socket_with,
};
use sidecore::client::{Admin, Client, Options};
use sidecore::config::{Config, KeysConfig};
use sidecore::control::{Attach, Reply, Request, Succession, decode, encode};
use sidecore::core::layout::ABI;
use sidecore::core::session::Op;
use sidecore::engine::crypto::{
    DecryptionPadding, Hash, KeyMaterial, SaltLength, Scheme, Secret, SessionSpec, SignaturePadding,
};
use sidecore::gateway::Hello;
use sidecore::keys::transfer::{AclNames, Replace};
use sidecore::keys::{Acl, KeyCommand, Kind, Terms, Usage, read_certificates};
use sidecore::service::Service;
use sidecore::spec::KeyToken;
use std::collections::HashSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use transfers::{Sealing, partner, transfers};

const RSA: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-2048.pkcs8.der");
const SPKI: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-rsa-2048.spki.der");
const EC: &[u8] = include_bytes!("../../src/engine/crypto/keys/test-p-256.pkcs8.der");
const PACKET: usize = 16 * 1024;
/// Bytes in a row that cannot match by chance.
const TRACE: usize = 8;

#[derive(Sequence)]
struct PrivateKeyInfo<'a> {
    version: u8,
    algorithm: AnyRef<'a>,
    key: &'a OctetStringRef,
}

#[derive(Sequence)]
struct RsaPrivateKey<'a> {
    version: u8,
    n: UintRef<'a>,
    e: UintRef<'a>,
    d: UintRef<'a>,
    p: UintRef<'a>,
    q: UintRef<'a>,
    dp: UintRef<'a>,
    dq: UintRef<'a>,
    inverse: UintRef<'a>,
}

/// The secret numbers of the RSA key, and its public ones.
fn numbers() -> (Vec<Vec<u8>>, Vec<u8>) {
    let info = PrivateKeyInfo::from_der(RSA).unwrap();
    let key = RsaPrivateKey::from_der(info.key.as_bytes()).unwrap();
    let secret = [key.d, key.p, key.q, key.dp, key.dq, key.inverse];
    (secret.iter().map(|number| number.as_bytes().to_vec()).collect(), key.n.as_bytes().to_vec())
}

/// Whether any piece of a number is in the packet, in either byte order.
fn holds(packet: &[u8], number: &[u8]) -> bool {
    let reversed: Vec<u8> = number.iter().rev().copied().collect();
    let pieces = |number: &[u8]| number.chunks_exact(TRACE).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let mut pieces = [pieces(number), pieces(&reversed)].concat().into_iter();
    pieces.any(|piece| packet.windows(TRACE).any(|window| window == piece))
}

struct Line(OwnedFd);

impl Line {
    fn to(service: &Service) -> Self {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect_to(&socket, &SocketAddrUnix::new(service.socket()).unwrap()).unwrap();
        Self(socket)
    }

    fn say(&self, request: &Request) -> Vec<u8> {
        let mut buffer = vec![0; PACKET];
        let packet = encode(request, &mut buffer).unwrap().to_vec();
        send(&self.0, &packet, SendFlags::NOSIGNAL).unwrap();
        packet
    }

    fn answers_within(&self, time: Timespec) -> bool {
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&time)).unwrap() == 1
    }

    fn hear(&self) -> Vec<u8> {
        assert!(self.answers_within(Timespec { tv_sec: 60, tv_nsec: 0 }), "no answer");
        let mut buffer = vec![0; PACKET];
        let (len, _) = recv(&self.0, &mut buffer[..], RecvFlags::empty()).unwrap();
        buffer.truncate(len);
        buffer
    }
}

fn attach() -> Request {
    Request::Attach(Attach {
        abi: ABI,
        slots: 8,
        arena_bytes: 4096,
        name: "line".to_owned(),
        adopt: None,
        reclaimable: false,
    })
}

fn open(scheme: Scheme, name: &str) -> Request {
    Request::OpenSession(SessionSpec { scheme, key: KeyMaterial::Stored(name.to_owned()) })
}

fn import(name: &str, pkcs8: &[u8]) -> Request {
    Request::Keys(KeyCommand::Import { name: name.to_owned(), pkcs8: Secret::from(pkcs8), acl: Acl::default() })
}

fn schemes() -> Vec<Scheme> {
    let hash = Hash::Sha256;
    let pss = SignaturePadding::Pss { mgf1: hash, salt: SaltLength::Digest };
    let signature = |padding| Scheme::RsaSignature { padding, hash };
    let oaep = DecryptionPadding::Oaep { hash, mgf1: hash, label: vec![1; 300] };
    vec![
        signature(SignaturePadding::Pkcs1),
        signature(SignaturePadding::Pkcs1Raw),
        signature(pss),
        Scheme::RsaDecryption { padding: DecryptionPadding::Pkcs1 },
        Scheme::RsaDecryption { padding: oaep },
        Scheme::Ecdsa { hash },
        Scheme::Ed25519,
        Scheme::X25519,
        Scheme::MlKem768,
        Scheme::MlDsa65,
        Scheme::Hmac(hash),
        Scheme::Digest(hash),
        Scheme::Noop,
    ]
}

fn requests(transfers: Vec<Request>) -> Vec<Request> {
    let text = str::to_owned;
    let list = |after: &str| Request::Keys(KeyCommand::List { after: text(after) });
    let mut requests = vec![import("www", RSA)];
    requests.extend(transfers);
    requests.extend([
        import("www", RSA),
        import("ec", EC),
        import("broken", &RSA[..RSA.len() - 1]),
        import("../www", RSA),
        Request::Keys(KeyCommand::Replace { name: text("ec"), pkcs8: Secret::from(EC) }),
        Request::Keys(KeyCommand::Replace { name: text("none"), pkcs8: Secret::from(EC) }),
        Request::KeyInfo { name: text("www") },
        Request::KeyInfo { name: text("ec") },
        list(""),
        list("www"),
        Request::MyKeys { after: text(""), known: None },
        Request::MyKeys { after: text("ec"), known: Some(0) },
        Request::Keys(KeyCommand::AddCertificate { name: text("ec"), certificate: certificate(), more: false }),
        Request::Certificate { name: text("ec"), index: 0 },
        Request::Keys(KeyCommand::AddCertificateOfAnyDate {
            name: text("ec"),
            certificate: certificate(),
            more: false,
        }),
        Request::Certificate { name: text("ec"), index: 255 },
        Request::Keys(KeyCommand::RemoveCertificates { name: text("ec") }),
        Request::Keys(KeyCommand::SetUsage { name: text("ec"), usage: Usage::SIGN }),
        Request::Keys(KeyCommand::KeepMade { token: KeyToken([0; 16]), name: text("kept") }),
        Request::Keys(KeyCommand::Rename { name: text("ec"), new: text("other") }),
        Request::Keys(KeyCommand::Rename { name: text("other"), new: text("ec") }),
        Request::Keys(KeyCommand::KeepMadeWith {
            token: KeyToken([0; 16]),
            name: text("kept"),
            terms: Terms::default(),
        }),
        Request::Identifiers { after: text("") },
        Request::Keys(KeyCommand::SetRate { name: text("ec"), rate: Some(1) }),
        Request::Keys(KeyCommand::Generate { name: text("new"), kind: Kind::Ed25519, acl: Acl::default() }),
        Request::Keys(KeyCommand::GenerateWith {
            name: text("termed"),
            kind: Kind::Ed25519,
            acl: Acl::default(),
            terms: Terms { usage: Usage::SIGN, id: vec![7] },
        }),
        Request::Keys(KeyCommand::SetAcl { name: text("www"), acl: Acl { uids: vec![1; 64], gids: vec![2; 64] } }),
        Request::Keys(KeyCommand::SetAcl { name: text("www"), acl: Acl { uids: vec![1; 65], gids: vec![] } }),
        Request::Keys(change_acl("www", 3)),
        Request::Keys(change_acl("ec", 65)),
        Request::Keys(KeyCommand::ChangePassphrase { passphrase: Secret::from(&b"open simsim"[..]) }),
        Request::Set(vec![text("notify=park")]),
        Request::Set(vec![text("notify=spin")]),
        Request::Set(vec![text("keys=www")]),
        Request::Settings,
        Request::CloseSession { handle: 7 },
        Request::Succeed(Succession::Keys),
        Request::PublicPart { kind: Kind::Ed25519, raw: Secret::from(&[7; 32][..]) },
        Request::PublicPart { kind: Kind::Rsa2048, raw: Secret::from(RSA) },
        attach(),
        attach(),
        Request::MakeKey(Kind::Ed25519),
        import("late", RSA),
        Request::KeyInfo { name: text("www") },
        Request::CloseSession { handle: 7 },
    ]);
    requests.extend(schemes().into_iter().map(|scheme| open(scheme, "www")));
    requests.extend(of_odd_names());
    requests.push(Request::Keys(KeyCommand::ImportPublic {
        name: text("far"),
        public: SPKI.into(),
        acl: Acl::default(),
    }));
    requests.push(Request::Keys(KeyCommand::Share { name: text("www"), also: true }));
    requests.push(Request::Gateway(Hello { version: 1, device: text("far") }));
    requests.push(Request::Keys(KeyCommand::Delete { name: text("www") }));
    requests.push(Request::Keys(KeyCommand::Delete { name: text("www") }));
    requests
}

fn of_odd_names() -> Vec<Request> {
    let mut requests = Vec::new();
    for name in
        ["", ".", "..", "/", "../www", "www/", "www\0", "www.key", "www ", "WWW", "%77ww", "sidecore:www", "ẅww"]
    {
        requests.push(open(schemes().remove(0), name));
        requests.push(Request::KeyInfo { name: name.to_owned() });
    }
    requests.push(open(schemes().remove(0), &"w".repeat(PACKET - 100)));
    requests
}

fn certificate() -> Vec<u8> {
    let pem = include_bytes!("../../src/keys/test-files/p-256.certificate.pem");
    read_certificates(pem).unwrap().remove(0)
}

fn change_acl(name: &str, users: u32) -> KeyCommand {
    let (add, remove) = (Acl { uids: (0..users).collect(), gids: vec![] }, Acl { uids: vec![1], gids: vec![2] });
    KeyCommand::ChangeAcl { name: name.to_owned(), add, remove }
}

/// A new kind of request needs a row above and one here.
fn request_kind(request: &Request) -> usize {
    match request {
        Request::Attach(_) => 0,
        Request::OpenSession(_) => 1,
        Request::CloseSession { .. } => 2,
        Request::Set(_) => 3,
        Request::KeyInfo { .. } => 4,
        Request::Keys(KeyCommand::Import { .. }) => 5,
        Request::Keys(KeyCommand::Generate { .. }) => 6,
        Request::Keys(KeyCommand::List { .. }) => 7,
        Request::Keys(KeyCommand::Delete { .. }) => 8,
        Request::Keys(KeyCommand::SetAcl { .. }) => 9,
        Request::Keys(KeyCommand::ChangeAcl { .. }) => 10,
        Request::Keys(KeyCommand::ChangePassphrase { .. }) => 11,
        Request::MakeKey(_) => 12,
        Request::PublicPart { .. } => 13,
        Request::Keys(KeyCommand::ImportPublic { .. }) => 14,
        Request::Keys(KeyCommand::Share { .. }) => 15,
        Request::Gateway(_) => 16,
        Request::Keys(KeyCommand::Replace { .. }) => 17,
        Request::Settings => 18,
        Request::MyKeys { .. } => 19,
        Request::Certificate { .. } => 20,
        Request::Keys(KeyCommand::SetUsage { .. }) => 21,
        Request::Keys(KeyCommand::SetRate { .. }) => 22,
        Request::Keys(KeyCommand::AddCertificate { .. }) => 23,
        Request::Keys(KeyCommand::RemoveCertificates { .. }) => 24,
        Request::Keys(KeyCommand::KeepMade { .. }) => 25,
        Request::Keys(KeyCommand::Address) => 26,
        Request::Keys(KeyCommand::Seal { .. }) => 27,
        Request::Keys(KeyCommand::NextPart) => 28,
        Request::Keys(KeyCommand::Receive { .. }) => 29,
        Request::Keys(KeyCommand::Confirm { .. }) => 30,
        Request::Keys(KeyCommand::Users(_)) => 31,
        Request::Keys(KeyCommand::Rename { .. }) => 32,
        Request::Keys(KeyCommand::AddCertificateOfAnyDate { .. }) => 33,
        Request::Keys(KeyCommand::GenerateWith { .. }) => 34,
        Request::Keys(KeyCommand::KeepMadeWith { .. }) => 35,
        Request::Identifiers { .. } => 36,
        Request::Succeed(_) => 37,
        Request::Serve(_) => 38,
        Request::ServingAddress => 39,
    }
}

/// A new kind of answer needs a row here, and a request above with that answer.
fn reply_kind(reply: &Reply) -> usize {
    match reply {
        Reply::Attached { .. } => 0,
        Reply::Session { .. } => 1,
        Reply::Done => 2,
        Reply::Refused(_) => 3,
        Reply::KeyInfo(_) => 4,
        Reply::Keys(_) => 5,
        Reply::Noted(_) => 6,
        Reply::Public(_) => 7,
        Reply::Settings(_) => 8,
        Reply::MyKeys { .. } => 9,
        Reply::Certificate(_) => 10,
        Reply::Address(_) => 11,
        Reply::Sealed { .. } => 12,
        Reply::Received(_) => 13,
        Reply::Users { .. } => 14,
        Reply::Identifiers(_) => 15,
        // Sent only to another service with a channel: sealed to it.
        Reply::Served(_) => 23,
        // Sent only to lanes that broke the protocol, with the name of the rule.
        Reply::Ended(_) => 21,
        // Sent only to those who ask for a lane beyond the limits: their request, and the limit.
        Reply::TooLarge(_) => 16,
        // Sent only where keys are at rest, with the name of a file.
        Reply::PassphraseChanged { .. } => 17,
        // Sent only for a new random key, and built of its public part.
        Reply::KeyMade { .. } => 18,
        // Sent only to gateways of a device: the name of a farm, and limits.
        Reply::Gateway(_) => 19,
        // Nothing is in it.
        Reply::Unchanged => 20,
        // Sent only to the service that takes this one's place; nothing is in it, and two descriptors come with it.
        Reply::Socket => 22,
    }
}

fn seen(kinds: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut kinds: Vec<usize> = kinds.collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[test]
fn no_answer_holds_a_piece_of_a_private_key() {
    let Sealing { service, to, sealed, .. } = &Sealing::new();
    let line = Line::to(service);
    let (secret, modulus) = numbers();
    // The control: the sealed key is that key, and shows nothing of it.
    assert!(sealed.len() > RSA.len() && !secret.iter().any(|number| holds(sealed, number)));
    let requests = requests(transfers(*to, sealed));
    let said: Vec<Vec<u8>> = requests.iter().map(|request| (line.say(request), line.hear()).1).collect();
    for (request, packet) in requests.iter().zip(&said) {
        let leaked = secret.iter().any(|number| holds(packet, number));
        assert!(!leaked, "the answer to {request:?} holds a piece of the key");
    }
    let replies: Vec<Reply> = said.iter().map(|packet| decode(packet).unwrap()).collect();
    assert_eq!(seen(requests.iter().map(request_kind)), (0..38).collect::<Vec<_>>());
    assert_eq!(seen(replies.iter().map(reply_kind)), (0..16).collect::<Vec<_>>());
    // The search works: it finds the modulus in answers, and the secret in the request that brought it.
    assert!(said.iter().any(|packet| holds(packet, &modulus)));
    let mut buffer = vec![0; PACKET];
    let brought = encode(&import("www", RSA), &mut buffer).unwrap().to_vec();
    assert!(secret.iter().all(|number| holds(&brought, number)));
}

#[test]
fn no_result_holds_a_piece_of_a_private_key() {
    let service = start(Config::default());
    let mut client = connect(&service);
    let command = KeyCommand::Import { name: "www".to_owned(), pkcs8: Secret::from(RSA), acl: Acl::default() };
    administer(&service).keys(command).unwrap();
    let (secret, modulus) = numbers();
    let mut results = 0;
    for scheme in schemes().into_iter().filter(|scheme| Kind::Rsa2048.does(scheme)) {
        let spec = SessionSpec { scheme, key: KeyMaterial::Stored("www".to_owned()) };
        let session = client.open_session(&spec).unwrap();
        for op in (0..Op::COUNT).filter_map(|number| Op::from_u8(number as u8)) {
            // Zero, one, the modulus itself and its neighbours, and lengths around the permitted ones.
            let mut one = vec![0; 256];
            one[255] = 1;
            let below: Vec<u8> = modulus.iter().enumerate().map(|(at, byte)| byte - u8::from(at == 255)).collect();
            for input in [&b""[..], &[1; 32], &[2; 36], &[0; 256], &one, &modulus, &below, &[7; 300]] {
                if let Ok(output) = client.call(session, op, 0, input, 512) {
                    results += 1;
                    assert!(!secret.iter().any(|number| holds(&output, number)), "{op:?} of {spec:?}");
                }
            }
        }
    }
    assert!(results > 10, "{results}");
}

#[test]
fn a_key_that_is_being_made_keeps_nobody_waiting() {
    let service = start(Config::default());
    let makers: Vec<Line> = (0..8).map(|_| Line::to(&service)).collect();
    for (number, maker) in makers.iter().enumerate() {
        let name = format!("key-{number}");
        maker.say(&Request::Keys(KeyCommand::Generate { name, kind: Kind::Rsa4096, acl: Acl::default() }));
    }
    let mut other = administer(&service);
    let listed = other.keys(KeyCommand::List { after: String::new() }).unwrap().len();
    let last = makers.last().unwrap();
    assert!(listed < makers.len() && !last.answers_within(Timespec { tv_sec: 0, tv_nsec: 0 }));
    // The key of a closed connection is made all the same; a name that was taken meanwhile is reported.
    let taken = KeyCommand::Import { name: "key-7".to_owned(), pkcs8: Secret::from(EC), acl: Acl::default() };
    other.keys(taken).unwrap();
    let mut makers = makers;
    let last = makers.pop().unwrap();
    drop(makers);
    let Reply::Refused(why) = decode(&last.hear()).unwrap() else { panic!("two keys of one name") };
    assert!(why.contains("already"), "{why}");
    until("all are made", || other.keys(KeyCommand::List { after: String::new() }).unwrap().len() == 8);
}

#[test]
fn keys_that_are_being_made_for_programs_keep_nobody_waiting() {
    let service = start(Config::default());
    let makers: Vec<Line> = (0..8).map(|_| Line::to(&service)).collect();
    for maker in &makers {
        maker.say(&Request::MakeKey(Kind::Rsa4096));
    }
    let key = KeyMaterial::Private(Secret::from(RSA));
    let spec = SessionSpec { scheme: schemes().remove(0), key };
    connect(&service).open_session(&spec).unwrap();
    let last = makers.last().unwrap();
    assert!(!last.answers_within(Timespec { tv_sec: 0, tv_nsec: 0 }));
    // Closed connections are not waited for.
    drop(makers);
    assert!(administer(&service).make_key(Kind::Ed25519).is_ok());
}

#[test]
fn keys_that_wait_to_be_made_are_limited_and_nothing_else_is() {
    let service = start(Config::default());
    let makers: Vec<Line> = (0..100)
        .map(|_| {
            // A connection with a key does not count as one without a lane, and a process has fewer of those.
            let line = Line::to(&service);
            line.say(&Request::MakeKey(Kind::Ed25519));
            line.hear();
            line
        })
        .collect();
    // All at once: a key that is made meanwhile makes room for one more.
    for (number, line) in makers.iter().enumerate() {
        let name = format!("key-{number}");
        line.say(&Request::Keys(KeyCommand::Generate { name, kind: Kind::Rsa4096, acl: Acl::default() }));
    }
    let mut admin = administer(&service);
    let command = KeyCommand::Import { name: "www".to_owned(), pkcs8: Secret::from(EC), acl: Acl::default() };
    admin.keys(command).unwrap();
    let is_full = |maker: &Line| match decode(&maker.hear()).unwrap() {
        Reply::Refused(why) => why.contains("64 keys are being made already"),
        _ => false,
    };
    let (mut refused, mut made, mut waiting) = (0, 0, makers);
    until("36 answers", || {
        for maker in waiting.extract_if(.., |maker| maker.answers_within(Timespec { tv_sec: 0, tv_nsec: 0 })) {
            *(if is_full(&maker) { &mut refused } else { &mut made }) += 1;
        }
        refused + made >= 36
    });
    assert!((1..=36).contains(&refused), "{refused} refused, {made} made");
}

struct Pieces {
    /// Whether a piece begins with these two bytes.
    begins: Vec<bool>,
    pieces: HashSet<[u8; TRACE]>,
}

impl Pieces {
    fn of(numbers: &[Vec<u8>]) -> Self {
        let mut found = Self { begins: vec![false; 1 << 16], pieces: HashSet::new() };
        for number in numbers {
            let reversed: Vec<u8> = number.iter().rev().copied().collect();
            let both = number.as_chunks::<TRACE>().0.iter().chain(reversed.as_chunks::<TRACE>().0);
            for piece in both {
                found.begins[usize::from(piece[0]) << 8 | usize::from(piece[1])] = true;
                found.pieces.insert(*piece);
            }
        }
        found
    }

    fn count(&self, memory: &[u8]) -> usize {
        let is_piece = |window: &[u8]| {
            self.begins[usize::from(window[0]) << 8 | usize::from(window[1])] && self.pieces.contains(window)
        };
        memory.windows(TRACE).filter(|window| is_piece(window)).count()
    }

    fn in_process(&self, pid: u32) -> usize {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
        let mut count = 0;
        for line in maps.lines().filter(|line| line.contains(" rw") && !line.contains("memfd:")) {
            let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let (from, to) = (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap());
            let mut bytes = vec![0; (to - from) as usize];
            memory.read_exact_at(&mut bytes, from).unwrap();
            count += self.count(&bytes);
        }
        count
    }
}

#[test]
fn a_deleted_key_leaves_nothing_in_the_services_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    // With keys at rest it has the same address again.
    let other = at_rest(directory.path());
    let address = administer(&partner(other.clone(), None, None)).transfer_address().unwrap();
    let recipient = directory.path().join("other.pem");
    fs::write(&recipient, address.to_pem()).unwrap();
    let service = Peer::serve(&path, &format!("[keys]\nsend_to = ['{}']\n", recipient.display()));
    let pieces = Pieces::of(&numbers().0);
    assert_eq!(pieces.in_process(service.pid()), 0);
    let options = Options { socket: path, ..Options::default() };
    let (mut client, mut admin) = (Client::connect(&options).unwrap(), Admin::connect(&options).unwrap());
    let command = KeyCommand::Import { name: "www".to_owned(), pkcs8: Secret::from(RSA), acl: Acl::default() };
    admin.keys(command).unwrap();
    let mut sessions = Vec::new();
    for scheme in schemes().into_iter().filter(|scheme| Kind::Rsa2048.does(scheme)) {
        let spec = SessionSpec { scheme, key: KeyMaterial::Stored("www".to_owned()) };
        sessions.push(client.open_session(&spec).unwrap());
    }
    let sign = |client: &mut Client| client.call(sessions[0], Op::Sign, 0, b"message", 256);
    sign(&mut client).unwrap();
    // The control: while there is a key, the search finds it.
    assert!(pieces.in_process(service.pid()) > 100);
    // It was sealed to another service before, whose receipt deletes it.
    let other = partner(other, None, Some(admin.transfer_address().unwrap()));
    let mut to = administer(&other);
    let sealed = admin.seal("www", address, false, AclNames::default()).unwrap().unwrap();
    let nobody = |_: &str, _: &[String], _: &[String]| Ok::<_, sidecore::client::Error>(Acl::default());
    let receipt = to.receive(&sealed, Replace::Never, nobody).unwrap().receipt;
    admin.confirm("www", receipt, true).unwrap();
    assert!(sign(&mut client).is_err());
    assert_eq!(pieces.in_process(service.pid()), 0);
    service.finish();
}

fn at_rest(scratch: &Path) -> KeysConfig {
    let passphrase = scratch.join("passphrase");
    fs::write(&passphrase, "open sesame").unwrap();
    fs::set_permissions(&passphrase, fs::Permissions::from_mode(0o600)).unwrap();
    KeysConfig { directory: Some(scratch.join("keys")), passphrase_file: Some(passphrase), ..KeysConfig::default() }
}

#[test]
fn keys_are_used_while_the_passphrase_is_changed_and_not_changed_meanwhile() {
    let scratch = tempfile::tempdir().unwrap();
    let keys = at_rest(scratch.path());
    let passphrase = keys.passphrase_file.clone().unwrap();
    let service = start(Config { keys, ..Config::default() });
    let mut admin = administer(&service);
    let [asker, reader, deleter, second] = [(); 4].map(|()| Line::to(&service));
    let change = |to: &[u8]| Request::Keys(KeyCommand::ChangePassphrase { passphrase: Secret::from(to) });
    let refused = |line: &Line| match decode(&line.hear()).unwrap() {
        Reply::Refused(why) => why.text,
        _ => String::new(),
    };
    // Sealing takes longer than three answers, unless this process is not scheduled for that time.
    let mut rounds = (0..100).map(|_| {
        let import = KeyCommand::Import { name: "www".to_owned(), pkcs8: Secret::from(EC), acl: Acl::default() };
        admin.keys(import).unwrap();
        asker.say(&change(b"open simsim"));
        reader.say(&Request::KeyInfo { name: "www".to_owned() });
        deleter.say(&Request::Keys(KeyCommand::Delete { name: "www".to_owned() }));
        second.say(&change(b"open barley"));
        let is_used = matches!(decode(&reader.hear()).unwrap(), Reply::KeyInfo(_));
        let (kept, again) = (refused(&deleter), refused(&second));
        let is_first = !asker.answers_within(Timespec { tv_sec: 0, tv_nsec: 0 });
        let Reply::PassphraseChanged { file } = decode(&asker.hear()).unwrap() else { panic!("not changed") };
        assert_eq!(file.as_deref(), passphrase.to_str());
        // The key is as it was, and can be changed again.
        let _ = admin.keys(KeyCommand::Delete { name: "www".to_owned() });
        let is_told = kept.contains("the passphrase is being changed") && again.contains("being changed already");
        is_used && is_first && is_told
    });
    assert!(rounds.any(|seen| seen));
}

#[test]
fn a_change_of_the_passphrase_waits_for_no_key_that_is_being_made() {
    let scratch = tempfile::tempdir().unwrap();
    let service = start(Config { keys: at_rest(scratch.path()), ..Config::default() });
    let makers: Vec<Line> = (0..32).map(|_| Line::to(&service)).collect();
    for (number, maker) in makers.iter().enumerate() {
        let name = format!("key-{number}");
        maker.say(&Request::Keys(KeyCommand::Generate { name, kind: Kind::Rsa4096, acl: Acl::default() }));
    }
    administer(&service).change_passphrase(Secret::from(&b"open simsim"[..])).unwrap();
    assert!(!makers.last().unwrap().answers_within(Timespec { tv_sec: 0, tv_nsec: 0 }));
}

#[test]
fn a_new_passphrase_leaves_nothing_in_the_services_memory() {
    let scratch = tempfile::tempdir().unwrap();
    let (socket, first) = (scratch.path().join("socket"), scratch.path().join("passphrase"));
    fs::write(&first, "open sesame").unwrap();
    fs::set_permissions(&first, fs::Permissions::from_mode(0o600)).unwrap();
    let keys = scratch.path().join("keys");
    let config = format!("[keys]\ndirectory = '{}'\npassphrase_file = '{}'\n", keys.display(), first.display());
    let service = Peer::serve(&socket, &config);
    let passphrase = b"a-passphrase-of-this-test-and-of-no-other-one";
    let pieces = Pieces::of(&[passphrase.to_vec()]);
    let mut admin = Admin::connect(&Options { socket, ..Options::default() }).unwrap();
    assert!(pieces.count(passphrase) > 0);
    admin.change_passphrase(Secret::from(&passphrase[..])).unwrap();
    assert_eq!(pieces.in_process(service.pid()), 0);
    service.finish();
}

#[test]
fn a_passphrase_that_cannot_be_is_refused_in_words() {
    let service = start(Config::default());
    let mut admin = administer(&service);
    let mut said = |passphrase: &[u8]| admin.change_passphrase(Secret::from(passphrase)).unwrap_err().to_string();
    assert!(said(b"").contains("the passphrase is empty"));
    assert!(said(&[7; 4097]).contains("at most 4096 bytes"));
    assert!(said(b"open simsim").contains("in memory only"));
}
