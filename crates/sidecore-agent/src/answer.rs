//! A request of a client, and its reply: draft-ietf-sshm-ssh-agent, and two extensions of our own.
//!
//! All but lists and signatures is answered with a failure. No key enters or leaves.

use crate::frame::MAX;
use crate::log::{Event, Log};
use crate::services::Services;
use crate::wire::{Malformed, Reader, Writer};
use sidecore_client::keyops::failure::Reason;

const FAILURE: u8 = 5;
const LIST: u8 = 11;
const IDENTITIES: u8 = 12;
const SIGN: u8 = 13;
const SIGNATURE: u8 = 14;
const EXTENSION: u8 = 27;
const EXTENSION_FAILURE: u8 = 28;
const EXTENSION_RESPONSE: u8 = 29;

/// Most keys that OpenSSH takes from an agent.
const MAX_IDENTITIES: usize = 2048;

const QUERY: &str = "query";
/// The reply has, for each key, its name and its public part, a `SubjectPublicKeyInfo` in DER.
const KEYS: &str = "sidecore-keys@sidecore";
/// The request has a key's name and public part, the number of a TLS signature scheme, and a digest or message. The
/// reply has the signature as in TLS.
const SIGN_TLS: &str = "sidecore-sign@sidecore";

/// The reply to a request, of at most [`MAX`] bytes.
pub(crate) fn answer(services: &Services, log: &Log, request: &[u8]) -> Vec<u8> {
    let mut reader = Reader::new(request);
    let answered = match reader.byte() {
        Ok(LIST) => reader.end().map(|()| identities(services, log)),
        Ok(SIGN) => signature(services, log, reader),
        Ok(EXTENSION) => extension(services, log, reader),
        _ => Err(Malformed),
    };
    let reply = answered.ok().flatten();
    reply.filter(|reply| reply.len() <= MAX).map_or_else(|| vec![FAILURE], Writer::finish)
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

fn signature(services: &Services, log: &Log, mut request: Reader<'_>) -> Result<Option<Writer>, Malformed> {
    let (blob, message, flags) = (request.string()?, request.string()?, request.u32()?);
    request.end()?;
    let signature = services.sign_ssh(log, blob, message, flags);
    Ok(signature.map(|signature| Writer::message(SIGNATURE).string(signature)))
}

/// A known extension that fails has another reply than an unknown one.
fn extension(services: &Services, log: &Log, mut request: Reader<'_>) -> Result<Option<Writer>, Malformed> {
    let name = request.text()?;
    let response = || Writer::message(EXTENSION_RESPONSE).string(name);
    let answered = match name {
        QUERY => request.end().map(|()| Some(response().string(QUERY).string(KEYS).string(SIGN_TLS))),
        KEYS => request.end().map(|()| {
            let signers = services.signers(log).ok()?;
            Some(signers.iter().fold(response(), |list, signer| list.string(&signer.name).string(&signer.spki)))
        }),
        SIGN_TLS => sign_tls(services, log, request).map(|signature| Some(response().string(signature?))),
        _ => return Ok(None),
    };
    let answered = answered.ok().flatten().filter(|reply| reply.len() <= MAX);
    Ok(Some(answered.unwrap_or_else(|| Writer::message(EXTENSION_FAILURE))))
}

fn sign_tls(services: &Services, log: &Log, mut request: Reader<'_>) -> Result<Option<Vec<u8>>, Malformed> {
    let (name, spki, scheme, input) = (request.text()?, request.string()?, request.u32()?, request.string()?);
    request.end()?;
    Ok(services.sign_tls(log, name, spki, scheme, input))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use sidecore_client::client::Options;
    use std::time::Duration;

    fn without_service() -> Services {
        let options = Options { socket: "/no/such/socket".into(), restart_wait: Duration::ZERO, ..Options::default() };
        Services::new(vec![options], Vec::new(), Vec::new())
    }

    fn answered(request: Writer) -> Vec<u8> {
        answer(&without_service(), &Log::default(), &request.finish())
    }

    #[test]
    fn the_query_names_the_extensions() {
        let expected = Writer::message(EXTENSION_RESPONSE).string(QUERY).string(QUERY).string(KEYS).string(SIGN_TLS);
        assert_eq!(answered(Writer::message(EXTENSION).string(QUERY)), expected.finish());
    }

    #[test]
    fn whatever_adds_removes_or_locks_keys_fails() {
        for kind in (0..=255).filter(|kind| ![LIST, SIGN, EXTENSION].contains(kind)) {
            assert_eq!(answered(Writer::message(kind).string("ssh-ed25519").string([1; 32])), [FAILURE], "{kind}");
        }
        assert_eq!(answer(&without_service(), &Log::default(), &[]), [FAILURE]);
        let bind = Writer::message(EXTENSION).string("session-bind@openssh.com").string([1; 51]);
        assert_eq!(answered(bind), [FAILURE]);
    }

    #[test]
    fn without_a_service_known_requests_fail() {
        assert_eq!(answered(Writer::message(LIST)), [FAILURE]);
        assert_eq!(answered(Writer::message(SIGN).string([1; 51]).string("data").u32(0)), [FAILURE]);
        assert_eq!(answered(Writer::message(EXTENSION).string(KEYS)), [EXTENSION_FAILURE]);
        let sign = Writer::message(EXTENSION).string(SIGN_TLS).string("www").string([1; 44]).u32(0x0807);
        assert_eq!(answered(sign.string("message")), [EXTENSION_FAILURE]);
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
