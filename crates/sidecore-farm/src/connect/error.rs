//! Why there is no connection to a NATS server.

use super::login::{self, InvalidEscape};
use crate::args::Farm;
use async_nats::{ConnectError as NatsError, ConnectErrorKind};
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("cannot read the credentials {}: {source}", path.display())]
    Credentials { path: PathBuf, source: io::Error },
    #[error("cannot read {}: {source}", path.display())]
    Certificate { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Login(#[from] InvalidEscape),
    #[error("the NATS server at {servers} does not accept who this is ({source}); {remedy}")]
    NotAccepted { servers: String, source: NatsError, remedy: &'static str },
    #[error("{servers} is no address of a NATS server ({source}); write e.g. nats://host:4222 or tls://host:4222")]
    Address { servers: String, source: NatsError },
    #[error("the name in {servers} is unknown ({source}); check --server")]
    UnknownName { servers: String, source: NatsError },
    #[error("no answer from {servers} within 5 s; check --server, and that it speaks NATS")]
    NoAnswer { servers: String, source: NatsError },
    #[error("the certificate of {servers} is for another name ({source}); give --server the name that is in it")]
    OtherName { servers: String, source: NatsError },
    #[error(
        "{servers} has a certificate that nobody known has signed ({source}); give who signed it with --tls-ca FILE"
    )]
    UnknownIssuer { servers: String, source: NatsError },
    #[error("{servers} wants a certificate ({source}); give yours with --tls-cert FILE --tls-key FILE")]
    CertificateWanted { servers: String, source: NatsError },
    #[error("no TLS with {servers}: {source}; check --tls-ca, --tls-cert and --tls-key, and that the server has TLS")]
    Tls { servers: String, source: NatsError },
    #[error("no NATS server at {servers}: {source}; start one with `nats-server -js`, or name yours with --server")]
    NoServer { servers: String, source: NatsError },
}

impl ConnectError {
    pub(super) fn new(source: NatsError, farm: &Farm) -> Self {
        let servers = login::public(&farm.server);
        match source.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                Self::NotAccepted { servers, source, remedy: credentials(farm) }
            }
            ConnectErrorKind::ServerParse => Self::Address { servers, source },
            ConnectErrorKind::Dns => Self::UnknownName { servers, source },
            ConnectErrorKind::TimedOut => Self::NoAnswer { servers, source },
            _ => Self::other(source, servers, farm),
        }
    }

    /// The library passes on the TLS message of the system or of its own TLS library.
    fn other(source: NatsError, servers: String, farm: &Farm) -> Self {
        let said = source.to_string().to_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| said.contains(part));
        if has(&["not valid for name", "notvalidforname"]) {
            Self::OtherName { servers, source }
        } else if has(&["unknownissuer", "badsignature", "self-signed"]) {
            Self::UnknownIssuer { servers, source }
        } else if has(&["certificaterequired", "certificate required"])
            || has(&["badcertificate"]) && farm.tls_cert.is_none()
        {
            Self::CertificateWanted { servers, source }
        } else if has(&["tls", "certificate"]) {
            Self::Tls { servers, source }
        } else {
            Self::NoServer { servers, source }
        }
    }
}

fn credentials(farm: &Farm) -> &'static str {
    if farm.creds.is_some() {
        "check the file given with --creds"
    } else if farm.server.iter().any(|server| login::info(server).is_some()) {
        "check the user and the password in --server"
    } else {
        "give credentials with --creds FILE, or a user as nats://USER:PASSWORD@HOST"
    }
}
