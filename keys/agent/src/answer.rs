//! A request of a client, and its reply: draft-ietf-sshm-ssh-agent, OpenSSH's binding to sessions, and two extensions of
//! our own.
//!
//! All else is answered with a failure, and the log says what was declined. No key enters or leaves. Our extensions sign
//! for TLS, so they are for programs of this machine: a connection from another one gets a failure. A failure of one of
//! ours names its kind by the number of [`Reason`].

use crate::binding::Bindings;
use crate::frame::MAX;
use crate::log::{Declined, Event, Log};
use crate::services::{Services, Signer};
use crate::wire::{Malformed, Reader, Writer};
use sidecore_client::keyops::failure::Reason;
use std::sync::Arc;

const FAILURE: u8 = 5;
const SUCCESS: u8 = 6;
const LIST: u8 = 11;
const IDENTITIES: u8 = 12;
const SIGN: u8 = 13;
const SIGNATURE: u8 = 14;
const ADD: u8 = 17;
const REMOVE: u8 = 18;
const REMOVE_ALL: u8 = 19;
const ADD_TOKEN: u8 = 20;
const REMOVE_TOKEN: u8 = 21;
const LOCK: u8 = 22;
const UNLOCK: u8 = 23;
const ADD_CONSTRAINED: u8 = 25;
const ADD_TOKEN_CONSTRAINED: u8 = 26;
const EXTENSION: u8 = 27;
const EXTENSION_FAILURE: u8 = 28;
const EXTENSION_RESPONSE: u8 = 29;

/// Most keys that OpenSSH takes from an agent.
const MAX_IDENTITIES: usize = 2048;

const QUERY: &str = "query";
const BIND: &str = "session-bind@openssh.com";
/// The constraint of `ssh-add -h`.
const RESTRICT: &[u8] = b"restrict-destination-v00@openssh.com";
/// The reply has, for each key, its name and its public part, a `SubjectPublicKeyInfo` in DER.
const KEYS: &str = "sidecore-keys@sidecore";
/// The request has a key's name and public part, the number of a TLS signature scheme, and a digest or message. The
/// reply has the signature as in TLS.
const SIGN_TLS: &str = "sidecore-sign@sidecore";

/// The reply to a request, of at most [`MAX`] bytes.
pub(crate) fn answer(services: &Services, log: &Log, bindings: &mut Bindings, request: &[u8]) -> Vec<u8> {
    let mut reader = Reader::new(request);
    let answered = match reader.byte() {
        Ok(LIST) => reader.end().map(|()| identities(services, log)),
        Ok(SIGN) => signature(services, log, bindings, reader),
        Ok(EXTENSION) => extension(services, log, bindings, reader),
        Ok(kind) => {
            decline(log, kind, request);
            Ok(None)
        }
        Err(malformed) => Err(malformed),
    };
    if answered.is_err() {
        let kind = request.first().copied().unwrap_or_default();
        let text = format_args!("a request of type {kind} that is not of its form was refused: is its client damaged?");
        log.tell(Event::Declined(Declined::Malformed), text);
    }
    let reply = answered.ok().flatten();
    reply.filter(|reply| reply.len() <= MAX).map_or_else(|| vec![FAILURE], Writer::finish)
}

/// Tells what the client asked for in vain: OpenSSH's programs say only that the agent refused.
fn decline(log: &Log, kind: u8, request: &[u8]) {
    let (what, text) = match kind {
        ADD_CONSTRAINED | ADD_TOKEN_CONSTRAINED if contains(request, RESTRICT) => (
            Declined::Add,
            "ssh-add -h: this agent restricts no key to destinations, and takes no key: use ProxyJump in place of \
             forwarding, and store the key with sidecore keys import",
        ),
        ADD | ADD_CONSTRAINED => {
            (Declined::Add, "ssh-add FILE: this agent takes no key: store it with sidecore keys import")
        }
        REMOVE | REMOVE_ALL => (
            Declined::Remove,
            "ssh-add -d or -D: clients remove no key: use sidecore keys delete, or name those to offer with --keys",
        ),
        ADD_TOKEN | REMOVE_TOKEN | ADD_TOKEN_CONSTRAINED => {
            (Declined::Token, "ssh-add -s or -e: this agent loads no PKCS#11 module: use OpenSSH's own agent for it")
        }
        LOCK | UNLOCK => (Declined::Lock, "ssh-add -x or -X: this agent has no lock: stop it to keep it from signing"),
        _ => {
            let text = format_args!("a request of type {kind}, which this agent does not know, was refused");
            return log.tell(Event::Declined(Declined::Unknown), text);
        }
    };
    log.tell(Event::Declined(what), format_args!("refused: {text}"));
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn identities(services: &Services, log: &Log) -> Option<Writer> {
    let identities = services.identities(log).ok()?;
    let (mut list, mut count) = (Writer::default(), 0);
    for identity in &identities {
        let len = list.len() + identity.blob.len() + identity.comment.len() + 8;
        if count == MAX_IDENTITIES || len > MAX - 5 {
            log.tell(Event::Failed(Reason::Limit), "more keys than clients take from an agent: name some with --keys");
            break;
        }
        list = list.string(&identity.blob).string(&identity.comment);
        count += 1;
    }
    Some(Writer::message(IDENTITIES).u32(count as u32).raw(&list.finish()))
}

fn signature(
    services: &Services,
    log: &Log,
    bindings: &Bindings,
    mut request: Reader<'_>,
) -> Result<Option<Writer>, Malformed> {
    let (blob, message, flags) = (request.string()?, request.string()?, request.u32()?);
    request.end()?;
    let signature = services.sign_ssh(log, bindings, blob, message, flags);
    Ok(signature.map(|signature| Writer::message(SIGNATURE).string(signature)))
}

/// A known extension that fails has another reply than an unknown one. It has the number of the failure's [`Reason`] behind its
/// type, where the draft has nothing and OpenSSH's programs read nothing.
fn extension(
    services: &Services,
    log: &Log,
    bindings: &mut Bindings,
    mut request: Reader<'_>,
) -> Result<Option<Writer>, Malformed> {
    let name = request.text()?;
    let response = || Writer::message(EXTENSION_RESPONSE).string(name);
    let answered = match name {
        BIND => return Ok(bind(services, log, bindings, request)),
        QUERY => request
            .end()
            .map_err(malformed)
            .map(|()| response().string(QUERY).string(BIND).string(KEYS).string(SIGN_TLS)),
        KEYS | SIGN_TLS if bindings.is_forwarded() => {
            let text = "refused to a connection from another machine, or one that could not be bound to its session";
            log.tell(Event::Forwarded, format_args!("{name}: {text}: programs of this machine connect by themselves"));
            Err(Reason::NotAllowed)
        }
        KEYS => keys(services, log, request).map(|signers| {
            signers.iter().fold(response(), |list, signer| list.string(&signer.name).string(&signer.spki))
        }),
        SIGN_TLS => sign_tls(services, log, request).map(|signature| response().string(signature)),
        _ => return Ok(None),
    };
    let answered = answered.and_then(|reply| if reply.len() <= MAX { Ok(reply) } else { Err(Reason::Limit) });
    Ok(Some(answered.unwrap_or_else(|reason| Writer::message(EXTENSION_FAILURE).raw(&[reason as u8]))))
}

fn malformed(_: Malformed) -> Reason {
    Reason::Input
}

/// OpenSSH expects the plain replies.
fn bind(services: &Services, log: &Log, bindings: &mut Bindings, request: Reader<'_>) -> Option<Writer> {
    let bound = bindings.bind(request, |host_key, signature, id| services.verify(host_key, signature, id));
    match bound {
        Ok(()) => Some(Writer::message(SUCCESS)),
        Err(why) => {
            let text = "a connection could not be bound to its SSH session, and counts as one from another machine";
            log.tell(Event::Unbound, format_args!("{text}: {why}"));
            None
        }
    }
}

fn keys(services: &Services, log: &Log, request: Reader<'_>) -> Result<Vec<Arc<Signer>>, Reason> {
    request.end().map_err(malformed)?;
    services.signers(log).map_err(|failure| failure.reason)
}

struct TlsRequest<'a> {
    name: &'a str,
    spki: &'a [u8],
    scheme: u32,
    input: &'a [u8],
}

impl<'a> TlsRequest<'a> {
    fn read(mut request: Reader<'a>) -> Result<Self, Malformed> {
        let read =
            Self { name: request.text()?, spki: request.string()?, scheme: request.u32()?, input: request.string()? };
        request.end()?;
        Ok(read)
    }
}

fn sign_tls(services: &Services, log: &Log, request: Reader<'_>) -> Result<Vec<u8>, Reason> {
    let TlsRequest { name, spki, scheme, input } = TlsRequest::read(request).map_err(malformed)?;
    services.sign_tls(log, name, spki, scheme, input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::Certificates;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use sidecore_client::client::Options;
    use std::time::Duration;

    fn without_service() -> Services {
        let options = Options { socket: "/no/such/socket".into(), restart_wait: Duration::ZERO, ..Options::default() };
        Services::new(vec![options], Vec::new(), Certificates::default())
    }

    fn answered(request: Writer) -> Vec<u8> {
        answer(&without_service(), &Log::default(), &mut Bindings::default(), &request.finish())
    }

    #[test]
    fn the_query_names_the_extensions() {
        let expected =
            [QUERY, QUERY, BIND, KEYS, SIGN_TLS].iter().fold(Writer::message(EXTENSION_RESPONSE), Writer::string);
        assert_eq!(answered(Writer::message(EXTENSION).string(QUERY)), expected.finish());
    }

    #[test]
    fn whatever_adds_removes_or_locks_keys_fails() {
        for kind in (0..=255).filter(|kind| ![LIST, SIGN, EXTENSION].contains(kind)) {
            assert_eq!(answered(Writer::message(kind).string("ssh-ed25519").string([1; 32])), [FAILURE], "{kind}");
        }
        assert_eq!(answer(&without_service(), &Log::default(), &mut Bindings::default(), &[]), [FAILURE]);
        assert_eq!(answered(Writer::message(EXTENSION).string(BIND).string([1; 51])), [FAILURE]);
    }

    #[test]
    fn without_a_service_known_requests_fail() {
        assert_eq!(answered(Writer::message(LIST)), [FAILURE]);
        assert_eq!(answered(Writer::message(SIGN).string([1; 51]).string("data").u32(0)), [FAILURE]);
        let failed = |reason: Reason| [EXTENSION_FAILURE, reason as u8];
        assert_eq!(
            answered(Writer::message(EXTENSION).string(KEYS)),
            failed(Reason::Hidden),
            "its directory is missing, too"
        );
        let sign = Writer::message(EXTENSION).string(SIGN_TLS).string("www").string([1; 44]).u32(0x0807);
        assert_eq!(answered(sign.string("message")), failed(Reason::Hidden));
        let broken = Writer::message(EXTENSION).string(SIGN_TLS).string("www");
        assert_eq!(answered(broken), failed(Reason::Input));
    }

    proptest! {
        #[test]
        fn any_request_has_a_reply(kind in prop_oneof![Just(SIGN), Just(EXTENSION), any::<u8>()], rest in vec(any::<u8>(), 0..64)) {
            let request = Writer::message(kind).raw(&rest);
            // A list would ask for the service.
            prop_assume!(kind != LIST);
            prop_assert_eq!(answered(request)[0], FAILURE);
        }
    }
}
