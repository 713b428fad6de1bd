//! The SSH sessions that a connection belongs to: OpenSSH's extension `session-bind@openssh.com`.
//!
//! ssh (from 8.9 on) binds each connection to its agent before anything else passes on it. Before a login it names the
//! session and the server's host key, and shows the server's signature of that session. Where it hands a connection to the
//! server (`ssh -A`) it does the same and says so. What then comes from the far machine comes after that, so it can neither
//! undo it nor come first. An ssh on the far machine adds the session of its own login, and so on for each hop.
//!
//! The rules are those of OpenSSH's agent: a signature that does not verify binds nothing, a connection that was bound to
//! a login is bound to nothing further, and one session has one host key. A connection whose binding has failed is
//! treated as one from another machine, for that is what it may be.

use crate::wire::{Malformed, Reader};
use sidecore_client::keyops::failure::Failure;

/// Most sessions of a connection: as in OpenSSH's agent.
const MAX_SESSIONS: usize = 16;
/// Longest session and host key, bytes: a connection keeps both. Sessions are digests of at most 64 bytes, and a host's
/// certificate names a few hosts.
const MAX_ID: usize = 128;
const MAX_HOST_KEY: usize = 16 * 1024;
/// SSH's message of a login (RFC 4252).
const USERAUTH_REQUEST: u8 = 50;

struct Session {
    /// As the server sent it, perhaps a certificate.
    host_key: Vec<u8>,
    id: Vec<u8>,
    /// The connection was handed to that server.
    is_forwarding: bool,
}

/// What a connection is bound to.
#[derive(Default)]
pub(crate) struct Bindings {
    sessions: Vec<Session>,
    has_failed: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    #[error("the request is not of its form")]
    Malformed(#[from] Malformed),
    #[error("the session or the host key is longer than any is")]
    TooLong,
    #[error("the host key did not sign this session")]
    Forged,
    #[error("the connection is bound to a login already, and serves that one only")]
    LoginAlready,
    #[error("the session is bound to another host key already")]
    OtherHostKey,
    #[error("the connection is bound to {MAX_SESSIONS} sessions already")]
    TooMany,
    #[error(transparent)]
    NotVerified(#[from] Failure),
}

impl Bindings {
    /// Binds the connection further, by the rest of a request. `verify` has a host key, a signature, and what was signed.
    pub(crate) fn bind(
        &mut self,
        request: Reader<'_>,
        verify: impl FnOnce(&[u8], &[u8], &[u8]) -> Result<bool, Failure>,
    ) -> Result<(), BindError> {
        let bound = self.try_bind(request, verify);
        self.has_failed |= bound.is_err();
        bound
    }

    fn try_bind(
        &mut self,
        mut request: Reader<'_>,
        verify: impl FnOnce(&[u8], &[u8], &[u8]) -> Result<bool, Failure>,
    ) -> Result<(), BindError> {
        let (host_key, id, signature) = (request.string()?, request.string()?, request.string()?);
        let is_forwarding = request.byte()? != 0;
        request.end()?;
        if id.len() > MAX_ID || host_key.len() > MAX_HOST_KEY {
            return Err(BindError::TooLong);
        }
        if !verify(host_key, signature, id)? {
            return Err(BindError::Forged);
        }
        if self.sessions.iter().any(|session| !session.is_forwarding) {
            return Err(BindError::LoginAlready);
        }
        if let Some(known) = self.sessions.iter().find(|session| session.id == id) {
            return if known.host_key == host_key { Ok(()) } else { Err(BindError::OtherHostKey) };
        }
        if self.sessions.len() == MAX_SESSIONS {
            return Err(BindError::TooMany);
        }
        self.sessions.push(Session { host_key: host_key.to_vec(), id: id.to_vec(), is_forwarding });
        Ok(())
    }

    /// Whether requests on the connection come from another machine, or may.
    pub(crate) fn is_forwarded(&self) -> bool {
        self.has_failed || self.sessions.iter().any(|session| session.is_forwarding)
    }

    /// Whether the connection may ask for the signature of this login. The one that it was bound to is the only one.
    pub(crate) fn permits(&self, login: &Login<'_>) -> bool {
        self.sessions.last().filter(|session| !session.is_forwarding).is_none_or(|session| {
            session.id == login.session && login.host_key.is_none_or(|host_key| host_key == session.host_key)
        })
    }
}

/// What a client signs to log in to a server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Login<'a> {
    session: &'a [u8],
    host_key: Option<&'a [u8]>,
}

impl<'a> Login<'a> {
    /// The login in a message to sign with the key or certificate of this blob. `None`: the message is something else.
    pub(crate) fn of(message: &'a [u8], blob: &[u8]) -> Option<Self> {
        Self::read(Reader::new(message), blob).ok().flatten()
    }

    fn read(mut message: Reader<'a>, blob: &[u8]) -> Result<Option<Self>, Malformed> {
        let (session, kind) = (message.string()?, message.byte()?);
        let (_user, service, method) = (message.string()?, message.string()?, message.string()?);
        let (is_signed, _algorithm, key) = (message.byte()?, message.string()?, message.string()?);
        let host_key = match method {
            b"publickey" => None,
            b"publickey-hostbound-v00@openssh.com" => Some(message.string()?),
            _ => return Ok(None),
        };
        message.end()?;
        let is_login = !session.is_empty()
            && kind == USERAUTH_REQUEST
            && service == b"ssh-connection"
            && is_signed == 1
            && key == blob;
        Ok(is_login.then_some(Self { session, host_key }))
    }
}

/// Whether a message to sign is that of `ssh-keygen -Y sign`, which git uses as well.
pub(crate) fn is_sshsig(message: &[u8]) -> bool {
    let read = |mut rest: Reader<'_>| -> Result<bool, Malformed> {
        let (namespace, _reserved, hash, digest) = (rest.string()?, rest.string()?, rest.string()?, rest.string()?);
        rest.end()?;
        let len = match hash {
            b"sha256" => 32,
            b"sha512" => 64,
            _ => return Ok(false),
        };
        Ok(!namespace.is_empty() && digest.len() == len)
    };
    message.strip_prefix(b"SSHSIG").is_some_and(|rest| read(Reader::new(rest)).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Writer;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn request(host_key: &[u8], id: &[u8], is_forwarding: u8) -> Vec<u8> {
        Writer::default().string(host_key).string(id).string("signature").raw(&[is_forwarding]).finish()
    }

    fn bind(bindings: &mut Bindings, host_key: &[u8], id: &[u8], is_forwarding: u8) -> Result<(), BindError> {
        bindings.bind(Reader::new(&request(host_key, id, is_forwarding)), |_, _, _| Ok(true))
    }

    #[test]
    fn hops_add_up_and_a_login_ends_them() {
        let mut bindings = Bindings::default();
        assert!(!bindings.is_forwarded());
        bind(&mut bindings, b"a", b"1", 1).unwrap();
        assert!(bindings.is_forwarded());
        bind(&mut bindings, b"b", b"2", 1).unwrap();
        bind(&mut bindings, b"b", b"2", 1).unwrap();
        assert!(matches!(bind(&mut bindings, b"c", b"2", 0), Err(BindError::OtherHostKey)));
        bind(&mut bindings, b"c", b"3", 0).unwrap();
        for (host_key, id, is_forwarding) in [(b"c", b"3", 0), (b"d", b"4", 0), (b"a", b"1", 1)] {
            let again = bind(&mut bindings, host_key, id, is_forwarding);
            assert!(matches!(again, Err(BindError::LoginAlready)));
        }
        assert!(bindings.is_forwarded(), "a login from the far machine does not bring the connection back");
    }

    #[test]
    fn a_connection_that_failed_to_bind_counts_as_forwarded_for_good() {
        let whole = request(b"a", b"1", 0);
        for len in 0..whole.len() {
            let mut bindings = Bindings::default();
            let bound = bindings.bind(Reader::new(&whole[..len]), |_, _, _| Ok(true));
            assert!(matches!(bound, Err(BindError::Malformed(_))) && bindings.is_forwarded(), "{len}");
        }
        let mut bindings = Bindings::default();
        assert!(matches!(bindings.bind(Reader::new(&whole), |_, _, _| Ok(false)), Err(BindError::Forged)));
        assert!(bindings.sessions.is_empty() && bindings.is_forwarded());
        bind(&mut bindings, b"a", b"1", 0).unwrap();
        assert!(bindings.is_forwarded());
        let mut bindings = Bindings::default();
        let away = bindings.bind(Reader::new(&whole), |_, _, _| Err(Failure::input("away")));
        assert!(matches!(away, Err(BindError::NotVerified(_))) && bindings.is_forwarded());
    }

    #[test]
    fn a_connection_has_so_many_sessions_and_no_more() {
        let mut bindings = Bindings::default();
        for id in 0..MAX_SESSIONS as u8 {
            bind(&mut bindings, b"a", &[id], 1).unwrap();
        }
        assert!(matches!(bind(&mut bindings, b"a", &[99], 0), Err(BindError::TooMany)));
        assert_eq!(bindings.sessions.len(), MAX_SESSIONS);
        for (host_key, id) in [(vec![7; MAX_HOST_KEY + 1], vec![7]), (vec![7], vec![7; MAX_ID + 1])] {
            let mut bindings = Bindings::default();
            assert!(matches!(bind(&mut bindings, &host_key, &id, 0), Err(BindError::TooLong)));
            assert!(bindings.is_forwarded());
        }
    }

    fn login(session: &[u8], kind: u8, method: &str, key: &[u8], host_key: Option<&[u8]>) -> Vec<u8> {
        let message = Writer::default().string(session).raw(&[kind]).string("me").string("ssh-connection");
        let message = message.string(method).raw(&[1]).string("ssh-ed25519").string(key);
        host_key.iter().fold(message, Writer::string).finish()
    }

    #[test]
    fn a_login_is_that_of_the_session_which_the_connection_was_bound_to() {
        let bound = "publickey-hostbound-v00@openssh.com";
        let own = [login(b"3", 50, "publickey", b"key", None), login(b"3", 50, bound, b"key", Some(b"c"))];
        let others = [login(b"4", 50, "publickey", b"key", None), login(b"3", 50, bound, b"key", Some(b"d"))];
        let permits = |bindings: &Bindings, message: &[u8]| bindings.permits(&Login::of(message, b"key").unwrap());
        let (free, mut forwarded, mut last) = (Bindings::default(), Bindings::default(), Bindings::default());
        bind(&mut forwarded, b"a", b"1", 1).unwrap();
        bind(&mut last, b"a", b"1", 1).unwrap();
        bind(&mut last, b"c", b"3", 0).unwrap();
        for message in own.iter().chain(&others) {
            assert!(permits(&free, message) && permits(&forwarded, message));
        }
        assert!(own.iter().all(|message| permits(&last, message)));
        assert!(!others.iter().any(|message| permits(&last, message)));
    }

    #[test]
    fn what_is_no_login_of_this_key_is_none() {
        let message = login(b"3", 50, "publickey", b"key", None);
        assert!(Login::of(&message, b"key").is_some());
        assert_eq!(Login::of(&message, b"other"), None);
        assert!((0..message.len()).all(|len| Login::of(&message[..len], b"key").is_none()));
        for other in [
            login(b"", 50, "publickey", b"key", None),
            login(b"3", 51, "publickey", b"key", None),
            login(b"3", 50, "hostbased", b"key", None),
            login(b"3", 50, "publickey", b"key", Some(b"more")),
            [&[b' '; 64][..], b"TLS 1.3, server CertificateVerify\0", &[7; 32]].concat(),
        ] {
            assert_eq!(Login::of(&other, b"key"), None);
        }
        let signed = |hash: &str, len: usize| {
            Writer::default().raw(b"SSHSIG").string("git").string("").string(hash).string(vec![7; len]).finish()
        };
        assert!(is_sshsig(&signed("sha512", 64)) && is_sshsig(&signed("sha256", 32)));
        assert!(!is_sshsig(&signed("sha512", 32)) && !is_sshsig(&signed("md5", 0)) && !is_sshsig(b"SSHSIG"));
        assert!(!is_sshsig(&[&signed("sha256", 32)[..], b"more"].concat()));
    }

    proptest! {
        #[test]
        fn any_bytes_bind_or_fail_and_are_a_login_or_none(bytes in vec(any::<u8>(), 0..128)) {
            let mut bindings = Bindings::default();
            let bound = bindings.bind(Reader::new(&bytes), |_, _, _| Ok(false));
            prop_assert!(bound.is_err() && bindings.is_forwarded());
            let _ = (Login::of(&bytes, b"key"), is_sshsig(&bytes));
        }
    }
}
