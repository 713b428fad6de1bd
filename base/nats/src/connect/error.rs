//! Why there is no connection to a NATS server.

use super::login::{self, InvalidEscape};
use crate::Farm;
use async_nats::{ConnectError as NatsError, ConnectErrorKind};
use std::io;
use std::path::PathBuf;

/// Why there is no connection, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file of the credentials cannot be read.
    #[error("cannot read the credentials {}: {source}", path.display())]
    Credentials {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file of a certificate or its key cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Certificate {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The login in an address is misspelt.
    #[error(transparent)]
    Login(#[from] InvalidEscape),
    /// No server knows these credentials.
    #[error("the NATS server at {servers} does not accept who this is ({source}); {remedy}")]
    NotAccepted {
        /// Addresses as given, without logins.
        servers: String,
        /// What NATS's library says.
        source: NatsError,
        /// What to do.
        remedy: &'static str,
    },
    /// An address is misspelt.
    #[error("{servers} is no address of a NATS server ({source}); write e.g. nats://host:4222 or tls://host:4222")]
    Address {
        /// Addresses as given, without logins.
        servers: String,
        /// What NATS's library says.
        source: NatsError,
    },
    /// No machine has that name.
    #[error("the name in {servers} is unknown ({source}); check --server")]
    UnknownName {
        /// Addresses as given, without logins.
        servers: String,
        /// What NATS's library says.
        source: NatsError,
    },
    /// The server takes too long.
    #[error("no answer from {servers} within 5 s; check --server, and that it speaks NATS")]
    NoAnswer {
        /// Addresses as given, without logins.
        servers: String,
        /// What NATS's library says.
        source: NatsError,
    },
    /// The server's certificate is for another name.
    #[error("the certificate of {servers} is for another name ({source}); give --server the name that is in it")]
    OtherName {
        /// Addresses as given, without logins.
        servers: String,
        /// What NATS's library says.
        source: NatsError,
    },
    /// Nobody known has signed the server's certificate.
    #[error(
        "{servers} has a certificate that nobody known has signed ({source}); give who signed it with --tls-ca FILE"
    )]
    UnknownIssuer {
        /// Addresses as given, without logins.
        servers: String,
        /// What NATS's library says.
        source: NatsError,
    },
    /// The server wants a certificate of the client.
    #[error("{servers} wants a certificate ({source}); give yours with --tls-cert FILE --tls-key FILE")]
    CertificateWanted {
        /// Addresses as given, without logins.
        servers: String,
        /// What NATS's library says.
        source: NatsError,
    },
    /// TLS fails for another reason.
    #[error("no TLS with {servers}: {source}; check --tls-ca, --tls-cert and --tls-key, and that the server has TLS")]
    Tls {
        /// Addresses as given, without logins.
        servers: String,
        /// What NATS's library says.
        source: NatsError,
    },
    /// Nothing answers there.
    #[error("no NATS server at {servers}: {source}; start one with `nats-server -js`, or name yours with --server")]
    NoServer {
        /// Addresses as given, without logins.
        servers: String,
        /// What NATS's library says.
        source: NatsError,
    },
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
